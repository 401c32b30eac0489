"""Labels that people or an LLM give to passages, stored in the question file beside the gold.

1. A question's key ``labels`` lists them: the passage with a digest of its lines, the label, and who gave it.
   ``yes``: the passage answers the question. ``partly``: it helps but does not answer. ``no``: neither.
2. A person's ``yes`` makes the passage gold, or only the lines of it that they name. Lines that overlap
   existing gold do not add gold, so that no place counts twice. ``partly`` and ``no`` never make gold.
3. An LLM's label is a proposal. It makes gold only on request; the label and every report over these
   questions then say so. A person's label of the same passage removes such gold again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, get_args

import msgspec

from branchrank.errors import QuestionError
from branchrank.questions.anchoring import Lines, lines_digest
from branchrank.questions.writing import gold_item
from branchrank.records import GoldItem, LineNumber, Question, Record, Span

#: The key of a question that lists its labels.
LABELS = "labels"

Choice = Literal["yes", "partly", "no"]
CHOICES: tuple[Choice, ...] = get_args(Choice)


class Label(Record, frozen=True, kw_only=True, omit_defaults=True):
    """The label that ``annotator`` gave to a passage.

    ``by`` is ``llm`` if no person looked at it; ``model`` is then the model that decided, or else the one
    whose proposal ``proposed`` the person saw. ``gold`` are the first and last line that the label made gold.
    """

    source_file: str
    line_start: LineNumber
    line_end: LineNumber
    answer_digest: str
    label: Choice
    annotator: str
    by: Literal["person", "llm"] = "person"
    model: str = ""
    proposed: Choice | None = None
    gold: tuple[LineNumber, LineNumber] | None = None

    @property
    def span(self) -> Span:
        """The passage."""
        return Span(source=self.source_file, line_start=self.line_start, line_end=self.line_end)


def labels_of(question: Question) -> tuple[Label, ...]:
    """The labels of a question. Raises :class:`QuestionError` if its key ``labels`` is something else."""
    try:
        return msgspec.convert(question.extra.get(LABELS, ()), tuple[Label, ...])
    except msgspec.ValidationError as error:
        raise QuestionError(
            f"question {question.id!r}: `{LABELS}` has an entry that is not a label: {error}",
            remedy="`branchrank questions label` writes this key; rename yours",
        ) from None


def is_labelled(question: Question, span: Span, annotator: str, lines: Lines) -> bool:
    """Return whether ``annotator`` has labelled this passage with its current text."""
    digest = _digest(span, lines)
    return any(
        (each.span, each.annotator, each.answer_digest) == (span, annotator, digest)
        for each in labels_of(question)
    )


def unlabelled_gold(question: Question) -> tuple[GoldItem, ...]:
    """Return the gold that the question had before any passage was labelled."""
    labels = labels_of(question)
    return tuple(item for item in question.gold if not any(_made(item, each, question) for each in labels))


def with_label(
    question: Question,
    span: Span,
    label: Choice,
    lines: Lines,
    *,
    annotator: str,
    answer: Span | None = None,
    by: Literal["person", "llm"] = "person",
    model: str = "",
    proposed: Choice | None = None,
    accept: bool = False,
) -> Question:
    """Return the question with a label of the passage ``span``, replacing the annotator's earlier one.

    ``answer`` are the lines of the passage that become gold (default: all). With ``accept`` an LLM's ``yes``
    makes gold as well.
    """
    made = Label(
        source_file=span.source,
        line_start=span.line_start,
        line_end=span.line_end,
        answer_digest=_digest(span, lines),
        label=label,
        annotator=annotator,
        by=by,
        model=model,
        proposed=proposed,
    )
    before = labels_of(question)
    replaced = [
        each for each in before if each.span == span and (each.annotator == annotator or _yields(each, by))
    ]
    gold = tuple(item for item in question.gold if not any(_made(item, each, question) for each in replaced))
    labels = [
        msgspec.structs.replace(each, gold=None) if each in replaced else each
        for each in before
        if (each.span, each.annotator) != (span, annotator)
    ]
    wanted = label == "yes" and (by == "person" or accept)
    found = answer or span
    if wanted and not _overlaps(found, question, gold):
        gold = (*gold, _gold(found, question, lines))
        made = msgspec.structs.replace(made, gold=(found.line_start, found.line_end))
    extra = {**question.extra, LABELS: msgspec.to_builtins([*labels, made])}
    return msgspec.structs.replace(question, gold=gold, answerable=bool(gold), extra=extra)


def llm_gold(questions: Iterable[Question]) -> tuple[int, tuple[str, ...]]:
    """Return how many gold passages were labelled by an LLM alone, and by which models."""
    found = [
        label.model for each in questions for label in labels_of(each) if label.gold and label.by == "llm"
    ]
    return len(found), tuple(sorted(set(found)))


def annotators(questions: Sequence[Question]) -> tuple[str, ...]:
    """Return the annotators of these questions."""
    return tuple(sorted({label.annotator for each in questions for label in labels_of(each)}))


def by_passage(questions: Sequence[Question], annotator: str) -> dict[tuple[str, Span, str], Choice]:
    """Map (question, passage, digest of its lines) -> the label that ``annotator`` gave."""
    return {
        (each.id, label.span, label.answer_digest): label.label
        for each in questions
        for label in labels_of(each)
        if label.annotator == annotator
    }


def _yields(label: Label, by: str) -> bool:
    """Return whether this label's gold is removed when a person labels the passage and so corrects an LLM."""
    return label.by == "llm" and by == "person"


def _made(item: GoldItem, label: Label, question: Question) -> bool:
    """Return whether this label made the gold item."""
    if label.gold is None or item.source_file != label.source_file:
        return False
    lines = (item.answer_line_start, item.answer_line_end)
    return question.gold_level == "file" or lines == label.gold


def _gold(span: Span, question: Question, lines: Lines) -> GoldItem:
    if question.gold_level == "file":
        return GoldItem(source_file=span.source)
    return gold_item(span, lines)


def _overlaps(span: Span, question: Question, gold: Iterable[GoldItem]) -> bool:
    if question.gold_level == "file":
        return any(item.source_file == span.source for item in gold)
    return any(item.span is not None and item.span.overlap(span) for item in gold)


def _digest(span: Span, lines: Lines) -> str:
    return lines_digest(lines[span.source][span.line_start - 1 : span.line_end])
