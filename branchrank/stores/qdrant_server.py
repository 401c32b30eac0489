"""Create and search a Qdrant collection on a server, through Qdrant's REST interface.

1. Requests go only to the configured host. The API key in ``BRANCHRANK_QDRANT_KEY`` is sent only to the host
   in ``BRANCHRANK_QDRANT_KEY_HOST``. If ``BRANCHRANK_QDRANT_KEY_HOST`` is not set, the API key is sent only
   to the host of ``BRANCHRANK_QDRANT_URL``. A URL in a workspace's configuration file therefore can't send
   the API key to another host. The API key is sent over unencrypted HTTP only to this machine. No message
   contains the API key.
2. A search on a server returns the same results as a search in an embedded collection, because the points,
   the sparse weights and the exact search are the same.
3. The time limit for a response is ten seconds, and the size limit is 64 MiB. Responses are not decompressed.
4. If the server fails, a search raises an error and does not return an empty result. An upsert returns only
   after searches can find the new points.
5. Points are uploaded in batches, with several requests at the same time. After an interruption, points that
   are already on the server are not sent again.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from branchrank.embedders.protocol import Vectors
from branchrank.errors import ArtifactError, MissingDependencyError, UsageError
from branchrank.io.keys import key_for
from branchrank.io.printable import split_url, url_to_show
from branchrank.records import Scored
from branchrank.stores.qdrant_points import (
    BATCH,
    DENSE,
    KEY,
    SPARSE,
    TOKENS,
    Bm25Encoder,
    Filters,
    Point,
    SparseWeights,
    accepted,
    mean_of_sums,
    point_id,
    ranked_points,
)
from branchrank.stores.vectors import check_query

TIMEOUT_S = 10
_LARGEST_ANSWER = 64 << 20
#: The maximum number of simultaneous upload requests.
UPLOADS = 4


class Storage(NamedTuple):
    """Settings that control how a server stores a new collection.

    The value 0 selects the server's default.
    """

    shards: int = 0
    replication_factor: int = 0
    write_consistency: int = 0
    on_disk: bool = False


class ServerCollection:
    """The collection ``name`` on the server at ``url``. Several threads can use the collection at once."""

    def __init__(self, url: str, name: str, *, timeout_s: int = TIMEOUT_S) -> None:
        """Connect to the server and read the layout of the collection.

        Raises :class:`ArtifactError` if the collection does not exist or has no dense vectors.
        """
        self._url = url
        self._name = name
        self._client = connect(url, timeout_s)
        self._encoder = Bm25Encoder()
        try:
            with failures(url):
                parameters = self._client.get_collection(name).config.params
            vectors = parameters.vectors
            if not isinstance(vectors, Mapping) or DENSE not in vectors:
                raise ArtifactError(
                    f"the Qdrant collection {name!r} at {url} has no vector with the name {DENSE!r}",
                    remedy="use another collection, or rebuild the index: branchrank index",
                )
            self.dimension = int(vectors[DENSE].size)
            self.token_dimension = int(vectors[TOKENS].size) if TOKENS in vectors else 0
            self.has_sparse = SPARSE in (parameters.sparse_vectors or {})
        except BaseException:
            self._client.close()
            raise

    @classmethod
    def create(
        cls,
        url: str,
        name: str,
        dimension: int,
        *,
        enable_hybrid: bool = True,
        token_dimension: int = 0,
        storage: Storage = Storage(),  # noqa: B008  (a frozen record)
        timeout_s: int = TIMEOUT_S,
    ) -> ServerCollection:
        """Delete any collection with the name ``name``, and create an empty collection.

        The collection has sparse vectors if ``enable_hybrid`` is true, and a multivector for token vectors if
        ``token_dimension`` is not 0. The multivector has no search graph, because MaxSim is computed only for
        candidates.
        """
        client = connect(url, timeout_s)
        models = rest_models()
        on_disk = storage.on_disk or None
        sparse = {SPARSE: models.SparseVectorParams(modifier=models.Modifier.IDF)}
        vectors = {
            DENSE: models.VectorParams(size=dimension, distance=models.Distance.COSINE, on_disk=on_disk)
        }
        if token_dimension:
            vectors[TOKENS] = models.VectorParams(
                size=token_dimension,
                distance=models.Distance.COSINE,
                on_disk=on_disk,
                multivector_config=models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM),
                hnsw_config=models.HnswConfigDiff(m=0),
            )
        try:
            with failures(url):
                if client.collection_exists(name):
                    client.delete_collection(name)
                client.create_collection(
                    name,
                    vectors_config=vectors,
                    sparse_vectors_config=sparse if enable_hybrid else None,
                    shard_number=storage.shards or None,
                    replication_factor=storage.replication_factor or None,
                    write_consistency_factor=storage.write_consistency or None,
                )
        finally:
            client.close()
        return cls(url, name, timeout_s=timeout_s)

    def upsert(self, points: Sequence[Point]) -> None:
        """Add points, or replace points with the same key, and wait until searches can find them."""
        with failures(self._url):
            for start in range(0, len(points), BATCH):
                batch = [self._point(point) for point in points[start : start + BATCH]]
                self._client.upsert(self._name, points=batch, wait=True)

    def fill(self, keys: Sequence[str], points: Callable[[Sequence[int]], Sequence[Point]]) -> None:
        """Add the points with the keys ``keys``, except points that the collection already contains.

        ``points(rows)`` must return the point with the key ``keys[row]`` for each ``row`` in ``rows``. If a
        batch fails, its error is raised, and batches that have not started are not sent.
        """

        def send(start: int) -> None:
            ids = {point_id(keys[row]): row for row in range(start, min(start + BATCH, len(keys)))}
            with failures(self._url):
                held = self._client.retrieve(
                    self._name, ids=list(ids), with_payload=False, with_vectors=False
                )
            missing = [row for key, row in ids.items() if key not in {str(point.id) for point in held}]
            if missing:
                self.upsert(points(missing))

        with ThreadPoolExecutor(UPLOADS) as pool:
            sent = [pool.submit(send, start) for start in range(0, len(keys), BATCH)]
            try:
                for each in sent:
                    each.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def delete(self, keys: Sequence[str]) -> None:
        """Delete the points whose keys are in ``keys``. Unknown keys are ignored."""
        selector = rest_models().PointIdsList(points=[point_id(key) for key in keys])
        with failures(self._url):
            self._client.delete(self._name, points_selector=selector, wait=True)

    def count(self) -> int:
        """Return the number of points."""
        with failures(self._url):
            return int(self._client.count(self._name, exact=True).count)

    def dense(self, vector: Vectors, n: int, filters: Filters | None = None) -> list[Scored]:
        """Return the ``n`` points with the largest cosines, among the points that pass the filters.

        Ties are sorted by key.
        """
        check_query(vector, self.dimension)
        return self._query(vector.tolist(), DENSE, n, filters)

    def sparse(self, query: SparseWeights, n: int, filters: Filters | None = None) -> list[Scored]:
        """Return the ``n`` points with the best BM25 scores, among the points that pass the filters.

        Ties are sorted by key. Points that contain no term of the query are not returned.
        """
        if not self.has_sparse or not query.indices:
            return []
        vector = rest_models().SparseVector(indices=query.indices, values=query.values)
        return self._query(vector, SPARSE, n, filters)

    def maxsim(self, tokens: Vectors, keys: Sequence[str]) -> dict[str, float]:
        """Return the MaxSim between a query and each point in ``keys``; see :class:`QdrantCollection`."""
        if not keys or not len(tokens):
            return {}
        return mean_of_sums(self._query(tokens.tolist(), TOKENS, len(keys), {KEY: list(keys)}), tokens)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _query(self, vector: Any, using: str, n: int, filters: Filters | None) -> list[Scored]:
        models = rest_models()
        with failures(self._url):
            answer = self._client.query_points(
                self._name,
                query=vector,
                using=using,
                limit=n,
                query_filter=_filter(models, filters),
                with_payload=[KEY],
                search_params=models.SearchParams(exact=True),
            )
            return ranked_points(answer.points)

    def _point(self, point: Point) -> Any:
        models = rest_models()
        vector: dict[str, Any] = {DENSE: point.vector.tolist()}
        if self.has_sparse:
            weights = self._encoder.document(point.text)
            vector[SPARSE] = models.SparseVector(indices=weights.indices, values=weights.values)
        if self.token_dimension and point.tokens is not None and len(point.tokens):
            vector[TOKENS] = point.tokens.tolist()
        return models.PointStruct(
            id=point_id(point.key), vector=vector, payload={**point.payload, KEY: point.key}
        )


def connect(url: str, timeout_s: int) -> Any:
    """Return a client for the Qdrant server at ``url``.

    The client sends the key from :func:`branchrank.io.keys.key_for` with every request.

    Raises :class:`UsageError` if ``url`` is not an HTTP URL.
    """
    parts = split_url(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise UsageError(
            f"{url_to_show(url)!r} is not the URL of a Qdrant server",
            remedy="use --qdrant-url http://HOST:PORT",
        )
    key = key_for("QDRANT", url, os.environ)
    from branchrank.io.http import Transport

    try:
        import qdrant_client
    except ImportError as error:
        raise MissingDependencyError("qdrant-client", extra="qdrant", purpose="a Qdrant server") from error
    with warnings.catch_warnings():
        # The warning is not needed, because ``key_for`` raises an error if a key would be sent unencrypted to
        # another machine.
        warnings.filterwarnings("ignore", message="Api key is used with an insecure connection")
        port = parts.port or (443 if parts.scheme == "https" else 6333)
        return qdrant_client.QdrantClient(
            url=url,
            port=port,
            api_key=key or None,
            timeout=timeout_s,
            check_compatibility=False,
            trust_env=False,
            transport=Transport(url, deadline_s=timeout_s, limit_bytes=_LARGEST_ANSWER),
        )


def rest_models() -> Any:
    """Return the module of qdrant-client that contains the classes of the REST interface."""
    from qdrant_client import models

    return models


def _filter(models: Any, filters: Filters | None) -> Any:
    if not filters:
        return None
    conditions = [
        models.FieldCondition(key=field, match=models.MatchAny(any=accepted(value)))
        for field, value in filters.items()
    ]
    return models.Filter(must=conditions)


@contextlib.contextmanager
def failures(url: str) -> Iterator[None]:
    """Convert any error from qdrant-client to an :class:`ArtifactError` whose message contains ``url``."""
    try:
        yield
    except (ArtifactError, UsageError):
        raise
    except Exception as error:
        status = getattr(error, "status_code", None)
        lines = str(error).splitlines() or [type(error).__name__]
        reason = f"it answered {status}" if status else lines[0][:200]
        remedy = f"start the server at {url}, or omit --qdrant-url to search in this process"
        if status in (401, 403):
            remedy = (
                "set BRANCHRANK_QDRANT_KEY to the API key and BRANCHRANK_QDRANT_KEY_HOST to the server's host"
            )
        raise ArtifactError(f"the Qdrant server at {url} failed: {reason}", remedy=remedy) from error
