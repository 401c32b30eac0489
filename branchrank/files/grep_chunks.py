"""Map grep passages to the chunks that they overlap, so that grep and vector search rank the same items.

1. A passage is mapped to the chunks that contain one of the passage's matched lines. If no chunk contains a
   matched line, the passage is mapped to all chunks that overlap the passage. A passage that overlaps no
   chunk is dropped.
2. A chunk's relevance is computed from the lines that the chunk shares with the passage. If several passages
   are mapped to the same chunk, the chunk's highest relevance is used.
3. The chunks of all passages are sorted together by relevance. Otherwise, the weakest chunk of a passage
   would rank above the best chunk of the next passage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from branchrank.files.grep import GrepResult, Passage
from branchrank.records import Chunk, Record, Scored


class Place(Record, frozen=True, kw_only=True):
    """A chunk's id (``key``), the numbers of its matched lines, and its relevance to the query."""

    key: str
    matched: tuple[int, ...]
    relevance: float


def placed(result: GrepResult, chunks: Mapping[str, Sequence[Chunk]]) -> list[Place]:
    """Map the passages in a grep result to chunks, and sort the chunks by relevance.

    ``chunks`` maps each file to its chunks.
    """
    places: dict[str, Place] = {}
    for passage in result.passages:
        overlapping = [c for c in chunks.get(passage.source, ()) if c.span.overlap(passage.span)]
        held = {chunk.id: _held(chunk, passage) for chunk in overlapping}
        counting = [chunk for chunk in overlapping if held[chunk.id]] or overlapping
        lines = passage.text.split("\n")
        relevant = {chunk.id: result.relevance(_shared(chunk, passage, lines)) for chunk in counting}
        for chunk in sorted(counting, key=lambda each: (-relevant[each.id], each.line_start, each.id)):
            before = places.get(chunk.id)
            places[chunk.id] = Place(
                key=chunk.id,
                matched=tuple(sorted({*held[chunk.id], *(before.matched if before else ())})),
                relevance=max(relevant[chunk.id], before.relevance if before else 0.0),
            )
    return sorted(places.values(), key=lambda place: -place.relevance)


def ranking_of(places: Sequence[Place]) -> list[Scored]:
    """Return the chunks of the sorted ``places``, each with the score 1 / rank (ranks start at 1)."""
    return [Scored(place.key, 1.0 / rank) for rank, place in enumerate(places, start=1)]


def _held(chunk: Chunk, passage: Passage) -> tuple[int, ...]:
    return tuple(line for line in passage.matched if chunk.line_start <= line <= chunk.line_end)


def _shared(chunk: Chunk, passage: Passage, lines: Sequence[str]) -> str:
    """Return the lines of a passage that are inside a chunk."""
    first = max(chunk.line_start, passage.line_start) - passage.line_start
    last = min(chunk.line_end, passage.line_end) - passage.line_start
    return "\n".join(lines[first : last + 1])
