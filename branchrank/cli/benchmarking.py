"""Run a plan or estimate its cost, for the commands ``benchmark``, ``run`` and ``resume``."""

from __future__ import annotations

from pathlib import Path

import click

import branchrank
from branchrank.cli.terminal import safe, say, shown_path
from branchrank.errors import FailedRunError


def run_and_report(
    plan: branchrank.library.Plan,
    *,
    quiet: bool,
    fresh: bool = False,
    resume: Path | None = None,
    dry_run: bool = False,
    seal: Path | None = None,
) -> None:
    """Run a plan, write the run's report and print its table.

    With ``dry_run``, only print the estimated cost. If no file exists at the path ``seal``, the plan is
    written to this path and is not run.

    Raises :class:`FailedRunError` if all queries or all LLM calls of a predictor failed. The report of a
    failed run is written before the error is raised.
    """
    if dry_run:
        print_estimate(branchrank.library.estimate_plan(plan))
        return
    if seal is not None and not seal.exists():
        made = branchrank.library.seal_plan(plan, seal)
        click.echo(f"the plan is sealed in {safe(str(seal))} (digest {made.digest}); nothing was run")
        click.echo("to prove that the plan is older than the run, publish a copy of this file before the run")
        return
    run = branchrank.library.run_benchmark(
        plan, fresh=fresh, resume=resume, seal=seal, notify=say, progress=not quiet
    )
    for line in run.failed:
        click.secho(f"failed: {safe(line)}", fg="red", err=True)
    run.print()
    report = shown_path(run.directory / "report.md")
    click.echo(f"report: {report}, report.html")
    if run.failed:
        raise FailedRunError(
            "ignore the results of these predictors, because all their queries or LLM calls failed: "
            + ", ".join(line.partition(":")[0] for line in run.failed),
            remedy=f"read the errors in {report}, fix the cause and run the command again",
        )


def print_estimate(estimate: branchrank.library.PlanEstimate) -> None:
    """Print the number of queries for each predictor, and upper bounds for its LLM calls and tokens."""
    click.echo(f"{safe(estimate.experiment)}: {estimate.questions} questions")
    for row in estimate.predictors:
        where = f" on index {safe(row.index)}" if row.index else ""
        click.echo(f"  {safe(row.predictor)}{where}: {row.queries} queries")
        if row.llm is None:
            continue
        line = f"    at most {row.llm.calls} LLM calls and {row.llm.tokens} tokens at {safe(row.model)}"
        if estimate.prices is not None:
            known = row.cost is not None
            priced = f"{row.cost:.4f} {estimate.prices.currency}" if known else "no price for this model"
            line += f": {priced}, prices of {estimate.prices.date}"
        click.echo(line)
