"""The two engines of a Qdrant collection: a shard in this process, and a client of a server.

Requests go only to the configured host, with the key from :mod:`branchrank.core.io.keys`. A response has a
time limit and a size limit.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from branchrank.core.errors import ArtifactError, Remedy, UsageError
from branchrank.core.io import imported
from branchrank.core.io.keys import key_for
from branchrank.core.io.printable import split_url, url_to_show

BATCH = 256
#: The maximum number of simultaneous upload requests to a server.
UPLOADS = 4
TIMEOUT_S = 10
_LARGEST_ANSWER = 64 << 20


class QdrantEngine:
    """Base class of the two engines. ``models`` is the module with the classes of the engine's interface."""

    models: Any
    place: str
    uploads = 1  # in an embedded shard, the order of the points affects the last digits of sparse scores

    def failure(self, error: Exception) -> ArtifactError:
        """Return the error to raise instead of an error of the engine."""
        raise NotImplementedError

    @contextlib.contextmanager
    def failures(self) -> Iterator[None]:
        """Convert every error of the engine to an :class:`ArtifactError`."""
        try:
            yield
        except (ArtifactError, UsageError):
            raise
        except Exception as error:  # The embedded engine raises plain ``Exception``.
            raise self.failure(error) from error


class EmbeddedEngine(QdrantEngine):
    """A shard of Qdrant's embedded engine. ``place`` and ``remedy`` are used in error messages."""

    def __init__(self, shard: Any, place: str, remedy: str) -> None:
        self.models = edge()
        self.place = place
        self._shard = shard
        self._remedy = remedy

    def query(self, vector: Any, using: str, n: int, filters: Any, payload: list[str]) -> Any:
        qdrant = self.models
        request = qdrant.QueryRequest(
            limit=n,
            query=qdrant.Query.Nearest(vector, using=using),
            filter=filters,
            with_payload=payload or False,
            params=qdrant.SearchParams(exact=True),
        )
        return self._shard.query(request)

    def with_ids(self, ids: list[Any]) -> Any:
        return self.models.HasIdCondition(set(ids))

    def scroll(self, offset: Any) -> Any:
        return self._shard.scroll(self.models.ScrollRequest(offset=offset, limit=BATCH, with_payload=True))

    def retrieve(self, ids: list[Any], with_vectors: bool) -> Any:
        return self._shard.retrieve(ids, False, with_vectors)

    def upsert(self, points: Iterable[tuple[Any, Any, Any]]) -> None:
        # One point per operation, because the engine reorders the points in an operation.
        for point in points:
            self._shard.update(self.models.UpdateOperation.upsert_points([self.models.Point(*point)]))
        self._shard.flush()

    def count(self) -> int:
        return int(self._shard.count(self.models.CountRequest(exact=True)))

    def close(self) -> None:
        self._shard.close()

    def failure(self, error: Exception) -> ArtifactError:
        return ArtifactError(f"{self.place} can't be used: {error}", remedy=self._remedy)


class ServerEngine(QdrantEngine):
    """The collection ``name`` on the server at ``url``."""

    uploads = UPLOADS

    def __init__(self, url: str, name: str) -> None:
        self.place = f"the Qdrant collection {name!r} at {url}"
        self.name = name
        self.client = connect(url)
        self._url = url
        from qdrant_client import models

        self.models = models

    def query(self, vector: Any, using: str, n: int, filters: Any, payload: list[str]) -> Any:
        return self.client.query_points(
            self.name,
            query=vector,
            using=using or None,
            limit=n,
            query_filter=filters,
            with_payload=payload or False,
            search_params=self.models.SearchParams(exact=True),
        ).points

    def with_ids(self, ids: list[Any]) -> Any:
        return self.models.HasIdCondition(has_id=ids)

    def scroll(self, offset: Any) -> Any:
        return self.client.scroll(self.name, limit=BATCH, offset=offset, with_payload=True)

    def retrieve(self, ids: list[Any], with_vectors: bool) -> Any:
        return self.client.retrieve(self.name, ids=ids, with_payload=False, with_vectors=with_vectors)

    def upsert(self, points: Iterable[tuple[Any, Any, Any]]) -> None:
        made = [self.models.PointStruct(id=key, vector=vector, payload=kept) for key, vector, kept in points]
        self.client.upsert(self.name, points=made, wait=True)  # until searches can find the points

    def count(self) -> int:
        return int(self.client.count(self.name, exact=True).count)

    def close(self) -> None:
        self.client.close()

    def failure(self, error: Exception) -> ArtifactError:
        status = getattr(error, "status_code", None)
        lines = str(error).splitlines() or [type(error).__name__]
        reason = f"it answered {status}" if status else lines[0][:200]
        remedy = f"start the server at {self._url}, or omit --qdrant-url to search in this process"
        if status in (401, 403):
            remedy = (
                "set BRANCHRANK_QDRANT_KEY to the API key and BRANCHRANK_QDRANT_KEY_HOST to the server's host"
            )
        return ArtifactError(f"the Qdrant server at {self._url} failed: {reason}", remedy=remedy)


def edge() -> Any:
    """Import ``qdrant_edge``, or raise MissingDependencyError if ``qdrant-edge-py`` is not installed."""
    return imported("qdrant_edge", "qdrant-edge-py", extra="qdrant", purpose="Qdrant")


def client_module() -> Any:
    """Import ``qdrant_client``, or raise MissingDependencyError if ``qdrant-client`` is not installed."""
    return imported("qdrant_client", "qdrant-client", extra="qdrant", purpose="a Qdrant server")


def connect(url: str) -> Any:
    """Return a client for the Qdrant server at ``url``, which sends the key of this host.

    Raises :class:`UsageError` if ``url`` is not an HTTP URL.
    """
    parts = split_url(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise UsageError(
            f"{url_to_show(url)!r} is not the URL of a Qdrant server",
            remedy=Remedy("use {}", "--qdrant-url", "http://HOST:PORT"),
        )
    key = key_for("QDRANT", url, os.environ)
    from branchrank.core.io.http_client import HttpxTransport

    qdrant_client = client_module()
    with warnings.catch_warnings():
        # The warning is not needed, because ``key_for`` raises an error if a key would be sent unencrypted to
        # another machine.
        warnings.filterwarnings("ignore", message="Api key is used with an insecure connection")
        return qdrant_client.QdrantClient(
            url=url,
            port=parts.port or (443 if parts.scheme == "https" else 6333),
            api_key=key or None,
            timeout=TIMEOUT_S,
            check_compatibility=False,
            trust_env=False,
            transport=HttpxTransport(url, deadline_s=TIMEOUT_S, limit_bytes=_LARGEST_ANSWER),
        )
