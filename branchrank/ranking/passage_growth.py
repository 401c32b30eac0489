"""Extend a passage within its section without overlapping higher-ranked passages.

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

from collections.abc import Iterable

#: The first and the last line of a passage.
Lines = tuple[int, int]


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
