"""Open clients for Chroma, which is either an embedded database in a directory or a server.

1. An embedded database is not opened if its path contains a symbolic link. Requests to a server go only to
   the given URL. Chroma's ``.env`` file and the proxy settings in environment variables are ignored.
2. Every request to a server has a time limit and a limit on the size of the response.
3. Embedding functions are never loaded. A collection that has an embedding function is rejected with an
   error.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from branchrank.errors import ArtifactError, UsageError
from branchrank.io.environment import preserved_random_state
from branchrank.io.files import check_opened
from branchrank.io.http import Transport, get
from branchrank.io.printable import split_url, url_to_show

#: The directory of an embedded database, or the URL of a server.
Location = Path | str

REBUILD = "rebuild the index: branchrank index"
#: The limits for heartbeat requests and for all other requests to a server, in seconds and bytes.
_HEARTBEAT_SECONDS = 10.0
_HEARTBEAT_BYTES = 64 * 1024
_ANSWER_SECONDS = 120.0
_ANSWER_BYTES = 256 * 2**20
#: Chroma's configuration contains one of these values for a collection without an embedding function.
_NO_FUNCTION = ({"type": "legacy"}, {"type": "unknown"})


@contextlib.contextmanager
def chroma_errors(location: Location) -> Iterator[None]:
    """Convert any exception from Chroma to an :class:`ArtifactError` whose message contains ``location``."""
    try:
        yield
    except (ArtifactError, UsageError):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and not _is_panic(error):
            raise
        remedy = REBUILD
        if isinstance(location, str):
            remedy = f"start the server (chroma run) at {location}, or use --vector-store exact"
        reason = str(error).splitlines()[0][:300] if str(error) else type(error).__name__
        raise ArtifactError(f"Chroma at {location}: {reason}", remedy=remedy) from error


def _is_panic(error: BaseException) -> bool:
    """Return whether an exception is a panic in Chroma's compiled Rust code."""
    # The exception class for Rust panics can't be imported, so the class is recognized by its module name.
    return type(error).__module__ == "pyo3_runtime"


def connect(location: Location, root: Path | None = None) -> Any:
    """Open a Chroma client for the database or server at ``location``.

    The path of an embedded database must not contain a symbolic link below the folder ``root``.
    """
    with preserved_random_state():
        import chromadb
    from chromadb.config import Settings

    # A .env file in the current folder could make Chroma load classes from other packages.
    settings = Settings(_env_file=None, anonymized_telemetry=False)
    if isinstance(location, Path):
        # Chroma caches open databases by path, so the path must not depend on the working directory.
        client = chromadb.PersistentClient(path=str(location.absolute()), settings=settings)
        try:
            place = location / "chroma.sqlite3"
            check_opened(root or location, place.relative_to(root or location).as_posix())
        except BaseException:
            disconnect(client)
            raise
        return client
    parts = split_url(location)
    try:
        port = parts.port or (443 if parts.scheme == "https" else 8000)
    except ValueError:
        port = 0
    host = parts.hostname or ""
    named = host and not parts.username and parts.path in ("", "/") and not parts.query
    if parts.scheme not in ("http", "https") or not named or not port:
        raise UsageError(
            f"--chroma-url {url_to_show(location)!r} is not the URL of a server",
            remedy="use --chroma-url http://HOST:PORT",
        )
    base = f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}"
    get(f"{base}/api/v2/heartbeat", headers={}, deadline_s=_HEARTBEAT_SECONDS, limit_bytes=_HEARTBEAT_BYTES)
    settings.chroma_api_impl = "chromadb.api.fastapi.FastAPI"
    settings.chroma_server_host, settings.chroma_server_http_port = host, port
    settings.chroma_server_ssl_enabled = parts.scheme == "https"
    return _bounded_client()(base, settings)


@functools.cache
def _bounded_client() -> Any:
    """Return a subclass of Chroma's client that limits the time and the response size of every request."""
    from chromadb.api.client import Client

    class BoundedClient(Client):  # type: ignore[misc]
        def __init__(self, base: str, settings: Any) -> None:
            self._base = base
            try:
                super().__init__(settings=settings)
            except BaseException:
                for server in _servers(self):
                    server._session.close()
                raise

        def get_user_identity(self) -> Any:
            # Chroma's client calls ``get_user_identity`` before it sends its first request.
            _bound(self._server, self._base)
            return super().get_user_identity()

        def _validate_tenant_database(self, tenant: str, database: str) -> None:
            # The admin client in Chroma's client has a separate HTTP session.
            _bound(self._admin_client._server, self._base)
            super()._validate_tenant_database(tenant=tenant, database=database)

    return BoundedClient


def _bound(server: Any, base: str) -> None:
    """Replace the HTTP session of ``server`` with one that limits request time and response size."""
    import httpx

    # Chroma's HTTP session has no timeout, and no limit on the size of decompressed responses.
    transport: Any = Transport(base, deadline_s=_ANSWER_SECONDS, limit_bytes=_ANSWER_BYTES)
    unbounded = server._session
    server._session = httpx.Client(transport=transport, trust_env=False, headers=unbounded.headers)
    unbounded.close()


def disconnect(client: Any) -> None:
    # Chroma's close() leaves HTTP connections open.
    sessions = [server._session for server in _servers(client)]
    client.close()
    for session in sessions:
        session.close()


def _servers(client: Any) -> list[Any]:
    """Return the parts of a client that have an HTTP session, or an empty list for an embedded database."""
    parts = [getattr(part, "_server", None) for part in (client, getattr(client, "_admin_client", None))]
    return [part for part in dict.fromkeys(parts) if getattr(part, "_session", None) is not None]


@contextlib.contextmanager
def connected(location: Location, root: Path | None = None) -> Iterator[Any]:
    """Open a client for the database or server at ``location``, and close it after the ``with`` block.

    The path of an embedded database must not contain a symbolic link below the folder ``root``. Raises
    :class:`ArtifactError` if Chroma raises any exception.
    """
    with chroma_errors(location):
        client = connect(location, root)
        try:
            yield client
        finally:
            disconnect(client)


def refuse_foreign(collection: Any, location: Location) -> None:
    """Raise :class:`ArtifactError` if a collection has an embedding function or an unsupported metric."""
    model = collection.get_model()
    configuration = model.configuration_json or {}
    for name in _embedding_functions([configuration, model.get_serialized_schema()]):
        raise ArtifactError(
            f"the Chroma collection {collection.name!r} at {location} has an embedding function "
            f"({name!r}), and embedding functions are never loaded",
            remedy=REBUILD,
        )
    space = (configuration.get("hnsw") or {}).get("space")
    if space not in ("l2", "cosine"):
        raise ArtifactError(
            f"the Chroma collection {collection.name!r} at {location} has the metric {space!r}, not 'l2'",
            remedy=REBUILD,
        )


def _embedding_functions(tree: Any) -> Iterator[str]:
    """Yield the names of all embedding functions in a collection's configuration."""
    pending = [tree]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            function = value.get("embedding_function")
            if function and function not in _NO_FUNCTION:
                yield str(function.get("name", function) if isinstance(function, dict) else function)[:100]
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
