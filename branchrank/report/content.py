"""The content of a report, computed from a run's files alone: the same files give the same report.

1. The scores, the comparisons and the slices are computed from the rows, the timings and the questions.
2. They become sections of text, tables and plots, which the Markdown and HTML writers only format.
3. The order follows the reader's questions: which system to use and how certain that is, at what cost, and on
   which questions it fails; then the statistics, then everything else.
"""

from __future__ import annotations

from branchrank.report.blocks import Block, Code, Paragraph, QuestionBrowser, Report, Section, Table
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
    """Return the report's title; below 50 answerable questions it says `pilot`."""
    pilot = "Pilot: " if is_pilot(run) else ""
    return f"{pilot}{run.record.experiment}, {asked(run)}"


def report_content(run: RunData) -> Report:
    """Return the whole content of a report of this run."""
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
    """The questions one by one."""
    instead = (
        f"report.html shows the {len(run.asked)} questions with every answer; questions.csv has a row for "
        "each question and predictor. One of them stage by stage: branchrank explain RUN QUESTION."
    )
    browser = QuestionBrowser(instead=instead)
    shown = hits_shown(run)
    if shown == run.record.top_k:
        return Section(title="Questions", blocks=(browser,))
    note = f"The page shows the first {shown} of the {run.record.top_k} hits kept; the rows hold all of them."
    return Section(title="Questions", blocks=(Paragraph(text=note), browser))


def repeat(record: RunRecord) -> Section:
    """The command, the code and the machine."""
    blocks: list[Block] = [Code(text=record.command)]
    origin = record.provenance
    if origin is not None:
        dirty = {True: ", with changes that are not committed", False: "", None: ""}[origin.git_dirty]
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
            text=f"{record.rows_file}, timings.csv, questions.jsonl and gold.jsonl are what was measured; "
            "every other figure is computed from them. The command branchrank verify computes all of them "
            "again and names what differs. Digests find damage and careless edits, not someone who "
            "rewrites the digests too."
        )
    )
    return Section(title="How to repeat it", blocks=tuple(blocks))
