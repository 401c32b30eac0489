"""``verify``: every printed number of a run, made again from what was measured."""

from __future__ import annotations

from pathlib import Path

from branchrank.errors import InputError
from branchrank.records import Record
from branchrank.report.content import report_content
from branchrank.report.html import html, kept_passages
from branchrank.report.markdown import markdown
from branchrank.report.plots import drawn_elsewhere, standalone
from branchrank.report.verify_tables import (
    Finding,
    check_digests,
    check_rows,
    check_tables,
    compare_lines,
    read_text,
)
from branchrank.report.writing import drawings
from branchrank.runs import directory as names
from branchrank.runs.directory import check_files, read_run
from branchrank.runs.run import load_run


class Verification(Record, frozen=True, kw_only=True):
    """What does not follow from what was measured, and ``notes`` on what could not be compared."""

    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()


def verify_run(directory: Path) -> Verification:
    """Everything in a run's directory that does not follow from its rows, timings and questions.

    Raises :class:`RunError` when the directory holds no run.
    """
    record = read_run(directory)
    check_files(directory)
    findings = check_digests(directory, record)
    try:
        run = load_run(directory)
    except InputError as error:
        damage = Finding(file=str(directory), place="", message=error.message)
        return Verification(findings=(*findings, damage))
    findings += check_rows(run)
    findings += check_tables(run)
    if any(each.name not in run.predictors for each in run.record.predictors):
        return Verification(findings=tuple(findings))
    report = report_content(run)
    drawn, notes = drawings(report), []
    for name, svg in drawn.items():
        file = f"{names.PLOTS}/{name}.svg"
        found = read_text(directory / file)
        elsewhere = drawn_elsewhere(found or "")
        if elsewhere is not None:
            drawn[name] = elsewhere
            notes.append(f"{file} was drawn by another version and is not compared")
        else:
            findings += compare_lines(file, found, standalone(svg))
    findings += compare_lines(names.REPORT_MD, read_text(directory / names.REPORT_MD), markdown(report))
    page = read_text(directory / names.REPORT_HTML)
    passages = kept_passages(page) if page is not None else None
    findings += compare_lines(names.REPORT_HTML, page, html(run, report, drawn, passages))
    return Verification(findings=tuple(findings), notes=tuple(notes))
