"""Read test collections: folders in the BEIR format, and datasets from the package ir-datasets.

Folders in the BEIR format (Thakur et al., NeurIPS 2021) store documents in ``corpus.jsonl``.

1. Each line of ``corpus.jsonl`` is a JSON object that contains one document. Each document is written to a
   separate file. The first line of the file is the document's title, which may be empty. The document's text
   starts on the second line. The name of the file is the document's ``_id``, percent-encoded, with the suffix
   ``.beir``. A longer name than file systems allow ends with a digest. The file name is not part of the
   indexed text.
2. Each ``.beir`` file is read as one section of plain text, without markup. If a document has a title but no
   text, the title is used as the text.
3. The ``.beir`` files are written to a temporary folder, which is renamed after all files are written. An
   interrupted command therefore leaves no incomplete folder.

Datasets from ir-datasets (MacAvaney et al., SIGIR 2021) are converted to BEIR folders. In BranchRank, a
dataset is called ``ir:ID``, where ``ID`` is the id of the dataset in ir-datasets.

1. A dataset is written once as a BEIR folder inside the folder of the named corpora. Later commands read this
   BEIR folder.
2. All relevance judgments of a dataset are written as the split ``test``, because the id of a dataset already
   selects one subset, such as ``beir/scifact/test``.
3. A dataset without such a folder is read, and downloaded if necessary, only if the caller allows it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, unquote

import msgspec

from branchrank.core.errors import BranchRankError, CorpusError, or_else
from branchrank.core.io import imported
from branchrank.core.io.files import (
    digest_bytes,
    digest_file,
    reading_errors,
    storage_errors,
    write_jsonl,
    write_text,
)
from branchrank.core.io.progress import Progress, no_progress
from branchrank.core.io.text_files import read_jsonl
from branchrank.core.records import Record
from branchrank.documents.document import ENTRY_SUFFIX

CORPUS = "corpus.jsonl"
QUERIES = "queries.jsonl"
QRELS = "qrels"
_LONGEST_NAME = 255 - len(ENTRY_SUFFIX)
#: Separates a digest in a file name. Percent-encoded text does not contain it.
_DIGEST = "%-"


class Identified(Record, frozen=True, kw_only=True):
    """One line of ``corpus.jsonl`` or ``queries.jsonl``. A whole number as its ``_id`` is text."""

    given_id: str | int = msgspec.field(name="_id")

    @property
    def id(self) -> str:
        """The ``_id`` as text."""
        return str(self.given_id)


class Entry(Identified, frozen=True, kw_only=True):
    """One document in ``corpus.jsonl``."""

    text: str | None
    title: str | None = None


Line = TypeVar("Line", bound=Identified)


def is_beir(folder: Path) -> bool:
    """Return whether ``folder`` contains ``corpus.jsonl`` and ``queries.jsonl``, which may be compressed."""
    return all(collection_file(folder, name).is_file() for name in (CORPUS, QUERIES))


def collection_file(folder: Path, name: str) -> Path:
    """Return the path of a file in a BEIR folder, with the suffix ``.gz`` if only that file exists."""
    compressed = folder / f"{name}.gz"
    return compressed if compressed.is_file() and not (folder / name).is_file() else folder / name


def entries_place(name: str) -> str:
    """Return the folder in the workspace where the documents of the BEIR folder ``name`` are unpacked."""
    return f"beir/{name}"


def entry_source(identifier: str) -> str:
    """Return the name of the ``.beir`` file for the document whose ``_id`` is ``identifier``."""
    name = quote(identifier, safe="")
    name = f"%2E{name[1:]}" if name.startswith(".") else name
    if len(name) > _LONGEST_NAME:
        name = f"{name[: _LONGEST_NAME // 2]}{_DIGEST}{digest_bytes(identifier.encode())[:32]}"
    return f"{name}{ENTRY_SUFFIX}"


def entry_id(source: str) -> str | None:
    """Return the ``_id`` encoded in the file name ``source``, or ``None`` if its suffix is not ``.beir``.

    For a name with a digest, the name without its suffix is returned.
    """
    name = source.removesuffix(ENTRY_SUFFIX)
    return None if name == source else name if _DIGEST in name else unquote(name)


def read_entries(folder: Path) -> Iterator[Entry]:
    """Yield the documents in ``folder/corpus.jsonl``. Raises the same errors as :func:`read_lines`."""
    return read_lines(collection_file(folder, CORPUS), Entry, "document", CorpusError)


def read_lines(
    path: Path, kind: type[Line], name: str, error: Callable[..., BranchRankError]
) -> Iterator[Line]:
    """Yield the documents or queries in a file of a BEIR folder, reading one line at a time.

    Raises ``error`` for an invalid line, and for an ``_id`` that is empty or repeated. ``name`` is what the
    message calls a line.
    """
    remedy = f"check that you can read {path}, and that each line is a JSON object with `_id` and `text`"
    seen: set[str] = set()
    for number, line in enumerate(read_jsonl(path, kind, error=error, remedy=remedy), start=1):
        if not line.id or line.id in seen:
            raise error(
                f"{path}: {name} {number}: the `_id` {line.id!r} is empty or used by an earlier {name}",
                remedy=f"give every line of {path.name} a different `_id`",
            )
        seen.add(line.id)
        yield line


def unpack_beir(folder: Path, target: Path) -> Path:
    """Write each document in a BEIR folder to a separate file in ``target``, and return ``target``.

    The files in ``target`` are replaced only if ``corpus.jsonl`` has changed since the last call. To detect
    changes, the SHA-256 of ``corpus.jsonl`` is stored in a file next to ``target``.

    Raises :class:`CorpusError` if ``corpus.jsonl`` can't be read or if ``target`` contains files without the
    suffix ``.beir``. Raises :class:`~branchrank.core.errors.StorageError` if the files can't be written.
    """
    if target.exists() and not (
        target.is_dir() and all(path.suffix == ENTRY_SUFFIX for path in target.iterdir())
    ):
        raise CorpusError(
            f"{target} contains files that do not belong to a BEIR corpus",
            remedy=f"move the folder {target} away, or choose another --data-dir",
        )
    kept = target.with_name(f"{target.name}.sha256")
    corpus = collection_file(folder, CORPUS)
    with reading_errors(corpus, CorpusError, "check that you may read the file"):
        digest = digest_file(corpus)
    if target.is_dir() and kept.is_file() and kept.read_text(encoding="utf-8") == digest:
        return target
    with storage_errors(target):
        kept.unlink(missing_ok=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as temporary:
            fresh = Path(temporary, "entries")
            fresh.mkdir()
            for entry in read_entries(folder):
                title = " ".join((entry.title or "").split())
                text = f"{title}\n{entry.text or ''}\n".replace("\0", " ")
                (fresh / entry_source(entry.id)).write_bytes(text.encode())
            if target.exists():
                target.rename(Path(temporary, "before"))
            fresh.rename(target)
    write_text(kept, digest)
    return target


PREFIX = "ir:"
SPLIT = "test"


def dataset_folder(
    name: str, home: Path, *, download: bool = False, progress: Progress = no_progress
) -> Path:
    """Return the BEIR folder below ``home`` for the dataset ``ir:ID``, and create the folder if necessary.

    ``progress("read", done, total)`` is called for each document. Raises :class:`CorpusError` for an unknown
    id, for a dataset without documents, queries or judgments and, if ``download`` is false, for one without
    such a folder. Raises
    :class:`~branchrank.core.errors.MissingDependencyError` if ir-datasets is not installed.
    """
    identifier = name.removeprefix(PREFIX)
    target = home / "ir" / identifier.strip("/").replace("/", "-")
    if (target / CORPUS).is_file():
        return target
    dataset = _dataset(identifier)
    if not download:
        raise CorpusError(
            f"the dataset {identifier!r} has not been downloaded yet",
            remedy=f"download it: branchrank corpus add {PREFIX}{identifier}",
        )
    with storage_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".ir-") as temporary:
            fresh = Path(temporary, "dataset")
            _write(dataset, identifier, fresh, progress)
            fresh.rename(target)
    return target


def _dataset(identifier: str) -> Any:
    ir_datasets = imported("ir_datasets", "ir-datasets", extra="datasets", purpose="datasets by id")
    try:
        dataset = ir_datasets.load(identifier)
    except KeyError:
        raise CorpusError(
            f"ir-datasets has no dataset {identifier!r}{or_else(identifier, list(ir_datasets.registry))}",
            remedy="ir_datasets list",
        ) from None
    lacking = [part for part in ("docs", "queries", "qrels") if not dataset.has(part)]
    if lacking:
        raise CorpusError(
            f"the dataset {identifier!r} has no {' and no '.join(lacking)}",
            remedy="use a subset with docs, queries and qrels, such as ir:beir/scifact/test",
        )
    return dataset


def _write(dataset: Any, identifier: str, folder: Path, progress: Progress) -> None:
    """Write a dataset's judgments, queries and documents to a BEIR folder."""
    qrels: dict[tuple[str, str], int] = {}
    for judged in _read(identifier, dataset.qrels_iter):
        qrels[judged.query_id, judged.doc_id] = judged.relevance
    lines = [f"{query}\t{document}\t{grade}\n" for (query, document), grade in qrels.items()]
    write_text(folder / QRELS / f"{SPLIT}.tsv", "".join(["query-id\tcorpus-id\tscore\n", *lines]))
    queries = _read(identifier, dataset.queries_iter)
    write_jsonl(folder / QUERIES, ({"_id": each.query_id, "text": each.default_text()} for each in queries))
    write_jsonl(folder / CORPUS, _entries(_read(identifier, dataset.docs_iter), progress))


def _read(identifier: str, part: Callable[[], Iterable[Any]]) -> Iterator[Any]:
    """Yield the items of one part of a dataset. Raises :class:`CorpusError` if the items can't be read."""
    try:
        yield from part()
    except (OSError, RuntimeError, ImportError) as error:
        raise CorpusError(
            f"cannot read the dataset {identifier!r}: {error}",
            remedy=f"run `ir_datasets export {identifier} docs`, which prints the whole error",
        ) from error


def _entries(documents: Iterable[Any], progress: Progress) -> Iterator[dict[str, str]]:
    """Yield documents as BEIR entries.

    If a document lacks a title or a text, the entry has no title, and the entry's text is the document's
    ``default_text()`` from ir-datasets.
    """
    for number, each in enumerate(documents, start=1):
        title, text = getattr(each, "title", ""), getattr(each, "text", None)
        if not (title and text):
            title, text = "", each.default_text()
        yield {"_id": each.doc_id, "title": title, "text": text}
        progress("read", number, number)
