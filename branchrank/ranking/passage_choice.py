"""Passage choice: decide which chunks of a section are returned.

To choose one passage per section, each signal (cosine similarity, BM25) is min-max scaled to 0..1 over the
section's chunks, and the chunk with the largest sum is chosen; ties go to the earlier chunk. Ranks are not
used, because a section has few chunks, and two signals that disagree would often tie.

To rank all passages of several sections by the order of the sections, passage ``j`` of section ``i`` gets the
score ``1 / (i * j)``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from branchrank.ranking.fusion import convex
from branchrank.ranking.lists import RankedList, ranked


def best_passage(chunks: Sequence[str], *signals: Mapping[str, float]) -> str:
    """Return the best of a node's ``chunks``, which are chunk ids in line order.

    Each signal maps chunk ids to scores; a chunk that is missing from a signal gets 0 for it. Raises
    ``ValueError`` if ``chunks`` is empty.
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
    """Score each passage by the rank of its section in ``sections`` and its own rank within the section.

    ``passages`` are best first; ``section_of`` maps each passage to one of ``sections``. Scores are in 0..1;
    ties break by id.

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
    """For each passage, the rank of its section and its own rank within the section, both from 1."""
    ranks = {section: rank for rank, section in enumerate(sections, start=1)}
    counts = dict.fromkeys(sections, 0)
    places = {}
    for passage in passages.ids:
        section = section_of[passage]
        counts[section] += 1
        places[passage] = (ranks[section], counts[section])
    return places
