"""Grouping, which reduces a ranked list to the best member of each group."""

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
    """Group the entries of a ranked list.

    Return ``(representative, members)`` for each group, best group first. The members of a group are its best
    entries (at most ``members``), with their original scores. The representative has the group's score and
    the key of the group's best member. A group's score is the maximum or the mean of its members' scores,
    depending on ``aggregate``.
    """
    groups: dict[str, list[Scored]] = {}
    for entry in ranking:
        shown = groups.setdefault(group_of(entry.key), [])
        if len(shown) < members:
            shown.append(entry)
    if aggregate == "max":  # The groups are already sorted by their best members.
        return [(shown[0], tuple(shown)) for shown in groups.values()]
    means = {shown[0].key: sum(entry.score for entry in shown) / len(shown) for shown in groups.values()}
    by_best = {shown[0].key: tuple(shown) for shown in groups.values()}
    return [(entry, by_best[entry.key]) for entry in ranked(means)]
