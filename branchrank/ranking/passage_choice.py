"""Passage choice: which chunks of a section are returned for it.

For one passage of each section, each signal (cosine similarity, BM25) of the node's chunks is scaled to 0..1
between its smallest and its largest value, and the largest sum wins; ties go to the earlier chunk. Ranks
would not do: sections have a few chunks only, and the reciprocal ranks of two signals that disagree tie.

For all passages of a pool of sections whose order leads, passage ``j`` of section ``i`` scores
``1 / (i * j)``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from branchrank.ranking.fusion import convex
from branchrank.ranking.lists import RankedList, ranked


def best_passage(chunks: Sequence[str], *signals: Mapping[str, float]) -> str:
    """The chunk id, of a node's ``chunks`` in line order, that answers the query best.

    Each signal maps chunk ids to scores; a chunk that a signal lacks scores 0 there. Raises ``ValueError``
    when ``chunks`` is empty.
    """
    if not chunks:
        raise ValueError("a node without chunks has no passage")
    lists = {
        str(number): ranked({chunk: signal.get(chunk, 0.0) for chunk in chunks})
        for number, signal in enumerate(signals)
    }
    fused = dict(convex(lists))
    return max(chunks, key=lambda chunk: fused.get(chunk, 0.0))


def led_by_sections(
    passages: RankedList, section_of: Mapping[str, str], sections: Sequence[str]
) -> RankedList:
    """All passages, scored by the ranks of their section among ``sections`` and of theirs within it.

    ``passages`` are best first; ``section_of`` maps each to one of ``sections``. Scores lie in 0..1, ties
    break by id.

    >>> passages = RankedList(("b1", "a1", "a2"), (3.0, 2.0, 1.0))
    >>> led_by_sections(passages, {"a1": "a", "a2": "a", "b1": "b"}, ["a", "b"])
    RankedList([Scored(key='a1', score=1.0), Scored(key='a2', score=0.5), Scored(key='b1', score=0.5)])
    """
    places = _places(passages, section_of, sections)
    return ranked({passage: 1.0 / (section * own) for passage, (section, own) in places.items()})


def best_of_each(passages: RankedList, section_of: Mapping[str, str], sections: Sequence[str]) -> RankedList:
    """The best passage of each section, in the order of ``sections``, scored 1, 1/2, 1/3, ..."""
    places = _places(passages, section_of, sections)
    return ranked({passage: 1.0 / section for passage, (section, own) in places.items() if own == 1})


def _places(
    passages: RankedList, section_of: Mapping[str, str], sections: Sequence[str]
) -> dict[str, tuple[int, int]]:
    """The rank, from 1, of each passage's section, and that of the passage within it."""
    ranks = {section: rank for rank, section in enumerate(sections, start=1)}
    counts = dict.fromkeys(sections, 0)
    places = {}
    for passage in passages.ids:
        section = section_of[passage]
        counts[section] += 1
        places[passage] = (ranks[section], counts[section])
    return places
