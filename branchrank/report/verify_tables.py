"""Does a run's directory say what was measured?

1. The digests in ``run.json`` are compared with the files that were measured, and with ``run.json`` itself.
2. The rows are the ones that the plan asks for; each judgement follows from spans and gold, and each lost
   stage from the gold's ranks.
3. The CSV files and the hard set are made again and compared cell by cell.

A digest finds damage and careless edits, not someone who rewrites the digests too; what such a person changes
in a row must then still agree with everything that is computed from it.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from io import StringIO
from itertools import zip_longest
from pathlib import Path

import msgspec

from branchrank.artifacts import digest_file
from branchrank.measures.matching import (
    RELAXED_GAIN,
    gold_gain,
    gold_pages,
    is_relaxed,
    is_strict,
    resolve_source,
)
from branchrank.questions.question_files import question_line
from branchrank.records import Question, Record
from branchrank.runs import directory as names
from branchrank.runs.attribution import DEPTH, lost_at
from branchrank.runs.directory import RunRecord
from branchrank.runs.judging import hits_of
from branchrank.runs.rows import Row
from branchrank.runs.run import RunData
from branchrank.runs.tables import calls_csv, questions_csv, summary_csv
from branchrank.systems.query import read_filters

#: Differences named in one file; the rest are counted.
SHOWN = 5


class Finding(Record, frozen=True, kw_only=True):
    """Something in ``file``, at ``place``, that isn't as it should be."""

    file: str
    place: str
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.file, self.place, self.message) if part)


def check_digests(directory: Path, run: RunRecord) -> list[Finding]:
    """Compare the files that were measured, and ``run.json``, with their digests."""
    if not run.digests:
        return [Finding(file=names.RUN_JSON, place="digests", message="holds none: the run is not finished")]
    findings = []
    if names.own_digest((directory / names.RUN_JSON).read_bytes()) != run.digests.get(names.RUN_JSON):
        findings.append(
            Finding(file=names.RUN_JSON, place="", message="was changed: its digest of itself differs")
        )
    for name in names.TRUTH:
        path, digest = directory / name, run.digests.get(name)
        if path.exists() and digest is None:
            findings.append(Finding(file=name, place="", message="is not in the digests of run.json"))
        elif digest is not None and not path.exists():
            findings.append(Finding(file=name, place="", message="is missing"))
        elif digest is not None and digest_file(path) != digest:
            findings.append(Finding(file=name, place="", message="was changed: its digest differs"))
    return findings


def check_rows(run: RunData) -> list[Finding]:
    """Check the rows against the plan, and each judgement against spans and gold."""
    record, rows = run.record, run.rows
    wanted = [
        (question, predictor.name, repeat)
        for question in record.question_ids
        for predictor in record.predictors
        for repeat in range(predictor.repeats)
    ]
    found = Counter(row.key for row in rows)
    findings = [_row_finding(key, "is missing") for key in wanted if key not in found]
    findings += [_row_finding(key, "is there twice") for key, count in found.items() if count > 1]
    findings += [_row_finding(key, "was not asked for") for key in found.keys() - set(wanted)]
    questions = run.scores.questions
    for row in rows:
        if row.question_id in questions:
            findings += [_row_finding(row.key, text) for text in _row_faults(row, questions[row.question_id])]
    findings += _filter_findings(run)
    for name, counted in (
        ("failures", sum(row.status == "failed" for row in rows)),
        ("fallbacks", sum(bool(row.fallbacks) for row in rows)),
    ):
        if getattr(record, name) != counted:
            message = f"is {getattr(record, name)}, should be {counted}"
            findings.append(Finding(file=names.RUN_JSON, place=name, message=message))
    seed = record.settings.get("benchmark", {}).get("sample_seed", record.seed)
    if seed != record.seed:
        message = f"is {record.seed}, and the settings say {seed}"
        findings.append(Finding(file=names.RUN_JSON, place="seed", message=message))
    return findings


def _filter_findings(run: RunData) -> list[Finding]:
    """Rows with hits that the run's filters do not admit."""
    filters = read_filters(run.record.filters)
    return [
        _row_finding(row.key, f"has a hit in {hit.source!r}, which the filters do not admit")
        for row in run.rows
        for hit in row.hits
        if not all(each.admits(hit.source) for each in filters)
    ]


def _row_finding(key: tuple[str, str, int], message: str) -> Finding:
    question, predictor, repeat = key
    place = f"question {question!r}, predictor {predictor!r}" + (f", repeat {repeat}" if repeat else "")
    return Finding(file=names.ROWS, place=place, message=message)


def _row_faults(row: Row, question: Question) -> list[str]:
    faults = [*_judgement_faults(row, question)]
    found = any(hit.gold is not None for hit in row.hits[:DEPTH])
    if row.stages and question.answerable:
        lost = lost_at(row.stages, row.gold_ranks, found)
        if lost != row.lost:
            faults.append(f"lost at {row.lost or 'nothing'!r}, should be {lost or 'nothing'!r}")
    if not row.gold_ranks.keys() <= set(row.stages):
        faults.append("ranks the gold in stages that it doesn't have")
    if any((call.question_id, call.predictor) != (row.question_id, row.predictor) for call in row.calls):
        faults.append("holds an LLM call of another row")
    return faults


def _judgement_faults(row: Row, question: Question) -> list[str]:
    """Judgements that don't follow from spans. A credit by quote needs the text, so there it may stand."""
    pages, weak = gold_pages(question)
    covered: set[int] = set()
    perhaps: set[int] = set()
    credited: set[int] = set()
    faults = []
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
            faults.append(f"hit {rank} ({where}): its judgement does not follow from its span and the gold")
    return faults


def check_tables(run: RunData) -> list[Finding]:
    """Make the CSV files and the hard set again and compare."""
    findings = []
    for name, content in (
        (names.SUMMARY_CSV, summary_csv(run)),
        (names.QUESTIONS_CSV, questions_csv(run)),
        (names.CALLS_CSV, calls_csv(run)),
    ):
        findings += compare_csv(name, read_text(run.directory / name), content)
    hard = "".join(jsonl_line(question) for question in run.hard_set)
    findings += compare_lines(names.HARD_SET, read_text(run.directory / names.HARD_SET), hard)
    return findings


def jsonl_line(question: Question) -> str:
    """A question as its line of a question file."""
    return msgspec.json.encode(question_line(question)).decode() + "\n"


def read_text(path: Path) -> str | None:
    """A file's text, ``None`` when it is missing; bytes that are no text can't equal any."""
    try:
        return path.read_bytes().decode("utf-8", errors="replace")
    except OSError:
        return None


def compare_csv(name: str, found: str | None, expected: str) -> list[Finding]:
    """Name the row and column of every cell that differs."""
    if found is None:
        return [Finding(file=name, place="", message="is missing")]
    if found == expected:
        return []
    theirs, ours = list(csv.reader(StringIO(found))), list(csv.reader(StringIO(expected)))
    if len(theirs) != len(ours):
        return [Finding(file=name, place="", message=f"has {len(theirs)} lines, should have {len(ours)}")]
    findings = []
    for number, (their, our) in enumerate(zip(theirs, ours, strict=True), start=1):
        for heading, their_cell, our_cell in zip_longest(ours[0], their, our, fillvalue=""):
            if their_cell != our_cell:
                place = f"line {number} ({our[0]}), column {heading}"
                message = f"is {their_cell!r}, should be {our_cell!r}"
                findings.append(Finding(file=name, place=place, message=message))
    return _some(name, findings) or [Finding(file=name, place="", message="is not written as it should be")]


def compare_lines(name: str, found: str | None, expected: str) -> list[Finding]:
    """Name the lines that differ, and what differs first in each."""
    if found is None:
        return [Finding(file=name, place="", message="is missing")]
    if found == expected:
        return []
    theirs, ours = found.split("\n"), expected.split("\n")
    findings = []
    if len(theirs) != len(ours):
        message = f"has {len(theirs)} lines, should have {len(ours)}"
        findings.append(Finding(file=name, place="", message=message))
    for number, (their, our) in enumerate(zip(theirs, ours, strict=False), start=1):
        if their != our:
            findings.append(_line_finding(name, number, their, our))
            if len(theirs) != len(ours):
                break
    return _some(name, findings)


def _line_finding(name: str, number: int, their: str, our: str) -> Finding:
    if their.startswith("| ") and our.startswith("| "):
        cells = zip_longest(their.split(" | "), our.split(" | "), fillvalue="")
        column, (is_cell, should) = next(
            (column, pair) for column, pair in enumerate(cells, start=1) if pair[0] != pair[1]
        )
        row = our.removeprefix("| ").split(" | ")[0]
        message = f"is {is_cell!r}, should be {should!r}"
        return Finding(file=name, place=f"line {number} ({row}), column {column}", message=message)
    start = next((i for i, (a, b) in enumerate(zip_longest(their, our)) if a != b), 0)
    cut = slice(max(0, start - 20), start + 20)
    message = f"is {their[cut]!r}, should be {our[cut]!r}"
    return Finding(file=name, place=f"line {number}, character {start + 1}", message=message)


def _some(name: str, findings: Sequence[Finding]) -> list[Finding]:
    more = len(findings) - SHOWN
    if more <= 0:
        return list(findings)
    return [*findings[:SHOWN], Finding(file=name, place="", message=f"and {more} more differences")]
