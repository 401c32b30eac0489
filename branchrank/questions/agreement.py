"""The agreement between two annotators who labeled the same passages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from branchrank.errors import QuestionError, UsageError, or_else
from branchrank.measures.agreement import Agreement, cohens_kappa
from branchrank.questions.labels import CHOICES, annotators, by_passage
from branchrank.questions.question_files import load_questions
from branchrank.records import Question

#: The two categories that remain if the labels ``partly`` and ``no`` are merged.
BINARY = ("yes", "not yes")


def agreement_of(first: Path, second: Path, names: Sequence[str] = ()) -> tuple[Agreement, Agreement]:
    """Return the agreement on the three labels, and the agreement on ``yes`` versus any other label.

    Only passages that are labeled in both files are compared. ``names`` contains the annotator of ``first``
    and the annotator of ``second``. If ``names`` is empty, each file must have labels by exactly one
    annotator. Raises :class:`UsageError` for a wrong number of annotators or an annotator without labels, and
    :class:`QuestionError` if no passage is labeled in both files.
    """
    if len(names) not in (0, 2):
        raise UsageError(
            f"{len(names)} annotators were given, but agreement is computed between exactly two",
            remedy="--annotator FIRST --annotator SECOND",
        )
    loaded = [load_questions(path) for path in (first, second)]
    given = names or ("", "")
    chosen = [
        _annotator(questions, name, path)
        for questions, name, path in zip(loaded, given, (first, second), strict=True)
    ]
    labels = [by_passage(questions, name) for questions, name in zip(loaded, chosen, strict=True)]
    common = sorted(labels[0].keys() & labels[1].keys())
    if not common:
        raise QuestionError(
            f"{chosen[0]} and {chosen[1]} have not labeled the same passages",
            remedy="let both annotators label the same run: "
            "branchrank questions label RUN --output FILE --annotator NAME",
        )
    pairs = [(labels[0][key], labels[1][key]) for key in common]
    decided = [(_decision(one), _decision(other)) for one, other in pairs]
    return cohens_kappa(pairs, CHOICES), cohens_kappa(decided, BINARY)


def _annotator(questions: Sequence[Question], name: str, path: Path) -> str:
    there = annotators(questions)
    if name and name not in there:
        raise UsageError(
            f"{path} has no labels by the annotator {name!r}{or_else(name, there)}",
            remedy="correct --annotator",
        )
    if not name and len(there) != 1:
        listed = ", ".join(there) or "nobody"
        raise UsageError(
            f"{path} has labels by {listed}, but only one annotator per file can be compared",
            remedy="--annotator FIRST --annotator SECOND",
        )
    return name or there[0]


def _decision(label: str) -> str:
    return BINARY[label != "yes"]
