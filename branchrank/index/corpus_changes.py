"""Find out whether a corpus has changed since it was indexed.

Checking an unchanged corpus takes one ``stat`` call per document. A document is read only if its modification
time has changed since the build.
"""

from __future__ import annotations

import os
from pathlib import Path
from stat import S_ISREG

from branchrank.corpus.loading import CorpusFile, examine, walk, without_documents
from branchrank.index.documents import CorpusEntry, read_documents, read_modified
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.io.files import digest_file


def corpus_change(workspace: WorkspaceFolder, generation: Path) -> str:
    """Describe how the corpus has changed since it was indexed, or return an empty string if it has not.

    Raises :class:`CorpusError` if the corpus is missing or contains no documents.
    """
    root = workspace.corpus_root
    gone = {entry.source: entry for entry in read_documents(generation)}
    modified_ns = read_modified(generation)
    documents = 0
    new: list[str] = []
    changed: list[str] = []
    for source, found in walk(root, workspace.exclude, notes=[]):
        entry = gone.get(source)
        if entry is None:
            if isinstance(examine(root, source), CorpusFile):
                new.append(source)
        elif _has_state(found, entry.size, modified_ns.get(source)):
            documents += 1
            del gone[source]
        elif isinstance(file := examine(root, source), CorpusFile):
            documents += 1
            del gone[source]
            if _differs(file, entry, modified_ns.get(source)):
                changed.append(source)
    if not documents and not new:
        raise without_documents(root)
    changes = [f"{source} is new" for source in sorted(new)]
    changes += [f"{source} is gone" for source in sorted(gone)]
    changes += [f"{source} has changed" for source in sorted(changed)]
    if not changes:
        return ""
    more = f" and {len(changes) - 1} more" if len(changes) > 1 else ""
    return f"is older than the corpus {root}: {changes[0]}{more}"


def _has_state(found: os.DirEntry[str], size: int, mtime_ns: int | None) -> bool:
    """Return whether the entry is a regular file with the given size and modification time."""
    try:
        status = found.stat(follow_symlinks=False)
    except OSError:
        return False
    return status.st_size == size and status.st_mtime_ns == mtime_ns and S_ISREG(status.st_mode)


def _differs(file: CorpusFile, entry: CorpusEntry, mtime_ns: int | None) -> bool:
    """Return whether a file has changed, reading the file only if its modification time has changed."""
    if file.size != entry.size:
        return True
    return file.mtime_ns != mtime_ns and digest_file(Path(file.path)) != entry.digest
