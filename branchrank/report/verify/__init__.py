"""The checks for ``branchrank verify``, which recompute all results in a run and look for contradictions.

1. The digests of the measurement files and of ``run.json`` are recomputed and compared with the digests
   recorded in ``run.json``. The digest of ``run.json`` covers the whole file except that digest.
2. ``run.json``, the rows and the timings are compared with the plan and with each other. Each answer must be
   one that the system could have given.
3. Tables, reports and plots are recomputed from the measurements and compared with the run's files.
4. If the corpus is available, the gold, the hits and the quoted passages are compared with the documents.
5. If ``rerun`` is given, some questions are run again (:mod:`branchrank.report.verify.rerun`).
"""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from branchrank.bench.resume import Named
from branchrank.errors import InputError
from branchrank.io.progress import Notify, Progress, no_notice, no_progress
from branchrank.records import Record
from branchrank.report.content import report_content
from branchrank.report.documents import Passages
from branchrank.report.drawing import drawings, drawn_elsewhere, same_to_the_eye, standalone
from branchrank.report.html import html, kept_passages
from branchrank.report.markdown import markdown
from branchrank.report.verify.corpus import searched_corpus
from branchrank.report.verify.findings import Finding, compare_lines, read_text
from branchrank.report.verify.record import check_gold_facts, check_record, check_seal_copy, check_timings
from branchrank.report.verify.rerun import Rerun, ask_again
from branchrank.report.verify.rows import check_rows
from branchrank.report.verify.systems import check_systems
from branchrank.report.verify.tables import check_digests, check_other_rows, check_tables
from branchrank.runs import directory as names
from branchrank.runs.directory import RunRecord, check_files, read_run
from branchrank.runs.run import RunData, load_run

__all__ = ["Finding", "Rerun", "Verification", "verify_run"]


class Verification(Record, frozen=True, kw_only=True):
    """The result of verifying a run; ``notes`` list files that could not be compared exactly."""

    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    rerun: Rerun | None = None


def verify_run(
    directory: Path,
    *,
    rerun: int = 0,
    corpus: Path | None = None,
    seal: Path | None = None,
    named: Named = Named(),  # noqa: B008  (a frozen record)
    notify: Notify = no_notice,
    progress: Progress = no_progress,
) -> Verification:
    """Check a run's directory for contradictions between the files, the plan and the documents.

    ``rerun`` is the number of questions to run again. ``named`` contains the hosts, models, files and
    classes to use for the new answers. ``corpus`` is the folder that contains the corpus (by default the
    folder recorded in ``run.json``). ``seal`` is a copy of the plan's seal. Raises :class:`RunError` if the
    directory does not contain a run, and the same errors as :func:`~branchrank.bench.rerun.open_rerun`.
    """
    record = read_run(directory)
    found = _verified(directory, record, rerun, corpus, seal, named, notify, progress)
    # The checks always name the uncompressed rows file in a finding. Replace the name if rows are compressed.
    findings = [
        replace(each, file=record.rows_file) if each.file == names.ROWS else each for each in found.findings
    ]
    return replace(found, findings=(*findings, *check_other_rows(directory, record)))


def _verified(
    directory: Path,
    record: RunRecord,
    rerun: int,
    corpus: Path | None,
    seal: Path | None,
    named: Named,
    notify: Notify,
    progress: Progress,
) -> Verification:
    check_files(directory)
    findings = check_digests(directory, record)
    try:
        run = load_run(directory)
    except InputError as error:
        damage = Finding(file=str(directory), place="", message=error.message)
        return Verification(findings=(*findings, damage))
    findings += [*check_record(run), *check_rows(run), *check_systems(run)]
    findings += [*check_timings(run), *check_gold_facts(run), *check_tables(run)]
    if any(each.name not in run.predictors for each in run.record.predictors):
        return Verification(findings=tuple(findings))
    found, passages, notes = _check_report(run)
    findings += found
    searched, reason = searched_corpus(run, corpus)
    if searched is not None:
        findings += searched.check(passages)
    elif corpus is not None:
        findings.append(Finding(file=names.RUN_JSON, place="corpus_digest", message=reason))
    elif reason and passages is not None:
        notes.append(f"{reason}, so the passages in {names.REPORT_HTML} were not compared")
    if seal is not None:
        findings += check_seal_copy(run, seal)
    done = None
    if rerun:
        done, found = ask_again(run, rerun, named, progress=progress, notify=notify)
        findings += found
    return Verification(findings=tuple(findings), notes=tuple(notes), rerun=done)


def _check_report(run: RunData) -> tuple[list[Finding], Passages | None, list[str]]:
    """Check the reports and the plots, and return findings, the passages in ``report.html``, and notes."""
    report = report_content(run)
    drawn, notes = drawings(report.plots), []
    findings: list[Finding] = []
    for name, svg in drawn.items():
        file = f"{names.PLOTS}/{name}.svg"
        found = read_text(run.directory / file)
        elsewhere = drawn_elsewhere(found or "")
        if elsewhere is None:
            findings += compare_lines(file, found, standalone(svg))
        elif same_to_the_eye(elsewhere, svg):
            drawn[name] = elsewhere
            notes.append(f"{file} was drawn by another version of Altair or vl-convert, but looks the same")
        else:
            message = (
                "was drawn by another version of Altair or vl-convert, and looks different from the plot "
                "that the installed version draws"
            )
            findings.append(Finding(file=file, place="", message=message))
    text = read_text(run.directory / names.REPORT_MD)
    findings += compare_lines(names.REPORT_MD, text, markdown(report))
    page = read_text(run.directory / names.REPORT_HTML)
    passages = kept_passages(page) if page is not None else None
    findings += compare_lines(names.REPORT_HTML, page, html(run, report, drawn, passages))
    return findings, passages, notes
