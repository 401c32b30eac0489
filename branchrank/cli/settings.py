"""``branchrank settings``: every setting, generated from the records."""

from __future__ import annotations

from pathlib import Path

import click

from branchrank.cli.options import data_dir_option
from branchrank.cli.querying import workspace_settings
from branchrank.cli.terminal import Command
from branchrank.errors import UsageError
from branchrank.settings import PARTS, resolve, settings_of


@click.command("settings", cls=Command)
@data_dir_option
def command(data_dir: Path) -> None:
    """List every setting: its value in this workspace, where that came from, range and meaning."""
    wrong: UsageError | None = None
    try:
        resolved = workspace_settings(data_dir)
    except UsageError as error:
        # Its remedy is this list, which then shows the defaults.
        wrong, resolved = error, resolve(environment={})
    for part in PARTS:
        click.secho(f"[{part.section}]", bold=True)
        for setting in settings_of(part):
            value = getattr(resolved.parts[part.section], setting.name)
            origin = resolved.origins[f"{part.section}.{setting.name}"]
            allowed = f"; {setting.allowed}" if setting.allowed else ""
            click.echo(f"  {setting.name} = {value!r}  ({origin})")
            click.secho(f"      {setting.flag}: {setting.description}{allowed}", dim=True)
    if wrong is not None:
        raise wrong
