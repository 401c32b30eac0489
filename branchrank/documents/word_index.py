"""An index of the words of a corpus, which finds every place of a run of three words.

Words contain neither markup characters nor differences in case. In HTML, tags are left out. A letter of a
script without spaces is a word. The index is made in time linear in the size of the corpus, apart from one
sort, and needs 32 bytes for each word of the corpus.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from html import unescape

import numpy as np
from numpy.typing import NDArray

from branchrank.documents.reading import HTML

#: The number of words in a run.
RUN = 3
#: Letters that are words of their own, because a text in these scripts has no spaces.
_SINGLE = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
_WORD = re.compile(rf"[{_SINGLE}]|[^\W_{_SINGLE}]+")
_TAG = re.compile(r"<!--.*?-->|<[a-zA-Z/!?][^<>]*>", re.DOTALL)
#: A tag at the start or the end of a text, of which the rest is cut off.
_CUT_TAG = re.compile(r"\A[^<>]*>|<[^<>]*\Z")
_ESCAPE = re.compile(r"\\[nrt\"]")

Ints = NDArray[np.int64]


class WordIndex:
    """The words of documents. A position counts the words of all documents, one document after the other.

    ``ids`` contains the number of each word (the same for equal words), and ``lines`` its line.
    """

    def __init__(self, documents: Mapping[str, Sequence[str]]) -> None:
        self._numbers: dict[str, int] = {}
        self._sources: list[str] = []
        self._ends: list[int] = []
        ids: list[int] = []
        lines: list[int] = []
        for source, content in documents.items():
            for number, line in enumerate(readable(source, content), start=1):
                words = _split(line)
                ids += [self._numbers.setdefault(word, len(self._numbers)) for word in words]
                lines += [number] * len(words)
            self._sources.append(source)
            self._ends.append(len(ids))
        self._places = {source: place for place, source in enumerate(self._sources)}
        self.ids: Ints = np.array(ids, dtype=np.int64)
        self.lines: Ints = np.array(lines, dtype=np.int64)
        runs = runs_of(self.ids)
        self._order: Ints = np.argsort(runs, kind="stable")
        self._sorted: Ints = runs[self._order]

    def of(self, text: str) -> Ints:
        """Return the numbers of a text's words, and -1 for a word that the corpus lacks."""
        return np.array([self._numbers.get(word, -1) for word in _split(text)], dtype=np.int64)

    def without_tags(self, text: str) -> str:
        """Return a text without its HTML tags, or an empty string without tags, or without HTML documents."""
        if not any(source.lower().endswith(HTML) for source in self._sources) or not re.search("[<>]", text):
            return ""
        return unescape(_TAG.sub(" ", _CUT_TAG.sub(" ", text)))

    def occurrences(self, words: Ints, bounds: tuple[int, int]) -> list[Ints]:
        """Return the positions of each run of some words within bounds, in ascending order."""
        runs = runs_of(words)
        low, high = (np.searchsorted(self._sorted, runs, side=side) for side in ("left", "right"))
        found = [self._order[start:end] for start, end in zip(low.tolist(), high.tolist(), strict=True)]
        if bounds == (0, len(self.ids)):
            return found
        return [each[slice(*np.searchsorted(each, (bounds[0], bounds[1] - RUN + 1)))] for each in found]

    def single(self, word: int, bounds: tuple[int, int]) -> Ints:
        """Return the positions of a word within bounds."""
        return bounds[0] + np.flatnonzero(self.ids[slice(*bounds)] == word)

    def has(self, position: int, words: Ints) -> bool:
        """Return whether these words of one document start at a position."""
        end = position + len(words)
        same = np.array_equal(self.ids[position:end], words)
        return same and self.document(position) == self.document(end - 1)

    def document(self, position: int) -> str:
        """Return the source of the word at a position."""
        return self._sources[bisect_right(self._ends, position)]

    def bounds(self, source: str) -> tuple[int, int]:
        """Return the positions at which a document starts and ends, or the whole corpus if it is empty."""
        if not source:
            return 0, len(self.ids)
        place = self._places[source]
        return (self._ends[place - 1] if place else 0), self._ends[place]


def runs_of(words: Ints) -> Ints:
    """Return a hash of every run of three words."""
    if len(words) < RUN:
        return np.empty(0, dtype=np.int64)
    parts = [words[at : len(words) - RUN + 1 + at].astype(np.uint64) for at in range(RUN)]
    mixed = (parts[0] * np.uint64(0x9E3779B97F4A7C15)) ^ (parts[1] * np.uint64(0xC2B2AE3D27D4EB4F))
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x165667B19E3779F9)
    mixed ^= parts[2] * np.uint64(0x27D4EB2F165667C5)
    hashes: Ints = (mixed ^ (mixed >> np.uint64(32))).view(np.int64)
    return hashes


def _split(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def readable(source: str, lines: Sequence[str]) -> Sequence[str]:
    """Return the lines of a document without HTML tags, and without escapes in notebooks."""
    name = source.lower()
    if name.endswith(HTML):
        text = _TAG.sub(lambda found: " " + "\n" * found[0].count("\n"), "\n".join(lines))
        return [unescape(line) for line in text.split("\n")]
    if name.endswith(".ipynb"):
        return [_ESCAPE.sub(" ", line) for line in lines]
    return lines
