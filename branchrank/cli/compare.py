"""``branchrank compare`` and ``gate``: two runs over the same questions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from branchrank.cli.runs import WHERE
from branchrank.cli.terminal import Command, safe

if TYPE_CHECKING:
    from branchrank.runs.loading import LoadedRun
    from branchrank.runs.run_comparison import Pair

RUN = click.Path(path_type=Path, file_okay=False)
MEASURE = click.option("--measure", default="", help="Such as strict_hit@5. Default: the run's primary one.")
EXIT_CODES = {"pass": 0, "fail": 1, "undecided": 10}


@click.command("compare", cls=Command)
@click.argument("run_a", type=RUN)
@click.argument("run_b", type=RUN)
@click.option("--predictor-a", default="", help="Predictor of RUN_A. Default: each that both runs have.")
@click.option("--predictor-b", default="", help="Predictor of RUN_B. Default: that of RUN_A.")
@MEASURE
@click.option(
    "--delta",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.02,
    show_default=True,
    help="Largest difference that counts as none.",
)
@WHERE
def compare(
    run_a: Path,
    run_b: Path,
    predictor_a: str,
    predictor_b: str,
    measure: str,
    delta: float,
    where: tuple[str, ...],
) -> None:
    """Compare RUN_B with RUN_A, question by question, and list the questions that flipped.

    Both runs must have asked the same questions.
    """
    from branchrank.runs.cutting import cut_run
    from branchrank.runs.loading import load_run
    from branchrank.runs.run_comparison import changed_settings, chosen_measure, compare_runs

    a, b = cut_run(load_run(run_a), where), cut_run(load_run(run_b), where)
    pairs = compare_runs(
        a,
        b,
        predictor_a=predictor_a,
        predictor_b=predictor_b,
        measure=chosen_measure(measure, b),
        delta=delta,
    )
    click.echo(f"A: {safe(str(run_a))}\nB: {safe(str(run_b))}")
    if where:
        click.echo(f"only {safe(' and '.join(where))}: {len(b.questions)} questions")
    for change in changed_settings(a, b):
        click.echo(f"changed: {safe(change)}")
    for pair in pairs:
        click.echo()
        _print_pair(pair, a, b)


def _print_pair(pair: Pair, a: LoadedRun, b: LoadedRun) -> None:
    from branchrank.report.words import milliseconds, opening, sentence

    click.echo(safe(f"{opening(pair.comparison)} {sentence(pair.comparison)}"))
    old = next(row for row in a.outcome.summary if row.predictor == pair.before)
    new = next(row for row in b.outcome.summary if row.predictor == pair.after)
    for name, before, after in (
        ("p50", old.latency_p50_ms, new.latency_p50_ms),
        ("p95", old.latency_p95_ms, new.latency_p95_ms),
    ):
        click.echo(f"{name}: {milliseconds(before)} -> {milliseconds(after)} ms")
    click.echo(
        f"LLM tokens per query: {old.llm_tokens_per_query:.0f} -> {new.llm_tokens_per_query:.0f}; "
        f"lines per hit: {old.lines_per_hit or 0:.1f} -> {new.lines_per_hit or 0:.1f}"
    )
    for word, flips in (
        ("won", [flip for flip in pair.flips if flip.after > flip.before]),
        ("lost", [flip for flip in pair.flips if flip.after < flip.before]),
    ):
        click.echo(f"{word} ({len(flips)}): {safe(', '.join(flip.question_id for flip in flips)) or 'none'}")


@click.command("gate", cls=Command)
@click.argument("run", type=RUN)
@click.option("--baseline", type=RUN, required=True, help="The run to hold it against.")
@click.option(
    "--delta",
    type=click.FloatRange(0, 1),
    default=0.02,
    show_default=True,
    help="Loss that is acceptable, in the measure's units.",
)
@click.option("--predictor", default="", help="Predictor of RUN. Default: each that both runs have.")
@click.option("--baseline-predictor", default="", help="Predictor of the baseline. Default: that of RUN.")
@MEASURE
@WHERE
@click.pass_context
def gate(
    ctx: click.Context,
    run: Path,
    baseline: Path,
    delta: float,
    predictor: str,
    baseline_predictor: str,
    measure: str,
    where: tuple[str, ...],
) -> None:
    """Exit with 0 when RUN is not worse than the baseline by delta or more, 1 when it is, 10 when undecided.

    With several predictors, one that fails fails the gate, and one that is undecided leaves it so.
    """
    from branchrank.measures.verdicts import gate as decide
    from branchrank.runs.cutting import cut_run
    from branchrank.runs.loading import load_run
    from branchrank.runs.run_comparison import chosen_measure, compare_runs

    a, b = cut_run(load_run(baseline), where), cut_run(load_run(run), where)
    outcomes = []
    for pair in compare_runs(
        a,
        b,
        predictor_a=baseline_predictor,
        predictor_b=predictor,
        measure=chosen_measure(measure, b),
        delta=delta or 1e-9,
    ):
        decided = decide(pair.comparison, delta)
        outcomes.append(decided.outcome)
        click.echo(safe(f"{decided.outcome}: {pair.after}: {decided.reason}"))
    overall = next((word for word in ("fail", "undecided") if word in outcomes), "pass")
    ctx.exit(EXIT_CODES[overall])
