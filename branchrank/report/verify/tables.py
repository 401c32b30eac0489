"""Checks of a run's digests, and of the tables that are computed from the run's files.

Digests detect damage and accidental edits, but not deliberate changes by someone who also updates the
digests. Deliberate changes can be found by the checks of the files' content
(:mod:`branchrank.report.verify.rows`, :mod:`branchrank.report.verify.systems`,
:mod:`branchrank.report.verify.record`).
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from branchrank.io.files import digest_file
from branchrank.questions.question_files import question_line
from branchrank.records import Question
from branchrank.report.verify.findings import Finding, compare_csv, compare_lines, read_text
from branchrank.runs import directory as names
from branchrank.runs.directory import RunRecord
from branchrank.runs.run import RunData
from branchrank.runs.tables import calls_csv, comparisons_csv, questions_csv, summary_csv


def check_digests(directory: Path, run: RunRecord) -> list[Finding]:
    """Compare the measurement files and ``run.json`` with their recorded digests."""
    if not run.digests:
        return [
            Finding(
                file=names.RUN_JSON, place="digests", message="are missing, since the run is not finished"
            )
        ]
    findings = []
    if names.own_digest((directory / names.RUN_JSON).read_bytes()) != run.digests.get(names.RUN_JSON):
        findings.append(
            Finding(
                file=names.RUN_JSON,
                place="",
                message="has changed since the run: its digest differs from the recorded digest",
            )
        )
    for name in run.truth:
        path, digest = directory / name, run.digests.get(name)
        if not path.exists():
            findings.append(Finding(file=name, place="", message="is missing"))
        elif digest is None:
            findings.append(Finding(file=name, place="", message="has no digest in run.json"))
        elif digest_file(path) != digest:
            findings.append(
                Finding(file=name, place="", message="has changed since the run: its digest is different")
            )
    return findings


def check_other_rows(directory: Path, run: RunRecord) -> list[Finding]:
    """Return a finding if there is a second rows file (plain or compressed) that the run does not use."""
    [other] = {names.ROWS, names.COMPACT_ROWS} - {run.rows_file}
    if not (directory / other).exists():
        return []
    return [
        Finding(
            file=other, place="", message=f"does not belong to the run, whose rows are in {run.rows_file}"
        )
    ]


def check_tables(run: RunData) -> list[Finding]:
    """Recompute the CSV files and the hard set, and compare them with the run's files."""
    findings = []
    for name, content in (
        (names.SUMMARY_CSV, summary_csv(run)),
        (names.COMPARISONS_CSV, comparisons_csv(run.judgment.comparisons)),
        (names.QUESTIONS_CSV, questions_csv(run)),
        (names.CALLS_CSV, calls_csv(run)),
    ):
        findings += compare_csv(name, read_text(run.directory / name), content)
    hard = "".join(jsonl_line(question) for question in run.hard_set)
    findings += compare_lines(names.HARD_SET, read_text(run.directory / names.HARD_SET), hard)
    return findings


def jsonl_line(question: Question) -> str:
    """Return a question as a line for a question file."""
    return msgspec.json.encode(question_line(question)).decode() + "\n"
