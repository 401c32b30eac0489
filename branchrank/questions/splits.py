"""Splits of a question file into a tuning part and a test part that share no document.

1. Questions that share a document (of their gold, its alternates or its aliases) form a group, also when a
   third question connects them. A question without gold is a group of its own.
2. Groups are ordered by the SHA-256 of the seed and their first source (or the question's id).
3. The smaller part is filled: tuning from the start of that order, or test from its end. A group that would
   exceed the share is skipped. Finally the smallest remaining group is added if that comes nearer to the
   share, or if the part is empty, but never the last group.
4. If all groups have the same size, a larger share contains a smaller one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from branchrank.errors import QuestionError
from branchrank.records import Question


class Split(NamedTuple):
    """The two parts, each in the order of the file."""

    tuning: list[Question]
    test: list[Question]


def split_questions(questions: Sequence[Question], share: float, seed: int) -> Split:
    """Split by document; ``share`` (above 0, below 1) of the questions is for tuning.

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
    """The number of questions in the largest group."""
    return max(map(len, _groups(questions).values()), default=0)


def _filled(groups: Sequence[Sequence[str]], wanted: float) -> frozenset[str]:
    """Choose about ``wanted`` questions, at most half of all, in whole groups: at least one, never all."""
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
    """Return every document that holds a question's gold."""
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
