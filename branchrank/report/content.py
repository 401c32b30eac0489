"""Compute the content of a report from the run's files alone, so that the same files give the same report.

1. The scores, the comparisons and the slices are computed from the rows, the timings and the questions.
2. The content consists of sections with text, tables and plots. The Markdown and HTML writers only format
   this content.
3. The report starts with the recommendation, the costs and the questions. Statistics and details follow.
"""

from __future__ import annotations

from branchrank.io.table import Table
from branchrank.report.blocks import Block, Code, Paragraph, QuestionBrowser, Report, Section
from branchrank.report.browser import hits_shown
from branchrank.report.cautions import is_pilot
from branchrank.report.costs import latency, llm_cost, shared_work
from branchrank.report.facts import asked, facts, in_short
from branchrank.report.losses import failures, hard, lost, sliced, unanswerable
from branchrank.report.result import passages, result, statistics, trade_off
from branchrank.report.sweeps import sweeps
from branchrank.runs.directory import RunRecord
from branchrank.runs.run import RunData


def heading(run: RunData) -> str:
    """Return the report's title, which starts with "Pilot:" for fewer than 50 answerable questions."""
    pilot = "Pilot: " if is_pilot(run) else ""
    return f"{pilot}{run.record.experiment}, {asked(run)}"


def report_content(run: RunData) -> Report:
    """Return the complete content of a run's report."""
    sections = [
        result(run),
        trade_off(run),
        sweeps(run),
        questions(run),
        statistics(run),
        passages(run),
        latency(run),
        llm_cost(run),
        lost(run),
        sliced(run),
        unanswerable(run),
        failures(run),
        hard(run),
        facts(run),
        shared_work(run.record),
        repeat(run.record),
    ]
    return Report(
        title=heading(run),
        facts=in_short(run),
        sections=tuple(section for section in sections if section is not None),
    )


def questions(run: RunData) -> Section:
    """Return the section that contains the question browser."""
    instead = (
        f"report.html shows the {len(run.asked)} questions with all answers. questions.csv contains a row "
        "for each question and predictor. The command branchrank explain RUN QUESTION shows the stages of "
        "one question."
    )
    browser = QuestionBrowser(instead=instead)
    shown = hits_shown(run)
    if shown == run.record.top_k:
        return Section(title="Questions", blocks=(browser,))
    note = (
        f"report.html shows the first {shown} of the {run.record.top_k} stored hits of each answer. The rows "
        "file contains all hits."
    )
    return Section(title="Questions", blocks=(Paragraph(text=note), browser))


def repeat(record: RunRecord) -> Section:
    """Return the section about the run's command, the version of the code and the machine."""
    blocks: list[Block] = [Code(text=record.command)]
    origin = record.provenance
    if origin is not None:
        dirty = {True: ", with uncommitted changes", False: "", None: ""}[origin.git_dirty]
        gigabytes = origin.memory_bytes / 2**30
        blocks.append(
            Table(
                caption="Code and machine",
                headings=("fact", "value"),
                rows=(
                    ("BranchRank", origin.branchrank),
                    ("git commit", f"{origin.git_commit or 'none'}{dirty}"),
                    ("Python", origin.python),
                    (
                        "machine",
                        f"{origin.processor}, {origin.cores} cores, {gigabytes:.0f} GiB, {origin.system}",
                    ),
                    ("packages", ", ".join(f"{name} {version}" for name, version in origin.packages.items())),
                ),
                labels=2,
            )
        )
    blocks.append(
        Paragraph(
            text=f"The measurements are in {record.rows_file}, timings.csv, questions.jsonl and gold.jsonl; "
            "all other figures are computed from these files. The command branchrank verify recomputes the "
            "figures and reports differences. Digests detect damage and accidental edits, but not "
            "deliberate changes by someone who also updates the digests."
        )
    )
    return Section(title="Repeating the run", blocks=tuple(blocks))
