"""Prepare the workspace, the index, the questions and the plan for a benchmark on a BEIR folder.

1. The BEIR folder is indexed in its own workspace, and later runs reuse the index.
2. The judged queries of a split become the questions. Documents with a grade above 0 become the gold.
3. Every predictor ranks up to 1,000 whole documents (:mod:`branchrank.search.systems.builtin`).
4. Measures use the graded judgments, so nDCG@10 has the same value as with trec_eval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from branchrank.core.errors import QuestionError, Remedy, UsageError
from branchrank.core.io.progress import Notify, Progress, no_notice
from branchrank.core.records import Record
from branchrank.core.settings import DEFAULT_REPORTS, BenchmarkSettings, IndexSettings
from branchrank.core.spec import System
from branchrank.documents.ir_collections import entries_place, is_beir
from branchrank.documents.named import locate_corpus
from branchrank.index.workspace_build import CorpusInputs, build_workspace
from branchrank.index.workspace_folder import CONFIG, WorkspaceFolder
from branchrank.questions.qrels import beir_questions
from branchrank.questions.question_files import write_questions
from branchrank.runs.bench.plan import Plan, plan_from_names
from branchrank.runs.comparisons import check_plan
from branchrank.runs.words import plural
from branchrank.scoring.measures import BEIR_MEASURES, MODES, named_measure
from branchrank.search.systems.builtin import DEPTH, builtin_systems, document_system
from branchrank.search.systems.system_checks import check_embedder, problems

#: Default settings of a new workspace. Text is analyzed as in published BM25 results, and vector search is
#: exact.
NEW_WORKSPACE: Mapping[str, object] = {
    "index.embedder": "none",
    "index.vector_store": "exact",
    "bm25.stop_words": "english",
    "bm25.split_identifiers": False,
}
#: Default settings of a BEIR benchmark.
RUN: Mapping[str, object] = {
    "benchmark.top_k": DEPTH,
    "benchmark.trace_depth": 0,
    "benchmark.latency_sample": 0,
}
#: Unless ``benchmark.rows`` is set, runs with at least this many hits (about 30 MB) store compact rows.
LARGE_RUN_HITS = 100_000
NOTES_SHOWN = 3


class BeirOptions(Record, frozen=True, kw_only=True):
    """A benchmark on a split of a BEIR folder or of a dataset ``ir:ID``.

    Settings override the defaults in :data:`NEW_WORKSPACE` and :data:`RUN`. All settings except
    ``benchmark.*`` are stored in the workspace.
    """

    folder: str | Path
    predictors: Sequence[str] = ("bm25",)
    #: The names of measures in the ir-measures package, computed on the graded judgments. The first one is
    #: the primary measure.
    measures: Sequence[str] = BEIR_MEASURES
    split: str = "test"
    #: The workspace, by default ``data/`` followed by the folder's name.
    data_dir: str | Path | None = None
    #: Whether the document with the query's id is removed from each query's hits.
    remove_query: bool = False
    settings: Mapping[str, object] | None = None
    reports: str | Path = DEFAULT_REPORTS
    #: The command as the user typed it.
    command: str = ""


def beir_plan(options: BeirOptions, notify: Notify = no_notice, progress: bool | Progress = False) -> Plan:
    """Index a BEIR folder or a dataset ``ir:ID``, write its questions, and return the benchmark's plan.

    Invalid files, names and measures are reported before the index is built.

    Raises :class:`UsageError` for an invalid name, measure or setting,
    :class:`~branchrank.core.errors.InputError` for an invalid file, and the same errors as
    :meth:`~branchrank.workspace.Workspace.build`.
    """
    folder = locate_corpus(options.folder)
    if not is_beir(folder):
        raise QuestionError(
            f"{folder} is not a BEIR folder: corpus.jsonl or queries.jsonl is missing",
            remedy="choose a folder with corpus.jsonl, queries.jsonl and qrels/test.tsv",
        )
    split = options.split
    name = folder.resolve().name
    place = Path("data", name) if options.data_dir is None else Path(options.data_dir)
    _check_place(place, name)
    made = beir_questions(folder, split, remove_query=options.remove_query)
    for line in made.notes[:NOTES_SHOWN]:
        notify(f"note: {line}")
    if (more := len(made.notes) - NOTES_SHOWN) > 0:
        notify(f"note: and {plural(more, 'more note')} on the judgments")
    is_new = not (place / CONFIG).exists()
    kept = {**(NEW_WORKSPACE if is_new else {}), **(options.settings or {})}
    index = {key: value for key, value in kept.items() if not key.startswith("benchmark.")}
    asked = {key: value for key, value in kept.items() if key.startswith("benchmark.")}
    run_settings = {**RUN, **asked, **_measure_settings(options.measures)}
    questions = place / "benchmark" / f"{name}-{split}.jsonl"

    def plan(workspace: WorkspaceFolder) -> Plan:
        planned = Plan(
            data_dir=place,
            settings=workspace.settings,
            questions=questions,
            experiment=f"{name}-{split}",
            split=split,
            reports=Path(options.reports),
            command=options.command,
        )
        systems = [each for name in options.predictors for each in _predictors(name, workspace)]
        return plan_from_names(systems, planned)

    planned = plan(WorkspaceFolder.open(place, flags={**kept, **run_settings}))
    _check(planned)
    if _is_large(planned, len(made.questions)):
        run_settings["benchmark.rows"] = "compact"
        notify(
            "note: the rows are compressed because the run is large; use --rows plain for a readable "
            "rows.jsonl"
        )
    opened = WorkspaceFolder.open(place, flags=index, notify=notify)
    build_workspace(opened, CorpusInputs(corpus=folder), progress)[1].close()
    write_questions(questions, made.questions)
    return plan(WorkspaceFolder.open(place, flags={**kept, **run_settings}, notify=notify))


def _is_large(plan: Plan, questions: int) -> bool:
    """Return whether the run is large and ``benchmark.rows`` is not set."""
    benchmark = plan.settings.part(BenchmarkSettings)
    asked = min(questions, benchmark.sample_size or questions)
    is_open = plan.settings.origins["benchmark.rows"] == "default"
    return is_open and asked * len(plan.predictors) * benchmark.top_k >= LARGE_RUN_HITS


def _check_place(place: Path, name: str) -> None:
    """Raise :class:`UsageError` if ``place`` is the workspace of a different corpus."""
    if (place / CONFIG).exists():
        corpus = WorkspaceFolder.open(place).config.corpus
        if corpus != entries_place(name):
            raise UsageError(
                f"{place} is the workspace of another corpus: {corpus}",
                remedy="choose another --data-dir",
            )


def _predictors(name: str, workspace: WorkspaceFolder) -> list[str | System]:
    """Return the systems that ``name`` stands for, adapted to rank documents.

    A name of the form ``module:Class`` is returned unchanged.
    """
    if ":" in name:
        return [name]
    return [document_system(system) for system in builtin_systems((name,), workspace.settings)]


def _measure_settings(measures: Sequence[str]) -> dict[str, object]:
    """Return the settings for the measures. Names without a prefix such as ``strict_`` get ``graded_``."""
    names = []
    for name in measures:
        found = named_measure(name, "graded")
        given = any(found.name.startswith(f"{mode}_") for mode in MODES)
        names.append(found.name if given else f"graded_{found.name}")
    if not names:
        raise UsageError("the list of measures is empty", remedy=Remedy("{}", "--measure", "nDCG@10"))
    return {"benchmark.primary": names[0], "benchmark.measures": ",".join(names[1:])}


def _check(plan: Plan) -> None:
    """Raise :class:`UsageError` for an invalid system or comparison, before the index is built."""
    check_plan(plan.settings.part(BenchmarkSettings), plan.names)
    for system in plan.systems:
        if found := problems(system):
            raise UsageError("\n".join(found), remedy="choose another --predictor")
        check_embedder(system, plan.settings.part(IndexSettings).embedder)
