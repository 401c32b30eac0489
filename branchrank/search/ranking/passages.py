"""Choose which of a section's chunks are returned as passages, and extend the passages.

To choose one passage per section, each kind of score (cosine similarity, BM25) is min-max scaled to 0..1 over
the section's chunks. The chunk with the largest sum of scaled scores is returned. If several chunks share the
largest sum, the first of these chunks is returned. Scores are summed instead of ranks, because chunks in a
section with few chunks often have the same sum of ranks.

Passages from several ranked sections are sorted by RRF (:func:`by_rrf`). If a reranker has ranked the
sections, the best passage of each section comes first, in the order of the sections, and the other passages
follow (:func:`led_by_sections`).

A passage is extended within its section without overlapping higher-ranked passages.

1. Lines of a passage that are already in a higher-ranked passage are removed. The passage keeps the longest
   remaining block of consecutive lines, or the first of several longest blocks. A passage with no remaining
   lines is dropped.
2. The passage can grow up to the ends of the section and up to the nearest higher-ranked passages.
3. Lines are added equally on both sides until the passage has the target length. If the number of lines to
   add is odd, the extra line is added after the passage. If one side has no more room, the remaining lines
   are added on the other side. A passage that is longer than the target length is not shortened.

A passage depends only on higher-ranked passages, so the first k passages do not change if more passages are
requested. Line numbers are 1-based and inclusive.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from branchrank.core.ranked_lists import RankedList, ranked
from branchrank.core.records import Scored
from branchrank.core.spec import Fuse
from branchrank.search.ranking.fusion import fuse, rrf

#: The first and the last line of a passage.
Lines = tuple[int, int]


def best_passage(chunks: Sequence[str], *signals: Mapping[str, float]) -> str:
    """Return the best of ``chunks``, which are the ids of a node's chunks in line order.

    Each mapping in ``signals`` maps chunk ids to scores of one kind. A chunk that is missing from a mapping
    scores 0.
    """
    lists = {
        str(number): ranked({chunk: signal.get(chunk, 0.0) for chunk in chunks})
        for number, signal in enumerate(signals)
    }
    fused = dict(fuse(lists, Fuse(method="convex"), {}))
    return max(chunks, key=lambda chunk: fused.get(chunk, 0.0))


def by_rrf(
    section_of: Mapping[str, str],
    sections: Sequence[str],
    lists: Mapping[str, Sequence[Scored]],
    k: float,
    weights: Mapping[str, float],
) -> RankedList:
    """Score each passage by RRF over its section's rank and its own rank in each branch's list of chunks.

    The score is ``1 / (k + rank of the section) + sum_i w_i / (k + rank in list i)``. A list that does not
    contain the passage adds 0. ``section_of`` maps each passage to one of ``sections``, and ``lists`` and
    ``weights`` have the same keys.

    >>> dense = RankedList(("b1", "a2"), (0.9, 0.8))
    >>> by_rrf(dict(a1="a", a2="a", b1="b"), ["a", "b"], dict(dense=dense), 1, dict(dense=1.0)).ids
    ('a2', 'b1', 'a1')
    """
    ranks = {section: rank for rank, section in enumerate(sections, start=1)}
    own = dict(rrf(lists, k, weights))
    return ranked(
        {
            passage: 1.0 / (k + ranks[section]) + own.get(passage, 0.0)
            for passage, section in section_of.items()
        }
    )


def led_by_sections(
    passages: RankedList, best: RankedList, section_of: Mapping[str, str], sections: Sequence[str]
) -> RankedList:
    """Put the best passage of each section first, in the order of ``sections``, and the others behind these.

    ``passages`` and ``best`` contain the same passages, best first. The first passage of a section in
    ``best`` is the section's best passage, and ``passages`` is the order of the other passages.
    ``section_of`` maps each passage to its section. The scores are 1, 1/2, 1/3, ...

    >>> passages = RankedList(("b1", "a1", "a2"), (3.0, 2.0, 1.0))
    >>> led_by_sections(passages, passages, dict(a1="a", a2="a", b1="b"), ["a", "b"]).ids
    ('a1', 'b1', 'a2')
    """
    leading: dict[str, str] = {}
    for passage in best.ids:
        leading.setdefault(section_of[passage], passage)
    order = dict.fromkeys([leading[section] for section in sections if section in leading] + [*passages.ids])
    return RankedList.in_order(order)


def placed(passage: Lines, section: Lines, above: Iterable[Lines], target: int) -> Lines | None:
    """Return the lines of ``passage`` after extending it to ``target`` lines inside ``section``.

    ``section`` is the section's line range, which includes the lines of ``passage``. ``above`` contains the
    higher-ranked passages of the same document, which must not overlap each other. Returns ``None`` if every
    line of ``passage`` is already in a higher-ranked passage.

    >>> placed((10, 13), (1, 40), [], 8)
    (8, 15)
    >>> placed((10, 13), (9, 40), [(14, 20)], 8)
    (9, 13)
    """
    others = sorted(above)
    runs = _uncovered(passage, others)
    if not runs:
        return None
    first, last = max(runs, key=lambda run: (run[1] - run[0], -run[0]))
    room_before = first - max([section[0], *(end + 1 for _, end in others if end < first)])
    room_after = min([section[1], *(start - 1 for start, _ in others if start > last)]) - last
    missing = max(0, target - (last - first + 1))
    before = min(room_before, missing // 2)
    after = min(room_after, missing - before)
    before = min(room_before, missing - after)
    return first - before, last + after


def _uncovered(passage: Lines, others: Iterable[Lines]) -> list[Lines]:
    """Return the blocks of lines of ``passage`` that no passage in ``others`` (sorted) contains."""
    runs = []
    start, last = passage
    for first, end in others:
        if first > start and start <= last:
            runs.append((start, min(first - 1, last)))
        start = max(start, end + 1)
    if start <= last:
        runs.append((start, last))
    return runs
