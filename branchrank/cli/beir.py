"""``branchrank beir``: benchmarks on BEIR folders, and questions from them."""

from __future__ import annotations

from pathlib import Path

import click

from branchrank.cli.latex import latex_option, write_latex
from branchrank.cli.options import (
    FRESH,
    QUIET,
    REPORTS,
    all_pairs_option,
    given_flags,
    settings_options,
    typed_command,
)
from branchrank.cli.terminal import Group, import_from_here, safe, say, shown_path
from branchrank.errors import FailedRunError
from branchrank.settings import (
    BenchmarkSettings,
    Bm25Settings,
    CacheSettings,
    EngineSettings,
    IndexSettings,
    LateInteractionSettings,
    LocalSettings,
)

_BENCHMARK = ("sample_size", "sample_seed", "top_k", "latency_sample", "baseline", "delta", "alpha", "rows")
_SYSTEMS = ("fusion", "rrf_k", "bm25_weight", "vector_weight", "maxsim_candidates", "maxsim_weight")
#: The settings of a benchmark and of its systems that a ranking of documents leaves open.
OPEN_SETTINGS = frozenset(
    [f"benchmark.{name}" for name in _BENCHMARK]
    + [f"{section}.{name}" for section in ("local", "late_interaction") for name in _SYSTEMS]
)


@click.group("beir", cls=Group)
def command() -> None:
    """Use BEIR folders: `beir run` benchmarks predictors on one, `beir questions` makes its questions."""


@command.command("run", help_name="beir run", resumes=True)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--split", default="test", show_default=True, help="The qrels: qrels/SPLIT.tsv.")
@click.option(
    "--predictor",
    "predictors",
    multiple=True,
    default=("bm25",),
    show_default=True,
    help="bm25, dense, local, late-interaction, another system, or your own as module:Class. Repeatable.",
)
@click.option(
    "--measure",
    "-m",
    "measures",
    multiple=True,
    default=("nDCG@10", "R@100", "AP"),
    show_default=True,
    help="A measure as ir-measures names it; the first is the primary one. Repeatable.",
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="The workspace. Default: data/ and the folder's name.",
)
@click.option("--remove-query", is_flag=True, help="Leave out the document that has the query's own id.")
@all_pairs_option
@latex_option
@REPORTS
@FRESH
@QUIET
@settings_options(IndexSettings, Bm25Settings, CacheSettings, EngineSettings)
@settings_options(BenchmarkSettings, LocalSettings, LateInteractionSettings, only=OPEN_SETTINGS)
def run(
    folder: Path,
    split: str,
    predictors: tuple[str, ...],
    measures: tuple[str, ...],
    data_dir: Path | None,
    remove_query: bool,
    latex: Path | None,
    reports: Path,
    fresh: bool,
    quiet: bool,
) -> None:
    """Benchmark predictors on FOLDER, a BEIR folder: index it, ask its queries, print the table.

    FOLDER may be ir:ID, a dataset of the package ir-datasets, such as ir:beir/scifact/test. Its data must be
    on this machine; `branchrank corpus add ir:ID` downloads them.

    Each predictor ranks whole documents and is tested against the baseline, the first predictor unless
    --baseline names another; with --all-pairs, against every other one. An existing index is used, and an
    interrupted run is resumed.

    Defaults other than those of the flags: a new workspace gets --embedder none, --vector-store exact,
    --bm25-stop-words english and --no-bm25-split-identifiers; a run --top-k 1000, --delta 0.02, no latency
    pass, and --rows compact where it keeps 100,000 hits or more. dense, local and late-interaction need a
    model, such as --embedder all-MiniLM-L6-v2.
    """
    from branchrank import library

    if any(":" in name for name in predictors):
        import_from_here()
    made = library.run_beir(
        folder,
        predictors,
        measures,
        split=split,
        data_dir=data_dir,
        remove_query=remove_query,
        reports=reports,
        settings=given_flags(),
        fresh=fresh,
        command=typed_command(),
        notify=say,
        progress=not quiet,
    )
    for line in made.failed:
        click.secho(f"failed: {safe(line)}", fg="red", err=True)
    table = library.run_table(made)
    click.echo(str(table))
    click.echo(f"\nreport: {shown_path(made.directory / 'report.md')}, report.html")
    write_latex(latex, table)
    if made.failed:
        raise FailedRunError(
            "the figures mean nothing for " + ", ".join(line.partition(":")[0] for line in made.failed),
            remedy="correct the cause and run again",
        )


@command.command("questions")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--split", default="test", show_default=True, help="The qrels: qrels/SPLIT.tsv.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="The question file to write.",
)
@click.option("--remove-query", is_flag=True, help="Leave out the document that has the query's own id.")
def questions(folder: Path, split: str, output: Path, remove_query: bool) -> None:
    """Make questions of the queries of FOLDER and their relevance judgements."""
    from branchrank import library

    made = library.import_beir(folder, output, split=split, remove_query=remove_query)
    for note in made.notes:
        click.echo(f"note: {safe(note)}", err=True)
    relevant = sum(len(question.gold) for question in made.questions)
    click.echo(f"{output}: {len(made.questions)} questions, {relevant} relevant documents")
