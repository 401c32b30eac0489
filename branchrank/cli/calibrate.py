"""``branchrank calibrate``: the distance threshold that suits the model at hand."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from branchrank.cli.options import data_dir_option, given_flags, settings_options
from branchrank.cli.querying import open_workspace
from branchrank.cli.terminal import Command
from branchrank.settings import GrepSettings, IndexSettings


@click.command("calibrate", cls=Command)
@data_dir_option
@click.option(
    "--questions",
    "questions_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Questions to learn from; default: the workspace's. Their gold is not looked at.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--quiet", is_flag=True, help="No progress.")
@settings_options(
    GrepSettings, IndexSettings, only=frozenset({"grep.vector_score_threshold", "index.embedder"})
)
def command(data_dir: Path, questions_file: Path | None, as_json: bool, quiet: bool) -> None:
    """Suggest a vector_score_threshold: the one that keeps the nearest chunk of 95 in 100 questions.

    Distances are squared L2 between unit vectors, 0 to 4, and their scale is the model's own.
    """
    with open_workspace(data_dir, given_flags(), quiet=quiet) as workspace:
        found = workspace.calibrate(questions_file)
        threshold = found.threshold
        model = workspace.index.manifest.embedder.model
    if as_json:
        click.echo(msgspec.json.encode(found))
        return
    median = found.best[len(found.best) // 2]
    click.echo(f"{len(found.best)} questions, {model}")
    click.echo(
        f"nearest chunk: {found.best[0]:.3f} at best, {median:.3f} median, {found.best[-1]:.3f} at worst"
    )
    click.echo(f"at the threshold {threshold:g}, {found.losing} questions lose every chunk")
    click.echo(f"\n[grep]\nvector_score_threshold = {found.suggested:g}")
