"""Compare systems: the commands ``advise``, ``compare``, ``gate`` and ``datasets``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from branchrank.core.errors import UsageError
from branchrank.frontends.cli.options import (
    FILE,
    FOLDER,
    LATEX,
    POSITIVE_SHARE,
    RUN,
    SHARE,
    TRUST,
    WHERE,
    NumberRange,
    flag,
    switch,
    write_latex,
)
from branchrank.frontends.cli.terminal import Command, safe
from branchrank.runs.directory import find_run

if TYPE_CHECKING:
    from branchrank.reports.datasets import Form

PRIMARY = flag("--primary", "Measure to test, such as strict_hit@5. Default: the primary measure of the run.")
MEASURES = flag(
    "--measure measures",
    "Additional measure, such as nDCG@10, shown with an interval but not tested. Repeatable.",
    multiple=True,
)
BASELINE_PREDICTOR = flag(
    "--baseline-predictor",
    "Predictor of the baseline run to use as the baseline. Default: the predictor with the same name as "
    "the candidate.",
)
POSITIVE = NumberRange(0, min_open=True)
EXIT_CODES = {"pass": 0, "fail": 1, "undecided": 10}


@click.command("compare", cls=Command)
@click.argument("baseline", type=RUN)
@click.argument("candidate", type=RUN, required=False)
@flag("--predictor", "Predictor in CANDIDATE to compare. Default: every predictor that both runs contain.")
@BASELINE_PREDICTOR
@flag(
    "--baseline baselines",
    "Predictor with which the other predictors of a single run are compared. Repeatable. Default: the "
    "run's baseline.",
    multiple=True,
)
@switch("--all-pairs", "Compare every pair of predictors in a single run.")
@PRIMARY
@MEASURES
@flag(
    "--delta",
    "Largest difference that counts as equivalent. Default: 0.05 for two runs, and the run's delta for "
    "a single run.",
    kind=POSITIVE_SHARE,
)
@WHERE
@LATEX
def compare(
    baseline: Path, candidate: Path | None, baselines: tuple[str, ...], all_pairs: bool, **options: Any
) -> None:
    """Compare a CANDIDATE run with a BASELINE run, and list the questions whose result changed.

    A positive difference means that the candidate is better. Both runs must have the same questions. If you
    give only one run, its predictors are compared with each other.
    """
    from branchrank.library import CompareOptions, comparison_table
    from branchrank.run import Run

    where, latex, delta = (options.pop(name) for name in ("where", "latex", "delta"))
    for_two = options["predictor"] or options["baseline_predictor"] or options["measures"] or latex
    if candidate is None and for_two:
        raise UsageError(
            "--predictor, --baseline-predictor, --measure and --latex need two runs, but only one was given",
            remedy="add the second run; for one run, use --baseline to choose a baseline, and --primary",
        )
    if (candidate is not None and (baselines or all_pairs)) or (baselines and all_pairs):
        raise UsageError(
            "--baseline and --all-pairs need exactly one run, and cannot be given together",
            remedy="give only one run, or remove --baseline or --all-pairs",
        )
    first = Run.load(baseline).where(*where)
    if candidate is None:
        chosen = "all-pairs" if all_pairs else baselines
        click.echo(str(first.compare_all(chosen, options["primary"], delta=delta)))
        return
    if delta is not None:
        options["delta"] = delta
    asked = CompareOptions(baseline=options.pop("baseline_predictor"), **options)
    compared = Run.load(candidate).where(*where).compare_with(first, asked)
    click.echo(str(compared))
    write_latex(latex, comparison_table(compared))


class _Gate(Command):
    """The command ``gate``, which refuses two baselines."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse a second ``--baseline``, and a RUN after the baseline if there are RUNs before the flag."""
        at = [number for number, word in enumerate(args) if word.partition("=")[0] == "--baseline"]
        candidates = self.make_parser(ctx).parse_args(args[: at[0]])[0]["runs"] if at else ()
        second = args[at[0] + 2 : at[0] + 3] if isinstance(candidates, tuple) and candidates else []
        if len(at) > 1 or (second and args[at[0]] == "--baseline" and not second[0].startswith("-")):
            raise click.UsageError(
                "--baseline takes one run; to check against several baselines, run gate once for each; "
                "to check another RUN, give it before --baseline",
                ctx,
            )
        return super().parse_args(ctx, args)


@click.command("gate", cls=_Gate)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=RUN)
@flag("--baseline", "The baseline run.", kind=RUN, required=True)
@flag(
    "--delta",
    "Largest acceptable loss, in units of the measure (0.05 is 5 points of a hit rate).",
    0.05,
    SHARE,
)
@flag(
    "--predictor",
    "Predictor in each RUN to check for regressions. Default: every predictor that both runs contain.",
)
@BASELINE_PREDICTOR
@PRIMARY
@MEASURES
@WHERE
@switch("--fail-undecided", "Exit with code 10 if the result is undecided.")
@flag("--junit", "Write the result to this file as JUnit XML.", kind=FILE)
@flag("--summary", "Write the result to this file as Markdown, for a pull request.", kind=FILE)
@click.pass_context
def gate(
    ctx: click.Context,
    /,
    runs: tuple[Path, ...],
    baseline: Path,
    where: tuple[str, ...],
    fail_undecided: bool,
    **options: Any,
) -> None:
    """Check each RUN for a loss of delta or more compared with the baseline.

    The exit code is 1 if the loss of any predictor is certainly larger than delta, or if more than 5% of its
    queries failed, and 0 otherwise. With --fail-undecided, exit code 10 means that no predictor failed the
    check, but for at least one predictor there are too few questions to tell. The questions that are lost are
    listed, and so are those whose gold differs between the two states of the documents, which are compared
    apart.
    """
    from branchrank import library
    from branchrank.run import Run
    from branchrank.runs.run_comparison import worst

    outputs = {name: options.pop(name) for name in ("junit", "summary")}
    old = Run.load(baseline).where(*where)
    asked = library.CompareOptions(baseline=options.pop("baseline_predictor"), **options)
    decided = [Run.load(run).where(*where).gate(old, asked) for run in runs]
    library.write_gate(*decided, fail_undecided=fail_undecided, **outputs)
    for run, each in zip(runs, decided, strict=True):
        if len(runs) > 1:
            click.echo(f"{safe(str(run))}:")
        click.echo(str(each))
    outcome = worst(decided)
    ctx.exit(EXIT_CODES[outcome] if fail_undecided or outcome != "undecided" else 0)


@click.command("datasets", cls=Command)
@click.argument("runs", nargs=-1, required=True, metavar="[NAME=]RUN...")
@flag("--primary measure", "Measure to compare, such as nDCG@10. Default: the runs' primary measure.")
@flag("--baseline", "System with which the other systems are compared. Default: the first run's baseline.")
@flag(
    "--delta",
    "Largest difference that counts as equivalent. Default: the first run's delta.",
    kind=POSITIVE_SHARE,
)
@flag("--format form", "Format of the table.", "text", click.Choice(["text", "markdown", "csv"]))
@flag("--output", "Write the table to this file instead of printing it.", kind=FILE)
@LATEX
def datasets(
    runs: tuple[str, ...], form: Form, output: Path | None, latex: Path | None, **options: Any
) -> None:
    """Compare systems over several datasets by their macro average, with an interval and a stratified test.

    Give one RUN for each dataset. NAME is the heading of the dataset's column. By default, the heading is the
    name of the run's experiment or corpus. Only systems that are in every run are compared.
    """
    from branchrank import library

    named = [_named(run) for run in runs]
    names = [name for name, _ in named if name]
    if names and len(set(names)) < len(runs):
        raise UsageError(
            "some runs have no name (NAME=RUN), or the same name",
            remedy="give each run a different name, or give no names",
        )
    found = library.compare_datasets(dict(named) if named[0][0] else [run for _, run in named], **options)
    if latex is not None:
        click.echo(f"written: {safe(str(found.write(latex, 'latex')))}", err=True)
    if output is not None:
        click.echo(f"written: {found.write(output, form)}")
    elif form == "text":
        found.print()
    else:
        click.echo(found.text(form), nl=False)


@click.command("advise", cls=Command)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=RUN)
@flag("--max-p95 max_p95_ms", "Leave out systems with a higher p95 latency, in ms.", kind=POSITIVE)
@flag(
    "--max-cost",
    "Leave out systems with a higher mean LLM cost per query, in the currency of the price table.",
    kind=NumberRange(0),
)
@flag(
    "--delta",
    "Largest difference that counts as equivalent. Default: the delta of the run.",
    kind=POSITIVE_SHARE,
)
@switch("--write", "Make the recommended system the default of the workspace, in branchrank.toml.")
@flag("--predictor", "System to print or write. Default: the recommended system.")
@flag("--data-dir", "The workspace. Default: the workspace that the run names.", kind=FOLDER)
@TRUST
def advise(runs: tuple[Path, ...], write: bool, predictor: str, **options: Any) -> None:
    """Recommend a system from finished runs, say what is uncertain, and name the next experiment.

    Runs over the same questions are merged. Each set of questions has its own recommendation, which is the
    one in the report, made from the systems within the limits. The table of the recommended system is
    printed. With --write, it becomes the table [system] of branchrank.toml, which `retrieve`, `serve` and
    `mcp` then use by default, with the settings of its index. Everything else in the file is kept.
    """
    from branchrank import library

    access = library.RunAccess(**{name: options.pop(name) for name in ("data_dir", "trust")})
    found = library.advise(runs, **options)
    for advice in found:
        click.echo("\n".join(map(safe, str(advice).split("\n"))))
    names = {predictor or advice.system for advice in found}
    try:
        if len(names) > 1 or not all(names):
            why = "different systems are recommended" if all(names) else "no system is recommended"
            raise UsageError(why, remedy="choose a system with --predictor")
        chosen = library.choose_system(runs, names.pop(), access)
    except UsageError:
        if write or predictor:
            raise
        return
    click.echo(safe(f"\n{chosen.toml}"), nl=False)
    if write:
        chosen.write()
        instead = f" instead of {chosen.replaces}" if chosen.replaces else ""
        click.echo(safe(f"\n{chosen.data_dir}: the default system is now {chosen.name}{instead}"))


def _named(run: str) -> tuple[str, str]:
    """Split ``NAME=RUN`` into name and directory. The name is empty if ``run`` is an existing path."""
    name, equals, directory = run.partition("=")
    named = (name, directory) if equals and not Path(run).exists() else ("", run)
    return named[0], str(find_run(Path(named[1])))
