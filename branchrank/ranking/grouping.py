"""Grouping: one entry per group, which its best member stands for."""

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

    Returns ``(representative, members)`` per group, best first: the representative is the group's best
    member with the group's score (the maximum, or the mean of the ``members`` best), and the members,
    at most ``members`` of them, keep their own scores.
    """
    groups: dict[str, list[Scored]] = {}
    for entry in ranking:
        shown = groups.setdefault(group_of(entry.key), [])
        if len(shown) < members:
            shown.append(entry)
    if aggregate == "max":  # the order of the best members, which the list has already
        return [(shown[0], tuple(shown)) for shown in groups.values()]
    means = {shown[0].key: sum(entry.score for entry in shown) / len(shown) for shown in groups.values()}
    by_best = {shown[0].key: tuple(shown) for shown in groups.values()}
    return [(entry, by_best[entry.key]) for entry in ranked(means)]
