"""Splits a question file into a tuning part and a test part that have no documents in common.

1. Questions with gold in the same document, or in an alias of it, are in the same group. A question with gold
   in several documents merges the groups of these documents. Each question without gold forms its own group.
2. Groups are ordered by a SHA-256 hash of the seed and the group's first document, or of the seed and the
   question's id if the question has no gold.
3. Groups are added to the part with the smaller requested share. The tuning part is filled from the start of
   the ordered groups, and the test part from the end. A group that would exceed the requested share is
   skipped.
4. The smallest skipped group is then added to the smaller part if that part is empty or would then be closer
   to its requested share. If only one group was skipped, that group is not added, so that neither part is
   empty. All remaining groups go to the other part.
5. If all groups have the same size, a tuning part with a larger share contains every tuning part with a
   smaller share.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from branchrank.errors import QuestionError
from branchrank.records import Question


class Split(NamedTuple):
    """The tuning part and the test part of a question file, each in the order of the file."""

    tuning: list[Question]
    test: list[Question]


def split_questions(questions: Sequence[Question], share: float, seed: int) -> Split:
    """Split the questions by document.

    ``share`` (greater than 0 and less than 1) is the fraction of the questions that should go into the tuning
    part. Raises :class:`QuestionError` if all questions are in one group, because they share documents.
    """
    groups = _groups(questions)
    if len(groups) < 2:
        raise QuestionError(
            f"the {len(questions)} questions share documents and can't be split",
            remedy="add questions about other documents",
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
    """Return the number of questions in the largest group of questions that share documents."""
    return max(map(len, _groups(questions).values()), default=0)


def _filled(groups: Sequence[Sequence[str]], wanted: float) -> frozenset[str]:
    """Choose some of the groups, with about ``wanted`` questions in total. Return the question ids."""
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
    """Return the documents that contain a question's gold, and the aliases of these documents."""
    return frozenset(item.source_file for item in question.gold) | frozenset(question.source_aliases)


def _groups(questions: Sequence[Question]) -> dict[str, list[str]]:
    """Return a map from the first document of each group to the ids of the group's questions."""
    parents: dict[str, str] = {}

    def root(source: str) -> str:
        while parents.setdefault(source, source) != source:
            parents[source] = parents[parents[source]]
            source = parents[source]
        return source

    # Use the smaller name as root, so that a group's name does not depend on the order of the questions.
    names = {question.id: sorted(sources_of(question)) or [f"\x00{question.id}"] for question in questions}
    for first, *others in names.values():
        for other in others:
            low, high = sorted((root(first), root(other)))
            parents[high] = low
    groups: dict[str, list[str]] = {}
    for question in questions:
        groups.setdefault(root(names[question.id][0]), []).append(question.id)
    return groups
