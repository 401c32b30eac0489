"""``branchrank benchmark`` and ``benchmark_run.py``: predictors over the same seeded questions."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from branchrank.cli.options import TAKE_UP, data_dir_option, resolved_settings, settings_options
from branchrank.cli.terminal import Command
from branchrank.settings import (
    BenchmarkSettings,
    Bm25Settings,
    CacheSettings,
    GrepSettings,
    HybridSettings,
    IndexSettings,
    LLMSettings,
    LocalSettings,
    PageindexSettings,
    QdrantSettings,
    RetrievalSettings,
)


@click.command("benchmark", cls=Command)
@data_dir_option
@click.option(
    "--predictor",
    "predictors",
    multiple=True,
    default=("all",),
    show_default=True,
    help="local, pageindex, hybrid, grep, qdrant, sqlite, all (the first three), family (all six), api, "
    "or your own as module:Class. Repeatable.",
)
@click.option(
    "--questions",
    "questions_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The question file. Default: the workspace's.",
)
@click.option(
    "--reports",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("reports"),
    show_default=True,
    help="Where the run's directory is made.",
)
@click.option("--experiment", default="benchmark", show_default=True, help="Name in the run's directory.")
@click.option("--split", default="", help="Name of the split that the questions are, such as tuning or test.")
@click.option(
    "--api-endpoint",
    default="",
    help="URL of the POST /retrieve endpoint of --predictor api; "
    "BRANCHRANK_API_TOKEN in the environment is sent to it as a bearer token.",
)
@click.option("--api-predictor", default="", help="Predictor to ask that endpoint for.")
@click.option("--fresh", is_flag=True, help="Start anew where an interrupted run of this plan exists.")
@TAKE_UP
@click.option("--dry-run", is_flag=True, help="Print the plan and its estimated LLM cost; run nothing.")
@click.option("--quiet", is_flag=True, help="No progress.")
@settings_options(
    BenchmarkSettings,
    LocalSettings,
    HybridSettings,
    PageindexSettings,
    GrepSettings,
    QdrantSettings,
    RetrievalSettings,
    Bm25Settings,
    LLMSettings,
    IndexSettings,
    CacheSettings,
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
    fresh: bool,
    take_up: Path | None,
    dry_run: bool,
    quiet: bool,
) -> None:
    """Run predictors over the same seeded questions, and report quality, latency and LLM cost.

    An interrupted run of the same plan is taken up where it stopped.
    """
    from branchrank.cli.benchmarking import execute, require_endpoint
    from branchrank.cli.job import Job, Lineup
    from branchrank.systems.builtin import builtin_systems

    settings = resolved_settings(data_dir)
    require_endpoint(predictors, api_endpoint)
    built_in = tuple(name for name in predictors if ":" not in name and name != "api")
    systems = tuple(builtin_systems(built_in, settings))
    execute(
        Job(
            data_dir=data_dir,
            questions_file=questions_file,
            reports=reports,
            experiment=experiment,
            split=split,
            command=shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
            settings=settings,
            lineups=(Lineup(index="default", settings=settings, systems=systems),) if systems else (),
            classes=tuple(name for name in predictors if ":" in name),
            endpoint=api_endpoint if "api" in predictors else "",
            endpoint_predictor=api_predictor,
            repeats=settings.part(LLMSettings).repeats,
            fresh=fresh,
            take_up=take_up,
            dry_run=dry_run,
            quiet=quiet,
        )
    )
