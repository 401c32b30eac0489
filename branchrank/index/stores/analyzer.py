"""The text that is indexed for a chunk or node, and the tokens that BM25 counts in a text.

1. The text is normalized to the Unicode form NFC and split into words. A word is a run of letters, digits and
   ``_``, which can contain single dots and apostrophes (``foo.bar``, ``don't``). Each CJK ideograph or kana
   character is a separate word.
2. A possessive ``'s`` is removed from the end of a word, and the word is converted to lower case.
3. If ``split_identifiers`` is true, a word in camelCase, in snake_case or with dots becomes several tokens:
   the whole word and each of its parts.
4. Stop words are removed, and the stemmer reduces each token to its stem.

If ``split_identifiers`` is false and ``stop_words`` is ``"english"``, the tokens are the same as those from
Lucene's English analyzer, except for rare differences in Unicode word breaks.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import PurePosixPath

from branchrank.core.records import Chunk, Node
from branchrank.core.settings import Bm25Settings
from branchrank.documents.document import ENTRY_SUFFIX

Analyze = Callable[[str], list[str]]

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+(?:[.'’][^\W{_CJK}]+)*")
_POSSESSIVE = re.compile(r"['’][sS]$")
_APOSTROPHE = frozenset("'’")
_PART = re.compile(r"[^\W\d_]+|\d+")
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


def analyzer(settings: Bm25Settings) -> Analyze:
    """Return a function that splits a text into a list of tokens, according to ``settings``."""
    return _analyzer(settings.stemmer, settings.stop_words, settings.split_identifiers)


@cache
def _analyzer(stemmer: str, stop_words: str, split_identifiers: bool) -> Analyze:
    stem = _stemmer(stemmer)
    stopped = STOP_WORDS[stop_words]

    # Words repeat, so the cache makes splitting a corpus into tokens about ten times faster.
    @lru_cache(maxsize=1 << 17)
    def tokens_of(word: str) -> tuple[str, ...]:
        forms = _forms(word) if split_identifiers else [_POSSESSIVE.sub("", word).lower()]
        return tuple(stem(form) for form in forms if form.strip("_") and form not in stopped)

    def analyze(text: str) -> list[str]:
        if not text.isascii():
            text = unicodedata.normalize("NFC", text)
        return [token for word in _WORD.findall(text) for token in tokens_of(word)]

    return analyze


def _stemmer(name: str) -> Callable[[str], str]:
    if name == "none":
        return lambda word: word
    import Stemmer

    # The stemmer's own cache is turned off (size 0), because ``tokens_of`` already caches stems.
    stem: Callable[[str], str] = Stemmer.Stemmer(name, 0).stemWord
    return stem


def _forms(word: str) -> list[str]:
    """Return the word in lower case and, for an identifier, its distinct parts of two or more characters."""
    word = _POSSESSIVE.sub("", word)
    forms = [word.lower()]
    if _APOSTROPHE.isdisjoint(word):
        parts = (part.lower() for run in _PART.findall(word) for part in _HUMP.split(run))
        forms += [part for part in parts if len(part) > 1]
    return list(dict.fromkeys(forms))


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
