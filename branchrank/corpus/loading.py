"""Load a folder of documents into a :class:`Corpus`. The result depends only on the files' paths and bytes.

All files are read in one process, because reading 5 MB takes about a second, and starting more processes
would take longer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from pathlib import Path

from branchrank.corpus.discovery import discover
from branchrank.corpus.document import Document, DocumentOutline
from branchrank.corpus.reading import read_document
from branchrank.errors import BranchRankError, CorpusError
from branchrank.io.files import digest_of, read_beneath
from branchrank.io.progress import Progress, no_progress
from branchrank.records import Record


class Corpus(Record, frozen=True, kw_only=True):
    """The documents below the folder ``root``, sorted by path.

    ``digest`` is a hash of the paths and the bytes of all documents. ``notes`` describes the skipped files
    and the problems that parsers worked around. Every note starts with the path of the file that it
    describes.
    """

    root: str
    documents: tuple[Document, ...]
    digest: str
    notes: tuple[str, ...]


class CorpusOutline(Record, frozen=True, kw_only=True):
    """A corpus without its documents' content. The fields have the same meaning as in :class:`Corpus`."""

    root: str
    documents: tuple[DocumentOutline, ...]
    digest: str
    notes: tuple[str, ...]


def corpus_digest(digests: Iterable[tuple[str, str]]) -> str:
    """Return the digest of a corpus, given the pairs (file path, SHA-256 of the file) in any order."""
    return digest_of(sorted(digests))


def digest_now(root: Path, exclude: Collection[str]) -> str:
    """Return the digest of the current files of a corpus, or an empty string if the corpus can't be read."""
    try:
        files = discover(root, exclude).files
        return corpus_digest(
            (file.source, hashlib.sha256(read_beneath(root, file.source)).hexdigest()) for file in files
        )
    except (BranchRankError, OSError):
        return ""


def load_corpus(root: Path, exclude: Collection[str] = (), progress: Progress = no_progress) -> Corpus:
    """Read every document below ``root``, and call ``progress("read", done, total)`` after each file.

    Raises :class:`CorpusError` if the folder ``root`` does not exist, or if no document in the folder can be
    read.
    """
    found = discover(root, exclude)
    documents: list[Document] = []
    notes = list(found.notes)
    for number, file in enumerate(found.files, start=1):
        try:
            document = read_document(file.source, read_beneath(root, file.source))
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            notes.append(f"{file.source!a}: skipped because it can't be read ({reason})")
        else:
            documents.append(document)
            notes.extend(f"{file.source!a}: {note}" for note in document.notes)
        progress("read", number, len(found.files))
    if not documents:
        raise CorpusError(
            f"no document of the corpus {root} can be read", remedy=f"check the permissions: ls -l {root}"
        )
    return Corpus(
        root=str(root),
        documents=tuple(documents),
        digest=corpus_digest((document.source, document.digest) for document in documents),
        notes=tuple(notes),
    )
