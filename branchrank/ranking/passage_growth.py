"""Growth of a passage inside its section, around the passages above it.

1. Of the passage's lines that no passage above it holds, the longest run stays; of equal runs the first. A
   passage without such a line is left out.
2. The run may grow up to the ends of the section and up to its neighbours among the passages above.
3. It grows to the target by whole lines, as many before it as after it; an odd line comes after. Where one
   side has no more room, the other side gets the rest. A longer run is not cut.

A passage depends only on those above it, so the first k of a list stay as they are when more are asked for.
Lines are 1-based and inclusive.
"""

from __future__ import annotations

from collections.abc import Iterable

#: The first and the last line of a passage.
Lines = tuple[int, int]


def placed(passage: Lines, section: Lines, above: Iterable[Lines], target: int) -> Lines | None:
    """The lines of a passage, grown to ``target`` lines inside its ``section``.

    ``section`` holds ``passage``; ``above`` are disjoint passages of the same document that are returned
    before it. ``None`` when they hold all of its lines.

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
    """The runs of a passage's lines outside ``others``, which are sorted."""
    runs = []
    start, last = passage
    for first, end in others:
        if first > start and start <= last:
            runs.append((start, min(first - 1, last)))
        start = max(start, end + 1)
    if start <= last:
        runs.append((start, last))
    return runs
