"""Open a workspace's index. If the index is missing or stale, build it first."""

from __future__ import annotations

from collections.abc import Callable

from branchrank.embedders import check_name
from branchrank.errors import ArtifactError, BusyError, LostCollectionError
from branchrank.index.reader import Index, open_index
from branchrank.index.workspace_folder import WorkspaceFolder


def open_or_build(workspace: WorkspaceFolder, build: Callable[[], Index]) -> Index:
    """Open the workspace's index. If the index is missing or stale, print a notice and call ``build``.

    Raises every error that ``build`` raises. Also raises :class:`~branchrank.errors.UsageError` for an
    unknown embedder, :class:`~branchrank.errors.BusyError` if another process is building the index, and
    :class:`~branchrank.errors.LostCollectionError` if the index's Chroma collection was removed.
    """
    try:
        return open_index(workspace)
    except (BusyError, LostCollectionError):
        raise
    except ArtifactError as reason:
        check_name(workspace.index_settings.embedder)
        workspace.notify(f"{reason.message}; building it")
        return build()
