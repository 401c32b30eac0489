"""Grouping: reduce a ranked list to one entry per group, represented by its best member."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from branchrank.ranking.lists import ranked
from branchrank.records import Scored

Aggregate = Literal["max", "avg"]


def group(
    ranking: Sequence[Scored],
    group_of: Callable[[str], str],
    *,
    aggregate: Aggregate = "max",
    members: int = 3,
) -> list[tuple[Scored, tuple[Scored, ...]]]:
    """Group a ranked list.

    Returns ``(representative, members)`` per group, best first. The representative is the group's best member
    with the group's score (the maximum, or the mean of the best ``members`` scores). At most ``members``
    members are returned, with their own scores.
    """
    groups: dict[str, list[Scored]] = {}
    for entry in ranking:
        shown = groups.setdefault(group_of(entry.key), [])
        if len(shown) < members:
            shown.append(entry)
    if aggregate == "max":  # groups are already in the order of their best members
        return [(shown[0], tuple(shown)) for shown in groups.values()]
    means = {shown[0].key: sum(entry.score for entry in shown) / len(shown) for shown in groups.values()}
    by_best = {shown[0].key: tuple(shown) for shown in groups.values()}
    return [(entry, by_best[entry.key]) for entry in ranked(means)]
