"""``--dry-run``: the plan of a benchmark and what its LLM arms would cost at most."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from branchrank.cli.job import Job
from branchrank.llm.ledger import read_prices
from branchrank.records import Question
from branchrank.settings import LLMSettings
from branchrank.systems.llm_estimate import estimate


def print_plan(job: Job, questions: Sequence[Question]) -> None:
    """Print every arm with its queries and estimated LLM calls and tokens; nothing is run."""
    settings = job.settings.part(LLMSettings)
    prices = read_prices(Path(settings.price_table)) if settings.price_table else None
    click.echo(f"{job.experiment}: {len(questions)} questions")
    for lineup in job.lineups:
        for system in lineup.systems:
            repeats = job.repeats if system.asks_llm else 1
            click.echo(f"  {system.name} on index {lineup.index}: {len(questions) * repeats} queries")
            if system.asks_llm:
                bound = estimate(system, len(questions) * repeats, settings.completion_tokens)
                line = f"    at most {bound.calls} LLM calls and {bound.tokens} tokens at {system.llm.model}"
                if prices is not None:
                    cost = prices.cost(bound.as_call(system.llm.model))
                    priced = f"{cost:.4f} {prices.currency}" if cost is not None else "no price known"
                    line += f": {priced}, prices of {prices.date}"
                click.echo(line)
    for name in (*job.classes, *([job.endpoint] if job.endpoint else [])):
        click.echo(f"  {name}: {len(questions)} queries")
