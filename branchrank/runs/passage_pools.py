"""Label the passages that a run's systems found, and compare the labels of two annotators.

1. The first ``depth`` hits of every system, repeat and question are pooled as in TREC (Sparck Jones and van
   Rijsbergen 1975). The pool contains each passage once, without leading or trailing blank lines and without
   the names of the systems that found the passage.
2. Passages that overlap gold or an excluded span are not labeled. Gold that a label for a passage of the pool
   added does not count, so that every annotator is asked about the same passages.
3. A passage inside another passage is not labeled if it has at least three quarters of the other's lines. If
   the annotator has labeled one of the two before, the other is not labeled.
4. The questions are shuffled with a seed, and so are the passages of each question. Annotators therefore
   can't infer the ranks from the order.
5. Every label is written immediately, so that an interruption loses no labels. A labeled passage is not
   shown again.

Cohen's kappa measures how far two annotators agree beyond chance: ``kappa = (po - pe) / (1 - pe)`` (Cohen
1960), where ``po`` is the observed agreement, and ``pe`` the one expected by chance. Its interval is normal,
with the large-sample standard error for independent items of Fleiss, Cohen and Everitt 1969 (formula 18.15 in
Fleiss, Levin and Paik 2003). Without disagreements, this error is 0, so the lower bound is computed from that
of ``po``, which is ``(alpha / 2) ** (1 / n)`` for n items (Clopper and Pearson 1934).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from pathlib import Path
from statistics import NormalDist

import numpy as np

from branchrank.core.errors import QuestionError, RunError, UsageError, or_else
from branchrank.core.records import SEED, Question, Record, Span
from branchrank.documents.loading import corpus_lines, digest_now
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.questions.anchoring import Lines
from branchrank.questions.labels import (
    CHOICES,
    Choice,
    Label,
    Proposal,
    gold_beside,
    is_labeled,
    labels_of,
    overlapping,
    with_label,
)
from branchrank.questions.question_files import (
    GIVE_QUESTIONS,
    check_wording,
    draw,
    load_questions,
    only_writer_of,
)
from branchrank.runs.directory import RunRecord
from branchrank.runs.rows import Row
from branchrank.runs.run_data import RunData


class PassageToLabel(Record, frozen=True, kw_only=True):
    """A passage to label, with its question, lines, section heading and text."""

    question: Question
    span: Span
    heading: str
    text: str


class Labeling:
    """One annotator's labels for a run's pool, stored in the question file ``output``.

    A new file starts with the run's questions. If the file already exists, the run's questions that are not
    yet in the file are added. Raises :class:`RunError` if the corpus differs from the run's corpus. Raises
    :class:`QuestionError` if a question's text in the file differs from the text in the run.
    """

    def __init__(
        self,
        run: RunData,
        output: Path,
        *,
        annotator: str,
        folder: WorkspaceFolder,
        depth: int = 5,
        seed: int = SEED,
        questions: Path | None = None,
    ) -> None:
        if not annotator.strip():
            raise UsageError("the name of the annotator is empty", remedy="--annotator NAME")
        root, exclude = folder.corpus_root, folder.exclude
        if digest_now(root, exclude) != run.record.corpus_digest:
            raise RunError(
                other_documents(run.record, root, run.directory.name),
                remedy="run the benchmark again, or choose the run's workspace with --data-dir",
            )
        self.output = output
        self.annotator = annotator.strip()
        self.lines: Lines = corpus_lines(root, exclude)
        self._drawn = partial(draw, seed)
        asked = run.asked if questions is None else _named(run, questions)
        check_wording(asked, run.directory / "questions.jsonl")
        self._questions = continued(asked, output)
        self._pool = pooled(run.rows, depth, self.lines)
        for question in self._questions.values():
            labels_of(question)  # fails early if the file uses the key of the labels for other data

    @property
    def questions(self) -> tuple[Question, ...]:
        """The questions in the file, with all labels so far."""
        return tuple(self._questions.values())

    def waiting(self) -> list[PassageToLabel]:
        """Return the passages that this annotator has not labeled yet, in shuffled order."""
        found: list[PassageToLabel] = []
        for key in sorted(self._pool, key=self._drawn):
            question = self._questions[key]
            spans = sorted(self._pool[key], key=lambda span: self._drawn(f"{span.source}:{span.line_start}"))
            found += [
                self._passage(key, span)
                for span in to_label(question, spans, self.annotator, self.lines)
                if not is_labeled(question, span, self.annotator, self.lines)
            ]
        return found

    def add(
        self,
        passage: PassageToLabel,
        label: Choice,
        *,
        answer: Span | None = None,
        proposal: Proposal | None = None,
    ) -> Label:
        """Add a passage's label to the question file, and return the label.

        The arguments are explained under :func:`~branchrank.questions.labels.with_label`. Raises
        :class:`UsageError` if ``answer`` is not inside the passage.
        """
        if answer is not None and answer.overlap(passage.span) != answer.lines:
            raise UsageError(
                f"lines {answer.line_start}-{answer.line_end} are not completely inside the passage",
                remedy=f"choose lines from {passage.span.line_start} to {passage.span.line_end}",
            )
        key = passage.question.id
        with only_writer_of(self.output) as write:
            self._questions = continued(self.questions, self.output)  # with what others wrote meanwhile
            given = (self._questions[key], passage.span, label, self.lines)
            made = with_label(*given, annotator=self.annotator, answer=answer, proposal=proposal)
            self._questions[key] = made
            write(self.questions)
        return labels_of(self._questions[key])[-1]

    def counts(self) -> dict[Choice, int]:
        """Count the passages that this annotator has labeled, by label."""
        every = (each for question in self.questions for each in labels_of(question))
        given = Counter(each.label for each in every if each.annotator == self.annotator)
        return {choice: given[choice] for choice in CHOICES}

    def _passage(self, key: str, span: Span) -> PassageToLabel:
        text = "\n".join(self.lines[span.source][span.line_start - 1 : span.line_end])
        # A node's id is the file's path, "#" and the path of its headings.
        path = (self._pool[key][span] or span.source).partition("#")[2]
        heading = path.replace("/", " > ").replace("-", " ")
        return PassageToLabel(question=self._questions[key], span=span, heading=heading, text=text)


def other_documents(record: RunRecord, root: Path, name: str) -> str:
    """Say that the documents in ``root`` are not those of the run ``name``."""
    change = "have changed since" if Path(record.corpus).name == root.name else "are not those of"
    return f"the documents in {root} {change} the run {name}, which read {record.corpus}"


def to_label(question: Question, pool: Collection[Span], annotator: str, lines: Lines) -> list[Span]:
    """Return the passages in ``pool`` that an annotator labels or has labeled, in the order of ``pool``.

    Passages that overlap gold or an excluded span are left out, and so are near copies of another passage
    (see the head of this module).
    """
    gold = gold_beside(question, pool)
    found = [
        span
        for span in pool
        if not overlapping(span, question, gold) and not any(map(span.overlap, question.excluded_spans))
    ]
    labeled = {span for span in found if is_labeled(question, span, annotator, lines)}
    kept: list[Span] = []
    for span in sorted(found, key=lambda each: (each not in labeled, -each.lines, each)):
        if not any(_near_copies(span, other) for other in kept):
            kept.append(span)
    return [span for span in found if span in kept]


def _near_copies(one: Span, other: Span) -> bool:
    fewer, more = sorted((one.lines, other.lines))
    return one.overlap(other) == fewer and 4 * fewer >= 3 * more


def pooled(rows: Iterable[Row], depth: int, lines: Lines) -> dict[str, dict[Span, str | None]]:
    """Map each question id to the passages found, and each passage to the id of its node."""
    pool: dict[str, dict[Span, str | None]] = {}
    for row in rows:
        for hit in row.hits[:depth]:
            filled = [
                number
                for number in range(hit.line_start, hit.line_end + 1)
                if lines[hit.source][number - 1].strip()
            ]
            if filled:
                span = Span(source=hit.source, line_start=filled[0], line_end=filled[-1])
                pool.setdefault(row.question_id, {}).setdefault(span, hit.node_id)
    return pool


def _named(run: RunData, path: Path) -> tuple[Question, ...]:
    """Return the run's questions, with the questions' text from the question file ``path``."""
    there = {question.id: question for question in load_questions(path, remedy=GIVE_QUESTIONS)}
    missing = [each.id for each in run.asked if each.id not in there]
    if missing:
        raise QuestionError(
            f"{path} does not have the question {missing[0]!r} of the run",
            remedy="choose the question file of the run",
        )
    return tuple(there[each.id] for each in run.asked)


def continued(asked: Sequence[Question], output: Path) -> dict[str, Question]:
    """Return the questions in the file ``output`` (if it exists), followed by the run's other questions."""
    there = {each.id: each for each in load_questions(output)} if output.exists() else {}
    for question in asked:
        known = there.setdefault(question.id, question)
        if known.question != question.question:
            raise QuestionError(
                f"question {question.id!r} is different in {output} and in the run: {known.question!r}",
                remedy="choose another file with --output",
            )
    return there


class Agreement(Record, frozen=True, kw_only=True):
    """The agreement between two annotators on the same ``n`` items.

    ``table[i][j]`` counts the items that the first annotator put into category i and the second into j.
    ``observed`` is the share of items that both annotators put into the same category. ``expected`` is the
    value of ``observed`` that would be expected by chance. ``kappa``, ``low`` and ``high`` are in -1..1, or
    ``None`` if kappa is not defined.
    """

    categories: tuple[str, ...]
    table: tuple[tuple[int, ...], ...]
    n: int
    observed: float
    expected: float
    kappa: float | None
    low: float | None
    high: float | None


def cohens_kappa(
    pairs: Sequence[tuple[str, str]], categories: Sequence[str], *, alpha: float = 0.05
) -> Agreement:
    """Return Cohen's kappa for ``pairs``, which contains the two annotators' categories for each item.

    Raises ``ValueError`` if there are no items.

    >>> found = cohens_kappa([("yes", "yes"), ("yes", "no"), ("no", "no"), ("no", "no")], ("yes", "no"))
    >>> found.observed, found.expected, found.kappa
    (0.75, 0.5, 0.5)
    """
    if not pairs:
        raise ValueError("no items")
    counts, n = Counter(pairs), len(pairs)
    table = np.array([[counts[first, second] for second in categories] for first in categories])
    shares = table / n
    rows, columns = shares.sum(axis=1), shares.sum(axis=0)
    observed, expected = float(np.trace(shares)), float(rows @ columns)
    kappa = error = low = high = None
    if expected < 1:
        kappa = (observed - expected) / (1 - expected)
        apart = shares * ~np.eye(len(table), dtype=bool)
        spread = float(np.diag(shares) @ (1 - (rows + columns) * (1 - kappa)) ** 2)
        spread += (1 - kappa) ** 2 * float((apart * (columns[:, None] + rows) ** 2).sum())
        spread -= (kappa - expected * (1 - kappa)) ** 2
        error = math.sqrt(max(0.0, spread) / n) / (1 - expected)
        reach = NormalDist().inv_cdf(1 - alpha / 2) * error
        low, high = max(-1.0, kappa - reach), min(1.0, kappa + reach)
        if not apart.any():
            low = ((alpha / 2) ** (1 / n) - expected) / (1 - expected)
    return Agreement(
        categories=tuple(categories),
        table=tuple(map(tuple, table.tolist())),
        n=n,
        observed=observed,
        expected=expected,
        kappa=kappa,
        low=low,
        high=high,
    )


#: The two categories that remain if the labels ``partly`` and ``no`` are merged.
BINARY = ("yes", "not yes")


def agreement(
    first: str | Path, second: str | Path, annotators: Sequence[str] = ()
) -> tuple[Agreement, Agreement]:
    """Return Cohen's kappa between two annotators on the passages that both annotators labeled.

    ``first`` and ``second`` are question files that ``branchrank questions label`` wrote, or twice the same
    file. ``annotators`` contains the annotator of ``first`` and the annotator of ``second``. If it is empty,
    each file must have labels by exactly one annotator. The first kappa is for the labels ``yes``, ``partly``
    and ``no``. The second kappa treats ``partly`` and ``no`` as one label.

    Raises :class:`UsageError` for a wrong number of annotators or an annotator without labels, and
    :class:`QuestionError` if no passage is labeled in both files.
    """
    if len(annotators) not in (0, 2):
        raise UsageError(
            f"{len(annotators)} annotators were given, but agreement is computed between exactly two",
            remedy="--annotator FIRST --annotator SECOND",
        )
    names, labels = zip(*map(_labeled, (first, second), annotators or ("", "")), strict=True)
    common = sorted(labels[0].keys() & labels[1].keys())
    if not common:
        raise QuestionError(
            f"{names[0]} and {names[1]} have not labeled the same passages",
            remedy="let both annotators label the same run: "
            "branchrank questions label RUN --output FILE --annotator NAME",
        )
    pairs = [(labels[0][key], labels[1][key]) for key in common]
    decided = [(BINARY[one != "yes"], BINARY[other != "yes"]) for one, other in pairs]
    return cohens_kappa(pairs, CHOICES), cohens_kappa(decided, BINARY)


def _labeled(path: str | Path, name: str) -> tuple[str, dict[tuple[str, Span, str], Choice]]:
    """Return the annotator ``name``, or the only annotator in a question file, and the annotator's labels.

    The labels are keyed by question id, passage and digest of the passage's lines.
    """
    there: dict[str, dict[tuple[str, Span, str], Choice]] = {}
    for question in load_questions(Path(path)):
        for label in labels_of(question):
            place = (question.id, label.span, label.answer_digest)
            there.setdefault(label.annotator, {})[place] = label.label
    if name and name not in there:
        raise UsageError(
            f"{path} has no labels by the annotator {name!r}{or_else(name, sorted(there))}",
            remedy="correct --annotator",
        )
    if not name and len(there) != 1:
        listed = ", ".join(sorted(there)) or "nobody"
        raise UsageError(
            f"{path} has labels by {listed}, but only one annotator per file can be compared",
            remedy="--annotator FIRST --annotator SECOND",
        )
    name = name or next(iter(there))
    return name, there[name]
