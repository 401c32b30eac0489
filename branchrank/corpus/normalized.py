"""Normalize text, so that quoted passages are found despite differences in markup and layout."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

_MARKUP = str.maketrans("", "", "*_`~#|\\")


def normalize(text: str) -> str:
    r"""Normalize text, so that comparisons ignore differences in case, whitespace and markup.

    The text is converted to the Unicode form NFKC and to lower case. The markup characters ``* _ ` ~ # | \``
    are deleted, and each run of whitespace becomes one space.
    """
    folded = unicodedata.normalize("NFKC", text).casefold().translate(_MARKUP)
    return " ".join(folded.split())


class NormalizedLines(NamedTuple):
    """The normalized lines of a file, joined by spaces.

    Line number ``numbers[i]`` of the file starts at the offset ``starts[i]`` of ``text``. Lines that are
    empty after normalization are skipped.
    """

    text: str
    starts: list[int]
    numbers: list[int]

    @classmethod
    def of(cls, lines: Sequence[str]) -> NormalizedLines:
        """Normalize the lines of a file. Line numbers start at 1."""
        words: list[str] = []
        starts: list[int] = []
        numbers: list[int] = []
        offset = 0
        for number, line in enumerate(lines, start=1):
            if normalized := normalize(line):
                words.append(normalized)
                starts.append(offset)
                numbers.append(number)
                offset += len(normalized) + 1
        return cls(" ".join(words), starts, numbers)

    def quoted(self, quote: str) -> list[tuple[int, int]]:
        """Return the first and last line number of every occurrence of ``quote``.

        ``quote`` must be normalized and not empty.
        """
        places: list[tuple[int, int]] = []
        start = self.text.find(quote)
        while start >= 0:
            places.append((self._line(start), self._line(start + len(quote) - 1)))
            start = self.text.find(quote, start + 1)
        return places

    def _line(self, offset: int) -> int:
        return self.numbers[bisect_right(self.starts, offset) - 1]
