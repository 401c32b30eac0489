"""Writing a run's report into its directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from branchrank.artifacts import write_text
from branchrank.report.blocks import Plot, Report
from branchrank.report.content import report_content
from branchrank.report.documents import Passages, digest_now, gather_passages
from branchrank.report.html import html
from branchrank.report.markdown import markdown
from branchrank.report.plots import draw, standalone
from branchrank.runs import directory as names
from branchrank.runs.comparisons import benchmark_settings
from branchrank.runs.loading import LoadedRun


def drawings(report: Report) -> dict[str, str]:
    """Every plot of a report as SVG, by name."""
    blocks = (block for section in report.sections for block in section.blocks)
    return {block.name: draw(block) for block in blocks if isinstance(block, Plot)}


def write_report(
    loaded: LoadedRun,
    *,
    with_text: bool = True,
    corpus: Path | None = None,
    into: Path | None = None,
    notice: Callable[[str], None] = lambda _: None,
) -> list[Path]:
    """Write ``report.md``, its plots and ``report.html`` ``into`` a directory (default: the run's own);
    returns their paths.

    The documents' text is read from ``corpus`` (default: where it was when the run was made) and left out
    when it isn't there or isn't what was searched, and from a run that keeps no wording of its questions.
    ``notice`` is told when a ``corpus`` that was given isn't what was searched.
    """
    directory = into or loaded.outcome.directory
    report = report_content(loaded)
    drawn = drawings(report)
    shared = benchmark_settings(loaded.outcome.run).question_text == "hash"
    passages = searched_text(loaded, corpus) if with_text and not shared else None
    if corpus is not None and with_text and not shared and passages is None:
        notice(f"{corpus} is not the corpus that was searched: the report leaves its text out")
    written = {
        names.REPORT_MD: markdown(report),
        names.REPORT_HTML: html(loaded, report, drawn, passages),
        **{f"{names.PLOTS}/{name}.svg": standalone(svg) for name, svg in drawn.items()},
    }
    for name, content in written.items():
        write_text(directory / name, content)
    return [directory / name for name in written]


def searched_text(loaded: LoadedRun, corpus: Path | None) -> Passages | None:
    """The text of hits and gold; ``None`` when the corpus is not what was searched."""
    run = loaded.outcome.run
    root = corpus if corpus is not None else Path(run.corpus) if run.corpus else None
    if root is None or digest_now(root, run.corpus_exclude) != run.corpus_digest:
        return None
    return gather_passages(loaded, root)
