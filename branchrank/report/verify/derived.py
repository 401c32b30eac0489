"""Make everything that a run's measurements imply again, and compare it with the run's files.

1. The rows must be exactly the answers of the plan. The judgments and the stage that lost the gold are made
   again from the hits' lines and the gold.
2. The counts in ``run.json`` are made again from the rows. A value that ``run.json`` records in two places
   must be the same in both.
3. The timed questions must be the random sample that the run's seed generates. The time of a stage must not
   exceed the time of its whole query.
4. The tables, the reports and the plots are written into a temporary folder and compared.
"""

from __future__ import annotations

import csv
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

from branchrank.io.files import read_beneath
from branchrank.measures.matching import (
    RELAXED_GAIN,
    gold_gain,
    gold_pages,
    is_relaxed,
    is_strict,
    resolve_source,
)
from branchrank.questions.question_files import sample_questions
from branchrank.records import Question, Record
from branchrank.report.blocks import markdown
from branchrank.report.browser import gather_passages
from branchrank.report.content import report_content
from branchrank.report.drawing import drawings, drawn_elsewhere, same_to_the_eye, standalone
from branchrank.report.writing import html, kept_passages
from branchrank.runs import directory as names
from branchrank.runs.attribution import DEPTH, lost_at, lost_in
from branchrank.runs.rows import Row, RowKey
from branchrank.runs.run import RunData
from branchrank.runs.scores import hits_of
from branchrank.runs.tables import write_tables
from branchrank.runs.timings import COMPUTE, CPU, FIRST, LLM_WAIT, TOTAL, WARM, Timing
from branchrank.runs.warnings import warnings_of
from branchrank.spec import System
from branchrank.systems.checks import timed_together

#: The maximum number of differences listed for one file; other differences are only counted.
SHOWN = 5
_TABLES = (
    names.SUMMARY_CSV,
    names.COMPARISONS_CSV,
    names.QUESTIONS_CSV,
    names.CALLS_CSV,
    names.HARD_SET,
)
#: The tolerance for rounded times, in milliseconds.
_ROUNDING = 0.01
_GOLD_KEYS = "gold keys"


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
    """Make the counts, tables, reports and plots again, and return findings and notes.

    ``corpus`` is the folder with the run's corpus, from which the document text in ``report.html`` is made
    again. Without ``corpus``, the text is not compared.
    """
    findings = [
        Finding(file=names.RUN_JSON, place=place, message=message) for place, message in _record_faults(run)
    ]
    findings += some(names.TIMINGS_CSV, list(_timing_faults(run)))
    with tempfile.TemporaryDirectory() as folder:
        write_tables(run, Path(folder))
        for name in _TABLES:
            expected = Path(folder, name).read_text(encoding="utf-8")
            findings += compare(name, read_text(run.directory / name), expected)
    report = report_content(run)
    drawn, notes = drawings(report.plots), []
    for name, svg in drawn.items():
        file = f"{names.PLOTS}/{name}.svg"
        found = read_text(run.directory / file)
        elsewhere = drawn_elsewhere(found or "")
        stamp = "was drawn by another version of Altair or vl-convert"
        if elsewhere is None:
            findings += compare(file, found, standalone(svg))
        elif same_to_the_eye(elsewhere, svg):
            drawn[name] = elsewhere
            notes.append(f"{file} {stamp}, but looks the same")
        else:
            message = f"{stamp}, and looks different from the plot that the installed version draws"
            findings.append(Finding(file=file, place="", message=message))
    findings += compare(names.REPORT_MD, read_text(run.directory / names.REPORT_MD), markdown(report))
    page = read_text(run.directory / names.REPORT_HTML)
    passages = kept_passages(page) if page is not None else None
    if passages is not None and corpus is not None:
        passages = gather_passages(run, corpus)
    findings += compare(names.REPORT_HTML, page, html(run, report, drawn, passages))
    return findings, notes


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
    """Return a finding with line and column for each cell or line that differs from the one made again."""
    if found is None:
        return [Finding(file=name, place="", message="is missing")]
    if found == expected:
        return []
    theirs, ours = _cells(name, found), _cells(name, expected)
    findings = []
    if name.endswith(".csv") and theirs[:1] != ours[:1]:
        lacks = [column for column in ours[0] if column not in theirs[0]]
        message = (
            f"has columns that differ from those of this version (lacks {', '.join(lacks) or 'none'}); if an "
            "older version made the run, use `branchrank report RUN` to regenerate its tables and reports"
        )
        return [Finding(file=name, place="line 1", message=message)]
    if len(theirs) != len(ours):
        message = f"has {len(theirs)} lines, should have {len(ours)}"
        findings.append(Finding(file=name, place="", message=message))
    for number, (their, our) in enumerate(zip(theirs, ours, strict=False), start=1):
        for column, (cell, other) in enumerate(zip_longest(their, our, fillvalue=""), start=1):
            if cell == other:
                continue
            place = f"line {number}"
            if len(our) > 1:
                heading = ours[0][column - 1] if name.endswith(".csv") else column
                place += f" ({our[0].removeprefix('| ')}), column {heading}"
            else:
                start = next(i for i, (a, b) in enumerate(zip_longest(cell, other)) if a != b)
                cut = slice(max(0, start - 20), start + 20)
                place, cell, other = f"{place}, character {start + 1}", cell[cut], other[cut]
            findings.append(Finding(file=name, place=place, message=f"is {cell!r}, should be {other!r}"))
    return some(name, findings) or [Finding(file=name, place="", message="has another format")]


def _cells(name: str, text: str) -> list[list[str]]:
    """Return the cells of each line; only lines of CSV and Markdown tables have several cells."""
    lines = text.split("\n")
    if name.endswith(".csv"):
        try:
            return list(csv.reader(lines, strict=True))
        except csv.Error:
            return [[line] for line in lines]
    return [line.split(" | ") if line.startswith("| ") else [line] for line in lines]


def check_rows(run: RunData) -> list[Finding]:
    """Check that the rows are the answers of the plan, and that their judgments follow from the hits."""
    record, rows, file = run.record, run.rows, run.record.rows_file
    found = Counter(row.key for row in rows)
    wanted = {
        (question, predictor.name, repeat)
        for question in record.question_ids
        for predictor in record.predictors
        for repeat in range(min(predictor.repeats, len(rows) + 1))
    }
    findings = [row_finding(file, key, "is missing") for key in sorted(wanted - found.keys())]
    findings = some(file, findings)
    findings += [row_finding(file, key, "occurs twice") for key, count in found.items() if count > 1]
    findings += [row_finding(file, key, "is not part of the plan") for key in found.keys() - wanted]
    for row in rows:
        question = run.scores.questions[row.question_id]
        findings += [row_finding(file, row.key, text) for text in _judgment_faults(row, question)]
        in_hits = any(hit.gold is not None for hit in row.hits[:DEPTH])
        known = bool(row.stages and question.answerable)
        lost = lost_at(row.stages, row.gold_ranks, in_hits) if known else ""
        if lost != (lost_in(row) if known else row.lost):
            text = f"has {row.lost or 'none'!r} as the stage that lost the gold, should be {lost or 'none'!r}"
            findings.append(row_finding(file, row.key, text))
    return findings


def row_finding(file: str, key: RowKey, message: str) -> Finding:
    """Return a finding about the row with this key."""
    question, predictor, repeat = key
    place = f"question {question!r}, predictor {predictor!r}" + (f", repeat {repeat}" if repeat else "")
    return Finding(file=file, place=place, message=message)


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


def _record_faults(run: RunData) -> Iterator[tuple[str, str]]:
    """Find values in ``run.json`` that contradict its settings or the rows, as pairs (place, message)."""
    record, settings = run.record, run.settings
    expected: dict[str, object] = {
        "seed": settings.sample_seed,
        "top_k": settings.top_k,
        "mode": settings.mode,
        "failures": sum(row.status == "failed" for row in run.rows),
        "fallbacks": sum(bool(row.fallbacks) for row in run.rows),
        "warnings": warnings_of(run.rows, record, run.asked),
    }
    for place, value in expected.items():
        if getattr(record, place) != value:
            yield place, f"is {getattr(record, place)}, should be {value}"
    # The ids of a question's gold are computed once for each index, and reused for all other answers.
    index_of = {each.name: each.index for each in record.predictors if each.system is not None}
    answers = [row for row in run.rows if row.predictor in index_of and row.status == "ok"]
    computed = len({(index_of[row.predictor], row.question_id) for row in answers})
    counted = (record.computed.get(_GOLD_KEYS, 0), record.reused.get(_GOLD_KEYS, 0))
    if not record.resumed_rows and counted != (computed, len(answers) - computed):
        yield "computed", f"{_GOLD_KEYS} were computed and reused {counted} times"


def _timing_faults(run: RunData) -> Iterator[Finding]:
    """Check that ``timings.csv`` contains every query in the latency pass, with plausible times."""
    timed = defaultdict(list)
    for timing in run.timed:
        timed[timing.predictor, timing.question_id, timing.phase].append(timing)
    size = min(run.settings.latency_sample, len(run.asked))
    drawn = sample_questions(run.asked, size, run.record.seed) if size else []
    systems = {each.name: each.system for each in run.record.predictors}
    wanted = {(name, question.id, WARM) for name in systems for question in drawn}
    wanted |= {(name, question.id, FIRST) for name in systems for question in drawn[:1]}
    for key in sorted(wanted | timed.keys()):
        system = systems.get(key[0])
        faults = iter(("is not part of the plan",))
        if key in wanted:
            faults = _time_faults(timed[key], system) if key in timed else iter(("is missing",))
        place = "predictor {!r}, question {!r}, {}".format(*key)
        yield from (Finding(file=names.TIMINGS_CSV, place=place, message=text) for text in faults)


def _time_faults(timings: list[Timing], system: System | None) -> Iterator[str]:
    """Find impossible times of one query, which ``system`` answered if the predictor is a system."""
    times: Mapping[str, float] = {timing.stage: timing.ms for timing in timings}
    apart = (TOTAL, CPU, LLM_WAIT, COMPUTE)
    if len(times) < len(timings) or not times.keys() >= set(apart):
        yield "has a stage twice, or lacks the time of the whole query"
        return
    total = times[TOTAL]
    if abs(times[COMPUTE] - max(0.0, total - times[LLM_WAIT])) > _ROUNDING:
        yield f"has a time for {COMPUTE} that is not its {TOTAL} minus the {LLM_WAIT}"
    if system is None:
        return
    stages = [ms for stage, ms in times.items() if stage not in (*apart, "embed cpu")]
    longest = max(stages, default=0.0) if timed_together(system) else sum(stages)
    if longest > total + _ROUNDING:
        yield f"has stages of {longest:g} ms in a {TOTAL} of {total:g} ms"
