"""``branchrank compare`` and ``gate``: two runs over the same questions, or the predictors of one run."""

from __future__ import annotations

from pathlib import Path

import click

from branchrank.cli.latex import latex_option, write_latex
from branchrank.cli.runs import RUN, WHERE
from branchrank.cli.terminal import Command
from branchrank.errors import UsageError

PRIMARY = click.option(
    "--primary", default="", help="Measure that is tested, such as strict_hit@5. Default: the run's own."
)
MEASURES = click.option(
    "--measure",
    "measures",
    multiple=True,
    help="Another measure to show, such as nDCG@10, with its interval and without a test. Repeatable.",
)
BASELINE_PREDICTOR = click.option(
    "--baseline-predictor", default="", help="Predictor of the baseline. Default: the same one."
)
FILE = click.Path(path_type=Path, dir_okay=False)
EXIT_CODES = {"pass": 0, "fail": 1, "undecided": 10}


@click.command("compare", cls=Command)
@click.argument("baseline", type=RUN)
@click.argument("candidate", type=RUN, required=False)
@click.option("--predictor", default="", help="Predictor of CANDIDATE. Default: each that both runs have.")
@BASELINE_PREDICTOR
@click.option(
    "--baseline",
    "baselines",
    multiple=True,
    help="Of one run: the predictor to compare the others with. Repeatable. Default: the declared one.",
)
@click.option("--all-pairs", is_flag=True, help="Of one run: compare every pair of predictors.")
@PRIMARY
@MEASURES
@click.option(
    "--delta",
    type=click.FloatRange(0, 1, min_open=True),
    help="Largest difference that counts as none. Default: 0.02; of one run, the declared one.",
)
@WHERE
@latex_option
def compare(
    baseline: Path,
    candidate: Path | None,
    predictor: str,
    baseline_predictor: str,
    baselines: tuple[str, ...],
    all_pairs: bool,
    primary: str,
    measures: tuple[str, ...],
    delta: float | None,
    where: tuple[str, ...],
    latex: Path | None,
) -> None:
    """Compare a CANDIDATE run with a BASELINE run, question by question, and list the questions that flipped.

    The baseline comes first. A positive difference means that the candidate is better. Both runs must have
    asked the same questions. With one run only, its predictors are compared with each other.
    """
    from branchrank.library import comparison_table
    from branchrank.run import Run

    _check_compared(candidate, bool(predictor or baseline_predictor), baselines, all_pairs)
    first = Run.load(baseline).where(*where)
    if candidate is None:
        if measures or latex is not None:
            raise UsageError(
                "--measure and --latex need two runs, and only one was given",
                remedy="name the tested measure with --primary; `branchrank show` prints the others",
            )
        chosen = "all-pairs" if all_pairs else baselines
        click.echo(str(first.compare_all(chosen, primary, delta=delta)))
        return
    compared = (
        Run.load(candidate)
        .where(*where)
        .compare_with(
            first,
            predictor=predictor,
            baseline_predictor=baseline_predictor,
            primary=primary,
            measures=measures,
            **({} if delta is None else {"delta": delta}),
        )
    )
    click.echo(str(compared))
    write_latex(latex, comparison_table(compared))


def _check_compared(candidate: Path | None, named: bool, baselines: tuple[str, ...], all_pairs: bool) -> None:
    """Refuse flags of two runs for one, flags of one run for two, and both ways to name the baselines."""
    if candidate is None and named:
        raise UsageError(
            "--predictor and --baseline-predictor need two runs, and only one was given",
            remedy="name the second run, or the baseline with --baseline",
        )
    if candidate is not None and (baselines or all_pairs):
        raise UsageError(
            "--baseline and --all-pairs compare the predictors of one run, and two are given",
            remedy="leave out the second run, or name predictors with --baseline-predictor",
        )
    if baselines and all_pairs:
        raise UsageError(
            "--all-pairs compares every pair of predictors, so no --baseline can be named with it",
            remedy="leave out one of the two",
        )


@click.command("gate", cls=Command)
@click.argument("run", type=RUN)
@click.option("--baseline", type=RUN, required=True, help="The run to compare it with.")
@click.option(
    "--delta",
    type=click.FloatRange(0, 1),
    default=0.02,
    show_default=True,
    help="Loss that is acceptable, in the measure's units.",
)
@click.option("--predictor", default="", help="Predictor of RUN. Default: each that both runs have.")
@BASELINE_PREDICTOR
@PRIMARY
@MEASURES
@WHERE
@click.option("--junit", type=FILE, help="Write the decision as JUnit XML.")
@click.option("--summary", type=FILE, help="Write the decision as Markdown, for a pull request.")
@click.pass_context
def gate(
    ctx: click.Context,
    run: Path,
    baseline: Path,
    delta: float,
    predictor: str,
    baseline_predictor: str,
    primary: str,
    measures: tuple[str, ...],
    where: tuple[str, ...],
    junit: Path | None,
    summary: Path | None,
) -> None:
    """Exit with 0 when RUN is not worse than the baseline by delta or more, 1 when it is, 10 when undecided.

    With several predictors, the gate fails if any of them fails, and is undecided if any of them is.
    """
    from branchrank import library
    from branchrank.run import Run

    decided = (
        Run.load(run)
        .where(*where)
        .gate(
            Run.load(baseline).where(*where),
            delta=delta,
            predictor=predictor,
            baseline_predictor=baseline_predictor,
            primary=primary,
            measures=measures,
        )
    )
    library.write_gate(decided, junit=junit, summary=summary)
    click.echo(str(decided))
    ctx.exit(EXIT_CODES[decided.outcome])
