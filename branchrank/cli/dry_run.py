"""``--dry-run``: the plan of a benchmark and what its LLM arms would cost at most."""

from __future__ import annotations

from collections.abc import Sequence

import click

from branchrank.cli.job import Job
from branchrank.records import Question
from branchrank.settings import LLMSettings
from branchrank.systems.llm_estimate import estimate


def print_plan(job: Job, questions: Sequence[Question]) -> None:
    """Print every arm with its queries and estimated LLM calls and tokens; nothing is run."""
    click.echo(f"{job.experiment}: {len(questions)} questions")
    for lineup in job.lineups:
        for system in lineup.systems:
            repeats = job.repeats if system.asks_llm else 1
            click.echo(f"  {system.name} on index {lineup.index}: {len(questions) * repeats} queries")
            if system.asks_llm:
                completion = job.settings.part(LLMSettings).completion_tokens
                bound = estimate(system, len(questions) * repeats, completion)
                click.echo(
                    f"    at most {bound.calls} LLM calls and {bound.tokens} tokens at {system.llm.model}"
                )
    for name in (*job.classes, *([job.endpoint] if job.endpoint else [])):
        click.echo(f"  {name}: {len(questions)} queries")
