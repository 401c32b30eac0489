"""The words of a corpus: the indexed text of a chunk or node, its tokens, and the languages of all texts.

1. The text is normalized to the Unicode form NFC, and soft hyphens and zero-width characters are removed
   (:mod:`branchrank.core.letters`). The text is split into words. A word is a run of letters, their marks,
   digits and ``_``, which can contain single dots and apostrophes (``foo.bar``, ``don't``). Of a run of
   letters in a script without spaces (Han, Kana, Thai), each letter and each pair of letters is a token.
2. A possessive ``'s`` is removed from the end of a word, and case is folded as Unicode defines. In French,
   Italian and Catalan, a word ends at an apostrophe (``l'eau`` is two words).
3. If ``split_identifiers`` is true, a word in camelCase, in snake_case or with dots becomes several tokens:
   the whole word and each of its parts.
4. Stop words are removed, and the stemmer of the index's language reduces each token to its stem.
5. Letters are counted by script in at most :data:`LANGUAGE_SAMPLE` chunks, which are spread evenly over the
   corpus. A model whose card names its languages is doubtful if more than :data:`MOST_UNREAD` of the letters
   are of scripts that these languages don't use. If most letters are not Latin, their script decides which
   stemmers fit. Otherwise, the language is that of which the most words are stop words.

If ``split_identifiers`` is false and ``stop_words`` is ``"english"``, the tokens are the same as those from
Lucene's English analyzer, except for rare differences in Unicode word breaks.
"""

from __future__ import annotations

import importlib.util
import re
import runpy
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import pairwise, zip_longest
from pathlib import PurePosixPath

import regex

from branchrank.core.letters import RUN, UNSPACED_RUN, folded, letters_of, title_words, visible
from branchrank.core.records import Chunk, Node
from branchrank.core.settings import Bm25Settings
from branchrank.documents.document import ENTRY_SUFFIX
from branchrank.index.manifest import Manifest
from branchrank.index.records_file import RecordsFile

Analyze = Callable[[str], list[str]]

#: The version of this module's tokens. An index by words with tokens of another version is made again.
VERSION = 3

_SIMPLE_WORD = re.compile(r"\w+(?:[.'’]\w+)*")
_WORD = regex.compile(rf"{UNSPACED_RUN}|{RUN}(?:[.'’]{RUN})*+", regex.V1)
#: Finds text in which ``\w`` may lack the marks of letters, or in which words are not separated by spaces.
_NOT_SIMPLE = re.compile("[\u0300-\u1fff\u20d0-\u20ff\u2c00-\U0010ffff]")
_POSSESSIVE = re.compile(r"['’][sS]$")
_APOSTROPHE = frozenset("'’")
_PART = regex.compile(r"\p{L}[\p{L}\p{Mn}\p{Mc}]*+|\d++")
#: Longer words, such as encoded data, are not split.
_LONGEST_SPLIT = 1_000
# Splits ``fooBar`` into ``foo Bar``, and ``HTTPServer`` into ``HTTP Server``.
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

_ENGLISH = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these "
    "they this to was will with"
)
_QUESTIONS = """
a about after all also am an and any are as at be because been before being between both but by can
cannot could did do does doing don done during each either else every for from further had has have
having he her here hers him his how however i if in instead into is it its itself just let like may me
might mine more most must my need neither no nor not of off on once one only onto or other our ours
out over own per please rather same shall she should so some such than that the their them then there
these they thing things this those through to too toward under until up upon us very want wants was way
we were what when where whether which while who whom whose why will with within without would you your
"""
#: English stop words in lower case, including question words, for BM25, grep and FTS5 queries.
QUESTION_WORDS = frozenset(_QUESTIONS.split())
#: The available stop words: Lucene's English list, a larger list with question words, and an empty list.
STOP_WORDS = {"english": frozenset(_ENGLISH.split()), "questions": QUESTION_WORDS, "none": frozenset[str]()}

#: The languages in which an article ends at an apostrophe.
_ELIDING = frozenset(("catalan", "french", "italian"))

LANGUAGE_SAMPLE = 1000
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


def analyzer(settings: Bm25Settings) -> Analyze:
    """Return a function that splits a text into a list of tokens, according to ``settings``."""
    return _analyzer(settings.stemmer, stop_words(settings), settings.split_identifiers)


def stop_words(settings: Bm25Settings) -> frozenset[str]:
    """Return the stop words for ``settings``, of which ``questions`` are those of the stemmer's language."""
    if settings.stop_words != "questions" or settings.stemmer in ("english", "porter", "none"):
        return STOP_WORDS[settings.stop_words]
    return language_stop_words().get(settings.stemmer, frozenset())


@cache
def language_stop_words() -> Mapping[str, frozenset[str]]:
    """Return the stop words of each language, except English, of which the package bm25s has a list."""
    package = importlib.util.find_spec("bm25s")  # importing it takes seconds
    assert package is not None and package.origin is not None  # noqa: PT018
    lists = runpy.run_path(package.origin.replace("__init__", "stopwords"))
    prefix = "STOPWORDS_"
    return {
        name.removeprefix(prefix).lower(): frozenset(map(folded, words))
        for name, words in lists.items()
        if name.startswith(prefix) and "_EN" not in name
    }


@cache
def _analyzer(stemmer: str, stopped: frozenset[str], split_identifiers: bool) -> Analyze:
    stem = _stemmer(stemmer)
    elides = stemmer in _ELIDING

    # Words repeat, so the cache makes splitting a corpus into tokens about ten times faster.
    @lru_cache(maxsize=1 << 17)
    def tokens_of(word: str) -> tuple[str, ...]:
        letters = letters_of(word)
        if letters:
            pairs = zip_longest(letters, letters[1:])
            return tuple(each for one, two in pairs for each in ((one, one + two) if two else (one,)))
        words = re.split("['’]", word) if elides else [word]
        forms = [form for each in words for form in _forms(each, split_identifiers)]
        return tuple(stem(form) for form in forms if form.strip("_") and form not in stopped)

    def analyze(text: str) -> list[str]:
        text = visible(text)
        words = _WORD if _NOT_SIMPLE.search(text) else _SIMPLE_WORD
        return [token for word in words.findall(text) for token in tokens_of(word)]

    return analyze


def _stemmer(name: str) -> Callable[[str], str]:
    if name == "none":
        return lambda word: word
    import Stemmer

    # The stemmer's own cache is turned off (size 0), because ``tokens_of`` already caches stems.
    stem: Callable[[str], str] = Stemmer.Stemmer(name, 0).stemWord
    return stem


def _forms(word: str, split_identifiers: bool) -> list[str]:
    """Return the folded word and, if identifiers are split, its distinct parts of two or more characters."""
    word = _POSSESSIVE.sub("", word)
    forms = [folded(word)]
    if split_identifiers and len(word) <= _LONGEST_SPLIT and _APOSTROPHE.isdisjoint(word):
        parts = (folded(part) for run in _PART.findall(word) for part in _HUMP.split(run))
        forms += [part for part in parts if len(part) > 1]
    return list(dict.fromkeys(forms))


def marked_parts(text: str, wanted: Collection[str], analyze: Analyze) -> tuple[str, ...]:
    """Split a text into parts, of which every second one is a word with a token in ``wanted``.

    >>> marked_parts("Old teapots leak", {"teapot"}, analyzer(Bm25Settings()))
    ('Old ', 'teapots', ' leak')
    """
    cuts = [0]
    for word in _WORD.finditer(text):
        end = word.start()
        for piece in letters_of(word[0]) or [word[0]]:
            start, end = end, end + len(piece)
            if not set(analyze(piece)).isdisjoint(wanted):
                # A letter of a script without spaces continues the part of the letter before it.
                cuts[-1:] = [end] if len(cuts) > 1 and cuts[-1] == start else [cuts[-1], start, end]
    return tuple(text[start:end] for start, end in pairwise([*cuts, len(text)]))


def embedded_text(chunk: Chunk) -> str:
    """Return the text to embed for a chunk: its breadcrumb (if it has one), followed by its text."""
    return f"{chunk.breadcrumb}\n{chunk.text}" if chunk.breadcrumb else chunk.text


def chunk_terms(chunk: Chunk) -> str:
    """Return the text that BM25 indexes for a chunk: its path, breadcrumb and text."""
    return f"{_path(chunk.source)}\n{chunk.breadcrumb}\n{chunk.text}"


def node_terms(node: Node) -> str:
    """Return the text that BM25 indexes for a node: its path, breadcrumb and text."""
    return f"{_path(node.source)}\n{node.breadcrumb}\n{node.text}"


def _path(source: str) -> str:
    if source.endswith(ENTRY_SUFFIX):
        return ""  # The file name of a BEIR document is an id without words.
    path = PurePosixPath(source)
    return " ".join([*path.parts[:-1], path.name.split(".")[0]])


def sample_text(chunks: RecordsFile[Chunk]) -> str:
    """Return the text of at most :data:`LANGUAGE_SAMPLE` chunks."""
    step = -(-len(chunks) // LANGUAGE_SAMPLE)
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


def language_notes(manifest: Manifest, stemmer: str, text: str) -> Iterator[str]:
    """Yield the notes about an index's scripts and languages, from the text of some of its chunks."""
    yield from shares_note(manifest.scripts)
    yield from unread_letters(manifest.embedder.model, manifest.languages, manifest.scripts)
    yield from stemmer_note(stemmer, text, manifest.scripts)
