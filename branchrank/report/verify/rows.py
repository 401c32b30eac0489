"""Check that the rows are complete and consistent, and that the judgments are correct.

A judgment is correct if it follows from the span of the hit and the gold of the question.

The module :mod:`branchrank.report.verify.systems` contains additional checks for predictors that are systems
(not classes or endpoints).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from branchrank.measures.matching import (
    RELAXED_GAIN,
    gold_gain,
    gold_pages,
    is_relaxed,
    is_strict,
    resolve_source,
)
from branchrank.records import Question
from branchrank.report.verify.findings import Finding, some
from branchrank.runs import directory as names
from branchrank.runs.attribution import DEPTH, lost_at, lost_in
from branchrank.runs.judging import hits_of
from branchrank.runs.rows import Row, RowKey
from branchrank.runs.run import RunData
from branchrank.systems.query import read_filters


def check_rows(run: RunData) -> list[Finding]:
    """Check the rows against the plan, and each row against its question."""
    record, rows = run.record, run.rows
    found = Counter(row.key for row in rows)
    wanted = {
        (question, predictor.name, repeat)
        for question in record.question_ids
        for predictor in record.predictors
        for repeat in range(min(predictor.repeats, len(rows) + 1))
    }
    findings = some(names.ROWS, [row_finding(key, "is missing") for key in sorted(wanted - found.keys())])
    findings += [row_finding(key, "occurs twice") for key, count in found.items() if count > 1]
    findings += [row_finding(key, "is not part of the plan") for key in found.keys() - wanted]
    questions = run.scores.questions
    filters = read_filters(record.filters)
    models = {predictor.name: predictor.llm for predictor in record.predictors}
    for row in rows:
        findings += [row_finding(row.key, text) for text in _row_faults(row, questions[row.question_id])]
        if len(row.hits) > record.top_k:
            findings.append(row_finding(row.key, f"has {len(row.hits)} hits, but top_k is {record.top_k}"))
        outside = {hit.source for hit in row.hits if not all(each.admits(hit.source) for each in filters)}
        findings += [
            row_finding(row.key, f"has a hit in {source!r}, which the filters exclude")
            for source in sorted(outside)
        ]
        if row.llm != models.get(row.predictor, row.llm):
            findings.append(row_finding(row.key, f"has the LLM {row.llm!r}, but the plan names another one"))
    return findings


def row_finding(key: RowKey, message: str) -> Finding:
    """Return a finding about the row with this key."""
    question, predictor, repeat = key
    place = f"question {question!r}, predictor {predictor!r}" + (f", repeat {repeat}" if repeat else "")
    return Finding(file=names.ROWS, place=place, message=message)


def _row_faults(row: Row, question: Question) -> Iterator[str]:
    yield from _judgment_faults(row, question)
    yield from _status_faults(row)
    found = any(hit.gold is not None for hit in row.hits[:DEPTH])
    if row.stages and question.answerable:
        lost = lost_at(row.stages, row.gold_ranks, found)
        if lost != lost_in(row):
            yield f"has {row.lost or 'none'!r} as the stage that lost the gold, should be {lost or 'none'!r}"
    elif row.lost:
        yield (
            f"has {row.lost!r} as the stage that lost the gold, but the row has no stages or its question is "
            "unanswerable"
        )
    if row.gold_ranks and not question.gold:
        yield "has ranks for the gold, but its question has no gold"
    if not row.gold_ranks.keys() <= set(row.stages):
        yield "gives the gold a rank in a stage that the row does not list"
    for call in row.calls:
        if (call.question_id, call.predictor, call.repeat) != (row.question_id, row.predictor, row.repeat):
            yield "contains an LLM call that belongs to another row"
        elif call.model != row.llm:
            yield f"has a call to the LLM {call.model!r}, but its LLM is {row.llm!r}"
    if any(hit.line_end < hit.line_start for hit in row.hits):
        yield "has a hit that ends before it starts"


def _status_faults(row: Row) -> Iterator[str]:
    if row.status == "ok" and row.error:
        yield "has the status 'ok' and an error"
    if row.status == "failed" and (not row.error or row.hits or row.stages or row.trace):
        yield "has the status 'failed', but lacks an error, or contains hits, stages or a trace"


def _judgment_faults(row: Row, question: Question) -> Iterator[str]:
    """Find judgments that do not follow from the hits' spans and the gold.

    A judgment that is based on the gold's quote is accepted unchecked, since a check would need the text of
    the hit.
    """
    pages, weak = gold_pages(question)
    covered: set[int] = set()
    perhaps: set[int] = set()
    credited: set[int] = set()
    for rank, (kept, hit) in enumerate(zip(row.hits, hits_of(row), strict=True), start=1):
        certain = {i for i, item in enumerate(question.gold) if is_strict(hit, item, question)}
        possible = {
            i for i, item in enumerate(question.gold) if item.answer_quote and is_relaxed(hit, item, question)
        }
        due = certain - covered - perhaps
        if kept.gold is None:
            right = not due
        else:
            right = kept.gold in (certain | possible) - covered and min(due, default=kept.gold) >= kept.gold
            covered |= certain | {kept.gold}
            perhaps |= {i for i in possible if i > kept.gold}
        source = resolve_source(hit.source, question)
        page = pages.index(source) if source in pages else None
        gain = gold_gain(question.gold[kept.gold]) if kept.gold is not None else 0
        if not gain and page is not None and weak[page] and page not in credited:
            credited.add(page)
            gain = RELAXED_GAIN
        if not right or page != kept.page or gain != kept.gain:
            where = f"{hit.source}:{hit.line_start}-{hit.line_end}"
            yield f"hit {rank} ({where}): its judgment does not follow from its span and the gold"
