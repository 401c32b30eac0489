"""Two halves of a question file, one to tune on and one to test on, with no document in both.

1. Questions that share a document of their gold, its alternates or its aliases belong together, and so do
   those linked over a third one: each is a group. A question without gold is a group of its own.
2. Groups are ordered by the SHA-256 of the seed and their first source (or the question's id).
3. The first groups of that order, up to the number of questions that comes nearest to the share, are for
   tuning, the rest for testing. So a larger share contains the smaller one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import accumulate
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

    order = sorted(groups, key=draw)
    sizes = list(accumulate(len(groups[name]) for name in order[:-1]))
    wanted = share * len(questions)
    count = 1 + min(range(len(sizes)), key=lambda place: (abs(sizes[place] - wanted), place))
    chosen = {question for name in order[:count] for question in groups[name]}
    return Split(
        [question for question in questions if question.id in chosen],
        [question for question in questions if question.id not in chosen],
    )


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
