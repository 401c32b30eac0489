"""``branchrank calibrate``: suggest a distance threshold for the index's embedding model."""

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
    help="The question file. Gold is not used. Default: the question file of the workspace.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
@settings_options(
    GrepSettings, IndexSettings, only=frozenset({"grep.vector_score_threshold", "index.embedder"})
)
def command(data_dir: Path, questions_file: Path | None, as_json: bool, quiet: bool) -> None:
    """Suggest a vector_score_threshold at which 95% of the questions keep their nearest chunk.

    Distances are squared L2 distances between unit vectors, from 0 to 4. Typical distances differ between
    embedding models, so the threshold should fit the model.
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
        f"distance of the nearest chunk: minimum {found.best[0]:.3f}, median {median:.3f}, "
        f"maximum {found.best[-1]:.3f}"
    )
    click.echo(f"with the threshold {threshold:g}, {found.losing} questions get no chunk")
    click.echo(f"\n[grep]\nvector_score_threshold = {found.suggested:g}")
