"""``branchrank questions generate`` and ``branchrank pageindex summarize`` (commands that need an LLM)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

import branchrank
from branchrank.cli.options import data_dir_option, given_flags, settings_options
from branchrank.cli.terminal import Command, say
from branchrank.errors import InputError, LLMError
from branchrank.io.progress import shown_progress
from branchrank.llm.ledger import Spent
from branchrank.questions.generation import GenerationEstimate, GenerationOptions
from branchrank.settings import CacheSettings, EngineSettings, LLMSettings, settings_of

F = TypeVar("F", bound=Callable[..., Any])

OUTPUT = click.argument("output", type=click.Path(path_type=Path, dir_okay=False))


def llm_options(*, required: bool) -> Callable[[F], F]:
    """Return a decorator that adds flags for the LLM endpoint, the seed and the LLM client's settings."""

    def decorate(function: F) -> F:
        # These commands have no fallback for a failed LLM call, so they don't have --on-llm-failure.
        named = frozenset(
            f"llm.{each.name}" for each in settings_of(LLMSettings) if each.name != "on_failure"
        )
        function = settings_options(CacheSettings)(function)
        function = settings_options(LLMSettings, only=named)(function)
        for option in (
            click.option("--quiet", is_flag=True, help="Show no progress."),
            click.option(
                "--seed", type=click.IntRange(0), default=42, show_default=True, help="Random seed."
            ),
            click.option(
                "--model", default="", help="Model name. Not needed if the endpoint has only one model."
            ),
            click.option(
                "--base-url",
                required=required,
                default=None if required else "",
                help="Base URL of an OpenAI-compatible endpoint.",
            ),
        ):
            function = option(function)
        return function

    return decorate


@click.command("generate", cls=Command, resumes=True)
@OUTPUT
@data_dir_option
@click.option(
    "--count", type=click.IntRange(1), default=100, show_default=True, help="Number of questions to write."
)
@click.option(
    "--per-section",
    type=click.IntRange(1, 10),
    default=1,
    show_default=True,
    help="Number of questions to request for each section.",
)
@click.option(
    "--max-leakage",
    type=click.FloatRange(0, 1),
    default=0.8,
    show_default=True,
    help="Reject a question if more than this share of its content words occurs in its quoted answer.",
)
@click.option("--dry-run", is_flag=True, help="Print an estimate of the LLM calls and tokens, and exit.")
@llm_options(required=True)
@settings_options(EngineSettings)
def generate(
    output: Path,
    data_dir: Path,
    count: int,
    per_section: int,
    max_leakage: float,
    dry_run: bool,
    base_url: str,
    model: str,
    seed: int,
    quiet: bool,
) -> None:
    """Generate questions about the workspace's corpus with an LLM, and store them in the file OUTPUT.

    The gold of each question is an exact quotation from the corpus. If the command is interrupted, run it
    again to resume. Finished LLM calls are not repeated. The command stops after three failed calls in a row,
    or after twenty calls in a row without a usable question. OUTPUT keeps the questions that were written
    before the command stopped.
    """
    options = GenerationOptions(count=count, per_section=per_section, max_leakage=max_leakage, seed=seed)
    with (
        branchrank.Workspace.open(data_dir, settings=given_flags(), notify=say) as opened,
        shown_progress(not quiet) as bars,
    ):
        if dry_run:
            _print_estimate(opened.questions.estimate_generation(options))
            return
        result, spent = opened.questions.generate(
            output, options, base_url=base_url, model=model, progress=bars
        )
    click.echo(_cost(spent))
    click.echo(f"{result.sections_asked} sections sent to the LLM, {result.failed_calls} calls failed")
    for reason, number in result.rejected.items():
        click.echo(f"  rejected, {reason}: {number}")
    if result.questions:
        click.echo(f"{output}: {len(result.questions)} questions, mean leakage {result.mean_leakage:.0%}")
    if result.stopped:
        raise LLMError(
            f"{result.stopped}; {len(result.questions)} of {count} questions were written",
            remedy="fix the cause, and run the command again; finished calls are not repeated",
        )
    if not result.questions:
        raise InputError(
            "all of the LLM's questions were rejected", remedy="try a larger model, or --max-leakage 1"
        )


def _print_estimate(estimate: GenerationEstimate) -> None:
    click.echo(f"{estimate.sections} sections have enough text for a question")
    for bound, what in ((estimate.least, "if every question is accepted"), (estimate.most, "at most")):
        click.echo(f"  {what}: {bound.calls} LLM calls, about {bound.tokens} tokens")


@click.command("summarize", cls=Command, resumes=True)
@OUTPUT
@data_dir_option
@llm_options(required=True)
@settings_options(EngineSettings)
def summarize(output: Path, data_dir: Path, base_url: str, model: str, seed: int, quiet: bool) -> None:
    """Summarize every node of the workspace's tree with an LLM, and write the nodes to the file OUTPUT.

    To use the summaries, set `nodes` in branchrank.toml to OUTPUT. After you edit the corpus, run the same
    command again to summarize only the edited sections and their parent sections.
    """
    with (
        branchrank.Workspace.open(data_dir, settings=given_flags(), notify=say) as opened,
        shown_progress(not quiet) as bars,
    ):
        result, spent = opened.tree_tools.summarize(
            output, base_url=base_url, model=model, seed=seed, progress=bars
        )
    click.echo(_cost(spent))
    click.echo(f"{output}: {len(result.nodes)} nodes, {len(result.failed)} kept their extractive summary")


def _cost(spent: Spent) -> str:
    total, prices = spent.totals, spent.prices
    line = f"{total.calls} LLM calls ({total.cached_calls} from the cache), {total.tokens} tokens"
    if prices is None or total.cost is None:
        return line
    return f"{line}, {total.cost:.4f} {prices.currency} at the prices of {prices.date}"
