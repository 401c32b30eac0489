"""Compute the vectors and token vectors of an index's chunks during a build.

1. Unless adopted vectors are used, each chunk is embedded with its breadcrumb as the first line. A text that
   has a vector in the cache is not embedded again.
2. Token vectors (one vector per token) that are in the current generation are copied, and missing token
   vectors are computed in batches. A chunk has the same key as in the embedding cache: the key is computed
   from the model's identity and the embedded text with its prefix. To limit memory use, token vectors are
   written to disk batch by batch. The model's forward passes also compute the chunks' embedding vectors, so
   that a first build with token vectors takes no longer than one without them.
3. The distance threshold for the model is measured with probe queries (:mod:`branchrank.index.calibration`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from branchrank.core.errors import ArtifactError
from branchrank.core.execution import Executor
from branchrank.core.io.progress import Progress
from branchrank.core.records import Chunk, Node
from branchrank.core.settings import IndexSettings
from branchrank.index.calibration import distance_calibration, nearest_distances, probe_queries
from branchrank.index.embedders import EmbeddingTask, TokenTask, gives_tokens, token_embedder
from branchrank.index.embedders.cache import BATCH, cache_keys, cached_documents, cached_query
from branchrank.index.embedders.fake import NONE, FakeEmbedder, NoEmbedder
from branchrank.index.embedders.protocol import Embedder, Vectors
from branchrank.index.generations import CHUNKS, MANIFEST
from branchrank.index.manifest import DistanceCalibration, Manifest, check_digests, read_record
from branchrank.index.maxsim import TokenPrecision, TokenVectors, quantize
from branchrank.index.reader import TOKENS
from branchrank.index.records_file import RecordsFile
from branchrank.index.stores.analyzer import embedded_text
from branchrank.index.stores.vectors import ExactVectors, TokenFile, save_token_vectors
from branchrank.index.workspace_folder import WorkspaceFolder

#: With ``token_vectors = "auto"``, an index whose token vectors may need more bytes has none.
AUTO_BYTES = 2_000_000_000


def wanted_tokens(
    settings: IndexSettings, embedder: Embedder, chunks: int
) -> Literal["auto", "none", "int8", "fp16"]:
    """Return the format of the token vectors in an index of ``chunks`` chunks, with ``auto`` resolved.

    The fake embedder, which is for tests, has token vectors only on request.
    """
    if not settings.chooses_tokens:
        return settings.token_vectors
    able = gives_tokens(embedder) and not isinstance(embedder, FakeEmbedder)
    size = chunks * settings.chunk_tokens * embedder.identity.dimension
    return "int8" if able and size <= AUTO_BYTES else "none"


def embed_chunks(
    workspace: WorkspaceFolder,
    embedder: Embedder,
    executor: Executor,
    chunks: RecordsFile[Chunk],
    known: tuple[Vectors | None, Mapping[str, Vectors]],
    progress: Progress,
) -> tuple[Vectors, int]:
    """Return one unit vector per chunk, and the number of vectors that were neither adopted nor cached.

    ``known`` contains the adopted vectors of all chunks, if any, and the vectors of single texts.
    """
    adopted, of_texts = known
    if adopted is not None:
        return adopted, 0
    if embedder.identity.name == NONE:
        return NoEmbedder().embed_documents([""] * len(chunks)), 0
    task = EmbeddingTask(workspace.index_settings, embedder)
    embedded = 0

    def embed_batches(batches: Sequence[Sequence[str]]) -> Iterator[Vectors]:
        nonlocal embedded
        missing = [[text for text in batch if text not in of_texts] for batch in batches]
        computed = executor.map(task, [texts for texts in missing if texts])
        for batch, texts in zip(batches, missing, strict=True):
            embedded += len(batch)
            if len(texts) == len(batch):
                yield next(computed)
            else:
                rows = dict(zip(texts, next(computed) if texts else (), strict=True))
                yield np.array([rows[text] if text in rows else of_texts[text] for text in batch])

    with contextlib.closing(workspace.open_cache()) as cache:
        texts = [embedded_text(chunk) for chunk in chunks.stream()]
        matrix = cached_documents(embedder, cache, texts, progress, embed_batches)
    return matrix, embedded


def measure_distance(
    workspace: WorkspaceFolder, embedder: Embedder, exact: ExactVectors, nodes: RecordsFile[Node]
) -> DistanceCalibration:
    """Calibrate the distance threshold with a sample of the nodes' titles as probe queries."""
    if embedder.identity.name == NONE:
        return DistanceCalibration()
    with contextlib.closing(workspace.open_cache()) as cache:
        embed = partial(cached_query, embedder, cache)
        return distance_calibration(nearest_distances(exact, embed, probe_queries(nodes.stream())))


def keep_token_vectors(
    workspace: WorkspaceFolder,
    embedder: Embedder,
    executor: Executor,
    chunks: RecordsFile[Chunk],
    file: tuple[Path, TokenPrecision | None],
    progress: Progress,
) -> dict[str, Vectors]:
    """Write the chunks' token vectors to a file.

    ``file`` is its path and its number format. If the format is ``None``, there is no file.

    Returns the embedding of each text whose token vectors were computed, as a float32 unit vector of shape
    ``(dimension,)``. Raises :class:`~branchrank.core.errors.UsageError` if the model does not compute token
    vectors.
    """
    path, precision = file
    if precision is None:
        return {}
    model = token_embedder(embedder, workspace.index_settings.embedder)
    texts = [embedded_text(chunk) for chunk in chunks.stream()]
    keys = cache_keys(model.identity, model.identity.document_prefix, texts)
    known = _previous(workspace, precision)
    missing = [text for key, text in zip(keys, texts, strict=True) if key not in known]
    batches = [missing[start : start + BATCH] for start in range(0, len(missing), BATCH)]
    task = TokenTask(workspace.index_settings, embedder)
    vectors: dict[str, Vectors] = {}

    def computed() -> Iterator[TokenVectors]:
        for number, (batch, result) in enumerate(zip(batches, executor.map(task, batches), strict=True)):
            vectors.update(zip(batch, result.vectors, strict=True))
            progress("tokens", number * BATCH + len(batch), len(missing))
            yield from (quantize(each, precision) for each in result.tokens)

    fresh = computed()
    save_token_vectors(path, keys, (known[key] if key in known else next(fresh) for key in keys))
    return vectors


def _previous(workspace: WorkspaceFolder, precision: TokenPrecision) -> dict[str, TokenVectors]:
    """Return the current generation's token vectors, as a dictionary from keys to views of the file."""
    with contextlib.suppress(ArtifactError), contextlib.closing(workspace.generations.pin()) as pin:
        manifest = read_record(pin.directory / MANIFEST, Manifest)
        if manifest.settings.token_vectors != precision or TOKENS not in manifest.digests:
            return {}
        check_digests(pin.directory, {TOKENS: manifest.digests[TOKENS]})
        ids = RecordsFile(pin.directory, CHUNKS, Chunk).ids
        kept = TokenFile(pin.directory / TOKENS, ids, precision)
        return {key: kept.vectors(chunk) for key, chunk in zip(kept.keys, ids, strict=True)}
    return {}
