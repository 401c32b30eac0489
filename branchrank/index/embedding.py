"""Compute vectors for an index's chunks, and calibrate the distance threshold for the embedding model."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import overload

import numpy as np

from branchrank.embedders import Embedder
from branchrank.embedders.cache import cached_documents, cached_query
from branchrank.embedders.fake import NONE, NoEmbedder
from branchrank.embedders.protocol import Vectors
from branchrank.embedders.shards import EmbeddingTask
from branchrank.execution.executors import Executor
from branchrank.index.adoption import Adoption, adopted_vectors
from branchrank.index.calibration import distance_calibration, nearest_distances, probe_queries
from branchrank.index.failpoints import failpoint
from branchrank.index.manifest import DistanceCalibration
from branchrank.index.records_file import RecordsFile
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.io.progress import Progress
from branchrank.records import Chunk
from branchrank.settings import IndexSettings
from branchrank.stores.indexed_text import embedded_text
from branchrank.stores.vectors_exact import ExactVectors


class ChunkTexts(Sequence[str]):
    """The texts to embed for the chunks. Each text is read from the chunks file when it is used."""

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
    embedding: ChunkEmbedding,
    adoption: Adoption | None,
    chunks: RecordsFile[Chunk],
    progress: Progress,
) -> tuple[Vectors, int]:
    """Return one unit vector per chunk, and the number of vectors that were neither adopted nor cached."""
    identity = embedding.embedder.identity
    if adoption is not None:
        adopted = adopted_vectors(adoption, workspace, identity)
        if adopted is not None:
            return adopted, 0
    if identity.name == NONE:
        return NoEmbedder().embed_documents([""] * len(chunks)), 0
    with contextlib.closing(workspace.open_cache()) as cache:
        texts = ChunkTexts(chunks)
        matrix = cached_documents(embedding.embedder, cache, texts, progress, embedding.embed_batches)
    return matrix, embedding.texts


def measure_distance(
    workspace: WorkspaceFolder, embedder: Embedder, exact: ExactVectors, titles: Collection[str]
) -> DistanceCalibration:
    """Calibrate the distance threshold with a sample of ``titles`` as probe queries."""
    if embedder.identity.name == NONE:
        return DistanceCalibration()
    with contextlib.closing(workspace.open_cache()) as cache:
        embed = partial(cached_query, embedder, cache)
        return distance_calibration(nearest_distances(exact, embed, probe_queries(titles)))


class ChunkEmbedding:
    """Embeds batches of texts, and counts the texts in these batches.

    A text that has a vector in ``vectors`` is counted, but is not embedded again.
    """

    def __init__(
        self,
        settings: IndexSettings,
        embedder: Embedder,
        executor: Executor,
        vectors: Mapping[str, Vectors],
    ) -> None:
        self.embedder = embedder
        self.texts = 0
        self._task = EmbeddingTask(settings, embedder)
        self._executor = executor
        self._vectors = vectors

    def embed_batches(self, batches: Sequence[Sequence[str]]) -> Iterator[Vectors]:
        """Yield the vectors of each batch, one row per text."""
        if not self._vectors:
            for batch, vectors in zip(batches, self._executor.map(self._task, batches), strict=True):
                self._count(batch)
                yield vectors
            return
        missing = [[text for text in batch if text not in self._vectors] for batch in batches]
        embedded = self._executor.map(self._task, [texts for texts in missing if texts])
        for batch, texts in zip(batches, missing, strict=True):
            self._count(batch)
            rows = dict(zip(texts, next(embedded) if texts else (), strict=True))
            yield np.array([rows[text] if text in rows else self._vectors[text] for text in batch])

    def _count(self, batch: Sequence[str]) -> None:
        self.texts += len(batch)
        failpoint("embedding")
