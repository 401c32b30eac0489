"""Gold spans: how their anchors are written, checked, and moved when documents change.

An anchor consists of a file, line numbers, a quote and a digest of the lines. Text is normalized before it is
compared, so rewrapping text does not change its digest.

1. An anchor is valid if its file and lines exist, the lines contain the quote, and their digest matches.
2. An invalid anchor is moved to the nearest lines in its file that have the stored digest.
3. If no lines in the anchor's file have the stored digest, the other files are searched. If exactly one place
   in the other files has the stored digest, the anchor is moved to this place.
4. If neither step 2 nor step 3 moves an invalid anchor, the anchor is moved to the lines that contain its
   quote. The quote must occur exactly once in the anchor's file. If the anchor's file does not contain the
   quote, the quote must occur exactly once in the other files.

A person's question is checked against the corpus and stored with a digest of the gold lines.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from branchrank.core.errors import QuestionError, UsageError
from branchrank.core.io.files import digest_bytes
from branchrank.core.records import GOLD_STATE, GoldItem, Question, Record, Span
from branchrank.documents.lines import NormalizedLines, normalize
from branchrank.documents.reading import document_lines
from branchrank.questions.question_files import ABSENT_GOLD, absent_file, may_be_absent

Lines = Mapping[str, Sequence[str]]

DIGEST_DIGITS = 16


class AnchorProblem(Record, frozen=True, kw_only=True):
    """A problem with one gold item of a question, or with one of its labels.

    ``item`` is the number of the gold item or label, counted from 0.
    """

    question_id: str
    item: int
    message: str
    label: bool = False

    def __str__(self) -> str:
        which = "" if self.label or self.item == 0 else f", alternate {self.item}"
        return f"question {self.question_id!r}{which}: {self.message}"


class AnchorMove(Record, frozen=True, kw_only=True):
    """A gold item or label that was moved. ``before`` is ``None`` if the gold item had no lines."""

    question_id: str
    before: Span | None
    after: Span
    label: bool = False


class Reanchoring(NamedTuple):
    """The questions with updated anchors, the moved anchors, and the anchors that can't be moved."""

    questions: list[Question]
    moved: list[AnchorMove]
    problems: list[AnchorProblem]


def check_anchors(questions: Sequence[Question], lines: Lines) -> list[AnchorProblem]:
    """Return one problem for each gold item whose anchor is not valid, in the order of the questions.

    ``lines`` maps each source in the corpus to its raw lines.
    """
    return [
        AnchorProblem(question_id=question.id, item=number, message=message)
        for question in questions
        for number, item in enumerate(question.gold)
        if (message := _fault(item, question, lines))
    ]


def changed_gold(questions: Sequence[Question], root: Path, sources: Collection[str]) -> list[str]:
    """Describe each gold item of these sources below ``root`` whose text is not the text recorded with it."""
    digested = [
        (question.id, item.answer_digest, item.span)
        for question in questions
        for item in question.gold
        if item.answer_digest and item.span is not None and item.source_file in sources
    ]
    lines = {source: document_lines(root, source) for source in {span.source for _, _, span in digested}}
    return [
        f"question {key!r}: {_changed(span)}"
        for key, digest, span in digested
        if digest != span_digest(span, lines)
    ]


def reanchor(questions: Sequence[Question], lines: Lines) -> Reanchoring:
    """Update the anchors whose lines have moved, and store the digest of the lines in every valid anchor."""
    text_of = cache(lambda source: NormalizedLines.of(lines[source]))
    mended: list[Question] = []
    moved: list[AnchorMove] = []
    problems: list[AnchorProblem] = []
    for question in questions:
        gold = list(question.gold)
        for number, item in enumerate(question.gold):
            fault = _fault(item, question, lines)
            place = _place(item, lines, text_of) if fault else item.span
            if isinstance(place, str):
                if not may_be_absent(item, question):
                    message = f"{fault}; {place}"
                    problems.append(AnchorProblem(question_id=question.id, item=number, message=message))
            elif place is not None and place.source in lines:
                gold[number] = _anchored(item, place, lines)
                if fault:
                    moved.append(AnchorMove(question_id=question.id, before=item.span, after=place))
        mended.append(msgspec.structs.replace(question, gold=tuple(gold)))
    return Reanchoring(mended, moved, problems)


def follow_gold(questions: Sequence[Question], lines: Lines) -> list[Question]:
    """Return the questions with gold whose text moved at its new lines, and mark gold whose text changed.

    The gold of a marked question (:attr:`Question.gold_state`) are the pages of its gold, without lines.
    """
    found = reanchor(questions, lines)
    unplaced = {problem.question_id for problem in found.problems}
    return [
        _marked(now, lines)
        if before.id in unplaced or _differs(before, now)
        else (now if _spans(now) != _spans(before) else before)
        for before, now in zip(questions, found.questions, strict=True)
    ]


def unrecorded_gold(questions: Sequence[Question]) -> str:
    """Describe how many gold items have neither a digest nor a quote, or return an empty string."""
    items = [item for question in questions for item in question.gold if item.span is not None]
    loose = sum(not (item.answer_digest or item.answer_quote) for item in items)
    remedy = "`branchrank questions reanchor` adds the digests"
    return f"gold without a digest, whose change can't be found: {loose}; {remedy}" if loose else ""


def _spans(question: Question) -> list[Span | None]:
    return [item.span for item in question.gold]


def _differs(before: Question, now: Question) -> bool:
    """Return whether the text of a gold item is not the text that was recorded with it."""
    pairs = zip(before.gold, now.gold, strict=True)
    return any(old.answer_digest and old.answer_digest != new.answer_digest for old, new in pairs)


def _marked(question: Question, lines: Lines) -> Question:
    aliases = question.gold[0].source_file if set(question.source_aliases) & lines.keys() else ""
    pages = dict.fromkeys(item.source_file for item in question.gold)
    present = [page for page in pages if page in lines or page == aliases]
    extra: dict[str, object] = {GOLD_STATE: "changed"} if present else {GOLD_STATE: "gone"}
    if not present:
        extra[ABSENT_GOLD] = list(pages)
    return msgspec.structs.replace(
        question,
        gold=tuple(GoldItem(source_file=page) for page in present or pages),
        gold_level="file",
        needs=(),
        listed=None,
        excluded_spans=tuple(span for span in question.excluded_spans if span.source not in present),
        extra=question.extra | extra,
    )


def gold_repair(path: Path, data_dir: Path, *, moves: bool) -> str:
    """Return the fix for gold that does not match; ``moves`` is whether `questions reanchor` moves any."""
    if moves:
        return shlex.join(["branchrank", "questions", "reanchor", str(path), "--data-dir", str(data_dir)])
    return f"correct the files, lines and quotes of this gold in {path}, and delete its `answer_digest`"


def lines_digest(lines: Sequence[str]) -> str:
    """Return a digest (16 hexadecimal digits) that does not depend on how the text is wrapped into lines."""
    return _digest(" ".join(filter(None, map(normalize, lines))))


def _digest(normalized: str) -> str:
    return digest_bytes(normalized.encode())[:DIGEST_DIGITS]


def _anchored(item: GoldItem, place: Span, lines: Lines) -> GoldItem:
    made = GoldItem.of(place, quote=item.answer_quote or "", digest=span_digest(place, lines))
    return msgspec.structs.replace(made, relevance=item.relevance)


def _fault(item: GoldItem, question: Question, lines: Lines) -> str:
    """Describe the problem with a gold item, or return an empty string if its anchor is valid."""
    source = item.source_file
    if source not in lines:
        source = next((alias for alias in question.source_aliases if alias in lines), "")
    if not source:
        return absent_file(item.source_file, lines)
    count, quote = len(lines[source]), normalize(item.answer_quote or "")
    span = item.span
    if span is not None and not 1 <= span.line_start <= span.line_end <= count:
        return f"lines {span.line_start}-{span.line_end} are not in {source} ({count} lines)"
    first, last = (1, count) if span is None else (span.line_start, span.line_end)
    own = lines[source][first - 1 : last]
    if quote and quote not in NormalizedLines.of(own).text:
        return f"the quote is not in lines {first}-{last} of {source}"
    if item.answer_digest and span is not None and item.answer_digest != lines_digest(own):
        return _changed(Span(source=source, line_start=first, line_end=last))
    return ""


def _changed(span: Span) -> str:
    lines = f"lines {span.line_start}-{span.line_end} of {span.source}"
    return f"{lines} have changed since the question was anchored"


def _digested(text: NormalizedLines, digest: str, length: int) -> Iterator[tuple[int, int]]:
    """Yield the first and last line of each block that has the digest and at most ``2 * length`` lines."""
    ends = [*(start - 1 for start in text.starts[1:]), len(text.text)]
    for first, start in enumerate(text.starts):
        for last in range(first, min(first + 2 * length, len(text.starts))):
            if _digest(text.text[start : ends[last]]) == digest:
                yield text.numbers[first], text.numbers[last]


def _place(item: GoldItem, lines: Lines, text_of: Callable[[str], NormalizedLines]) -> Span | str:
    """Return the span that now contains a gold item's lines or quote, or the reason why none was found."""
    own = [item.source_file] if item.source_file in lines else []
    others = [source for source in lines if source not in own]
    span = item.span
    quote = normalize(item.answer_quote or "")
    if span is not None and item.answer_digest:
        for sources in (own, others):
            found = [
                Span(source=source, line_start=first, line_end=last)
                for source in sources
                if quote in text_of(source).text
                for first, last in _digested(text_of(source), item.answer_digest, span.lines)
            ]
            if len(found) == 1 or (found and sources is own):
                return min(found, key=lambda place: abs(place.line_start - span.line_start))
    if not quote:
        return "the gold has no quote to search for"
    for sources in (own, others):
        places = [(source, *found) for source in sources for found in text_of(source).quoted(quote)]
        if len(places) > 1:
            named = ", ".join(f"{source}:{first}" for source, first, _ in places[:3])
            return (
                f"the quote is at {len(places)} places, not one ({named}{', ...' if len(places) > 3 else ''})"
            )
        if places:
            source, first, last = places[0]
            start, end = _window(span, first, last, lines[source])
            return Span(source=source, line_start=start, line_end=end)
    return "the quote is not in the corpus"


def _window(before: Span | None, first: int, last: int, lines: Sequence[str]) -> tuple[int, int]:
    """Return the first and the last line of a span that contains the quote in lines ``first`` to ``last``.

    The span has at least as many lines as ``before``, unless the file is shorter. If possible, the span
    starts after a blank line and ends before a blank line.
    """
    length = max(last - first + 1, before.lines if before is not None else 0)
    length = min(length, len(lines))
    home = before.line_start if before is not None else first

    def blank(number: int) -> bool:
        return not 1 <= number <= len(lines) or not lines[number - 1].strip()

    def fit(start: int) -> tuple[int, int, int]:
        end = start + length - 1
        ragged_start = blank(start) or not blank(start - 1)
        ragged_end = blank(end) or not blank(end + 1)
        return ragged_start + ragged_end, abs(start - home), start

    start = min(range(max(1, last - length + 1), min(first, len(lines) - length + 1) + 1), key=fit)
    return start, start + length - 1


_LINES = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def typed_span(source: str, text: str) -> Span:
    """Return the span of line numbers that a person typed, such as ``5-8`` or ``5``.

    Raises :class:`UsageError` if the text is not in this form.
    """
    found = _LINES.fullmatch(text.strip())
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 1 <= first <= last:
        raise UsageError(
            f"{text!r} is not a line number or a range of lines", remedy="use --lines 5-8, or --lines 5"
        )
    return Span(source=source, line_start=first, line_end=last)


def new_question(question: Question, lines: Lines) -> Question:
    """Return the question with a digest of each gold span. ``lines`` maps each source to its raw lines.

    Raises :class:`QuestionError` if the question has no text, or if the corpus does not contain the files,
    lines or quotes.
    """
    if not question.question.strip():
        raise QuestionError("the question is empty", remedy='give one with --question "how do I ..."')
    for item in question.gold:
        fault = _fault(item, question, lines)
        span = item.span
        if not fault and span is not None and not any(map(str.strip, span_lines(span, lines))):
            fault = f"lines {span.line_start}-{span.line_end} of {span.source} are empty"
        if fault:
            raise QuestionError(
                fault,
                remedy="give a file of the corpus, the lines that answer the question, and words from them",
            )
    gold = tuple(_anchored(item, item.span, lines) if item.span else item for item in question.gold)
    return msgspec.structs.replace(question, question=question.question.strip(), gold=gold)


def source_below(root: Path, given: str) -> str:
    """Return a file's path relative to the corpus. ``given`` may be relative to the working directory.

    >>> source_below(Path("docs"), "docs/guide/brewing.md"), source_below(Path("docs"), "guide/brewing.md")
    ('guide/brewing.md', 'guide/brewing.md')
    """
    if not (root / given).is_file() and Path(given).is_file():
        here, below = Path(given).resolve(), root.resolve()
        if here.is_relative_to(below):
            return here.relative_to(below).as_posix()
    return given


def span_lines(span: Span, lines: Lines) -> Sequence[str]:
    """Return the raw lines of a span."""
    return lines[span.source][span.line_start - 1 : span.line_end]


def span_digest(span: Span, lines: Lines) -> str:
    """Return the digest of the lines of a span."""
    return lines_digest(span_lines(span, lines))
