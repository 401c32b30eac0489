"""Compute the content of a report from the run's files alone, so that the same files give the same report.

1. The scores, the comparisons and the slices are computed from the rows, the timings and the questions.
2. The content consists of sections with text, tables and plots. The Markdown and HTML writers only format
   this content.
3. The report starts with the recommendation, the costs and the questions. Statistics and details follow.
4. Below 50 questions, the report starts with the recommendation, one table and the questions, and the other
   sections are folded.
"""

from __future__ import annotations

from msgspec.structs import replace

from branchrank.core.io.table import Table
from branchrank.reports.blocks import Block, Code, QuestionBrowser, Report, ReportSection
from branchrank.reports.browser import hits_shown, missed
from branchrank.reports.costs import agents, chunking, latency, llm_cost, shared_work, sweeps, trade_off
from branchrank.reports.equal_reading import reading
from branchrank.reports.losses import failures, lost, sliced, unanswerable
from branchrank.reports.recommendation import is_pilot
from branchrank.reports.result import asked, judged_documents, passages, result
from branchrank.reports.statistics import statistics
from branchrank.runs.directory import COMMAND, TREC, IndexFacts, PredictorRecord, RunRecord
from branchrank.runs.run_data import RunData
from branchrank.runs.warnings import agent_factors
from branchrank.runs.words import counted, plural
from branchrank.search.systems.query import read_filters


def heading(run: RunData) -> str:
    """Return the report's title, which starts with "Pilot:" for fewer than 50 answerable questions.

    The title names the run, and the systems that were tuned on the run's questions.
    """
    name = f"{run.record.name}: " if run.record.name else ""
    pilot = "Pilot: " if is_pilot(run) else ""
    tuned = f" ({', '.join(names)} tuned on these questions)" if (names := run.record.tuned_here) else ""
    return f"{pilot}{name}{run.record.experiment}, {asked(run)}{tuned}"


def in_short(run: RunData) -> tuple[str, ...]:
    """Return short facts about the run for the top of a report."""
    split = (f"split {run.record.split}",) if run.record.split else ()
    systems = plural(len(run.predictors), "system")
    pages, judged = len(set(run.clusters.values())), judged_documents(run)
    return (
        systems,
        f"gold on {plural(pages, 'page')}" if judged is None else plural(judged, "relevant document"),
        *split,
        f"seed {run.record.seed}",
        run.record.created[:10],
    )


def report_content(run: RunData) -> Report:
    """Return the complete content of a run's report."""
    head, *more = result(run)
    sections = [
        head,
        *more,
        trade_off(run),
        sweeps(run),
        asked := questions(run),
        statistics(run),
        passages(run),
        reading(run),
        chunking(run),
        latency(run),
        llm_cost(run),
        agents(run),
        lost(run),
        sliced(run),
        unanswerable(run),
        failures(run),
        facts(run),
        shared_work(run.record),
        repeat(run.record),
    ]
    shown = [section for section in sections if section is not None]
    if is_pilot(run):
        folded = (replace(each, folded=True) for each in shown if each not in (head, asked))
        shown = [head, asked, *folded]
    return Report(title=heading(run), facts=in_short(run), sections=tuple(shown))


def questions(run: RunData) -> ReportSection:
    """Return the section that contains the question browser."""
    instead = (
        f"report.html shows the {len(run.asked)} questions with all answers, questions.csv has a row for "
        "each question and predictor, and branchrank explain RUN QUESTION shows the stages of one question."
    )
    browser = QuestionBrowser(instead=instead, misses=missed(run) if is_pilot(run) else ())
    note = (
        f"For {len(run.hard_set)} of {len(run.scores.answerable)} answerable questions (see hard.jsonl), "
        "no predictor returned a strict hit at rank 1."
    )
    if (shown := hits_shown(run)) < run.record.top_k:
        note += f" report.html shows the first {shown} of the {run.record.top_k} stored hits of each answer."
    return ReportSection("Questions", (note, browser))


def facts(run: RunData) -> ReportSection:
    """Return the section about the run's questions, corpus, indexes and settings."""
    record, clusters, judged = run.record, len(set(run.clusters.values())), judged_documents(run)
    origin = f"from {plural(clusters, 'source')}" if judged is None else plural(judged, "relevant document")
    rows = [
        ("questions", f"{asked(run)}, {origin}; {record.questions_file}"),
        ("questions' digest", record.questions_digest[:16]),
        ("split", record.split or "no split declared"),
        ("corpus", f"{record.corpus} (digest {record.corpus_digest[:16]})" if record.corpus else "none"),
    ]
    for index in record.indexes:
        name = "index" if len(record.indexes) == 1 else f"index {index.name}"
        described = (
            f"{index.embedder}, {index.dimension} dimensions; {index.vector_store}{_recall(index)}; "
            f"{plural(index.chunks, 'chunk')}, {plural(index.nodes, 'node')}; digest {index.digest[:16]}"
        )
        built = f"{index.build_seconds:.1f} s, {index.bytes / 1e6:.1f} MB on disk"
        rows += [(name, described), (f"{name}, build", built)]
        if index.identity and index.identity.sent:
            rows.append((f"{name}, sent to the model", index.identity.sent))
        if index.distance.words and _calibrated(run, index.name):
            rows.append((f"{name}, threshold", index.distance.words))
    rows += [(each.name, _asked_where(each)) for each in record.predictors if each.system is None]
    for each in record.predictors:
        if factors := agent_factors(each.system):
            rows.append(
                (f"{each.name}, agent", "; ".join(f"{name}: {value}" for name, value in factors.items()))
            )
    if record.filters:
        rows.append(("filters", f"{' and '.join(record.filters)}: {_filtered(run)}"))
    rows += [
        ("seal", "none" if record.seal is None else f"{record.seal.file} (digest {record.seal.digest[:16]})"),
        *([("judged hits", run.judged[0])] if run.judged[0] else []),
        ("hits kept", str(record.top_k)),
        ("seed", str(record.seed)),
        ("created", record.created),
    ]
    return ReportSection("Run details", (_facts_table("Questions, corpus, index and settings", rows),))


def _asked_where(predictor: PredictorRecord) -> str:
    """Return what answered for a predictor that is not a system, and whether it could see the gold."""
    if predictor.origin.startswith(TREC):
        return f"hits of {predictor.origin}"
    if predictor.origin.startswith(("http://", "https://")):
        return f"{predictor.origin}, over HTTP"
    if predictor.origin.startswith(COMMAND):
        return f"{predictor.origin}, with the search tools of the index {predictor.index}"
    if predictor.source_digest:
        return f"{predictor.origin}, in a process of its own"
    return "object in the process of the benchmark, which holds the gold"


def _facts_table(caption: str, rows: list[tuple[str, str]]) -> Table:
    return Table(caption=caption, headings=("fact", "value"), rows=tuple(rows), labels=2)


def _recall(index: IndexFacts) -> str:
    """Describe the recall of an approximate vector store, or return "" if no recall had to be measured."""
    if index.recall is None:
        return " (recall not measured because of an error)" if index.recall_depth else ""
    return f" (recall@{index.recall_depth} {index.recall:.4f})"


def _filtered(run: RunData) -> str:
    """Describe how many answerable questions have an answer in documents that pass the filters."""
    filters = read_filters(run.record.filters)
    answerable = [question for question in run.asked if question.gold]
    inside = sum(
        any(all(each.admits(gold.source_file) for each in filters) for gold in question.gold)
        for question in answerable
    )
    found = counted(inside, len(answerable), "answerable question", "has", "have")
    return f"{found} an answer in these documents"


def _calibrated(run: RunData, index: str) -> bool:
    """Return whether any predictor uses this index's calibrated distance threshold."""
    return any(
        branch.threshold == "calibrated"
        for each in run.record.predictors
        if each.system is not None
        for branch in each.system.branches
        if (branch.index or each.index) == index
    )


def repeat(record: RunRecord) -> ReportSection:
    """Return the section about the run's command, the version of the code and the machine."""
    blocks: list[Block] = [Code(text=record.command)]
    origin = record.provenance
    if origin is not None:
        dirty = ", with uncommitted changes" if origin.git_dirty else ""
        gigabytes = origin.memory_bytes / 2**30
        rows = [
            ("BranchRank", origin.branchrank),
            ("git commit", f"{origin.git_commit or 'none'}{dirty}"),
            ("Python", origin.python),
            ("machine", f"{origin.processor}, {origin.cores} cores, {gigabytes:.0f} GiB, {origin.system}"),
            ("packages", ", ".join(f"{name} {version}" for name, version in origin.packages.items())),
        ]
        blocks.append(_facts_table("Code and machine", rows))
    words = (
        f"The measurements are in {record.rows_file}, timings.csv, questions.jsonl and gold.jsonl. The "
        "command branchrank verify recomputes all other figures from them. Digests detect damage and "
        "accidental edits, but not deliberate changes by someone who also updates the digests."
    )
    return ReportSection("Repeating the run", (*blocks, words))
