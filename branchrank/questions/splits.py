"""Two halves of a question file, one to tune on and one to test on, with no document in both.

1. Questions that share a document of their gold, its alternates or its aliases belong together, and so do
   those linked over a third one: each is a group. A question without gold is a group of its own.
2. Groups are ordered by the SHA-256 of the seed and their first source (or the question's id).
3. The half that is to be the smaller is filled: tuning from the front of that order, or test from its back.
   A group that would exceed the share is passed over. At the end the smallest group left is added where
   that comes nearer to the share, or where the half is empty, but never the last one.
4. Where all groups are of one size, a larger share contains the smaller one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from branchrank.errors import QuestionError
from branchrank.records import Question


class Split(NamedTuple):
    """The two halves, each in the order of the file."""

    tuning: list[Question]
    test: list[Question]


def split_questions(questions: Sequence[Question], share: float, seed: int) -> Split:
    """Split by document; ``share`` (above 0, below 1) of the questions are to be for tuning.

    Raises :class:`QuestionError` when all questions belong together.
    """
    groups = _groups(questions)
    if len(groups) < 2:
        raise QuestionError(
            f"the {len(questions)} questions share their documents and cannot be split",
            remedy="add questions on other documents",
        )

    def draw(name: str) -> str:
        return hashlib.sha256(f"{seed}\x00{name}".encode()).hexdigest()

    order = [groups[name] for name in sorted(groups, key=draw)]
    for_tuning = share <= 0.5
    if for_tuning:
        smaller = _filled(order, share * len(questions))
    else:
        smaller = _filled(order[::-1], (1 - share) * len(questions))
    return Split(
        [question for question in questions if (question.id in smaller) == for_tuning],
        [question for question in questions if (question.id in smaller) != for_tuning],
    )


def largest_group(questions: Sequence[Question]) -> int:
    """How many questions the largest group holds."""
    return max(map(len, _groups(questions).values()), default=0)


def _filled(groups: Sequence[Sequence[str]], wanted: float) -> frozenset[str]:
    """About ``wanted`` questions, at most half of all, in whole groups: at least one, never every one."""
    taken: list[str] = []
    left: list[Sequence[str]] = []
    for group in groups:
        if len(taken) + len(group) <= wanted:
            taken += group
        else:
            left.append(group)
    gap, smallest = wanted - len(taken), min(left, key=len)
    if not taken or (len(left) > 1 and len(smallest) - gap < gap):
        taken += smallest
    return frozenset(taken)


def sources_of(question: Question) -> frozenset[str]:
    """Every document that a question's gold lies in."""
    return frozenset(item.source_file for item in question.gold) | frozenset(question.source_aliases)


def _groups(questions: Sequence[Question]) -> dict[str, list[str]]:
    """The ids of the questions that belong together, by the first of their sources."""
    parents: dict[str, str] = {}

    def root(source: str) -> str:
        while parents.setdefault(source, source) != source:
            parents[source] = parents[parents[source]]
            source = parents[source]
        return source

    # The smaller name becomes the root, so that the order of the questions can't change a group's name.
    names = {question.id: sorted(sources_of(question)) or [f"\x00{question.id}"] for question in questions}
    for first, *others in names.values():
        for other in others:
            low, high = sorted((root(first), root(other)))
            parents[high] = low
    groups: dict[str, list[str]] = {}
    for question in questions:
        groups.setdefault(root(names[question.id][0]), []).append(question.id)
    return groups
