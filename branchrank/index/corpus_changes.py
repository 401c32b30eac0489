"""How a corpus differs from the one that was indexed."""

from __future__ import annotations

from pathlib import Path

from branchrank.artifacts import digest_file
from branchrank.corpus.discovery import discover
from branchrank.index.manifest import BuildReport, Manifest
from branchrank.index.workspace_folder import WorkspaceFolder


def corpus_change(workspace: WorkspaceFolder, manifest: Manifest, report: BuildReport) -> str:
    """How the corpus differs from the one that was indexed; empty when it doesn't.

    Raises :class:`CorpusError` when it is missing.
    """
    if manifest.exclude != workspace.exclude:
        return f"was built with exclude = {list(manifest.exclude)}, not {list(workspace.exclude)}"
    root = workspace.corpus_root
    known = {entry.source: entry for entry in manifest.files}
    states = {source: (entry.size, report.modified_ns.get(source, -1)) for source, entry in known.items()}
    found = {file.source: file for file in discover(root, workspace.exclude, states).files}
    changes = [f"{source} is new" for source in found if source not in known]
    for source, entry in known.items():
        file = found.get(source)
        if file is None:
            changes.append(f"{source} is gone")
        elif file.size != entry.size or (
            file.mtime_ns != report.modified_ns.get(source) and digest_file(Path(file.path)) != entry.digest
        ):
            changes.append(f"{source} has changed")
    if not changes:
        return ""
    more = f" and {len(changes) - 1} more" if len(changes) > 1 else ""
    return f"is older than the corpus {root}: {changes[0]}{more}"
