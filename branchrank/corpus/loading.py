"""Load a folder of documents into a :class:`Corpus` in memory. The result depends only on the bytes.

One process reads all files: about 5 MB take a second, which is less than starting more processes takes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from pathlib import Path

from branchrank.artifacts import digest_of
from branchrank.corpus.discovery import discover
from branchrank.corpus.document import Document, DocumentOutline
from branchrank.corpus.reading import read_document
from branchrank.errors import BranchRankError, CorpusError
from branchrank.progress import Progress, no_progress
from branchrank.records import Record
from branchrank.safe_open import read_beneath


class Corpus(Record, frozen=True, kw_only=True):
    """The documents below ``root``, sorted by source.

    ``digest`` covers the sources and their bytes. ``notes`` lists the files that were skipped, and the
    problems that readers worked around, each after its source.
    """

    root: str
    documents: tuple[Document, ...]
    digest: str
    notes: tuple[str, ...]


class CorpusOutline(Record, frozen=True, kw_only=True):
    """A corpus without the content of its documents; the fields are those of :class:`Corpus`."""

    root: str
    documents: tuple[DocumentOutline, ...]
    digest: str
    notes: tuple[str, ...]


def corpus_digest(digests: Iterable[tuple[str, str]]) -> str:
    """The digest of a corpus from pairs (source, SHA-256 of its bytes); their order does not matter."""
    return digest_of(sorted(digests))


def digest_now(root: Path, exclude: Collection[str]) -> str:
    """The digest of the corpus as it is now; empty if there is no corpus."""
    try:
        files = discover(root, exclude).files
        return corpus_digest(
            (file.source, hashlib.sha256(read_beneath(root, file.source)).hexdigest()) for file in files
        )
    except (BranchRankError, OSError):
        return ""


def load_corpus(root: Path, exclude: Collection[str] = (), progress: Progress = no_progress) -> Corpus:
    """Read every document below ``root``; ``progress`` counts files.

    Raises:
        CorpusError: the folder does not exist, or contains no document that can be read.
    """
    found = discover(root, exclude)
    documents: list[Document] = []
    notes = list(found.notes)
    for number, file in enumerate(found.files, start=1):
        try:
            document = read_document(file.source, read_beneath(root, file.source))
        except OSError as error:
            notes.append(f"{file.source!a}: left out, {(error.strerror or str(error)).lower()}")
        else:
            documents.append(document)
            notes.extend(f"{file.source!a}: {note}" for note in document.notes)
        progress("read", number, len(found.files))
    if not documents:
        raise CorpusError(
            f"no document of the corpus {root} can be read", remedy="look at the permissions of its files"
        )
    return Corpus(
        root=str(root),
        documents=tuple(documents),
        digest=corpus_digest((document.source, document.digest) for document in documents),
        notes=tuple(notes),
    )
