"""``branchrank beir``: benchmark predictors on BEIR folders, and convert BEIR queries to questions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from branchrank.frontends.cli.benchmark import report_run
from branchrank.frontends.cli.options import (
    ALL_PAIRS,
    FILE,
    FOLDER,
    FRESH,
    LATEX,
    QUIET,
    REPORTS,
    flag,
    given_flags,
    settings_options,
    switch,
    typed_command,
    write_latex,
)
from branchrank.frontends.cli.terminal import CommandGroup, import_from_here, print_notes, say

#: The benchmark and system settings that have an effect when whole documents are ranked.
_BENCHMARK = ("sample_size", "sample_seed", "top_k", "latency_sample", "rows", "baseline", "delta", "alpha")
_LOCAL = ("fusion", "rrf_k", "bm25_weight", "vector_weight")
_LATE_INTERACTION = ("bm25_weight", "vector_weight", "maxsim_candidates", "maxsim_weight")
SPLIT = flag("--split", "Read the judgments in qrels/SPLIT.tsv.", "test")
REMOVE_QUERY = switch("--remove-query", "Exclude a document from the hits of the query with the same id.")


@click.group("beir", cls=CommandGroup)
def command() -> None:
    """Benchmark predictors on a BEIR folder, or convert its queries to questions."""


@command.command("run", resumes=True)
@click.argument("folder", type=FOLDER)
@SPLIT
@flag(
    "--predictor predictors",
    "Predictor to run: bm25, dense, local, late-interaction, another system, or your own class as "
    "module:Class. Repeatable.",
    ("bm25",),
    multiple=True,
)
@flag(
    "--measure -m measures",
    "Name of a measure in ir-measures. The first measure is the primary measure. Repeatable.",
    ("nDCG@10", "R@100", "AP"),
    multiple=True,
)
@flag(
    "--data-dir",
    "Workspace for the index. Default: data/NAME, where NAME is the name of FOLDER.",
    kind=FOLDER,
)
@REMOVE_QUERY
@ALL_PAIRS
@LATEX
@REPORTS
@FRESH
@QUIET
@settings_options("index", "bm25", "cache", "engine")
@settings_options(*(f"benchmark.{name}" for name in _BENCHMARK))
@settings_options(*(f"local.{name}" for name in _LOCAL))
@settings_options(*(f"late_interaction.{name}" for name in _LATE_INTERACTION))
def run(predictors: tuple[str, ...], latex: Path | None, quiet: bool, fresh: bool, **asked: Any) -> None:
    """Index the BEIR folder FOLDER, run predictors on its queries, and print the table of results.

    FOLDER can also be ir:ID for a dataset from the ir-datasets package, such as ir:beir/scifact/test.
    Download the dataset first with `branchrank corpus add ir:ID`.

    Each predictor ranks whole documents. The first predictor is the baseline, unless you choose another one
    with --baseline. All other predictors are compared with the baseline. With --all-pairs, all predictors are
    compared with each other. An existing index is reused, and an interrupted run is resumed.

    Some defaults of `branchrank beir run` differ from those in the list of flags. The defaults for a new
    workspace are --embedder none, --vector-store exact, --bm25-stop-words english and
    --no-bm25-split-identifiers. The defaults for a run are --top-k 1000 and no latency pass.
    Runs with 100,000 hits or more are stored with --rows compact. The predictors dense, local and
    late-interaction need an embedding model, such as --embedder all-MiniLM-L6-v2.
    """
    from branchrank import library

    if any(":" in name for name in predictors):
        import_from_here()
    made = library.run_beir(
        library.BeirOptions(predictors=predictors, settings=given_flags(), command=typed_command(), **asked),
        library.BenchmarkOptions(fresh=fresh, notify=say, progress=not quiet),
    )
    table = library.run_table(made)
    write_latex(latex, table)
    report_run(made, lambda: click.echo(f"{table}\n"))


@command.command("questions")
@click.argument("folder", type=FOLDER)
@SPLIT
@flag("--output", "The question file to write.", kind=FILE, required=True)
@REMOVE_QUERY
def questions(folder: Path, split: str, output: Path, remove_query: bool) -> None:
    """Convert the queries and relevance judgments of the BEIR folder FOLDER to questions."""
    from branchrank import library

    made = library.import_beir(folder, output, split=split, remove_query=remove_query)
    print_notes(made.notes)
    relevant = sum(len(question.gold) for question in made.questions)
    click.echo(f"{output}: {len(made.questions)} questions, {relevant} relevant documents")
