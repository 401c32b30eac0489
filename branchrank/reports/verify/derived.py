"""Make everything that a run's measurements imply again, and compare it with the run's files.

1. The rows must be exactly the answers of the plan, in its order.
2. The tables, the reports and the plots are made again from the rows, timings and questions and compared.
"""

from __future__ import annotations

import csv
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from io import StringIO
from pathlib import Path

from branchrank.core.io.files import read_beneath
from branchrank.core.records import Record
from branchrank.questions.question_files import sample_questions
from branchrank.reports.blocks import markdown
from branchrank.reports.browser import gather_passages
from branchrank.reports.content import report_content
from branchrank.reports.drawing import drawings, drawn_elsewhere, standalone
from branchrank.reports.writing import html, kept_passages
from branchrank.runs import directory as names
from branchrank.runs.bench.record import stored_seal
from branchrank.runs.rows import RowKey
from branchrank.runs.run_data import RunData
from branchrank.runs.tables import BOM, write_tables
from branchrank.runs.timings import FIRST, TOTAL
from branchrank.runs.warnings import warnings_of

#: The maximum number of differences listed for one file; other differences are only counted.
SHOWN = 5
#: The number of characters of a table in which its header is read.
_LONGEST_HEADER = 100_000
#: The number of characters shown on each side of a difference.
_AROUND = 20


class Finding(Record, frozen=True, kw_only=True):
    """A problem in ``file`` at ``place`` (such as a row or a line)."""

    file: str
    place: str
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.file, self.place, self.message) if part)


def some(name: str, findings: Sequence[Finding]) -> list[Finding]:
    """Return the first findings about a file, followed by one that counts the remaining findings."""
    more = len(findings) - SHOWN
    if more <= 0:
        return list(findings)
    return [*findings[:SHOWN], Finding(file=name, place="", message=f"and {more} more differences")]


def check_derived(run: RunData, corpus: Path | None) -> tuple[list[Finding], list[str]]:
    """Make the tables, reports and plots again, and return findings and notes.

    ``corpus`` is the folder with the run's corpus, from which the document text in ``report.html`` is made
    again. Without ``corpus``, the text is not compared.
    """
    findings: list[Finding] = []
    notes: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        write_tables(run, Path(folder))
        for path in sorted(Path(folder).iterdir()):
            stored, expected = read_text(run.directory / path.name), path.read_text(encoding="utf-8")
            if path.name == names.QUESTIONS_CSV and stored:  # older versions did not write the mark
                stored, expected = stored.removeprefix(BOM), expected.removeprefix(BOM)
            if path.name in (names.SUMMARY_CSV, names.CALLS_CSV, names.QUESTIONS_CSV):
                expected, added = _shared_columns(expected, stored or "")
                notes += [f"{path.name} lacks {name}; `branchrank report RUN` writes it" for name in added]
            findings += compare(path.name, stored, expected)
    report = report_content(run)
    drawn = drawings(report.plots)
    for name, svg in drawn.items():
        file = f"{names.PLOTS}/{name}.svg"
        found = read_text(run.directory / file)
        elsewhere = drawn_elsewhere(found or "")
        if elsewhere is None:
            findings += compare(file, found, standalone(svg))
        else:
            drawn[name] = elsewhere
            notes.append(
                f"{file} was drawn by another version of Altair or vl-convert, so it was not compared"
            )
    findings += compare(names.REPORT_MD, read_text(run.directory / names.REPORT_MD), markdown(report))
    page = read_text(run.directory / names.REPORT_HTML)
    passages = kept_passages(page) if page is not None else None
    if passages is not None and corpus is not None:
        passages = gather_passages(run, corpus)
    findings += compare(names.REPORT_HTML, page, html(run, report, drawn, passages))
    return findings, notes


def _shared_columns(table: str, stored: str) -> tuple[str, list[str]]:
    """Return a CSV table with only the columns of a stored one, and the names of the others.

    The table is unchanged if the stored one is not a table, or has other columns or another order, or if a
    field is too long for a CSV reader.
    """
    try:
        ours, *lines = csv.reader(StringIO(table))
    except csv.Error:
        return table, []
    theirs = next(csv.reader(stored[:_LONGEST_HEADER].splitlines()[:1]), [])
    kept = [place for place, name in enumerate(ours) if name in theirs]
    if not theirs or [ours[place] for place in kept] != theirs:
        return table, []
    stream = StringIO()
    csv.writer(stream, lineterminator="\n").writerows(
        [row[place] for place in kept] for row in (ours, *lines)
    )
    return stream.getvalue(), [name for name in ours if name not in theirs]


def read_text(path: Path) -> str | None:
    """Return a file's text with invalid bytes replaced, or ``None`` if the file is missing.

    Symbolic links, pipes and folders count as missing files, because a run from another person could contain
    a link to a private file, and a finding would quote that file.
    """
    try:
        return read_beneath(path.parent, path.name).decode("utf-8", errors="replace")
    except OSError:
        return None


def compare(name: str, found: str | None, expected: str) -> list[Finding]:
    """Return a finding with line and character for each line that differs from the one made again."""
    if found is None:
        return [Finding(file=name, place="", message="is missing; `branchrank report RUN` writes it")]
    theirs, ours = found.split("\n"), expected.split("\n")
    findings = []
    if len(theirs) != len(ours):
        message = f"has {len(theirs)} lines, should have {len(ours)}"
        findings.append(Finding(file=name, place="", message=message))
    for number, (their, our) in enumerate(zip(theirs, ours, strict=False), start=1):
        if their != our:
            same = (a == b for a, b in zip(their, our, strict=False))
            start = next((place for place, equal in enumerate(same) if not equal), min(len(their), len(our)))
            cut = slice(max(0, start - _AROUND), start + _AROUND)
            message = f"is {their[cut]!r}, should be {our[cut]!r}"
            place = f"line {number}, character {start + 1}"
            findings.append(Finding(file=name, place=place, message=message))
    return some(name, findings)


def check_rows(run: RunData) -> list[Finding]:
    """Check that the rows are exactly the answers of the plan, in its order."""
    record, file = run.record, run.record.rows_file
    found = Counter(row.key for row in run.rows)
    wanted = [
        (question, predictor.name, repeat)
        for question in record.question_ids
        for predictor in record.predictors
        for repeat in range(min(predictor.repeats, len(run.rows) + 1))
    ]
    faults = [(key, "is missing") for key in sorted(set(wanted) - found.keys())]
    faults += [(key, "occurs twice") for key, count in found.items() if count > 1]
    faults += [(key, "is not part of the plan") for key in found.keys() - set(wanted)]
    if not faults:  # the order of the rows decides which system is the default baseline
        pairs = zip((row.key for row in run.rows), wanted, strict=True)
        faults = [(key, "is not in the plan's order") for key, planned in pairs if key != planned]
    return some(file, [row_finding(file, *fault) for fault in faults])


def check_record(run: RunData) -> Iterator[Finding]:
    """Yield a finding for each value that the plan, the rows or the questions contradict.

    These are the values in ``run.json`` that are computed from them, and the queries that were timed.
    """
    record, settings = run.record, run.settings
    computed = {
        "seed": settings.sample_seed,
        "top_k": settings.top_k,
        "mode": settings.mode,
        "failures": sum(row.status == "failed" for row in run.rows),
        "fallbacks": sum(bool(row.fallbacks) for row in run.rows),
        "warnings": warnings_of(run.rows, record, run.asked),
    }
    for name, value in computed.items():
        if getattr(record, name) != value:
            message = f"is {getattr(record, name)!r}, should be {value!r}"
            yield Finding(file=names.RUN_JSON, place=name, message=message)
    if record.seal is not None and record.seal.digest != (
        digest := stored_seal(run.directory, record).digest
    ):
        message = f"is {record.seal.digest!r}, but the digest of the run's plan is {digest!r}"
        yield Finding(file=names.RUN_JSON, place="seal", message=message)
    size = min(settings.latency_sample, len(run.asked))
    drawn = {each.id for each in sample_questions(run.asked, size, settings.sample_seed)} if size else set()
    for predictor in record.predictors:
        place = f"predictor {predictor.name!r}"
        label = predictor.llm if predictor.system is None else predictor.system.llm_label
        labels = {predictor.llm, *(row.llm for row in run.rows if row.predictor == predictor.name)}
        if labels != {label}:
            message = f"its LLM is {', '.join(sorted(labels))}, should be {label}"
            yield Finding(file=names.RUN_JSON, place=place, message=message)
        wanted = drawn if predictor.is_timed else set()
        queries = [each for each in run.timed if each.predictor == predictor.name and each.phase != FIRST]
        if {each.question_id for each in queries if each.stage == TOTAL} != wanted:
            message = f"the timed questions are not the {len(wanted)} of the plan"
            yield Finding(file=names.TIMINGS_CSV, place=place, message=message)


def row_finding(file: str, key: RowKey, message: str) -> Finding:
    """Return a finding about the row with this key."""
    question, predictor, repeat = key
    place = f"question {question!r}, predictor {predictor!r}" + (f", repeat {repeat}" if repeat else "")
    return Finding(file=file, place=place, message=message)
