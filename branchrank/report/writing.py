"""Write a run's report into the run's directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from branchrank.bench.benchmark import BenchmarkOptions, run_plan
from branchrank.bench.plan import Plan
from branchrank.corpus.loading import digest_now
from branchrank.io.files import storage_errors, write_beneath
from branchrank.io.progress import Progress, shown_progress
from branchrank.report.blocks import markdown
from branchrank.report.browser import Passages, gather_passages
from branchrank.report.content import report_content
from branchrank.report.drawing import drawings, standalone
from branchrank.report.html import html
from branchrank.runs import directory as names
from branchrank.runs.run import RunData


def write_report(
    run: RunData,
    *,
    with_text: bool = True,
    corpus: Path | None = None,
    into: Path | None = None,
    notice: Callable[[str], None] = lambda _: None,
) -> list[Path]:
    """Write ``report.md``, its plots and ``report.html``, and return the paths of all files written.

    The files are written to the directory ``into`` (by default the run's directory). If ``with_text`` is
    true, ``report.html`` includes document text from the folder ``corpus`` (by default the run's corpus
    folder). Document text is left out if the corpus is missing or has changed, and for runs that do not store
    the wording of questions. ``notice`` is called if the folder ``corpus`` does not contain the run's corpus.
    """
    directory = into or run.directory
    report = report_content(run)
    drawn = drawings(report.plots)
    shared = run.settings.question_text == "hash"
    passages = searched_text(run, corpus) if with_text and not shared else None
    if corpus is not None and with_text and not shared and passages is None:
        notice(f"{corpus} is not the corpus that the run searched, so the report does not include its text")
    written = {
        names.REPORT_MD: markdown(report),
        names.REPORT_HTML: html(run, report, drawn, passages),
        **{f"{names.PLOTS}/{name}.svg": standalone(svg) for name, svg in drawn.items()},
    }
    with storage_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in written.items():
            write_beneath(directory, name, content.encode("utf-8"))
    return [directory / name for name in written]


def searched_text(run: RunData, corpus: Path | None) -> Passages | None:
    """Return the text of the hits and the gold, or ``None`` if ``corpus`` is not the run's corpus."""
    record = run.record
    root = corpus if corpus is not None else Path(record.corpus) if record.corpus else None
    if root is None or digest_now(root, record.corpus_exclude) != record.corpus_digest:
        return None
    return gather_passages(run, root)


def run_and_report(
    plan: Plan,
    options: BenchmarkOptions = BenchmarkOptions(),  # noqa: B008  (a frozen record)
    progress: bool | Progress = False,
) -> RunData:
    """Run a plan, write the run's directory and report, and return the finished run.

    All problems with the plan are reported in one error before the run starts.
    """
    with shown_progress(progress) as shown:
        return run_plan(plan, replace(options, progress=shown, status=shown.status), write_report)
