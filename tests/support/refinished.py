"""A doctored run finished again, as somebody would who has the package and wants no digest to differ."""

from __future__ import annotations

from pathlib import Path

from branchrank.reports.content import report_content
from branchrank.reports.drawing import drawings
from branchrank.reports.writing import html, kept_passages, write_report
from branchrank.run import Run
from branchrank.runs.directory import REPORT_HTML, read_run, sealed, write_run
from branchrank.runs.tables import write_tables


def refinish(directory: Path) -> None:
    """Make tables, reports, plots and digests again from what now stands in a run's directory.

    Passages that its page quotes are kept as they are.
    """
    write_run(directory, sealed(directory, read_run(directory)))
    run = Run.load(directory)
    write_tables(run)
    passages = kept_passages((directory / REPORT_HTML).read_text(encoding="utf-8"))
    write_report(run, with_text=False)
    report = report_content(run)
    page = html(run, report, drawings(report.plots), passages)
    (directory / REPORT_HTML).write_text(page, encoding="utf-8")
