"""Create or change a workspace, and build its index."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

from branchrank.corpus.ir_collections import entries_place, is_beir, unpack_beir
from branchrank.corpus.named import locate_corpus
from branchrank.errors import (
    BusyError,
    InputError,
    ModelError,
    UsageError,
)
from branchrank.index.reader import Index
from branchrank.index.workspace_folder import CONFIG, WorkspaceFolder, configure
from branchrank.io.files import write_bytes
from branchrank.io.printable import is_url, means_url, url_to_keep
from branchrank.io.progress import Progress, shown_progress
from branchrank.records import Record

AnyPath = str | PathLike[str]


class CorpusInputs(Record, frozen=True, kw_only=True):
    """What a build reads: documents, globs to leave out, and the user's own chunks and nodes (if any)."""

    corpus: str | Path | None = None
    exclude: tuple[str, ...] | None = None
    chunks: Path | None = None
    nodes: Path | None = None


def build_workspace(
    opened: WorkspaceFolder, inputs: CorpusInputs, progress: bool | Progress = False
) -> tuple[WorkspaceFolder, Index]:
    """Write the inputs and the flags of ``opened`` to ``branchrank.toml``, and build the index.

    Without a corpus in ``inputs``, the corpus in ``branchrank.toml`` is indexed again. If the corpus is a
    BEIR folder, its documents are first written to files in the workspace.
    """
    if inputs.corpus is None:
        opened.check_exists()
    root = None if inputs.corpus is None else locate_corpus(inputs.corpus)
    if root is not None and is_beir(root):
        root = unpack_beir(root, opened.data_dir / entries_place(root.resolve().name))
    opened.check_links(root, [path for path in (inputs.chunks, inputs.nodes) if path is not None])
    with _kept_if_right(opened.data_dir):
        configure(
            opened.data_dir,
            corpus=root,
            exclude=inputs.exclude,
            chunks=inputs.chunks,
            nodes=inputs.nodes,
            settings=_to_keep(opened),
        )
        return _built(opened, progress)


def build_adopted(
    opened: WorkspaceFolder,
    source: Path,
    corpus: AnyPath | None,
    collection: str = "",
    progress: bool | Progress = False,
) -> tuple[WorkspaceFolder, Index]:
    """Adopt the chunks, vectors and nodes in the folder ``source``, and build the index with them."""
    from branchrank.index.adoption import ADOPTED, RECORD, adopt_folder, documents_of

    root = documents_of(opened, source, corpus)
    adopted = adopt_folder(opened, source, root, collection)
    files = opened.data_dir / ADOPTED
    with _kept_if_right(opened.data_dir):
        configure(
            opened.data_dir,
            corpus=root if corpus is None else str(corpus),
            chunks=files / "chunks.jsonl",
            nodes=files / "nodes.jsonl" if adopted.tree else None,
            adoption=files / RECORD,
            settings=_to_keep(opened),
        )
        return _built(opened, progress)


def _built(opened: WorkspaceFolder, progress: bool | Progress) -> tuple[WorkspaceFolder, Index]:
    """Read the changed ``branchrank.toml``, and build the index."""
    from branchrank.index.build import build_index

    folder = WorkspaceFolder.open(opened.data_dir, flags=opened.flags)
    folder.notify = opened.notify
    with shown_progress(progress) as shown:
        return folder, build_index(folder, progress=shown)


@contextlib.contextmanager
def _kept_if_right(data_dir: Path) -> Iterator[None]:
    """Restore ``branchrank.toml`` if a build fails because of the new settings in the file.

    If the build is interrupted or fails for another reason, the new file is kept, so that the build can be
    resumed.
    """
    path = data_dir / CONFIG
    before = path.read_bytes() if path.is_file() else None
    try:
        yield
    except (UsageError, InputError, ModelError, BusyError):
        if before is not None:
            write_bytes(path, before)
        else:
            path.unlink(missing_ok=True)
        raise


def _to_keep(opened: WorkspaceFolder) -> dict[str, object]:
    """Remove credentials from URLs in ``branchrank.toml`` settings, and notify the user of each removal."""
    settings = opened.flags
    kept = {
        key: url_to_keep(value) if isinstance(value, str) and (is_url(value) or means_url(key)) else value
        for key, value in settings.items()
    }
    for key, value in settings.items():
        if kept[key] != value:
            opened.notify(
                f"the credentials in {key} are not written to branchrank.toml; pass them to later commands "
                f"with the same flag or in BRANCHRANK_{key.replace('.', '_').upper()}"
            )
    return kept
