"""Create or change a workspace, and build its index."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import msgspec

from branchrank.core.errors import InputError, MissingDependencyError, ModelError, UsageError
from branchrank.core.io.files import write_bytes
from branchrank.core.io.printable import is_url, means_url, url_to_keep
from branchrank.core.io.progress import Progress, shown_progress
from branchrank.core.records import Record
from branchrank.core.settings import IndexSettings, resolve
from branchrank.documents.chunkers import is_code
from branchrank.documents.ir_collections import entries_place, is_beir, unpack_beir
from branchrank.documents.named import locate_corpus
from branchrank.index.generations import build_lock
from branchrank.index.reader import Index
from branchrank.index.workspace_folder import CONFIG, AnyPath, WorkspaceFolder, configure


class CorpusInputs(Record, frozen=True, kw_only=True):
    """What a build reads: documents, with or without source code, and the user's chunks, nodes and adoption.

    ``exclude`` contains the globs to leave out, and ``adoption`` is the path of an adoption record. An input
    that is ``None`` stays as ``branchrank.toml`` specifies it.
    """

    corpus: str | Path | None = None
    exclude: tuple[str, ...] | None = None
    code: bool | None = None
    chunks: Path | None = None
    nodes: Path | None = None
    adoption: Path | None = None


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
    opened.check_links(root, [path for path in (inputs.chunks, inputs.nodes) if path is not None])
    with build_lock(opened.data_dir):
        if root is not None and is_beir(root):
            root = unpack_beir(root, opened.data_dir / entries_place(root.resolve().name))
        return _built(opened, msgspec.structs.replace(inputs, corpus=root), progress)


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
    files = opened.data_dir / ADOPTED
    with ExitStack() as held:
        adopted = adopt_folder(opened, source, root, collection, held)
        inputs = CorpusInputs(
            corpus=root if corpus is None else str(corpus),
            chunks=files / "chunks.jsonl",
            nodes=files / "nodes.jsonl" if adopted.tree else None,
            adoption=files / RECORD,
        )
        return _built(opened, inputs, progress)


def _built(
    opened: WorkspaceFolder, inputs: CorpusInputs, progress: bool | Progress
) -> tuple[WorkspaceFolder, Index]:
    """Write ``branchrank.toml``, and build the index.

    The caller holds the build lock. If the build fails because of the new settings, the previous file is
    restored. If the build is interrupted or fails for another reason, the new file is kept, so that the build
    can be resumed.
    """
    from branchrank.index.index_build import build_index

    path = opened.data_dir / CONFIG
    before = path.read_bytes() if path.is_file() else None
    try:
        kept = _to_keep(opened)
        configure(opened.data_dir, settings=kept, **msgspec.structs.asdict(inputs))
        was = msgspec.structs.asdict(resolve(toml=opened.content[1], environment={}).part(IndexSettings))
        for key, value in kept.items() if opened.config.corpus else ():
            section, _, name = key.partition(".")
            if section == IndexSettings.section and value != was[name]:
                opened.notify(
                    f"{path}: {key} is now {value!r}, also for later commands (before: {was[name]!r})"
                )
        folder = WorkspaceFolder.open(opened.data_dir, flags=opened.flags)
        folder.notify = opened.notify
        with shown_progress(progress) as shown:
            return folder, build_index(folder, progress=shown, locked=True)
    except (UsageError, InputError, MissingDependencyError, ModelError):
        if before is not None:
            write_bytes(path, before)
        else:
            path.unlink(missing_ok=True)
        raise


def _to_keep(opened: WorkspaceFolder) -> dict[str, object]:
    """Return the settings for ``branchrank.toml``, without credentials in URLs and without a user's chunker.

    The user is notified of what is not written.
    """
    kept: dict[str, object] = {}
    for key, value in opened.flags.items():
        if key == "index.chunker" and is_code(str(value)):
            opened.notify(f"the chunker {value} is not written to branchrank.toml; pass it to later commands")
            continue
        is_location = isinstance(value, str) and (is_url(value) or means_url(key))
        kept[key] = url_to_keep(str(value)) if is_location else value
        if kept[key] != value:
            opened.notify(
                f"the credentials in {key} are not written to branchrank.toml; pass them to later commands "
                f"with the same flag or in BRANCHRANK_{key.replace('.', '_').upper()}"
            )
    return kept
