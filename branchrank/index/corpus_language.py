"""The scripts and the language of a corpus, and whether the model and the stemmer of its index fit them.

1. Letters are counted by script in at most :data:`SAMPLE` chunks, which are spread evenly over the corpus.
2. A model whose card names its languages is doubtful if more than :data:`MOST_UNREAD` of the letters are of
   scripts that these languages don't use.
3. If most letters are not Latin, their script decides which stemmers fit. Otherwise, the language is that of
   which the most words are stop words.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from branchrank.core.letters import folded, title_words
from branchrank.core.records import Chunk
from branchrank.index.reader import Index
from branchrank.index.records_file import RecordsFile
from branchrank.index.stores.analyzer import QUESTION_WORDS, language_stop_words

SAMPLE = 1000
MOST_UNREAD = 0.1
#: The fewest words from which a language is recognized.
FEWEST_WORDS = 200
#: The least share of stop words in a text of their language.
LEAST_STOP_WORDS = 0.1

#: The languages that use each script but Latin.
_LANGUAGES = """Arabic ar ckb fa ks ku ps sd ug ur; Armenian hy; Bengali as bn; Devanagari bh hi mai mr ne sa;
Cyrillic ab ba be bg ce cv kk ky mk mn os ru sr tg tt uk; Ethiopic am ti; Georgian ka; Greek el; Gujarati gu;
Gurmukhi pa; Han ja ko yue zh; Hangul ko; Hebrew he yi; Hiragana ja; Kannada kn; Katakana ja; Khmer km;
Lao lo; Malayalam ml; Myanmar my; Oriya or; Sinhala si; Tamil ta; Telugu te; Thai th; Tibetan bo dz"""
_SCRIPTS = {script: set(codes) for script, *codes in map(str.split, _LANGUAGES.split(";"))}
#: Snowball's stemmers for texts in a script.
_STEMMERS = {
    "Arabic": "arabic persian", "Armenian": "armenian", "Cyrillic": "russian serbian", "Greek": "greek",
    "Devanagari": "hindi nepali", "Hebrew": "none yiddish", "Tamil": "tamil",
}  # fmt: skip


def sample_text(chunks: RecordsFile[Chunk]) -> str:
    """Return the text of at most :data:`SAMPLE` chunks."""
    step = -(-len(chunks) // SAMPLE)
    return "\n".join(chunks.at(row).text for row in range(0, len(chunks), step))


def letters_by_script(text: str) -> dict[str, float]:
    """Return the share of the letters of a text in each script, the largest first."""
    counts: Counter[str] = Counter()
    for character, count in Counter(text).items():
        letter = unicodedata.normalize("NFKC", character)[0]
        if unicodedata.category(letter) in ("Lu", "Ll", "Lt", "Lo"):
            name = unicodedata.name(letter, "OTHER").split()[0].title()
            counts["Han" if name == "Cjk" else name] += count
    return {script: round(count / counts.total(), 4) for script, count in counts.most_common()}


def shares_note(scripts: Mapping[str, float]) -> Iterator[str]:
    """Yield the shares of scripts, unless all letters are Latin ones."""
    shares = [f"{share:.0%} {script}" for script, share in _shown(scripts)]
    if shares not in ([], ["100% Latin"]):
        yield f"letters by script: {', '.join(shares)}"


def _shown(scripts: Mapping[str, float]) -> list[tuple[str, float]]:
    return [(script, share) for script, share in scripts.items() if share >= 0.005]


def unread_letters(model: str, languages: Sequence[str], scripts: Mapping[str, float]) -> Iterator[str]:
    """Yield a caution if a model with these languages knows too few of the scripts of a corpus."""
    known = {code.split("-")[0] for code in languages}
    unread = {script: share for script, share in _shown(scripts) if not known & _SCRIPTS.get(script, known)}
    if known and sum(unread.values()) > MOST_UNREAD:
        yield (
            f"{sum(unread.values()):.0%} of the corpus's letters are {' and '.join(unread)}, but {model} "
            f"knows only languages without them ({', '.join(languages)}); compare --predictor bm25, or use a "
            "multilingual model: branchrank index --embedder intfloat/multilingual-e5-small (from the hub), "
            "or openai:MODEL with --embedding-url"
        )


def stemmer_note(stemmer: str, text: str, scripts: Mapping[str, float]) -> Iterator[str]:
    """Yield a note if the corpus is in another language than that of its stemmer."""
    if stemmer == "none" or not scripts:
        return
    reason, fitting = "", ""
    if scripts.get("Latin", 0.0) < 0.5:
        script = next(script for script in scripts if script != "Latin")
        fitting = _STEMMERS.get(script, "none")
        reason = "" if stemmer in fitting.split() else f"most letters of the corpus are {script}"
    elif len(words := title_words(folded(text))) >= FEWEST_WORDS:
        lists = {"english": QUESTION_WORDS, "porter": QUESTION_WORDS, **language_stop_words()}
        shares = {name: sum(map(lists[name].__contains__, words)) / len(words) for name in lists}
        own, best = shares.get(stemmer, 1.0), max(shares, key=shares.__getitem__)
        if shares[best] > max(LEAST_STOP_WORDS, 1.5 * own):
            reason, fitting = f"the words of the corpus are most like {best.title()}", best
        elif own < LEAST_STOP_WORDS:
            reason = f"only {own:.0%} of the words are stop words of {stemmer.title()}"
            fitting = "LANGUAGE"
    if reason:
        names = " or ".join(fitting.split())
        yield f"{reason}, but the stemmer is {stemmer}; to change it: branchrank index --bm25-stemmer {names}"


def language_notes(index: Index) -> Iterator[str]:
    """Yield the notes about an index's scripts and languages."""
    manifest = index.manifest
    yield from shares_note(manifest.scripts)
    yield from unread_letters(manifest.embedder.model, manifest.languages, manifest.scripts)
    yield from stemmer_note(index.bm25_settings.stemmer, sample_text(index.chunks), manifest.scripts)
