"""Writing a run's report into its directory."""

from __future__ import annotations

from pathlib import Path

from branchrank.artifacts import write_text
from branchrank.bench import run_directory as names
from branchrank.bench.loading import LoadedRun
from branchrank.report.blocks import Plot, Report
from branchrank.report.content import report_content
from branchrank.report.markdown import markdown
from branchrank.report.plots import draw, standalone


def drawings(report: Report) -> dict[str, str]:
    """Every plot of a report as SVG, by name."""
    blocks = (block for section in report.sections for block in section.blocks)
    return {block.name: draw(block) for block in blocks if isinstance(block, Plot)}


def write_report(loaded: LoadedRun) -> Path:
    """Write ``report.md`` and its plots; returns the path of ``report.md``."""
    directory = loaded.outcome.directory
    report = report_content(loaded)
    for name, svg in drawings(report).items():
        write_text(directory / names.PLOTS / f"{name}.svg", standalone(svg))
    write_text(directory / names.REPORT_MD, markdown(report))
    return directory / names.REPORT_MD
