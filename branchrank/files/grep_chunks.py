"""From grep passages to the chunks they overlap, so that grep and vectors rank the same things. Pure.

1. Of the chunks that a passage overlaps, those that hold one of its matched lines count; when none does (the
   match lies between chunks), all of them do. A passage that overlaps no chunk has no place.
2. Passages are taken in their order, and the chunks of one by the relevance of what they share with it, then
   by line. A chunk counts once, at its first place.
3. The places are then ordered by that relevance across passages: a passage of common terms runs through
   dozens of chunks, and its weakest is not better than the best of the next one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from branchrank.files.grep import GrepResult, Passage
from branchrank.records import Chunk, Record, Scored


class Place(Record, frozen=True, kw_only=True):
    """A chunk with the matched lines that it holds and its relevance."""

    key: str
    matched: tuple[int, ...]
    relevance: float


def placed(result: GrepResult, chunks: Mapping[str, Sequence[Chunk]]) -> list[Place]:
    """The places of a result's passages, best first; ``chunks`` maps a source to its chunks."""
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
    """Places as a ranked list with the scores 1, 1/2, 1/3, ..."""
    return [Scored(place.key, 1.0 / rank) for rank, place in enumerate(places, start=1)]


def _held(chunk: Chunk, passage: Passage) -> tuple[int, ...]:
    return tuple(line for line in passage.matched if chunk.line_start <= line <= chunk.line_end)


def _shared(chunk: Chunk, passage: Passage, lines: Sequence[str]) -> str:
    """What of a passage's lines lies in a chunk."""
    first = max(chunk.line_start, passage.line_start) - passage.line_start
    last = min(chunk.line_end, passage.line_end) - passage.line_start
    return "\n".join(lines[first : last + 1])
