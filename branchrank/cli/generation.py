"""``branchrank questions generate`` and ``branchrank pageindex summarise``: what an LLM writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from branchrank.cli.options import data_dir_option, resolved_settings, settings_options
from branchrank.cli.terminal import Command, progress_bars, say
from branchrank.errors import InputError
from branchrank.index.workspace_folder import Workspace
from branchrank.llm.gateway import Gateway
from branchrank.llm.ledger import PriceTable, Totals, totals
from branchrank.settings import CacheSettings, LLMSettings

F = TypeVar("F", bound=Callable[..., Any])

OUTPUT = click.argument("output", type=click.Path(path_type=Path, dir_okay=False))


def _llm_options(function: F) -> F:
    """Add the endpoint, the seed and the LLM client's settings."""
    function = settings_options(LLMSettings, CacheSettings)(function)
    for option in (
        click.option("--quiet", is_flag=True, help="No progress."),
        click.option(
            "--seed", type=click.IntRange(0), default=42, show_default=True, help="Seed of the draw."
        ),
        click.option("--model", default="", help="The model. Default: the only one that the endpoint lists."),
        click.option("--base-url", required=True, help="OpenAI-compatible endpoint."),
    ):
        function = option(function)
    return function


@contextmanager
def _gateway(workspace: Workspace, base_url: str, model: str) -> Iterator[tuple[Gateway, PriceTable | None]]:
    from branchrank.llm.session import LLMSession

    cache = workspace.data_dir / "hybrid" / "cache" / "decisions.sqlite"
    redis_url = workspace.settings.part(CacheSettings).redis_url
    with LLMSession(
        workspace.settings.part(LLMSettings), cache_path=cache, redis_url=redis_url, notify=say
    ) as session:
        yield session.gateway(base_url, model, explicit=True), session.prices


@click.command("generate", cls=Command)
@OUTPUT
@data_dir_option
@click.option("--count", type=click.IntRange(1), default=100, show_default=True, help="Questions wanted.")
@click.option(
    "--per-section", type=click.IntRange(1, 10), default=1, show_default=True, help="Asked for per section."
)
@click.option(
    "--max-leakage",
    type=click.FloatRange(0, 1),
    default=0.8,
    show_default=True,
    help="Largest share of a question's content words that its quoted answer may have.",
)
@_llm_options
def generate(
    output: Path,
    data_dir: Path,
    count: int,
    per_section: int,
    max_leakage: float,
    base_url: str,
    model: str,
    seed: int,
    quiet: bool,
) -> None:
    """Let an LLM write questions about the workspace's corpus to OUTPUT, with gold that was found there.

    An interrupted pass goes on where it stopped; finished calls are kept and cost nothing again.
    """
    from branchrank.corpus.loading import load_corpus
    from branchrank.questions.anchoring import corpus_lines
    from branchrank.questions.generation import MIN_SECTION_WORDS, generate_questions
    from branchrank.questions.question_files import write_questions
    from branchrank.tree.build import build_nodes

    workspace = Workspace(data_dir, resolved_settings(data_dir))
    root, exclude = workspace.corpus_root, workspace.exclude
    nodes, _ = build_nodes(load_corpus(root, exclude).documents, workspace.corpus_name)
    with _gateway(workspace, base_url, model) as (llm, prices), progress_bars(quiet) as progress:
        result = generate_questions(
            nodes,
            corpus_lines(root, exclude),
            llm,
            count=count,
            per_section=per_section,
            seed=seed,
            max_leakage=max_leakage,
            progress=progress,
        )
        click.echo(_cost(totals(llm.ledger.rows, prices), prices))
    click.echo(f"{result.sections_asked} sections asked, {result.failed_calls} calls failed")
    for reason, number in result.rejected.items():
        click.echo(f"  rejected, {reason}: {number}")
    if not result.sections_asked:
        raise InputError(
            f"no section of {root} has {MIN_SECTION_WORDS} words", remedy="choose a corpus with more text"
        )
    if not result.questions:
        raise InputError("no question was accepted", remedy="try a larger model, or --max-leakage 1")
    write_questions(output, result.questions)
    click.echo(f"{output}: {len(result.questions)} questions, mean leakage {result.mean_leakage:.0%}")


@click.command("summarise", cls=Command)
@OUTPUT
@data_dir_option
@_llm_options
def summarise(output: Path, data_dir: Path, base_url: str, model: str, seed: int, quiet: bool) -> None:
    """Let an LLM summarise every node of the workspace's tree, and write the nodes to OUTPUT.

    Name OUTPUT as `nodes` in branchrank.toml to use it. After an edit of the corpus the same command asks
    for the edited sections and those above them alone.
    """
    from branchrank.corpus.loading import load_corpus
    from branchrank.systems.node_summaries import summarise_nodes
    from branchrank.tree.build import build_nodes
    from branchrank.tree.navigate import Tree
    from branchrank.tree.store import write_nodes

    workspace = Workspace(data_dir, resolved_settings(data_dir))
    documents = load_corpus(workspace.corpus_root, workspace.exclude).documents
    nodes, _ = build_nodes(documents, workspace.corpus_name)
    with _gateway(workspace, base_url, model) as (llm, prices), progress_bars(quiet) as progress:
        result = summarise_nodes(Tree(nodes), llm, seed=seed, progress=progress)
        click.echo(_cost(totals(llm.ledger.rows, prices), prices))
    write_nodes(output, list(result.nodes))
    click.echo(f"{output}: {len(result.nodes)} nodes, {len(result.failed)} kept their extractive summary")


def _cost(spent: Totals, prices: PriceTable | None) -> str:
    line = f"{spent.calls} LLM calls ({spent.cached_calls} from the cache), {spent.tokens} tokens"
    if prices is None or spent.cost is None:
        return line
    return f"{line}, {spent.cost:.4f} {prices.currency} at the prices of {prices.date}"
