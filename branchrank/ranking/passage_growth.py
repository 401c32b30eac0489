"""Extend a passage inside its section without overlapping the passages ranked above it.

1. Lines that are already in a passage ranked above are removed, and the longest remaining run of lines is
   kept (the first one if several are equally long). A passage without remaining lines is dropped.
2. The run can grow up to the ends of the section and up to the nearest passages ranked above.
3. It grows to the target length by whole lines, equally on both sides; an odd line is added after it. If
   there is no more room on one side, the other side gets the rest. A run longer than the target is not cut.

A passage depends only on those ranked above it, so the first k do not change if more are requested.
Lines are 1-based and inclusive.
"""

from __future__ import annotations

from collections.abc import Iterable

#: The first and the last line of a passage.
Lines = tuple[int, int]


def placed(passage: Lines, section: Lines, above: Iterable[Lines], target: int) -> Lines | None:
    """Return the lines of a passage after it has grown to ``target`` lines inside its ``section``.

    ``section`` contains ``passage``; ``above`` contains disjoint passages of the same document, ranked above
    it. Returns ``None`` if they already contain all of its lines.

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
    """The runs of a passage's lines that are not in ``others``, which are sorted."""
    runs = []
    start, last = passage
    for first, end in others:
        if first > start and start <= last:
            runs.append((start, min(first - 1, last)))
        start = max(start, end + 1)
    if start <= last:
        runs.append((start, last))
    return runs
