"""``branchrank power``: what a benchmark can show, told before it is run."""

from __future__ import annotations

import click

from branchrank.cli.terminal import Command

SHARE = click.FloatRange(0, 1)


@click.command("power", cls=Command)
@click.option(
    "--questions",
    type=click.IntRange(1, 1_000_000),
    multiple=True,
    default=(20, 50, 100, 200, 400),
    show_default=True,
    help="Number of questions. Repeatable.",
)
@click.option("--rate", type=SHARE, default=0.7, show_default=True, help="Hit rate that you expect.")
@click.option(
    "--disagreement",
    type=SHARE,
    default=0.2,
    show_default=True,
    help="Share of the questions that the two predictors answer differently.",
)
@click.option(
    "--difference", type=SHARE, help="Difference in hit rate that you want to see; adds two columns."
)
@click.option(
    "--candidates",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Predictors held against the baseline.",
)
@click.option(
    "--alpha",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    help="Family-wise error rate.",
)
def power(
    questions: tuple[int, ...],
    rate: float,
    disagreement: float,
    difference: float | None,
    candidates: int,
    alpha: float,
) -> None:
    """Tell which differences in hit rate so many questions can show, before any query is run.

    For exact McNemar at 80% power, one question per source; Holm's correction for the candidates.
    """
    from branchrank.measures.power import plan
    from branchrank.report.words import NOTHING, p_value

    plans = [
        plan(
            n,
            rate_expected=rate,
            disagreement=disagreement,
            difference=difference,
            family=candidates,
            alpha=alpha,
        )
        for n in questions
    ]
    wanted = difference is not None
    headings = [
        "questions",
        "95% interval",
        "detectable",
        "differing",
        "p-floor",
        *(["power"] if wanted else []),
    ]
    lines = [headings] + [
        [
            str(each.n),
            f"{each.interval.low:.2f} to {each.interval.high:.2f}",
            "none" if each.detectable is None else f"{each.detectable:.3f}",
            str(each.differing),
            p_value(each.p_floor),
            *([f"{each.power:.0%}"] if each.power is not None else []),
        ]
        for each in plans
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        click.echo("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))
    first = plans[0]
    competing = "one predictor" if candidates == 1 else f"{candidates} predictors"
    click.echo(
        f"With {competing} against the baseline, at least {first.unanimous} questions must differ, "
        f"all one way, for an adjusted p below {alpha:g}."
    )
    if wanted:
        needed = first.questions_needed
        click.echo(
            f"A difference of {difference:g} takes "
            f"{NOTHING if needed is None else needed} questions for 80% power."
        )
