"""Convert datasets from the package ir-datasets (MacAvaney et al., SIGIR 2021) to BEIR folders.

In BranchRank, a dataset is called ``ir:ID``, where ``ID`` is the id of the dataset in ir-datasets.

1. A dataset is written once as a BEIR folder inside the folder of the named corpora. Later commands read this
   BEIR folder.
2. All relevance judgments of a dataset are written as the split ``test``, because the id of a dataset already
   selects one subset, such as ``beir/scifact/test``.
3. While a dataset is read, ir-datasets can download files only if the caller allows downloads.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from branchrank.corpus.beir import CORPUS, QRELS, QUERIES
from branchrank.errors import CorpusError, MissingDependencyError, or_else
from branchrank.io.files import storage_errors, write_jsonl, write_text
from branchrank.io.progress import Progress, no_progress

PREFIX = "ir:"
SPLIT = "test"


def is_dataset(name: str) -> bool:
    """Return whether the corpus name ``name`` refers to a dataset in ir-datasets."""
    return name.startswith(PREFIX)


def dataset_folder(
    name: str, home: Path, *, download: bool = False, progress: Progress = no_progress
) -> Path:
    """Return the BEIR folder below ``home`` for the dataset ``ir:ID``, and create the folder if necessary.

    ``progress("read", done, total)`` is called for each document. Raises :class:`CorpusError` for an unknown
    id, and for a dataset without documents, queries or judgments. If ``download`` is false,
    :class:`CorpusError` is also raised for a dataset that is not on this machine. Raises
    :class:`~branchrank.errors.MissingDependencyError` if ir-datasets is not installed.
    """
    identifier = name.removeprefix(PREFIX)
    target = home / "ir" / identifier.strip("/").replace("/", "-")
    if (target / CORPUS).is_file():
        return target
    dataset = _dataset(identifier)
    with storage_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".ir-") as temporary:
            fresh = Path(temporary, "dataset")
            with _downloads(identifier, allowed=download):
                _write(dataset, identifier, fresh, progress)
            fresh.rename(target)
    return target


def _dataset(identifier: str) -> Any:
    try:
        import ir_datasets
    except ImportError as error:
        raise MissingDependencyError("ir-datasets", extra="datasets", purpose="datasets by id") from error
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


class _Refused(BaseException):
    """Raised to block a download.

    ``_Refused`` does not derive from ``Exception``, because ir-datasets would catch an ``Exception`` and try
    the next mirror.
    """


@contextmanager
def _downloads(identifier: str, *, allowed: bool) -> Iterator[None]:
    """Raise :class:`CorpusError` if ir-datasets tries to download a file, unless ``allowed`` is true."""
    from ir_datasets.util import download

    def refuse(_download: object) -> NoReturn:
        raise _Refused

    kinds = (download.RequestsDownload, download.GoogleDriveDownload, download.GoogleCloudBucketStream)
    streams = {kind: kind.stream for kind in kinds}
    try:
        if not allowed:
            for kind in kinds:
                kind.stream = refuse
        yield
    except _Refused:
        raise CorpusError(
            f"the dataset {identifier!r} has not been downloaded yet",
            remedy=f"download it: branchrank corpus add {PREFIX}{identifier}",
        ) from None
    finally:
        for kind, stream in streams.items():
            kind.stream = stream
