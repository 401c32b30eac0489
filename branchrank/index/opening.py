"""Opening a workspace's index for a command that may build it."""

from __future__ import annotations

from branchrank.errors import ArtifactError, BusyError
from branchrank.index.build import build_index
from branchrank.index.reader import Index, open_index
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.progress import Progress, no_progress


def open_or_build(workspace: WorkspaceFolder, *, progress: Progress = no_progress) -> Index:
    """Open the workspace's index. One that is missing or stale is built first; ``workspace.notify`` says so.

    Raises what :func:`~branchrank.index.build.build_index` raises, and
    :class:`~branchrank.errors.BusyError` while another process builds it.
    """
    try:
        return open_index(workspace)
    except BusyError:
        raise
    except ArtifactError as reason:
        workspace.notify(f"{reason.message}; building it")
        return build_index(workspace, progress=progress)
