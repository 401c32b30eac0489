"""Normalise text so that quotes can be found despite differences in markup and layout."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

_MARKUP = str.maketrans("", "", "*_`~#|\\")


def normalise(text: str) -> str:
    r"""Remove differences of markup and layout: Unicode form (NFKC), case, runs of whitespace (one space),
    and the markup characters ``* _ ` ~ # | \``, which are deleted."""
    folded = unicodedata.normalize("NFKC", text).casefold().translate(_MARKUP)
    return " ".join(folded.split())


class NormalisedLines(NamedTuple):
    """Normalised lines joined by spaces; ``starts`` are the offsets of the lines ``numbers``.

    Lines that are empty after normalising are left out.
    """

    text: str
    starts: list[int]
    numbers: list[int]

    @classmethod
    def of(cls, lines: Sequence[str]) -> NormalisedLines:
        """The lines of a file, numbered from 1."""
        words: list[str] = []
        starts: list[int] = []
        numbers: list[int] = []
        offset = 0
        for number, line in enumerate(lines, start=1):
            if normalised := normalise(line):
                words.append(normalised)
                starts.append(offset)
                numbers.append(number)
                offset += len(normalised) + 1
        return cls(" ".join(words), starts, numbers)

    def quoted(self, quote: str) -> list[tuple[int, int]]:
        """First and last line of every occurrence of ``quote``, which must be normalised and not empty."""
        places: list[tuple[int, int]] = []
        start = self.text.find(quote)
        while start >= 0:
            places.append((self._line(start), self._line(start + len(quote) - 1)))
            start = self.text.find(quote, start + 1)
        return places

    def _line(self, offset: int) -> int:
        return self.numbers[bisect_right(self.starts, offset) - 1]
