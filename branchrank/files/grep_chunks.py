"""From grep passages to the chunks they overlap, so that grep and vectors rank the same things. Pure.

1. Passages are taken in their order. Of the chunks that a passage overlaps, those that hold one of its
   matched lines count; when none does (the match lies between chunks), all of them do.
2. Within a passage, chunks go by the relevance of what they share with it, then by line.
3. A chunk counts once, at its first place. A passage that overlaps no chunk keeps a place of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from branchrank.files.grep import GrepResult, Passage
from branchrank.records import Chunk, Record, Scored


class Place(Record, frozen=True, kw_only=True):
    """A chunk, or a passage that overlaps none, with the matched lines that it holds."""

    key: str
    matched: tuple[int, ...]
    passage: Passage | None = None


def placed(result: GrepResult, chunks: Mapping[str, Sequence[Chunk]]) -> list[Place]:
    """The places of a result's passages, best first; ``chunks`` maps a source to its chunks."""
    places: dict[str, Place] = {}
    for passage in result.passages:
        overlapping = [c for c in chunks.get(passage.source, ()) if c.span.overlap(passage.span)]
        if not overlapping:
            place = Place(key=passage.citation, matched=passage.matched, passage=passage)
            places.setdefault(place.key, place)
        held = {chunk.id: _held(chunk, passage) for chunk in overlapping}
        counting = [chunk for chunk in overlapping if held[chunk.id]] or overlapping
        counting.sort(
            key=lambda chunk: (-result.relevance(_shared(chunk, passage)), chunk.line_start, chunk.id)
        )
        for chunk in counting:
            before = places.get(chunk.id)
            lines = (*before.matched, *held[chunk.id]) if before else held[chunk.id]
            places[chunk.id] = Place(key=chunk.id, matched=tuple(sorted(set(lines))))
    return list(places.values())


def ranking_of(places: Sequence[Place]) -> list[Scored]:
    """Places as a ranked list with the scores 1, 1/2, 1/3, ..."""
    return [Scored(place.key, 1.0 / rank) for rank, place in enumerate(places, start=1)]


def _held(chunk: Chunk, passage: Passage) -> tuple[int, ...]:
    return tuple(line for line in passage.matched if chunk.line_start <= line <= chunk.line_end)


def _shared(chunk: Chunk, passage: Passage) -> str:
    first = max(chunk.line_start, passage.line_start) - passage.line_start
    last = min(chunk.line_end, passage.line_end) - passage.line_start
    return "\n".join(passage.text.split("\n")[first : last + 1])
