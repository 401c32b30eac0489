"""Labels that people or an LLM give to passages, stored in the question file.

1. The key ``labels`` of a question is a list of labels. A label records the passage, the digest of its lines,
   the value and the annotator.
2. The label ``yes`` means that the passage answers the question. The label ``partly`` means that the passage
   helps but does not answer the question. The label ``no`` means that the passage does not help.
3. A label of ``yes`` from a person makes the passage gold. If the annotator also gives line numbers, only
   these lines become gold. Lines that overlap existing gold are not added to the gold, so that no line counts
   twice.
4. A passage that an LLM labels ``yes`` becomes gold only if the user accepts the LLM's labels. Every report
   on the questions states how many gold passages were labeled by an LLM and by no person. If a person labels
   the same passage, the gold from the LLM's label is removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, get_args

import msgspec

from branchrank.errors import QuestionError
from branchrank.questions.anchoring import Lines, lines_digest
from branchrank.questions.writing import gold_item
from branchrank.records import GoldItem, LineNumber, Question, Record, Span

#: The key for the list of labels in a question file.
LABELS = "labels"

Choice = Literal["yes", "partly", "no"]
CHOICES: tuple[Choice, ...] = get_args(Choice)


class Label(Record, frozen=True, kw_only=True, omit_defaults=True):
    """The label that ``annotator`` gave to a passage.

    ``by`` specifies whether a person or an LLM labeled the passage. ``model`` is the name of the LLM that
    labeled the passage or proposed a label to a person. ``proposed`` is the label that the LLM proposed to a
    person. ``gold`` contains the first and the last line that the label added to the gold, or is ``None`` if
    the label added no gold.
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
        """The labeled passage."""
        return Span(source=self.source_file, line_start=self.line_start, line_end=self.line_end)


def labels_of(question: Question) -> tuple[Label, ...]:
    """Return the labels of a question.

    Raises :class:`QuestionError` if the question's key ``labels`` is not a list of labels.
    """
    try:
        return msgspec.convert(question.extra.get(LABELS, ()), tuple[Label, ...])
    except msgspec.ValidationError as error:
        raise QuestionError(
            f"question {question.id!r}: `{LABELS}` has an entry that is not a label: {error}",
            remedy=f"rename your key `{LABELS}`, which `branchrank questions label` uses",
        ) from None


def is_labeled(question: Question, span: Span, annotator: str, lines: Lines) -> bool:
    """Return whether ``annotator`` has labeled the current text of the passage ``span``."""
    digest = _digest(span, lines)
    return any(
        (each.span, each.annotator, each.answer_digest) == (span, annotator, digest)
        for each in labels_of(question)
    )


def unlabeled_gold(question: Question) -> tuple[GoldItem, ...]:
    """Return the question's gold items, except those that were added by a label."""
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
    """Return the question with a label for the passage ``span``.

    An earlier label for the passage by the same annotator is replaced. If the label is ``yes``, the lines in
    ``answer`` become gold, by default all lines of the passage. If an LLM gave the label, the lines become
    gold only if ``accept`` is true.
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
    """Return the number of gold passages that only an LLM has labeled, and the names of the LLMs."""
    found = [
        label.model for each in questions for label in labels_of(each) if label.gold and label.by == "llm"
    ]
    return len(found), tuple(sorted(set(found)))


def annotators(questions: Sequence[Question]) -> tuple[str, ...]:
    """Return the names of the annotators who labeled these questions."""
    return tuple(sorted({label.annotator for each in questions for label in labels_of(each)}))


def by_passage(questions: Sequence[Question], annotator: str) -> dict[tuple[str, Span, str], Choice]:
    """Return the labels by ``annotator``, keyed by question id, passage and digest of the passage's lines."""
    return {
        (each.id, label.span, label.answer_digest): label.label
        for each in questions
        for label in labels_of(each)
        if label.annotator == annotator
    }


def _yields(label: Label, by: str) -> bool:
    """Return whether a new label by a person removes the gold that an LLM's label added."""
    return label.by == "llm" and by == "person"


def _made(item: GoldItem, label: Label, question: Question) -> bool:
    """Return whether this label added the gold item."""
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
