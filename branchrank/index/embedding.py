"""Compute an index's vectors and token vectors, the spread of its similarities and its distance threshold.

1. Unless adopted vectors are used, each chunk is embedded with its breadcrumb as the first line. A text that
   has a vector in the cache is not embedded again.
2. Token vectors (one vector per token) that are in the current generation are copied, and missing token
   vectors are computed in batches. A chunk has the same key as in the embedding cache: the key is computed
   from the model's identity and the embedded text with its prefix. To limit memory use, token vectors are
   written to disk batch by batch. The model's forward passes also compute the chunks' embedding vectors, so
   that a first build with token vectors takes no longer than one without them.
3. A query's distance is the squared L2 distance between the query's vector and the vector of the nearest
   chunk. All vectors have length 1, so squared distances are between 0 and 4. If the distance between a query
   and its nearest chunk is at or above the threshold, vector search returns no chunks for the query. With the
   suggested threshold, at least 95% of the queries keep their nearest chunk.
4. A build uses a seeded random sample of section titles as probe queries, because titles and users' questions
   have similar distances to their nearest chunks. If less than 95% of the probe queries keep their nearest
   chunk at the default threshold, the index stores the suggested threshold. A system uses the stored
   threshold if the system's distance threshold is set to ``calibrated``.
5. The similarities of some models lie in 0.7..0.9, those of others in 0..0.8. The index therefore stores the
   mean and the standard deviation of the similarities between the probe queries and a seeded random sample of
   chunks. A similarity that is added to another score, or compared with the default threshold, is first
   converted to the scale of the default model (:class:`~branchrank.index.manifest.Spread`).
"""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from branchrank.core.errors import ArtifactError
from branchrank.core.execution import Executor
from branchrank.core.io.progress import Progress
from branchrank.core.records import SEED, Chunk, Node, Record
from branchrank.core.settings import DISTANCE_THRESHOLD, IndexSettings
from branchrank.index.embedders import EmbeddingTask, TokenTask, gives_tokens, token_embedder
from branchrank.index.embedders.cache import BATCH, cache_keys, cached_documents, cached_query
from branchrank.index.embedders.fake import FakeEmbedder, NoEmbedder
from branchrank.index.embedders.protocol import NONE, Embedder, Vectors
from branchrank.index.generations import CHUNKS, MANIFEST
from branchrank.index.manifest import (
    COSINE_SCALE,
    MAXSIM_SCALE,
    DistanceCalibration,
    Manifest,
    MeasuredCosines,
    Spread,
    check_digests,
    read_record,
)
from branchrank.index.maxsim import TokenPrecision, TokenVectors, maxsim, quantize
from branchrank.index.reader import TOKENS
from branchrank.index.records_file import RecordsFile
from branchrank.index.stores.analyzer import embedded_text
from branchrank.index.stores.vectors import (
    LARGEST_DISTANCE,
    ExactVectors,
    TokenFile,
    save_token_vectors,
    squared_distance,
)
from branchrank.index.workspace_folder import WorkspaceFolder

#: With ``token_vectors = "auto"``, an index whose token vectors may need more bytes has none.
AUTO_BYTES = 2_000_000_000
#: For all-MiniLM-L6-v2, the largest component of most token vectors is 0.2.
LARGEST_COMPONENT = 0.5
COVERAGE = 0.95
#: The number of probe queries and chunks whose vectors are compared, and whose token vectors are compared.
PROBES = 100
TOKEN_PROBES = 32
#: Similarities with a smaller standard deviation differ only by rounding.
LEAST_DEVIATION = 1e-6


def wanted_tokens(
    settings: IndexSettings, embedder: Embedder, chunks: int
) -> Literal["auto", "none", "int8", "fp16"]:
    """Return the format of the token vectors in an index of ``chunks`` chunks, with ``auto`` resolved.

    ``auto`` is int8, or fp16 if most of the model's token vectors have one component so large that int8 would
    round off the others. The fake embedder, which is for tests, has token vectors only on request.
    """
    if not settings.chooses_tokens:
        return settings.token_vectors
    if not gives_tokens(embedder) or isinstance(embedder, FakeEmbedder):
        return "none"
    rows = token_embedder(embedder, settings.embedder).embed_query_and_tokens("token vectors").tokens
    is_even = np.median(np.abs(rows).max(axis=1)) <= LARGEST_COMPONENT
    precision: TokenPrecision = "int8" if is_even else "fp16"
    size = chunks * settings.chunk_tokens * embedder.identity.dimension * (1 + (precision == "fp16"))
    return precision if size <= AUTO_BYTES else "none"


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


def measure_similarities(
    workspace: WorkspaceFolder,
    embedder: Embedder,
    exact: ExactVectors,
    records: tuple[RecordsFile[Chunk], RecordsFile[Node]],
    tokens: tuple[Path, TokenPrecision | None],
) -> MeasuredCosines:
    """Measure the similarities between probe queries, which are titles of nodes, and a sample of the chunks.

    ``tokens`` is the path and the number format of the file with the chunks' token vectors. If there is no
    file, those of the sample are computed.
    """
    if embedder.identity.name == NONE:
        return MeasuredCosines()
    chunks, probes = records[0], probe_queries(records[1].stream())
    draw = random.Random(SEED)  # noqa: S311 - a seeded draw
    drawn = chunks.ids.take(draw.sample(range(len(chunks)), min(PROBES, len(chunks))))
    with contextlib.closing(workspace.open_cache()) as cache:
        queries = [cached_query(embedder, cache, probe) for probe in probes]
    cosines = spread([exact.scores(query, drawn) for query in queries], COSINE_SCALE)
    distances = (squared_distance(cosines.convert(best, COSINE_SCALE)) for best in nearest(exact, queries))
    found = calibrate(distances)
    threshold = max(DISTANCE_THRESHOLD, found.suggested)
    own = squared_distance(COSINE_SCALE.convert(1 - threshold / 2, cosines))
    distance = DistanceCalibration(probes=len(found.best), losing=found.losing, threshold=round(own, 6))
    measured = MeasuredCosines(distance=distance, cosines=cosines)
    if not gives_tokens(embedder):
        return measured
    model, (path, precision) = token_embedder(embedder, workspace.index_settings.embedder), tokens
    if precision is not None:
        kept = TokenFile(path, chunks.ids, precision)
        documents = [kept.vectors(key) for key in drawn[:TOKEN_PROBES]]
    else:
        with contextlib.closing(workspace.open_token_cache()) as cached:
            texts = [embedded_text(chunks[key]) for key in drawn[:TOKEN_PROBES]]
            documents = cached.document_tokens(model, texts)
    asked = (model.embed_query_and_tokens(probe).tokens for probe in probes[:TOKEN_PROBES])
    scores = [maxsim(quantize(rows, precision or "int8"), documents) for rows in asked]
    return replace(measured, maxsims=spread(scores, MAXSIM_SCALE))


def spread(scores: Sequence[NDArray[np.float64]], scale: Spread) -> Spread:
    """Return the spread of similarities, or ``scale`` if all similarities are the same."""
    mean, deviation = float(np.mean(scores)), float(np.std(scores))
    if deviation < LEAST_DEVIATION:
        return scale
    return Spread(mean=round(mean, 9), deviation=round(deviation, 9))


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


class Calibration(Record, frozen=True, kw_only=True):
    """The suggested distance threshold for a model, measured with a set of queries.

    ``best`` contains the distance between each query and its nearest chunk, in ascending order. With the
    threshold ``suggested``, at least 95% of the queries keep their nearest chunk. ``losing`` is the number of
    queries that return no chunks at ``threshold``.
    """

    threshold: float
    suggested: float
    losing: int
    best: tuple[float, ...]


def calibrate(distances: Iterable[float], threshold: float = DISTANCE_THRESHOLD) -> Calibration:
    """Suggest a distance threshold. ``distances`` contains each query's distance to its nearest chunk.

    Raises ``ValueError`` if there are no distances.

    >>> found = calibrate([0.9, 1.1, 1.234])
    >>> found.suggested, found.losing
    (1.24, 3)
    """
    best = sorted(distances)
    if not best:
        raise ValueError("calibration needs at least one query")
    covering = best[math.ceil(COVERAGE * len(best)) - 1]
    # The threshold must be larger than ``covering``: a chunk whose distance equals the threshold is dropped.
    suggested = min(LARGEST_DISTANCE, math.floor(covering * 100 + 1) / 100)
    return Calibration(
        threshold=threshold,
        suggested=suggested,
        losing=sum(distance >= threshold for distance in best),
        best=tuple(best),
    )


def nearest(vectors: ExactVectors, queries: Iterable[Vectors]) -> Iterator[float]:
    """Yield the cosine of each query's vector and its nearest chunk. ``vectors`` must not be empty."""
    return (vectors.search(query, 1)[0].score for query in queries)


def probe_queries(nodes: Iterable[Node]) -> list[str]:
    """Return a seeded random sample of up to 100 titles of sections, with the id for an empty title."""
    titles = {node.title.strip() or node.id for node in nodes if node.line_start is not None}
    draw = random.Random(SEED)  # noqa: S311 - a seeded draw
    return draw.sample(sorted(titles), min(PROBES, len(titles)))
