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

This module also asks an LLM for its proposals.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import msgspec

from branchrank.core.errors import LLMError, QuestionError
from branchrank.core.records import GoldItem, LineNumber, Question, Record, Span
from branchrank.questions.anchoring import Lines, Reanchoring, reanchor, span_digest
from branchrank.search.llm.request import CallContext, LLMReply, LLMRequest, ReplyError

if TYPE_CHECKING:
    from branchrank.search.llm.gateway import Gateway

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


class Proposal(NamedTuple):
    """The label that the LLM ``model`` proposes. If ``accepted`` is true, no person confirms the label."""

    label: Choice
    model: str
    accepted: bool = False


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
    return any(
        (each.span, each.annotator) == (span, annotator) and each.answer_digest == span_digest(span, lines)
        for each in labels_of(question)
    )


def gold_beside(question: Question, pool: Collection[Span]) -> tuple[GoldItem, ...]:
    """Return the question's gold items, except those that were added by a label for a passage in ``pool``."""
    own = [each for each in labels_of(question) if each.span in pool]
    return tuple(item for item in question.gold if not any(made_gold(each, item, question) for each in own))


def with_label(
    question: Question,
    span: Span,
    label: Choice,
    lines: Lines,
    *,
    annotator: str,
    answer: Span | None = None,
    proposal: Proposal | None = None,
) -> Question:
    """Return the question with a label for the passage ``span``.

    An earlier label for the passage by the same annotator is replaced, and a person's label removes the gold
    that an LLM's label added. If the label is ``yes``, the lines in ``answer`` become gold, by default all
    lines of the passage.
    """
    by_llm = proposal is not None and proposal.accepted
    made = Label(
        source_file=span.source,
        line_start=span.line_start,
        line_end=span.line_end,
        answer_digest=span_digest(span, lines),
        label=label,
        annotator=annotator,
        by="llm" if by_llm else "person",
        model=proposal.model if proposal is not None else "",
        proposed=proposal.label if proposal is not None and not by_llm else None,
    )
    before = labels_of(question)
    replaced = [
        each
        for each in before
        if each.span == span and (each.annotator == annotator or (each.by == "llm" and not by_llm))
    ]
    gold = tuple(
        item for item in question.gold if not any(made_gold(each, item, question) for each in replaced)
    )
    labels = [
        msgspec.structs.replace(each, gold=None) if each in replaced else each
        for each in before
        if (each.span, each.annotator) != (span, annotator)
    ]
    found = answer or span
    if label == "yes" and not overlapping(found, question, gold):
        whole = GoldItem(source_file=span.source)
        exact = GoldItem.of(found, digest=span_digest(found, lines))
        gold = (*gold, whole if question.gold_level == "file" else exact)
        made = msgspec.structs.replace(made, gold=(found.line_start, found.line_end))
    labeled = _with_labels(question, [*labels, made])
    return msgspec.structs.replace(labeled, answerable=bool(gold)).with_gold(gold)


def as_unanswerable(question: Question) -> Question:
    """Return the question without gold, as one that the corpus does not answer. Its labels make no gold."""
    labels = [msgspec.structs.replace(each, gold=None) for each in labels_of(question)]
    return msgspec.structs.replace(_with_labels(question, labels), answerable=False).with_gold(())


def _with_labels(question: Question, labels: Sequence[Label]) -> Question:
    extra = {LABELS: msgspec.to_builtins(labels)} if labels else {}
    return msgspec.structs.replace(question, extra={**question.extra, **extra})


def reanchor_with_labels(questions: Sequence[Question], lines: Lines) -> Reanchoring:
    """Update the anchors of the gold (:func:`reanchor`) and the lines of the labels.

    A label is moved if its file, or exactly one place in another file, has lines with its digest. Otherwise
    the label is kept and a problem is returned.
    """
    gold, labels = reanchor(questions, lines), {each.id: labels_of(each) for each in questions}
    items = [tuple(GoldItem.of(it.span, digest=it.answer_digest) for it in own) for own in labels.values()]
    passages = [msgspec.structs.replace(each, gold=own) for each, own in zip(questions, items, strict=True)]
    found = reanchor(passages, lines)
    stale = []
    for each in found.problems:
        label = labels[each.question_id][each.item]
        since = f"since {label.annotator} labeled it {label.label}; label it again"
        message = f"{label.span.citation} has changed {since}"
        stale.append(msgspec.structs.replace(each, message=message, label=True))
    return Reanchoring(
        [_with_moved(*each) for each in zip(questions, gold.questions, found.questions, strict=True)],
        [*gold.moved, *(msgspec.structs.replace(each, label=True) for each in found.moved)],
        [*gold.problems, *stale],
    )


def _with_moved(before: Question, after: Question, passages: Question) -> Question:
    """Return ``after`` with the lines of the labels from the gold of ``passages``."""
    places = {item.span: new.span for item, new in zip(before.gold, after.gold, strict=True)}
    labels = []
    for label, passage in zip(labels_of(before), passages.gold, strict=True):
        first, last = label.gold or (0, 0)
        made = places.get(Span(source=label.source_file, line_start=first, line_end=last))
        place = (passage.source_file, passage.answer_line_start, passage.answer_line_end)
        now = dict(zip(("source_file", "line_start", "line_end"), place, strict=True))
        gold = (made.line_start, made.line_end) if made else label.gold
        labels.append(msgspec.structs.replace(label, gold=gold, **now))
    return _with_labels(after, labels)


def llm_gold(questions: Iterable[Question]) -> tuple[int, tuple[str, ...]]:
    """Return the number of gold passages that only an LLM has labeled, and the names of the LLMs."""
    found = [
        label.model for each in questions for label in labels_of(each) if label.gold and label.by == "llm"
    ]
    return len(found), tuple(sorted(set(found)))


def made_gold(label: Label, item: GoldItem, question: Question) -> bool:
    """Return whether this label added the gold item."""
    if label.gold is None or item.source_file != label.source_file:
        return False
    return question.gold_level == "file" or (item.answer_line_start, item.answer_line_end) == label.gold


def overlapping(span: Span, question: Question, gold: Iterable[GoldItem]) -> list[GoldItem]:
    """Return the items in ``gold`` that share lines with a passage, or its file if gold is whole files."""
    if question.gold_level == "file":
        return [item for item in gold if item.source_file == span.source]
    return [item for item in gold if item.span is not None and item.span.overlap(span)]


STAGE = "label"
#: The LLM proposes no more labels after this number of consecutive failed calls.
MOST_FAILED = 3
_PASSAGE_CHARS = 6000
_WORD = re.compile(r"[a-z]+")


class Proposals:
    """Proposes labels with an LLM. ``failed`` is the number of consecutive failed calls."""

    def __init__(self, llm: Gateway) -> None:
        self._llm = llm
        self.model = llm.model
        self.failed = 0

    def __call__(self, question: Question, heading: str, text: str) -> Proposal | None:
        """Return the proposed label for a passage, or ``None`` if the call failed.

        Raises the same errors as :meth:`Gateway.ask`, and :class:`LLMError` after three consecutive failed
        calls.
        """
        from branchrank.search.llm.prompts import label_messages, label_schema

        request = LLMRequest(
            stage=STAGE,
            messages=label_messages(question.question, heading, text[:_PASSAGE_CHARS]),
            schema=label_schema(CHOICES),
            max_tokens=self._llm.max_tokens,
            context=CallContext(question_id=question.id, predictor="questions", seed=0),
        )
        answer = self._llm.ask(request, read_label)
        self.failed = 0 if answer.fault is None else self.failed + 1
        if self.failed >= MOST_FAILED:
            raise LLMError(
                f"{self.failed} calls in a row gave no label: {answer.call.failure}",
                remedy="fix the problem with the LLM server and run the command again; labels are kept",
            )
        return None if answer.value is None else Proposal(answer.value, self.model)


def read_label(reply: LLMReply) -> Choice:
    """Return the label that a reply contains. If a reply is not JSON, the first word that is a label is used.

    >>> read_label(LLMReply(text='{"label": "Partly"}')), read_label(LLMReply(text="No, it does not."))
    ('partly', 'no')
    """
    from branchrank.search.llm.prompts import read_json

    try:
        value = read_json(reply.text)
        said = str(value.get("label", "")) if isinstance(value, dict) else ""
    except ReplyError:
        said = reply.text
    words = _WORD.findall(said.lower())
    found = next((choice for word in words for choice in CHOICES if word == choice), None)
    if found is None:
        raise ReplyError("no label")
    return found
