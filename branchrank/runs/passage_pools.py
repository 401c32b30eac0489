"""Label the passages that a run's systems found, and write the labels to a question file.

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
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from pathlib import Path

from branchrank.core.errors import QuestionError, RunError, UsageError
from branchrank.core.records import SEED, Question, Record, Span
from branchrank.documents.loading import digest_now
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.questions.anchoring import Lines, corpus_lines
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
        given = [each for question in self.questions for each in labels_of(question)]
        return {
            choice: sum(each.label == choice and each.annotator == self.annotator for each in given)
            for choice in CHOICES
        }

    def _passage(self, key: str, span: Span) -> PassageToLabel:
        text = "\n".join(self.lines[span.source][span.line_start - 1 : span.line_end])
        heading = heading_of(self._pool[key][span] or span.source)
        return PassageToLabel(question=self._questions[key], span=span, heading=heading, text=text)


def other_documents(record: RunRecord, root: Path, name: str) -> str:
    """Say that the documents in ``root`` are not those of the run ``name``."""
    if Path(record.corpus).name == root.name:
        return f"the documents in {root} have changed since the run {name}, which read {record.corpus}"
    return f"the documents in {root} are not those of the run {name}, which read {record.corpus}"


def heading_of(node_id: str) -> str:
    """Return the headings above a node. A node's id is the file's path, "#" and the path of its headings."""
    return node_id.partition("#")[2].replace("/", " > ").replace("-", " ")


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
