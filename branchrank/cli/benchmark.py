"""``branchrank benchmark`` and ``benchmark_run.py``: run predictors on the same questions."""

from __future__ import annotations

from pathlib import Path

import click

from branchrank.cli.options import (
    data_dir_option,
    filter_option,
    running_options,
    settings_options,
    typed_command,
)
from branchrank.cli.querying import workspace_settings
from branchrank.cli.terminal import Command, import_from_here
from branchrank.settings import (
    BenchmarkSettings,
    Bm25Settings,
    CacheSettings,
    EngineSettings,
    GrepSettings,
    HybridSettings,
    IndexSettings,
    LateInteractionSettings,
    LLMSettings,
    LocalSettings,
    PageindexSettings,
    QdrantSettings,
    RetrievalSettings,
)


@click.command("benchmark", cls=Command, resumes=True)
@data_dir_option
@click.option(
    "--predictor",
    "predictors",
    multiple=True,
    default=("all",),
    show_default=True,
    help="Predictor to run: local, pageindex, hybrid, grep, qdrant, sqlite, late-interaction, bm25, dense, "
    "api, or your own class as module:Class. Use `all` for the first three predictors in this list, or "
    "`family` for the first seven. Repeatable.",
)
@click.option(
    "--questions",
    "questions_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The question file. Default: the question file of the workspace.",
)
@click.option("--experiment", default="benchmark", show_default=True, help="Name of the experiment.")
@click.option(
    "--split",
    default="",
    help="Name of the questions' split for the report, such as tuning or test. All questions are used.",
)
@click.option(
    "--api-endpoint",
    default="",
    help="URL of the endpoint for --predictor api. The endpoint must answer POST /retrieve. The value of the "
    "environment variable BRANCHRANK_API_TOKEN is sent to the endpoint as a bearer token.",
)
@click.option("--api-predictor", default="", help="Predictor that the API endpoint runs.")
@filter_option
@running_options
@settings_options(
    BenchmarkSettings,
    LocalSettings,
    HybridSettings,
    PageindexSettings,
    GrepSettings,
    QdrantSettings,
    RetrievalSettings,
    LateInteractionSettings,
    Bm25Settings,
    LLMSettings,
    IndexSettings,
    CacheSettings,
    EngineSettings,
)
def command(
    data_dir: Path,
    predictors: tuple[str, ...],
    questions_file: Path | None,
    reports: Path,
    experiment: str,
    split: str,
    api_endpoint: str,
    api_predictor: str,
    filters: tuple[str, ...],
    fresh: bool,
    dry_run: bool,
    seal: Path | None,
    quiet: bool,
) -> None:
    """Run predictors on the same questions, and report quality, latency and LLM cost.

    An interrupted run with the same plan is resumed.
    """
    from branchrank.cli.benchmarking import run_and_report
    from branchrank.library import plan_from_names

    if any(":" in name for name in predictors):
        import_from_here()
    plan = plan_from_names(
        predictors,
        data_dir=data_dir,
        settings=workspace_settings(data_dir),
        api_endpoint=api_endpoint,
        api_predictor=api_predictor,
        questions=questions_file,
        reports=reports,
        experiment=experiment,
        split=split,
        filters=filters,
        command=typed_command(),
    )
    run_and_report(plan, quiet=quiet, fresh=fresh, dry_run=dry_run, seal=seal)
