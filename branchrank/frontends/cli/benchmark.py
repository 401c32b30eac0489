"""Run benchmarks: the commands ``benchmark``, ``run``, ``resume`` and ``beir``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

import branchrank
from branchrank.core.errors import FailedRunError, UsageError
from branchrank.core.io.text_files import read_text
from branchrank.frontends.cli.options import (
    ACCESS,
    ALL_PAIRS,
    DATA_DIR,
    FILE,
    FILTER,
    FOLDER,
    FRESH,
    FUSION,
    LATEX,
    PASS_ENV,
    QUIET,
    REPORTS,
    RUNNING,
    VERBOSE,
    RunFolder,
    flag,
    given_flags,
    settings_options,
    switch,
    typed_command,
    write_latex,
)
from branchrank.frontends.cli.terminal import (
    Command,
    CommandGroup,
    browse,
    import_from_here,
    print_notes,
    safe,
    say,
    shown_path,
)


def run_and_report(
    plan: branchrank.library.Plan,
    options: branchrank.library.BenchmarkOptions,
    *,
    verbose: bool,
    open_report: bool = False,
    dry_run: bool = False,
) -> None:
    """Run a plan, write the run's report and print its table.

    With ``dry_run``, only print the estimated cost. If no file exists at the path ``options.seal``, the plan
    is written to this path and is not run.

    Raises :class:`FailedRunError` if all queries or all LLM calls of a predictor failed. The report of a
    failed run is written before the error is raised.
    """
    if dry_run:
        print_estimate(branchrank.library.estimate_plan(plan))
        return
    if options.seal is not None and not Path(options.seal).exists():
        made = branchrank.library.seal_plan(plan, Path(options.seal))
        click.echo(f"the plan is sealed in {safe(str(options.seal))} (digest {made.digest}); nothing was run")
        click.echo("to prove that the plan is older than the run, publish a copy of this file before the run")
        return
    run = branchrank.library.run_benchmark(plan, options)
    report_run(run, partial(run.print, verbose=verbose), open_report=open_report)


def _options(quiet: bool, **given: Any) -> branchrank.library.BenchmarkOptions:
    return branchrank.library.BenchmarkOptions(notify=say, progress=not quiet, **given)


def report_run(run: branchrank.Run, show: Callable[[], object], *, open_report: bool = False) -> None:
    """Call ``show``, print the path of the report, and open the report in the browser if requested.

    Raises :class:`FailedRunError` if all queries or all LLM calls of a predictor failed.
    """
    show()
    path = run.directory / "report.html"
    report = shown_path(path)
    click.echo(f"report: {report}")
    if open_report:
        browse(path)
    if run.failed:
        raise FailedRunError(
            "\n".join(("ignore the results of these predictors:", *run.failed)),
            remedy=f"read the errors in {report}, fix the cause and run the command again",
        )


def print_estimate(estimate: branchrank.library.PlanEstimate) -> None:
    """Print the indexes to build, each predictor's queries, and upper bounds for its LLM calls and tokens."""
    from branchrank.runs.words import plural

    click.echo(f"{safe(estimate.experiment)}: {plural(estimate.questions, 'question')}")
    for why in estimate.to_build:
        click.echo(f"  {safe(why)}; the run builds it first")
    for row in estimate.predictors:
        where = f" on index {safe(row.index)}" if row.index else ""
        click.echo(f"  {safe(row.predictor)}{where}: {plural(row.queries, 'query')}")
        if row.llm is None:
            continue
        line = f"    at most {row.llm.calls} LLM calls and {row.llm.tokens} tokens at {safe(row.model)}"
        if estimate.prices is not None:
            known = row.cost is not None
            priced = f"{row.cost:.4f} {estimate.prices.currency}" if known else "no price for this model"
            line += f": {priced}, prices of {estimate.prices.date}"
        click.echo(line)


@click.command("benchmark", cls=Command, resumes=True)
@DATA_DIR
@flag(
    "--predictor predictors",
    "Predictor to run: local, pageindex, hybrid, grep, qdrant, sqlite, late-interaction, bm25, dense, "
    "agent, agent-grep, agent-vector, agent-memory, api, your own class as module:Class, a pipeline as "
    "langchain:module:retriever (also llamaindex, haystack, pyterrier), or trec:FILE. Use `all` for the "
    "first three predictors in this list, or `family` for the first seven. Repeatable.",
    ("all",),
    multiple=True,
)
@flag("--questions", "The question file. Default: the question file of the workspace.", kind=FILE)
@flag("--experiment", "Name of the experiment.", "benchmark")
@flag(
    "--split", "Name of the questions' split for the report, such as tuning or test. All questions are used."
)
@flag(
    "--api-endpoint",
    "URL of the endpoint for --predictor api. The endpoint must answer POST /retrieve. The value of the "
    "environment variable BRANCHRANK_API_TOKEN is sent to the endpoint as a bearer token, but only to the "
    "host in BRANCHRANK_API_TOKEN_HOST, if this variable is set.",
)
@flag("--api-predictor", "Predictor that the API endpoint runs.")
@FILTER
@FUSION
@RUNNING
@settings_options("benchmark", "local", "hybrid", "pageindex", "grep", "qdrant", "retrieval")
@settings_options("late_interaction", "agent", "bm25", "llm", "index", "anchoring", "cache", "engine")
def benchmark(data_dir: Path, predictors: tuple[str, ...], **given: Any) -> None:
    """Run predictors on the same questions, and report quality, latency and LLM cost.

    An interrupted run with the same plan is resumed.
    """
    from branchrank.index.workspace_folder import WorkspaceFolder
    from branchrank.runs.bench.plan import Plan, plan_from_names

    if any(":" in name for name in predictors):
        import_from_here()
    shown = {name: given.pop(name) for name in ("dry_run", "verbose", "open_report")}
    options = _options(**{name: given.pop(name) for name in ("fresh", "seal", "quiet")})
    folder = WorkspaceFolder.open(data_dir, flags=given_flags(), notify=say)
    api = {name: given.pop(name) for name in ("api_endpoint", "api_predictor")}
    settings, config = folder.settings, folder.content
    asked = Plan(data_dir=data_dir, settings=settings, config=config, command=typed_command(), **given)
    run_and_report(plan_from_names(predictors, asked, **api), options, **shown)


@click.command("run", cls=Command, resumes=True)
@click.argument("experiment", type=FILE, default="experiment.toml")
@FUSION
@RUNNING
@PASS_ENV
@settings_options("benchmark", "llm", "cache", "engine")
@settings_options("hybrid.no_llm", "pageindex.no_llm", "late_interaction.no_llm")
@settings_options("agent")
def run(
    experiment: Path, reports: Path, name: str, fresh: bool, seal: Path | None, quiet: bool, **shown: Any
) -> None:
    """Run the systems of EXPERIMENT, a TOML file, and write a report. Default: experiment.toml.

    The whole file is checked before the run, and all problems are reported together. The classes, chunkers
    and commands that the file names are executed, but not by --dry-run.
    """
    from branchrank.library import plan_from_experiment

    dry_run = shown["dry_run"]
    if not dry_run and experiment.is_file() and "predictor" in read_text(experiment, error=UsageError):
        import_from_here()
    plan = plan_from_experiment(
        experiment,
        given_flags(),
        reports=reports,
        name=name,
        command=typed_command(),
        notify=say,
        dry_run=dry_run,
    )
    plan = msgspec.structs.replace(plan, pass_env=shown.pop("pass_env"))
    run_and_report(plan, _options(quiet, fresh=fresh, seal=seal), **shown)


@click.command("resume", cls=Command, resumes=True)
@click.argument("run", type=RunFolder("interrupted"))
@ACCESS
@settings_options("engine")
@QUIET
@VERBOSE
def resume(run: Path, quiet: bool, verbose: bool, **access: Any) -> None:
    """Resume an interrupted RUN and keep its finished rows.

    Hosts, models, files and classes that RUN names are used only with --trust, because RUN may come from
    another person. Without --trust, the error lists them. RUN stores no credentials: set a URL with a
    password in the environment variable of its setting. A run cannot be resumed if its corpus, questions,
    index or settings have changed.
    """
    from branchrank.library import RunAccess, plan_from_run

    if access["trust"]:
        import_from_here()
    plan = plan_from_run(run, RunAccess(engine=given_flags(), **access))
    run_and_report(plan, _options(quiet, resume=run), verbose=verbose)


#: The benchmark and system settings that have an effect when whole documents are ranked.
_BENCHMARK = ("sample_size", "sample_seed", "top_k", "latency_sample", "rows", "baseline", "delta", "alpha")
_LOCAL = ("fusion", "rrf_k", "bm25_weight", "vector_weight")
_LATE_INTERACTION = ("bm25_weight", "vector_weight", "maxsim_candidates", "maxsim_weight")
SPLIT = flag("--split", "Read the judgments in qrels/SPLIT.tsv.", "test")
REMOVE_QUERY = switch("--remove-query", "Exclude a document from the hits of the query with the same id.")


@click.group("beir", cls=CommandGroup)
def beir() -> None:
    """Benchmark predictors on a BEIR folder, or convert its queries to questions."""


@beir.command("run", resumes=True)
@click.argument("folder", type=FOLDER)
@SPLIT
@flag(
    "--predictor predictors",
    "Predictor to run: bm25, dense, local, late-interaction, another system, or your own class as "
    "module:Class. Repeatable.",
    ("bm25",),
    multiple=True,
)
@flag(
    "--measure -m measures",
    "Name of a measure in ir-measures. The first measure is the primary measure. Repeatable.",
    ("nDCG@10", "R@100", "AP"),
    multiple=True,
)
@flag(
    "--data-dir",
    "Workspace for the index. Default: data/NAME, where NAME is the name of FOLDER.",
    kind=FOLDER,
)
@REMOVE_QUERY
@ALL_PAIRS
@LATEX
@REPORTS
@FRESH
@QUIET
@settings_options("index", "bm25", "cache", "engine")
@settings_options(*(f"benchmark.{name}" for name in _BENCHMARK))
@settings_options(*(f"local.{name}" for name in _LOCAL))
@settings_options(*(f"late_interaction.{name}" for name in _LATE_INTERACTION))
def run_beir(predictors: tuple[str, ...], latex: Path | None, quiet: bool, fresh: bool, **asked: Any) -> None:
    """Index the BEIR folder FOLDER, run predictors on its queries, and print the table of results.

    FOLDER can also be ir:ID for a dataset from the ir-datasets package, such as ir:beir/scifact/test.
    Download the dataset first with `branchrank corpus add ir:ID`.

    Each predictor ranks whole documents. The first predictor is the baseline, unless you choose another one
    with --baseline. All other predictors are compared with the baseline. With --all-pairs, all predictors are
    compared with each other. An existing index is reused, and an interrupted run is resumed.

    Some defaults of `branchrank beir run` differ from those in the list of flags. The defaults for a new
    workspace are --embedder none, --vector-store exact, --bm25-stop-words english and
    --no-bm25-split-identifiers. The defaults for a run are --top-k 1000 and no latency pass.
    Runs with 100,000 hits or more are stored with --rows compact. The predictors dense, local and
    late-interaction need an embedding model, such as --embedder all-MiniLM-L6-v2.
    """
    from branchrank import library

    if any(":" in name for name in predictors):
        import_from_here()
    made = library.run_beir(
        library.BeirOptions(predictors=predictors, settings=given_flags(), command=typed_command(), **asked),
        library.BenchmarkOptions(fresh=fresh, notify=say, progress=not quiet),
    )
    table = library.run_table(made)
    write_latex(latex, table)
    report_run(made, lambda: click.echo(f"{table}\n"))


@beir.command("questions")
@click.argument("folder", type=FOLDER)
@SPLIT
@flag("--output", "The question file to write.", kind=FILE, required=True)
@REMOVE_QUERY
def beir_questions(folder: Path, split: str, output: Path, remove_query: bool) -> None:
    """Convert the queries and relevance judgments of the BEIR folder FOLDER to questions."""
    from branchrank import library

    made = library.import_beir(folder, output, split=split, remove_query=remove_query)
    print_notes(made.notes)
    relevant = sum(len(question.gold) for question in made.questions)
    click.echo(f"{output}: {len(made.questions)} questions, {relevant} relevant documents")
