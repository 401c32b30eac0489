"""The built-in chunkers that ignore headings: windows of words, sentences, recursive, and whole documents.

1. The text is cut into units that cover it. The units of ``window`` are words, and those of ``sentences``
   are sentences. A unit with more tokens than a chunk is cut into words, and a word that is too large is cut
   between characters.
2. Units are packed into chunks in order, as many as fit. With an overlap of n tokens, a chunk starts with
   the last units of the previous chunk, up to n tokens.
3. ``recursive`` packs paragraphs. A paragraph that is too large is divided on its own: into lines, a large
   line into sentences, and a large sentence into words.
4. ``document`` makes one chunk of each document, however long. An embedding model reads only its beginning.

Chunking takes time linear in the length of the text.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from branchrank.documents.chunking import CountTokens, tokens_within


class ChunkSize(NamedTuple):
    """The size of a chunk and the overlap of consecutive chunks, in tokens as ``count`` counts them."""

    tokens: int
    overlap: int
    count: CountTokens


class Piece(NamedTuple):
    """A chunk's text, and the offset in the document at which it starts, if the chunker knows it."""

    text: str
    start_index: int | None = None


class _Unit(NamedTuple):
    start: int
    end: int
    tokens: int


#: Each pattern matches what ends a paragraph, a line, a sentence or a word.
_LEVELS = (
    re.compile(r"\n\s*\n"),
    re.compile(r"\n"),
    re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"')\]]))\s+|(?<=[。！？])|\n\s*\n"),
    re.compile(r"\s+"),
)
_PARAGRAPHS, _, _SENTENCES, _WORDS = range(4)


@dataclass(frozen=True)
class TextChunker:
    """The chunker ``window``, ``sentences``, ``recursive`` or ``document``."""

    name: str
    size: ChunkSize

    def chunk(self, text: str) -> Iterator[Piece]:
        """Yield the chunks of a text in order, without the blank space around them."""
        for start, end in self._spans(text):
            part = text[start:end]
            if stripped := part.strip():
                yield Piece(stripped, start + len(part) - len(part.lstrip()))

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        if self.name == "document":
            yield 0, len(text)
        elif self.name == "recursive":
            yield from self._divided(text, 0, len(text), _PARAGRAPHS)
        else:
            level = _SENTENCES if self.name == "sentences" else _WORDS
            yield from self._packed(self._units(text, 0, len(text), level))

    def _divided(self, text: str, start: int, end: int, level: int) -> Iterator[tuple[int, int]]:
        units: list[_Unit] = []
        for first, last in _cuts(text, start, end, level):
            tokens = tokens_within(text[first:last], self.size.tokens, self.size.count)
            if tokens is not None:
                units.append(_Unit(first, last, tokens))
                continue
            yield from self._packed(units)
            units.clear()
            if level == _WORDS:
                yield from self._packed(self._characters(text, first, last))
            else:
                yield from self._divided(text, first, last, level + 1)
        yield from self._packed(units)

    def _units(self, text: str, start: int, end: int, level: int) -> Iterator[_Unit]:
        """Yield units that fit into a chunk."""
        for first, last in _cuts(text, start, end, level):
            tokens = tokens_within(text[first:last], self.size.tokens, self.size.count)
            if tokens is not None:
                yield _Unit(first, last, tokens)
            elif level == _WORDS:
                yield from self._characters(text, first, last)
            else:
                yield from self._units(text, first, last, _WORDS)

    def _characters(self, text: str, start: int, end: int) -> Iterator[_Unit]:
        # A character has at most three tokens. Parts of a word have other tokens than the word, so that only
        # this bound can be added up.
        step = max(1, self.size.tokens // 3)
        for first in range(start, end, step):
            last = min(first + step, end)
            yield _Unit(first, last, 3 * (last - first))

    def _packed(self, units: Iterable[_Unit]) -> Iterator[tuple[int, int]]:
        held: deque[_Unit] = deque()
        total = 0
        for unit in units:
            if held and total + unit.tokens > self.size.tokens:
                yield held[0].start, held[-1].end
                while held and (total > self.size.overlap or total + unit.tokens > self.size.tokens):
                    total -= held.popleft().tokens
            held.append(unit)
            total += unit.tokens
        if held:
            yield held[0].start, held[-1].end


def _cuts(text: str, start: int, end: int, level: int) -> Iterator[tuple[int, int]]:
    """Yield the first and the last offset of each unit of a level. The units cover the text."""
    first = start
    for found in _LEVELS[level].finditer(text, start, end):
        if found.end() > first:
            yield first, found.end()
            first = found.end()
    if first < end:
        yield first, end
