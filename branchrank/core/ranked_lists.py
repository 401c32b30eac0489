"""Ranked lists, sorted by descending score. Entries with the same score are sorted by key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import compress
from operator import itemgetter
from typing import Literal, overload

from branchrank.core.records import Scored

Aggregate = Literal["max", "avg"]

_scored = partial(tuple.__new__, Scored)


class RankedList(Sequence[Scored]):
    """A ranked list, best first, stored as a tuple of ids and a tuple of scores.

    ``Scored`` objects are created only when entries are read, because few entries become hits. A ranked list
    is equal to any sequence with equal entries in the same order.
    """

    __slots__ = ("ids", "scores")

    def __init__(self, ids: tuple[str, ...], scores: tuple[float, ...]) -> None:
        """Raise ``ValueError`` if ``ids`` and ``scores`` differ in length."""
        if len(ids) != len(scores):
            raise ValueError(f"a ranked list needs one score per id, not {len(scores)} for {len(ids)} ids")
        self.ids = ids
        self.scores = scores

    @classmethod
    def of(cls, ranking: Sequence[Scored]) -> RankedList:
        """Convert entries that are already sorted, best first, to a ranked list."""
        if isinstance(ranking, RankedList):
            return ranking
        return cls(*zip(*ranking, strict=True)) if ranking else cls((), ())

    @classmethod
    def in_order(cls, keys: Iterable[str]) -> RankedList:
        """Return keys that are already sorted, best first, with the scores 1, 1/2, 1/3, and so on."""
        ids = tuple(keys)
        return cls(ids, tuple(1.0 / rank for rank in range(1, len(ids) + 1)))

    def where(self, kept: Sequence[bool]) -> RankedList:
        """Return the entries for which ``kept`` is true. ``kept`` has one value per entry of the list."""
        return RankedList(tuple(compress(self.ids, kept)), tuple(compress(self.scores, kept)))

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Scored]:
        return map(_scored, zip(self.ids, self.scores, strict=True))

    @overload
    def __getitem__(self, index: int) -> Scored: ...

    @overload
    def __getitem__(self, index: slice) -> RankedList: ...

    def __getitem__(self, index: int | slice) -> Scored | RankedList:
        if isinstance(index, slice):
            return RankedList(self.ids[index], self.scores[index])
        return Scored(self.ids[index], self.scores[index])

    def __eq__(self, other: object) -> bool:
        if isinstance(other, RankedList):
            return self.ids == other.ids and self.scores == other.scores
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"RankedList({list(self)})"


def ranked(scores: Mapping[str, float], limit: int | None = None) -> RankedList:
    """Return a ranked list of the best ``limit`` keys (all keys by default), best first."""
    # Two stable sorts by plain values are several times faster than a single sort by tuples.
    ordered = sorted(scores.items(), key=itemgetter(0))
    ordered.sort(key=itemgetter(1), reverse=True)
    chosen = ordered[:limit]
    return RankedList(*zip(*chosen, strict=True)) if chosen else RankedList((), ())


def rescore(ranking: Sequence[Scored], order: Sequence[str]) -> RankedList:
    """Move the keys in ``order`` to the top of a ranked list, and set the scores to 1, 1/2, 1/3, and so on.

    Keys that are not in ``order`` follow in their original order. Raises ``ValueError`` if ``order`` contains
    a key that is not in the list.
    """
    known = {entry.key for entry in ranking}
    foreign = [key for key in order if key not in known]
    if foreign:
        raise ValueError(f"the key {foreign[0]!r} is not in the ranked list")
    first = list(dict.fromkeys(order))
    chosen = set(first)
    return RankedList.in_order(first + [entry.key for entry in ranking if entry.key not in chosen])


def add_scores(ranking: Sequence[Scored], scores: Mapping[str, float], weight: float) -> RankedList:
    """Add ``weight`` times another score to each score in a ranked list, and sort the list again.

    ``scores`` contains the keys at the top of ``ranking``, with the other score of each key. An entry that is
    not in ``scores`` gets the lowest value in ``scores``, so that the entry can't overtake a rescored entry.

    >>> add_scores([Scored("a", 1.0), Scored("b", 0.9), Scored("c", 0.8)], dict(a=0.1, b=0.4), 1.0).ids
    ('b', 'a', 'c')
    """
    lowest = min(scores.values(), default=0.0)
    return ranked({entry.key: entry.score + weight * scores.get(entry.key, lowest) for entry in ranking})


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
