"""Choose which of a section's chunks are returned as passages.

To choose one passage per section, each kind of score (cosine similarity, BM25) is min-max scaled to 0..1 over
the section's chunks. The chunk with the largest sum of scaled scores is returned. If several chunks share the
largest sum, the first of these chunks is returned. Scores are summed instead of ranks, because chunks in a
section with few chunks often have the same sum of ranks.

Passages from several ranked sections are sorted by the score ``1 / (i * j)``, where ``i`` is the rank of the
passage's section and ``j`` is the passage's rank within its section.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from branchrank.ranking.fusion import convex
from branchrank.ranking.lists import RankedList, ranked


def best_passage(chunks: Sequence[str], *signals: Mapping[str, float]) -> str:
    """Return the best of ``chunks``, which are the ids of a node's chunks in line order.

    Each mapping in ``signals`` maps chunk ids to scores of one kind. A chunk that is missing from a mapping
    scores 0. Raises ``ValueError`` if ``chunks`` is empty.
    """
    if not chunks:
        raise ValueError("cannot choose a passage, because the list of chunks is empty")
    lists = {
        str(number): ranked({chunk: signal.get(chunk, 0.0) for chunk in chunks})
        for number, signal in enumerate(signals)
    }
    fused = dict(convex(lists))
    return max(chunks, key=lambda chunk: fused.get(chunk, 0.0))


def led_by_sections(
    passages: RankedList, section_of: Mapping[str, str], sections: Sequence[str]
) -> RankedList:
    """Score each passage by its section's rank in ``sections`` and by its own rank within the section.

    ``passages`` is sorted, best first, and ``section_of`` maps each passage to one of ``sections``. Scores
    are in 0..1. Passages with equal scores are sorted by id.

    >>> passages = RankedList(("b1", "a1", "a2"), (3.0, 2.0, 1.0))
    >>> led_by_sections(passages, dict(a1="a", a2="a", b1="b"), ["a", "b"])
    RankedList([Scored(key='a1', score=1.0), Scored(key='a2', score=0.5), Scored(key='b1', score=0.5)])
    """
    places = _places(passages, section_of, sections)
    return ranked({passage: 1.0 / (section * own) for passage, (section, own) in places.items()})


def best_of_each(passages: RankedList, section_of: Mapping[str, str], sections: Sequence[str]) -> RankedList:
    """Return the best passage of each section, in the order of ``sections``, with the scores 1, 1/2, ..."""
    places = _places(passages, section_of, sections)
    return ranked({passage: 1.0 / section for passage, (section, own) in places.items() if own == 1})


def _places(
    passages: RankedList, section_of: Mapping[str, str], sections: Sequence[str]
) -> dict[str, tuple[int, int]]:
    """Map each passage to its section's rank and its own rank within the section. Ranks start at 1."""
    ranks = {section: rank for rank, section in enumerate(sections, start=1)}
    counts = dict.fromkeys(sections, 0)
    places = {}
    for passage in passages.ids:
        section = section_of[passage]
        counts[section] += 1
        places[passage] = (ranks[section], counts[section])
    return places
