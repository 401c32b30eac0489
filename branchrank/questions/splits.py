"""Splits a question file into a tuning part and a test part by the documents of their gold.

1. Questions whose first gold item is in the same document, or in an alias of the document, form one group.
   Documents that only a question's other gold items are in (alternates) do not join groups, because a few
   alternates would join most of a corpus; :func:`shared_documents` lists those that both parts have. Each
   question without gold forms its own group.
2. Groups are put in a seeded random order.
3. The smaller part (the part with the smaller requested share) is filled with groups. Groups that would
   exceed the requested share are skipped. All groups that are not added to the smaller part go to the larger
   part.
4. If the smaller part is empty, the smallest skipped group is added to it. The smallest skipped group is also
   added to the smaller part if it brings the size of this part closer to the requested share. A group that is
   the only skipped group is never added, because the larger part would then be empty.
5. The tuning part is filled from the start of the order, and the test part from its end. If all groups have
   the same size, a larger tuning part therefore contains every smaller tuning part with the same seed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from branchrank.core.errors import QuestionError
from branchrank.core.records import Question
from branchrank.questions.question_files import draw


class Split(NamedTuple):
    """The tuning part and the test part of a question file, each in the order of the file."""

    tuning: list[Question]
    test: list[Question]


def split_questions(questions: Sequence[Question], share: float, seed: int) -> Split:
    """Split the questions by the document of their first gold item.

    ``share`` (greater than 0 and less than 1) is the fraction of all questions that the tuning part should
    contain. Raises :class:`QuestionError` if all questions are in one group.
    """
    groups = _groups(questions)
    if len(groups) < 2:
        raise QuestionError(
            f"the {len(questions)} questions share documents and can't be split",
            remedy="add questions about other documents",
        )

    order = [groups[name] for name in sorted(groups, key=partial(draw, seed))]
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
    """Choose groups with about ``wanted`` questions in total, and return the ids of these questions."""
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


def shared_documents(*parts: Sequence[Question]) -> list[str]:
    """Return the documents that contain gold of questions in each of the parts."""
    return sorted(frozenset.intersection(*(frozenset[str]().union(*map(sources_of, part)) for part in parts)))


def _groups(questions: Sequence[Question]) -> dict[str, list[str]]:
    """Return a map from the first document of each group to the ids of the group's questions."""
    from scipy.cluster.hierarchy import DisjointSet

    # A group is named after its alphabetically first document, so the order of the questions does not matter.
    names = {
        question.id: sorted({question.gold[0].source_file, *question.source_aliases})
        if question.gold
        else [f"\x00{question.id}"]
        for question in questions
    }
    documents = DisjointSet(source for sources in names.values() for source in sources)
    for first, *others in names.values():
        for other in others:
            documents.merge(first, other)
    first_of = {source: min(subset) for subset in documents.subsets() for source in subset}
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for question in questions:
        groups[first_of[names[question.id][0]]].append(question.id)
    return groups
