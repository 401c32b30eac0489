"""Opening what a command needs: the workspace, its index (built where missing or stale), the LLM."""

from __future__ import annotations

from pathlib import Path

import click

from branchrank.cli.terminal import progress_bars, safe
from branchrank.errors import ArtifactError, BusyError
from branchrank.settings import Resolved
from branchrank.stores.index import Index, build_index, open_index
from branchrank.stores.workspace import Workspace


def open_or_build(data_dir: Path, settings: Resolved, *, quiet: bool = False) -> Index:
    """Open the workspace's index; one that is missing or stale is built first, said in one line."""
    workspace = Workspace(data_dir, settings)
    try:
        return open_index(workspace)
    except BusyError:
        raise
    except ArtifactError as reason:
        click.echo(f"{safe(reason.message)}; building it", err=True)
        with progress_bars(quiet) as progress:
            return build_index(workspace, progress=progress)
