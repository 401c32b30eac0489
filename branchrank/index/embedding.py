"""The vectors of an index's chunks, and the distance threshold that suits their model."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import overload

import numpy as np

from branchrank.embedders import Embedder
from branchrank.embedders.cache import cached_documents, cached_query
from branchrank.embedders.nothing import NONE, NoEmbedder
from branchrank.embedders.protocol import Vectors
from branchrank.index.adoption import Adoption, adopted_vectors
from branchrank.index.calibration import distance_calibration, nearest_distances, probe_queries
from branchrank.index.failpoints import failpoint
from branchrank.index.manifest import DistanceCalibration
from branchrank.index.records_file import RecordsFile
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.progress import Progress, no_progress
from branchrank.records import Chunk
from branchrank.stores.indexed_text import embedded_text
from branchrank.stores.vectors_exact import ExactVectors


class ChunkTexts(Sequence[str]):
    """The texts that are embedded, one per chunk, read when they are asked for."""

    def __init__(self, chunks: RecordsFile[Chunk]) -> None:
        self._chunks = chunks

    def __len__(self) -> int:
        return len(self._chunks)

    @overload
    def __getitem__(self, row: int) -> str: ...

    @overload
    def __getitem__(self, row: slice) -> list[str]: ...

    def __getitem__(self, row: int | slice) -> str | list[str]:
        if isinstance(row, slice):
            return [embedded_text(chunk) for chunk in self._chunks.stream(*row.indices(len(self))[:2])]
        return embedded_text(self._chunks.at(row))


def embed_chunks(
    workspace: WorkspaceFolder,
    counting: CountingEmbedder,
    adoption: Adoption | None,
    chunks: RecordsFile[Chunk],
    progress: Progress,
) -> tuple[Vectors, int]:
    """The chunks' unit rows, and the number of texts that were embedded, not adopted or cached."""
    if adoption is not None:
        adopted = adopted_vectors(adoption, workspace, counting.identity)
        if adopted is not None:
            return adopted, 0
    if counting.identity.name == NONE:
        return NoEmbedder().embed_documents([""] * len(chunks)), 0
    with contextlib.closing(workspace.open_cache()) as cache:
        matrix = cached_documents(counting, cache, ChunkTexts(chunks), progress)
    return matrix, counting.texts


def measure_distance(
    workspace: WorkspaceFolder, embedder: Embedder, exact: ExactVectors, titles: Collection[str]
) -> DistanceCalibration:
    """The distances of probe queries to their nearest chunks; the probes' vectors are cached."""
    if embedder.identity.name == NONE:
        return DistanceCalibration()
    with contextlib.closing(workspace.open_cache()) as cache:
        embed = partial(cached_query, embedder, cache)
        return distance_calibration(nearest_distances(exact, embed, probe_queries(titles)))


class CountingEmbedder:
    """An embedder that counts the documents it embeds; those in ``vectors`` are not embedded again."""

    def __init__(self, embedder: Embedder, vectors: Mapping[str, Vectors]) -> None:
        self.identity = embedder.identity
        self.embed_query = embedder.embed_query
        self.texts = 0
        self._embedder = embedder
        self._vectors = vectors

    def embed_documents(self, texts: Sequence[str], progress: Progress = no_progress) -> Vectors:
        self.texts += len(texts)
        failpoint("embedding")
        missing = [text for text in texts if text not in self._vectors]
        fresh = self._embedder.embed_documents(missing, progress) if missing else ()
        rows = dict(zip(missing, fresh, strict=True))
        return np.array([rows[text] if text in rows else self._vectors[text] for text in texts])
