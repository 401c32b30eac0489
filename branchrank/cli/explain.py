"""``branchrank explain``: one question of a run, stage by stage."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from branchrank.cli.terminal import Command, safe
from branchrank.errors import UsageError

if TYPE_CHECKING:
    from branchrank.records import Question
    from branchrank.runs.rows import Row


@click.command("explain", cls=Command)
@click.argument("run", type=click.Path(path_type=Path, file_okay=False))
@click.argument("question_id", metavar="QUESTION")
@click.option("--predictor", "predictors", multiple=True, help="Only this predictor. Repeatable.")
@click.option(
    "--top", type=click.IntRange(0, 100), default=3, show_default=True, help="Entries shown per stage."
)
def explain(run: Path, question_id: str, predictors: tuple[str, ...], top: int) -> None:
    """Show the gold's rank through every stage, the stage that lost it, and each stage's first entries."""
    from branchrank.runs.loading import load_run

    loaded = load_run(run)
    scores = loaded.scores
    question = scores.questions.get(question_id)
    if question is None:
        raise UsageError(
            f"{run} has no question {question_id!r}",
            remedy=f"name one of its questions, such as {next(iter(scores.questions))}",
        )
    unknown = [name for name in predictors if name not in scores.predictors]
    if unknown:
        raise UsageError(
            f"{run} has no predictor {unknown[0]!r}", remedy=f"name one of {', '.join(scores.predictors)}"
        )
    _print_question(question)
    for name in predictors or scores.predictors:
        for row in scores.rows_of(name, question_id):
            click.echo()
            _print_row(row, top)


def _print_question(question: Question) -> None:
    click.echo(safe(f"{question.id}: {question.question}"))
    for item in question.gold:
        lines = f":{item.answer_line_start}-{item.answer_line_end}" if item.span is not None else ""
        click.echo(safe(f"gold: {item.source_file}{lines}"))
    if not question.answerable:
        click.echo("gold: none, the corpus has no answer")


def _print_row(row: Row, top: int) -> None:
    from branchrank.runs.attribution import DEPTH

    repeat = f", repeat {row.repeat}" if row.repeat else ""
    click.echo(safe(f"{row.predictor}{repeat}: {_outcome(row, DEPTH)}"))
    entries = {stage.stage: stage for stage in row.trace}
    for stage in row.stages:
        rank = row.gold_ranks.get(stage)
        click.echo(safe(f"  {stage}: {'gold absent' if rank is None else f'gold at rank {rank}'}"))
        listed = entries.get(stage)
        for place in range(min(top, len(listed.keys)) if listed else 0):
            assert listed is not None
            mark = "  <- gold" if rank == place + 1 else ""
            click.echo(safe(f"    {place + 1}. {listed.keys[place]}  {listed.scores[place]:.4g}{mark}"))
    click.echo("  hits:")
    for place, hit in enumerate(row.hits[:DEPTH], start=1):
        mark = "  <- gold" if hit.gold is not None else "  (its page)" if hit.page is not None else ""
        click.echo(safe(f"    {place}. {hit.source}:{hit.line_start}-{hit.line_end}  {hit.score:.4g}{mark}"))
    for fallback in row.fallbacks:
        click.echo(safe(f"  fallback: {fallback}"))


def _outcome(row: Row, depth: int) -> str:
    if row.status == "failed":
        return f"failed: {row.error}"
    rank = next((place for place, hit in enumerate(row.hits, start=1) if hit.gold is not None), None)
    if rank is not None and rank <= depth:
        return f"gold at rank {rank}"
    where = f"gold at rank {rank}, past the first {depth}" if rank else "gold not among the hits"
    return f"{where}; lost at {row.lost}" if row.lost else where
