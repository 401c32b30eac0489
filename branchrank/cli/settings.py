"""``branchrank settings``: list every setting."""

from __future__ import annotations

from pathlib import Path

import click

from branchrank import Workspace
from branchrank.cli.options import data_dir_option
from branchrank.cli.terminal import Command
from branchrank.errors import UsageError
from branchrank.io.printable import value_to_show
from branchrank.settings import DEFAULT, PARTS, resolve, settings_of


@click.command("settings", cls=Command)
@data_dir_option
def command(data_dir: Path) -> None:
    """List the value, origin, range and meaning of every setting in this workspace."""
    wrong: UsageError | None = None
    calibrated = ""
    try:
        workspace = Workspace.open(data_dir)
        resolved, calibrated = workspace.settings, workspace.calibrated_distance
    except UsageError as error:
        # The error message tells the user to run `branchrank settings`. If the settings in the workspace are
        # invalid, the command must therefore list the default settings.
        wrong, resolved = error, resolve(environment={})
    for part in PARTS:
        click.secho(f"[{part.section}]", bold=True)
        for setting in settings_of(part):
            value = getattr(resolved.parts[part.section], setting.name)
            origin = resolved.origins[f"{part.section}.{setting.name}"]
            allowed = f"; {setting.allowed}" if setting.allowed else ""
            shown = value_to_show(setting.name, value) if isinstance(value, str) else value
            click.echo(f"  {setting.name} = {shown!r}  ({origin})")
            click.secho(f"      {setting.flag}: {setting.description}{allowed}", dim=True)
            if setting.name == "vector_score_threshold" and origin == DEFAULT and calibrated:
                click.echo(f"      in use: {calibrated}")
    if wrong is not None:
        raise wrong
