"""Questions written by a person, checked against the corpus and stored with a digest of the gold lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from branchrank.corpus.normalized import normalize
from branchrank.errors import QuestionError, UsageError, suggestion
from branchrank.questions.anchoring import Lines, lines_digest
from branchrank.records import GoldItem, Question, Span

_LINES = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def read_lines(text: str) -> tuple[int, int]:
    """Parse line numbers such as ``5-8`` or ``5`` into the first and the last line.

    Raises :class:`UsageError` if the text is not in this form.

    >>> read_lines("5-8"), read_lines(" 7 ")
    ((5, 8), (7, 7))
    """
    found = _LINES.fullmatch(text.strip())
    if not found or not 1 <= int(found[1]) <= int(found[2] or found[1]):
        raise UsageError(
            f"{text!r} is not a line number or a range of lines", remedy="use --lines 5-8, or --lines 5"
        )
    return int(found[1]), int(found[2] or found[1])


def new_question(
    text: str,
    gold: Sequence[Span],
    lines: Lines,
    *,
    id: str = "",  # noqa: A002 - the name of the field
    quote: str = "",
    kind: str = "",
    difficulty: str = "",
) -> Question:
    """Create a question with a digest of each gold span. ``lines`` maps each source to its raw lines.

    Raises :class:`QuestionError` if the corpus does not contain the files, lines or quotes.
    """
    if not text.strip():
        raise QuestionError("the question is empty", remedy='give one with --question "how do I ..."')
    if quote and not gold:
        raise QuestionError(
            "the question has a quote but no line numbers", remedy="give the lines with --source and --lines"
        )
    for span in gold:
        if span.source not in lines:
            near = suggestion(span.source, _near(span.source, lines))
            raise QuestionError(
                f"the corpus has no file {span.source!r}{f'; {near}' if near else ''}",
                remedy="give the path of the file relative to the corpus's folder",
            )
        if (count := len(lines[span.source])) < span.line_end:
            raise QuestionError(
                f"lines {span.line_start}-{span.line_end} are not in {span.source} ({count} lines)",
                remedy=f"use --lines with numbers from 1 to {count}",
            )
        if not any(line.strip() for line in _text(span, lines)):
            raise QuestionError(
                f"lines {span.line_start}-{span.line_end} of {span.source} are empty",
                remedy="give the lines that answer the question",
            )
    if quote and normalize(quote) not in normalize("\n".join(_text(gold[0], lines))):
        first = gold[0]
        raise QuestionError(
            f"the quote is not in lines {first.line_start}-{first.line_end} of {first.source}: {quote!r}",
            remedy="copy the quote from these lines without changes",
        )
    items = [gold_item(span, lines, quote="" if number else quote) for number, span in enumerate(gold)]
    return Question(
        id=id,
        question=text.strip(),
        gold=tuple(items),
        answerable=bool(items),
        kind=kind,
        difficulty=difficulty,
    )


def gold_item(span: Span, lines: Lines, *, quote: str = "") -> GoldItem:
    """Return a gold item with the lines of a span and their digest."""
    return GoldItem(
        source_file=span.source,
        answer_line_start=span.line_start,
        answer_line_end=span.line_end,
        answer_quote=quote or None,
        answer_digest=lines_digest(_text(span, lines)),
    )


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


def _text(span: Span, lines: Lines) -> Sequence[str]:
    return lines[span.source][span.line_start - 1 : span.line_end]


def _near(source: str, lines: Lines) -> list[str]:
    """Return the corpus files with the same file name as ``source``, or all corpus files if none exist."""
    same = [each for each in lines if each.rpartition("/")[2] == source.rpartition("/")[2]]
    return same or list(lines)
