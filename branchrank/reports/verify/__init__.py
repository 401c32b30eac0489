"""Verify a run: compare its files with their digests, with its rows, and with the corpus, a seal and a rerun.

1. The digests of the measurement files and of ``run.json`` are recomputed and compared with the digests
   recorded in ``run.json``. The digest of ``run.json`` covers the whole file except that digest.
2. The tables, reports and plots are made again from the rows, timings and questions and compared
   (:mod:`branchrank.reports.verify.derived`).
3. The run is compared with the corpus, if the corpus is available, with the copy of the plan's seal if
   ``seal`` is given, and with the index and new answers to some questions if ``rerun`` is given
   (:mod:`branchrank.reports.verify.rerun`).

Digests detect damage and accidental edits, but not changes by someone who also updates the digests. Rows that
were changed consistently are found only by a rerun.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from branchrank.core.errors import InputError
from branchrank.core.io.progress import Notify, Progress, no_notice, shown_progress
from branchrank.core.records import UNPLACED, Hit, Question, Record
from branchrank.documents.loading import digest_now
from branchrank.documents.named import locate_corpus
from branchrank.documents.reading import document_lines
from branchrank.questions.anchoring import check_anchors
from branchrank.questions.question_files import HASHED
from branchrank.reports.verify.derived import (
    Finding,
    check_derived,
    check_record,
    check_rows,
    row_finding,
    some,
)
from branchrank.reports.verify.rerun import Rerun, ask_again
from branchrank.runs import directory as names
from branchrank.runs.bench.record import differences, read_seal, stored_seal
from branchrank.runs.bench.resume import RunAccess
from branchrank.runs.directory import RunRecord, check_files, read_run
from branchrank.runs.run_data import RunData
from branchrank.runs.slices import gold_facts, question_words
from branchrank.scoring.matching import JudgedHit, judge

__all__ = ["Finding", "Rerun", "Verification", "verify"]

#: The fields of a judged hit that a predictor returned, and those that follow from the hit's lines.
_RETURNED = set(JudgedHit.__struct_fields__) & set(Hit.__struct_fields__)
_JUDGED = set(JudgedHit.__struct_fields__) - _RETURNED - {"characters", "tokens"}


class Verification(Record, frozen=True, kw_only=True):
    """The result of verifying a run; ``notes`` list files that could not be compared exactly."""

    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    rerun: Rerun | None = None


def verify(
    directory: str | Path,
    *,
    rerun: int = 0,
    seed: int | None = None,
    corpus: str | Path | None = None,
    seal: str | Path | None = None,
    access: RunAccess | None = None,
    notify: Notify = no_notice,
    progress: bool | Progress = False,
) -> Verification:
    """Recompute every number in a run's reports, and report wrong numbers and contradictions.

    ``rerun`` is the number of randomly drawn questions that the systems answer again with the workspace's
    index. ``seed`` repeats a draw; by default, each draw is different, so that the author of a run can't know
    which questions are drawn. LLM answers are taken from the run's cassette.
    ``access.trust`` allows the rerun to use the classes, endpoints and models that the run names.
    ``access.replay`` is the path of the cassette, and ``access.data_dir`` is the run's workspace, if it has
    moved. A predictor is skipped if it needs a cassette or trust that ``access`` does not give. ``corpus`` is
    the folder that contains the corpus now. ``seal`` is the seal file of the run's plan, or a copy of it.

    Raises :class:`~branchrank.core.errors.RunError` if the directory does not contain a run, or if the
    workspace's index or questions have changed since the run.
    """
    directory = Path(directory)
    record = read_run(directory)
    check_files(directory)
    findings = list(_digests(directory, record))
    try:
        run = RunData.load(directory)
    except InputError as error:
        return Verification(
            findings=(*findings, Finding(file=str(directory), place="", message=error.message))
        )
    findings += check_rows(run)
    if any(each.name not in run.predictors for each in record.predictors):
        return Verification(findings=tuple(findings))
    findings += check_record(run)
    if not record.corpus and (rerun or corpus is not None) and any(each.system for each in record.predictors):
        message = "is empty, although the systems of the run searched a corpus"
        findings.append(Finding(file=names.RUN_JSON, place="corpus", message=message))
    root, reason = _corpus(record, None if corpus is None else locate_corpus(corpus))
    if root is not None:
        findings += _against_corpus(run, root)
        findings += some(record.rows_file, list(_unfounded(run, root)))
    elif corpus is not None:
        findings.append(Finding(file=names.RUN_JSON, place="corpus_digest", message=reason))
    derived, notes = check_derived(run, root)
    if root is None and corpus is None and reason:
        notes.append(f"{reason}, so the passages in {names.REPORT_HTML} were not compared")
    findings += derived
    if seal is not None:
        found = differences(read_seal(Path(seal)), stored_seal(directory, record))
        findings += [Finding(file=names.RUN_JSON, place="seal", message=str(each)) for each in found]
    done = None
    if rerun:
        with shown_progress(progress) as shown:
            done, again = ask_again(run, rerun, seed, access or RunAccess(), shown, notify)
        findings += again
    return Verification(findings=tuple(findings), notes=tuple(notes), rerun=done)


def _digests(directory: Path, run: RunRecord) -> Iterator[Finding]:
    """Compare the measurement files and ``run.json`` with their recorded digests."""
    if not run.digests:
        message = "are missing, since the run is not finished"
        yield Finding(file=names.RUN_JSON, place="digests", message=message)
        return
    for name, message in names.changed_files(directory, run):
        yield Finding(file=name, place="", message=message)


def _corpus(record: RunRecord, corpus: Path | None) -> tuple[Path | None, str]:
    """Return the folder with the corpus that the run searched, or ``None`` and the reason."""
    if corpus is None and not record.corpus:
        searched = any(each.system for each in record.predictors)
        return None, f"{names.RUN_JSON} has no path of the corpus" if searched else ""
    root = corpus if corpus is not None else Path(record.corpus)
    digest = digest_now(root, record.corpus_exclude)
    if digest == record.corpus_digest:
        return root, ""
    if not digest:
        return None, f"there are no documents in {root}"
    return None, f"{root} is not the corpus that the run searched: its digest is different"


def _against_corpus(run: RunData, root: Path) -> list[Finding]:
    """Check that quotes are in the gold lines, and compare ``gold.jsonl`` with the corpus."""
    findings = []
    for question in run.asked:
        lines = {}
        for source in {*question.source_aliases, *(item.source_file for item in question.gold)}:
            try:
                lines[source] = document_lines(root, source)
            except OSError:
                continue
        gold = tuple(
            replace(item, answer_quote=None) if (item.answer_quote or "").startswith(HASHED) else item
            for item in question.gold
            if item.source_file in lines
        )
        findings += [
            Finding(
                file=names.QUESTIONS, place=f"question {question.id!r}", message=f"gold: {problem.message}"
            )
            for problem in check_anchors([replace(question, gold=gold)], lines)
        ]
    # Runs of older versions don't store the words that no page with gold contains.
    keeps = any(each.unsaid is not None for each in run.gold_facts)
    analyze = question_words(run.record) if keeps else None
    now = {each.question_id: each for each in gold_facts(run.asked, root, analyze)}
    for question in run.asked:
        if question.id in now and (stored := run.facts.get(question.id)):
            hidden = question.question.startswith(HASHED)  # near-duplicates can't be found
            known = {"cluster": stored.cluster} if hidden else {}
            older: dict[str, str] = {} if stored.digest else {"digest": ""}
            now[question.id] = replace(now[question.id], **known, **older)
    changed = [key for key in now.keys() | run.facts.keys() if now.get(key) != run.facts.get(key)]
    differing = [
        Finding(file=names.GOLD, place=f"question {key!r}", message="differs from the corpus")
        for key in sorted(changed)
    ]
    return [*some(names.QUESTIONS, findings), *some(names.GOLD, differing)]


def _unfounded(run: RunData, root: Path) -> Iterator[Finding]:
    """Yield a finding for each judgment of a hit that the hit's lines contradict.

    The hits are judged again, so a credit that is missing is found as well as a wrong one. The text of a hit
    is read from the documents, because rows contain no text. A quote that the run stores only as a digest
    can't be searched for, so a credit by this quote is not checked.
    """

    @cache
    def lines(source: str) -> list[str]:
        try:
            return document_lines(root, source)
        except OSError:
            return []

    def as_returned(hit: JudgedHit, question: Question) -> Hit:
        quotes = [question.gold[item].answer_quote or "" for item in hit.credits]
        own = lines(hit.source)[hit.line_start - 1 : hit.line_end]
        text = "\n".join([*own, *(quote for quote in quotes if quote.startswith(HASHED))])
        kept = {name: getattr(hit, name) for name in _RETURNED}
        return Hit(text=text, **kept)

    for row in run.rows:
        question = run.scores.questions[row.question_id]
        judged = judge([as_returned(hit, question) for hit in row.hits], question).hits
        if len(judged) < len(row.hits):
            yield row_finding(run.record.rows_file, row.key, "has a hit that overlaps an excluded span")
            continue
        for rank, (hit, again) in enumerate(zip(row.hits, judged, strict=True), start=1):
            unknown = {"blank_lines"} if hit.source == UNPLACED else set()
            for name in sorted(_JUDGED - unknown):
                stored, made = getattr(hit, name), getattr(again, name)
                if stored != made:
                    message = f"hit {rank}: {name} is {stored!r}, should be {made!r}"
                    yield row_finding(run.record.rows_file, row.key, message)
