"""Datasets of the package ir-datasets (MacAvaney et al., SIGIR 2021), named ``ir:ID``, as BEIR folders.

1. A dataset is written once as a BEIR folder, inside the folder of the named corpora, and later read from it.
2. The judgements of a dataset become the split ``test``, because the dataset's id already names the subset.
3. While a dataset is read, the package's downloads are blocked unless the caller allows them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from branchrank.artifacts import storage_errors, write_jsonl, write_text
from branchrank.corpus.beir import CORPUS, QRELS, QUERIES
from branchrank.errors import CorpusError, MissingDependencyError, or_else
from branchrank.progress import Progress, no_progress

PREFIX = "ir:"
SPLIT = "test"


def is_dataset(name: str) -> bool:
    """Return whether the name of a corpus refers to a dataset of ir-datasets."""
    return name.startswith(PREFIX)


def dataset_folder(
    name: str, home: Path, *, download: bool = False, progress: Progress = no_progress
) -> Path:
    """Return the BEIR folder of the dataset ``ir:ID`` below ``home``, after writing it if it does not exist.

    ``progress("read", done, total)`` counts documents. Raises :class:`CorpusError` if the id is unknown, if
    the dataset has no documents, queries or judgements, or if the dataset is not on this machine and
    ``download`` is false. Raises :class:`~branchrank.errors.MissingDependencyError` if the package is not
    installed.
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
    """Write the judgements, queries and documents of a dataset as the files of a BEIR folder."""
    qrels: dict[tuple[str, str], int] = {}
    for judged in _read(identifier, dataset.qrels_iter):
        qrels[judged.query_id, judged.doc_id] = judged.relevance
    lines = [f"{query}\t{document}\t{grade}\n" for (query, document), grade in qrels.items()]
    write_text(folder / QRELS / f"{SPLIT}.tsv", "".join(["query-id\tcorpus-id\tscore\n", *lines]))
    queries = _read(identifier, dataset.queries_iter)
    write_jsonl(folder / QUERIES, ({"_id": each.query_id, "text": each.default_text()} for each in queries))
    write_jsonl(folder / CORPUS, _entries(_read(identifier, dataset.docs_iter), progress))


def _read(identifier: str, part: Callable[[], Iterable[Any]]) -> Iterator[Any]:
    """Yield the entries of one part of a dataset. Raises :class:`CorpusError` if the part can't be read."""
    try:
        yield from part()
    except (OSError, RuntimeError, ImportError) as error:
        raise CorpusError(
            f"cannot read the dataset {identifier!r}: {error}",
            remedy=f"run `ir_datasets export {identifier} docs`, which prints the whole error",
        ) from error


def _entries(documents: Iterable[Any], progress: Progress) -> Iterator[dict[str, str]]:
    """Yield documents as BEIR entries.

    A document without a title or without a text gets the package's default text and an empty title.
    """
    for number, each in enumerate(documents, start=1):
        title, text = getattr(each, "title", ""), getattr(each, "text", None)
        if not (title and text):
            title, text = "", each.default_text()
        yield {"_id": each.doc_id, "title": title, "text": text}
        progress("read", number, number)


class _Refused(BaseException):
    """A blocked download. (After an ``Exception``, the package would try the next mirror.)"""


@contextmanager
def _downloads(identifier: str, *, allowed: bool) -> Iterator[None]:
    """Block the package's downloads inside the ``with`` block, unless ``allowed`` is true.

    Raises :class:`CorpusError` if the package tries to download the dataset.
    """
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
