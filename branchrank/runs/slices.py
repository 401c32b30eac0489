"""Group questions into slices, for example by the kind of question or by the depth of the gold.

1. At the end of a run, each document with gold is read once. The document's length, the depth of the gold's
   section and the gold's content (prose, code or a table) are determined.
2. The gold's lines without content are found, which most measures don't count.
3. These facts are stored in ``gold.jsonl`` beside the rows, so that a report does not need the corpus.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec

from branchrank.core.errors import BranchRankError, UsageError, suggestion
from branchrank.core.io.files import digest_of, read_beneath
from branchrank.core.records import Count, GoldItem, LineNumber, Question, Record, Span
from branchrank.core.settings import BenchmarkSettings, Bm25Settings
from branchrank.documents.document import Document, Section
from branchrank.documents.lines import blank_lines
from branchrank.documents.reading import document_lines, read_document
from branchrank.index.stores.analyzer import Analyze, analyzer
from branchrank.questions.anchoring import DIGEST_DIGITS, lines_digest
from branchrank.questions.question_checks import near_duplicates
from branchrank.questions.question_files import hashed
from branchrank.runs.directory import RunRecord
from branchrank.scoring.matching import gold_level, has_lines, source_cluster

#: What can stand before and after a word of a question.
_PUNCTUATION = "\"'`´‘’‚“”„«»‹›()[]{}<>.,;:!?…¿¡、。*~|"


class GoldFacts(Record, frozen=True, kw_only=True):
    """Facts about the document and section that contain a question's first gold item.

    ``content`` is the kind of block that contains the most gold lines (``prose``, ``code`` or ``table``).
    ``depth`` is the level of the gold's section, from 0 for the document itself. An unknown ``content`` is an
    empty string, and an unknown ``document_lines`` or ``depth`` is ``None``.

    ``blank_lines`` maps the source of each gold item with lines to those without content, in order.

    ``unsaid`` are the words of the question that no page with gold contains, in order. It is ``None`` if the
    run does not store the text of the question.
    """

    question_id: str
    content: str = ""
    document_lines: Count | None = None
    depth: Count | None = None
    #: The first of the pages that share near-duplicate questions with the page of the first gold item.
    cluster: str = ""
    blank_lines: dict[str, tuple[LineNumber, ...]] | None = None
    unsaid: tuple[str, ...] | None = None
    #: The digest of the gold's text, or of the page if the gold has no lines. Empty in older runs.
    digest: str = ""


def question_words(record: RunRecord) -> Analyze | None:
    """Return the function that splits questions into words, or ``None`` if the run does not store them."""
    sections = record.settings
    if sections.get(BenchmarkSettings.section, {}).get("question_text") == "hash":
        return None
    used = msgspec.convert(sections.get(Bm25Settings.section, {}), Bm25Settings)
    return analyzer(msgspec.structs.replace(used, stop_words="questions"))


def gold_facts(questions: Sequence[Question], root: Path, analyze: Analyze | None = None) -> list[GoldFacts]:
    """Return facts about the gold of each question that has gold.

    The documents that contain the gold are read from the corpus in the folder ``root``. ``analyze`` returns
    the tokens of a text, without stop words. If it is ``None``, no word of a question is kept.
    """

    @cache
    def document(source: str) -> Document | None:
        try:
            return read_document(source, read_beneath(root, source))
        except (BranchRankError, OSError):
            return None

    @cache
    def lines(source: str) -> list[str]:
        try:
            return document_lines(root, source)
        except (BranchRankError, OSError):
            return []

    @cache
    def tokens(source: str) -> frozenset[str]:
        return frozenset(analyze("\n".join(lines(source)))) if analyze is not None else frozenset()

    def unsaid(question: Question) -> tuple[str, ...] | None:
        if analyze is None:
            return None
        sources = {*question.source_aliases, *(item.source_file for item in question.gold)}
        said = frozenset[str]().union(*map(tokens, sources))
        words = {word.strip(_PUNCTUATION): analyze(word) for word in question.question.split()}
        return tuple(word for word, own in words.items() if said and own and said.isdisjoint(own))

    clusters = merged_pages(questions)
    return [
        msgspec.structs.replace(
            _facts(question, document),
            blank_lines=_blank_lines(question, lines),
            cluster=clusters.get(source_cluster(question), ""),
            unsaid=unsaid(question),
            digest=_digest(question, lines),
        )
        for question in questions
        if question.gold
    ]


def merged_pages(questions: Sequence[Question]) -> dict[str, str]:
    """Map each page that shares near-duplicate questions with other pages to the first of these pages."""
    first: dict[str, str] = {}
    for group in near_duplicates(questions):
        pages = set(map(source_cluster, group))
        joined = pages | {
            page for page, root in first.items() if root in {first.get(each, each) for each in pages}
        }
        first |= dict.fromkeys(joined, min(joined)) if len(joined) > 1 else {}
    return first


def _blank_lines(
    question: Question, lines: Callable[[str], Sequence[str]]
) -> dict[str, tuple[LineNumber, ...]]:
    found: dict[str, set[int]] = {}
    for item in question.gold:
        span = item.span
        if span is not None and has_lines(item, question):
            blank = blank_lines(_text(question, span, lines), span.line_start)
            found.setdefault(item.source_file, set()).update(blank)
    return {source: tuple(sorted(numbers)) for source, numbers in found.items()}


def _text(question: Question, span: Span, lines: Callable[[str], Sequence[str]]) -> Sequence[str]:
    """Return the lines of a span, which can be in an alias of the source of the first gold item."""
    own = span.source == question.gold[0].source_file
    sources = (span.source, *(question.source_aliases if own else ()))
    return next(filter(None, map(lines, sources)), ())[span.line_start - 1 : span.line_end]


def _digest(question: Question, lines: Callable[[str], Sequence[str]]) -> str:
    """Return a digest of everything that scores depend on, except for where the gold is."""
    gold = [
        (lines_digest(_text(question, item.span, lines)), item.relevance)
        if item.span is not None and has_lines(item, question)
        else (item.source_file, lines_digest([item.answer_quote or ""]), item.relevance)
        for item in hashed(question).gold
    ]
    excluded = [lines_digest(_text(question, span, lines)) for span in question.excluded_spans]
    return digest_of([gold, question.needs, question.gold_level, excluded])[:DIGEST_DIGITS]


def _facts(question: Question, document: Callable[[str], Document | None]) -> GoldFacts:
    item = question.gold[0]
    found = next(filter(None, map(document, (item.source_file, *question.source_aliases))), None)
    if found is None:
        return GoldFacts(question_id=question.id)
    lines = max(section.line_end for section in found.sections)
    if item.span is None:
        return GoldFacts(question_id=question.id, document_lines=lines)

    def shared(section: Section) -> int:
        return _overlap(item, section.line_start, section.own_line_end)

    sections = list(filter(shared, found.sections))
    main = max(sections, key=shared, default=None)
    return GoldFacts(
        question_id=question.id,
        content=_content(item, sections),
        document_lines=lines,
        depth=main.level if main else None,
    )


def _content(item: GoldItem, sections: Sequence[Section]) -> str:
    lines: Counter[str] = Counter()
    for section in sections:
        for block in section.blocks:
            if block.kind != "heading":
                kind = "prose" if block.kind == "list" else str(block.kind)
                lines[kind] += _overlap(item, block.line_start, block.line_end)
    kind, count = max(sorted(lines.items()), key=lambda each: each[1], default=("", 0))
    return kind if count else ""


def _overlap(item: GoldItem, start: int, end: int) -> int:
    assert item.span is not None
    return item.span.overlap(Span(source=item.source_file, line_start=start, line_end=end))


#: The values of the slice ``size``, in order.
_SIZES = ("up to 200 lines", "201 to 800 lines", "over 800 lines")


def _size(facts: GoldFacts) -> str:
    if facts.document_lines is None:
        return ""
    return _SIZES[bisect_left((200, 800), facts.document_lines)]


def _depth(facts: GoldFacts) -> str:
    if facts.depth is None:
        return ""
    return f"depth {facts.depth}" if facts.depth < 4 else "depth 4 and more"


#: A dict from each slice's name on the command line to the slice's name in tables.
LABELS = {
    "gold": "gold level",
    "kind": "kind",
    "difficulty": "difficulty",
    "overlap": "overlap with the heading",
    "content": "content of the gold",
    "size": "document size",
    "depth": "depth of the gold",
}


def slice_values(question: Question, facts: GoldFacts | None) -> dict[str, str]:
    """Return a question's value for each slice in ``LABELS``. An unknown value is ""."""
    found = facts or GoldFacts(question_id=question.id)
    overlap = question.extra.get("overlap")
    return {
        "gold": gold_level(question) if question.gold else "",
        "kind": question.kind,
        "difficulty": question.difficulty,
        "overlap": overlap if isinstance(overlap, str) else "",
        "content": found.content,
        "size": _size(found),
        "depth": _depth(found),
    }


def slices(questions: Sequence[Question], facts: Mapping[str, GoldFacts]) -> dict[str, dict[str, list[str]]]:
    """Map each slice's label to its values, and each value to the ids of its answerable questions.

    A slice is omitted unless the answerable questions have at least two different values in this slice.
    Questions with an unknown value are left out.
    """
    found: dict[str, dict[str, list[str]]] = {label: {} for label in LABELS.values()}
    for question in questions:
        if question.is_scored:
            for name, value in slice_values(question, facts.get(question.id)).items():
                if value:
                    found[LABELS[name]].setdefault(value, []).append(question.id)
    return {
        label: dict(sorted(values.items(), key=_order)) for label, values in found.items() if len(values) > 1
    }


def _order(value: tuple[str, list[str]]) -> tuple[int, str]:
    return (_SIZES.index(value[0]) if value[0] in _SIZES else 0, value[0])


def questions_where(
    questions: Sequence[Question], facts: Mapping[str, GoldFacts], conditions: Sequence[str], place: Path
) -> tuple[Question, ...]:
    """Return the questions of the run in ``place`` that meet the conditions (``SLICE=VALUE``).

    ``LABELS`` lists the slices. Conditions on different slices must all be met. Of several conditions on the
    same slice, at least one must be met. A depth can be written without the word ``depth``: ``depth=1``
    selects the questions whose value in the slice ``depth`` is ``depth 1``. Raises :class:`UsageError` for an
    unknown slice, and for a value that no question of the run has.
    """
    values = {question.id: slice_values(question, facts.get(question.id)) for question in questions}
    wanted: dict[str, set[str]] = {}
    for condition in conditions:
        name, _, value = condition.partition("=")
        if name not in LABELS:
            raise UsageError(
                f"--where {condition!r}: there is no slice {name!r}",
                remedy=suggestion(name, LABELS)
                or f"write SLICE=VALUE, with one of the slices {', '.join(LABELS)}",
            )
        there = sorted({own[name] for own in values.values()} - {""})
        if f"{name} {value}" in there:
            value = f"{name} {value}"
        if value not in there:
            raise UsageError(
                f"--where {condition!r}: no question of {place} has this {LABELS[name]}",
                remedy=f"{name}=VALUE; {name} is one of: {', '.join(there)}" if there else "another slice",
            )
        wanted.setdefault(name, set()).add(value)
    kept = tuple(
        question
        for question in questions
        if all(values[question.id][name] in admitted for name, admitted in wanted.items())
    )
    if not kept:
        raise UsageError(
            f"no question of {place} meets all of the conditions {' and '.join(conditions)}",
            remedy="remove a condition",
        )
    return kept
