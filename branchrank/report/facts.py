"""The report section about the run's questions, corpus, indexes and settings."""

from __future__ import annotations

from branchrank.io.table import Table
from branchrank.measures.matching import is_judged
from branchrank.report.blocks import Section
from branchrank.runs.directory import IndexFacts
from branchrank.runs.run import RunData
from branchrank.runs.words import plural
from branchrank.systems.query import read_filters


def asked(run: RunData) -> str:
    """Describe how many questions the run has, and how many of them are unanswerable."""
    without = len(run.asked) - len(run.scores.answerable)
    return plural(len(run.asked), "question") + (f", {without} of them unanswerable" if without else "")


def judged_documents(run: RunData) -> int | None:
    """Return the number of documents judged relevant, or ``None`` if any gold item is not a judged document.

    If the gold consists of judged documents (as in BEIR), questions that share documents are not clustered.
    """
    answerable = [each for each in run.asked if each.gold]
    if not answerable or not all(map(is_judged, answerable)):
        return None
    return len({item.source_file for each in answerable for item in each.gold})


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


def facts(run: RunData) -> Section:
    """Return the section about the run's questions, corpus, indexes and settings."""
    record, clusters, judged = run.record, len(set(run.clusters.values())), judged_documents(run)
    origin = f"from {plural(clusters, 'source')}" if judged is None else plural(judged, "relevant document")
    rows = [
        ("questions", f"{asked(run)}, {origin}; {record.questions_file}"),
        ("questions' digest", record.questions_digest[:16]),
        (
            "split",
            record.split or "not given; scores on questions used for tuning can overstate a system's quality",
        ),
        (
            "corpus",
            f"{record.corpus or 'none'} (digest {record.corpus_digest[:16]})" if record.corpus else "none",
        ),
    ]
    for index in record.indexes:
        name = "index" if len(record.indexes) == 1 else f"index {index.name}"
        rows.append(
            (
                name,
                f"{index.embedder}, {index.dimension} dimensions; {index.vector_store}{_recall(index)}; "
                f"{plural(index.chunks, 'chunk')}, {plural(index.nodes, 'node')}; "
                f"digest {index.digest[:16]}",
            )
        )
        rows.append((f"{name}, build", f"{index.build_seconds:.1f} s, {index.bytes / 1e6:.1f} MB on disk"))
        if index.distance.words and _calibrated(run, index.name):
            rows.append((f"{name}, threshold", index.distance.words))
    if record.filters:
        rows.append(("filters", f"{' and '.join(record.filters)}: {_filtered(run)}"))
    seal = "none" if record.seal is None else f"{record.seal.file} (digest {record.seal.digest[:16]})"
    rows += [
        ("seal", seal),
        ("hits kept", str(record.top_k)),
        ("seed", str(record.seed)),
        ("created", record.created),
    ]
    table = Table(
        caption="Questions, corpus, index and settings",
        headings=("fact", "value"),
        rows=tuple(rows),
        labels=2,
    )
    return Section(title="Run details", blocks=(table,))


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
    return f"{inside} of {plural(len(answerable), 'answerable question')} have an answer in these documents"


def _calibrated(run: RunData, index: str) -> bool:
    """Return whether any predictor uses this index's calibrated distance threshold."""
    return any(
        branch.threshold == "calibrated"
        for each in run.record.predictors
        if each.index == index and each.system is not None
        for branch in each.system.branches
    )
