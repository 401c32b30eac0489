"""Open a workspace's index, and build it first if needed."""

from __future__ import annotations

from collections.abc import Callable

from branchrank.embedders import check_name
from branchrank.errors import ArtifactError, BusyError, LostCollectionError
from branchrank.index.reader import Index, open_index
from branchrank.index.workspace_folder import WorkspaceFolder


def open_or_build(workspace: WorkspaceFolder, build: Callable[[], Index]) -> Index:
    """Open the workspace's index, or ``build`` it with a notice if it is missing or stale.

    A misspelt embedder is refused before the notice.

    Raises what ``build`` raises, :class:`~branchrank.errors.BusyError` while another process builds it, and
    :class:`~branchrank.errors.LostCollectionError` when its Chroma collection was moved away.
    """
    try:
        return open_index(workspace)
    except (BusyError, LostCollectionError):
        raise
    except ArtifactError as reason:
        check_name(workspace.index_settings.embedder)
        workspace.notify(f"{reason.message}; building it")
        return build()
