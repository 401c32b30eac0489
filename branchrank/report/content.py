"""A report from a run's files, and nothing else: the same files give the same report.

1. The scores, the comparisons and the slices are computed from the rows, the timings and the questions.
2. They become sections of text, tables and plots, which Markdown and HTML only write down.
"""

from __future__ import annotations

from branchrank.measures.verdicts import PILOT_BELOW
from branchrank.report.blocks import Block, Code, Paragraph, Report, Section, Table
from branchrank.report.costs import latency, llm_cost, shared_work
from branchrank.report.losses import failures, hard, lost, sliced, unanswerable
from branchrank.report.result import asked, facts, passages, result, statistics, trade_off
from branchrank.runs.directory import RunRecord
from branchrank.runs.run import RunData


def heading(run: RunData) -> str:
    """The report's title; under 50 questions with an answer it says pilot."""
    pilot = "Pilot: " if _is_pilot(run) else ""
    return f"{pilot}{run.record.experiment}, {asked(run)}"


def _is_pilot(run: RunData) -> bool:
    return len(run.scores.answerable) < PILOT_BELOW


def report_content(run: RunData) -> Report:
    """Everything that a report of this run says."""
    lead: list[Block] = []
    if _is_pilot(run):
        lead.append(
            Paragraph(
                text=f"This is a pilot: under {PILOT_BELOW} questions, differences of ten points are noise."
            )
        )
    if not run.record.split:
        lead.append(
            Paragraph(text="No --split was given. Scores on questions used for tuning are not evidence.")
        )
    lead += [Paragraph(text=f"Warning: {warning}") for warning in run.record.warnings]
    lead.append(facts(run))
    sections = [
        result(run),
        passages(run),
        trade_off(run),
        latency(run),
        llm_cost(run),
        lost(run),
        sliced(run),
        unanswerable(run),
        failures(run),
        hard(run),
        statistics(run),
        shared_work(run.record),
        repeat(run.record),
    ]
    return Report(
        title=heading(run),
        lead=tuple(lead),
        sections=tuple(section for section in sections if section is not None),
    )


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
                headings=("", "value"),
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
            text="rows.jsonl, timings.csv, questions.jsonl and gold.jsonl are what was measured; every "
            "other figure is computed from them. The command branchrank verify computes all of them "
            "again and names what differs. Digests find damage and careless edits, not someone who "
            "rewrites the digests too."
        )
    )
    return Section(title="How to repeat it", blocks=tuple(blocks))
