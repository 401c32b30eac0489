"""``verify``: every printed number of a run, made again from what was measured."""

from __future__ import annotations

from pathlib import Path

from branchrank.bench import run_directory as names
from branchrank.bench.loading import load_run
from branchrank.bench.run_directory import read_run
from branchrank.bench.verify import (
    Finding,
    check_digests,
    check_rows,
    check_tables,
    compare_lines,
    read_text,
)
from branchrank.errors import InputError
from branchrank.report.content import report_content
from branchrank.report.html import html, kept_passages
from branchrank.report.markdown import markdown
from branchrank.report.plots import standalone
from branchrank.report.writing import drawings


def verify_run(directory: Path) -> list[Finding]:
    """Everything in a run's directory that does not follow from its rows, timings and questions.

    Raises :class:`RunError` when the directory holds no run.
    """
    run = read_run(directory)
    findings = check_digests(directory, run)
    try:
        loaded = load_run(directory)
    except InputError as error:
        return [*findings, Finding(file=str(directory), place="", message=error.message)]
    findings += check_rows(loaded)
    findings += check_tables(loaded)
    if any(arm.name not in loaded.scores.predictors for arm in run.arms):
        return findings
    report = report_content(loaded)
    drawn = drawings(report)
    for name, svg in drawn.items():
        file = f"{names.PLOTS}/{name}.svg"
        findings += compare_lines(file, read_text(directory / file), standalone(svg))
    findings += compare_lines(names.REPORT_MD, read_text(directory / names.REPORT_MD), markdown(report))
    page = read_text(directory / names.REPORT_HTML)
    passages = kept_passages(page) if page is not None else None
    findings += compare_lines(names.REPORT_HTML, page, html(loaded, report, drawn, passages))
    return findings
