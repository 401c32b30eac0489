"""Request embeddings from a server, with one request per batch of texts.

1. Requests go only to the configured host. Redirects are errors.
2. A request is retried at most twice after a lost connection or a response with the status 429, 502, 503 or
   504.
3. A response must contain one vector per text. All vectors must have the same dimension, and must be finite
   and not zero. For an invalid response, the error message contains the server's URL.

The API key in ``BRANCHRANK_EMBEDDING_KEY`` is sent only to the host in ``BRANCHRANK_EMBEDDING_KEY_HOST``. If
``BRANCHRANK_EMBEDDING_KEY_HOST`` is not set, the key is sent only to the host of the URL in
``BRANCHRANK_INDEX_EMBEDDING_URL``. The key in ``OPENAI_API_KEY`` is sent only to api.openai.com over HTTPS. A
URL in a workspace's configuration file therefore can't cause an API key to be sent to another host. No
message contains an API key.
"""

from __future__ import annotations

import base64
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TypeVar
from urllib.parse import unquote, urlunsplit

import msgspec
import numpy as np

from branchrank.embedders.prefixes import conventional_prefixes
from branchrank.embedders.protocol import (
    EmbedderIdentity,
    Vectors,
    unit_rows,
)
from branchrank.errors import ModelError, UsageError
from branchrank.io.files import NOT_JSON
from branchrank.io.http import HttpError, LostConnectionError, StatusError, get, post_json
from branchrank.io.keys import key_for
from branchrank.io.printable import Redactor, encodable, split_url, url_to_show
from branchrank.io.progress import Progress, no_progress

T = TypeVar("T")

BATCH = 32
#: The seconds to wait before each retry, unless the server sends a ``Retry-After`` header.
RETRY_WAITS = (0.5, 2.0)
_LONGEST_WAIT = 10.0
_RETRIED = (429, 502, 503, 504)
_LARGEST_ANSWER = 64 * 1024 * 1024
_PROBE = "dimension"


class Endpoint:
    """The base URL of an embedding server, and the API key for this server.

    Raises :class:`UsageError` if ``url`` is not an HTTP URL.
    """

    def __init__(self, url: str, *, timeout: float = 120.0) -> None:
        parts = split_url(url)
        netloc = parts.netloc.rpartition("@")[2]
        self.url = urlunsplit((parts.scheme, netloc, parts.path.rstrip("/"), "", ""))
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
            raise UsageError(
                f"{url_to_show(url)!r} is not the base URL of an embedding endpoint",
                remedy="use an http or https URL without `?`: --embedding-url http://127.0.0.1:8080/v1",
            )
        self.has_path = bool(parts.path.strip("/"))
        self._timeout = timeout
        self._key = key_for("EMBEDDING", url, os.environ)
        self._password = unquote(parts.password or "")
        self._headers: dict[str, str] = {}
        if parts.username or parts.password:
            pair = f"{unquote(parts.username or '')}:{self._password}".encode()
            self._headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        elif self._key:
            self._headers["Authorization"] = f"Bearer {self._key}"

    @property
    def has_key(self) -> bool:
        """Whether requests contain an API key or a password."""
        return "Authorization" in self._headers

    def ask(self, path: str, body: object, answer: type[T], *, remedies: Mapping[int, str]) -> T:
        """Send a request to ``path``, and return the JSON response as an instance of ``answer``.

        The request is a POST request with ``body`` as JSON, or a GET request if ``body`` is ``None``.
        ``remedies`` maps HTTP status codes to the advice in the error message. Raises :class:`ModelError` if
        the request fails or the response can't be decoded.
        """
        url = f"{self.url}{path}"
        content = self._content(url, None if body is None else msgspec.json.encode(body), remedies)
        try:
            return msgspec.json.decode(content, type=answer)
        except NOT_JSON as error:
            raise ModelError(
                f"the response of {url} does not contain embeddings: {error}",
                remedy="check that --embedding-url is the URL of an embedding server",
            ) from None

    def _content(self, url: str, body: bytes | None, remedies: Mapping[int, str]) -> bytes:
        """Return the body of the first successful response, after up to two retries."""
        for wait in (*RETRY_WAITS, None):
            try:
                return self._sent(url, body)
            except StatusError as error:
                if error.status in _RETRIED and wait is not None:
                    time.sleep(_retry_after(error.retry_after, wait))
                    continue
                raise ModelError(
                    f"{url} answered {error.status}: {self._readable(error)}",
                    remedy=remedies.get(error.status)
                    or _REMEDIES.get(error.status, "check the log of the embedding server"),
                ) from None
            except HttpError as error:
                if isinstance(error, LostConnectionError) and wait is not None:
                    time.sleep(wait)
                    continue
                raise ModelError(
                    f"no answer from {url}: {error}",
                    remedy="start the embedding server, or correct --embedding-url",
                ) from None
        raise AssertionError("unreachable, because the last attempt returns a response or raises an error")

    def _sent(self, url: str, body: bytes | None) -> bytes:
        if body is None:
            return get(url, headers=self._headers, deadline_s=self._timeout, limit_bytes=_LARGEST_ANSWER)
        return post_json(
            url, body, headers=self._headers, deadline_s=self._timeout, limit_bytes=_LARGEST_ANSWER
        )

    def _readable(self, error: StatusError) -> str:
        """Return at most 300 characters of the server's message, without secrets or control characters."""
        text = error.body.decode("utf-8", "replace")
        text = Redactor((self._key, self._password))(text)
        for secret in (self._key, self._password):  # The redactor ignores very short keys.
            text = text.replace(secret, "[key]") if secret else text
        shown = "".join(letter if letter.isprintable() else " " for letter in text)
        return shown.strip()[:300] or error.reason


class HttpEmbedder(ABC):
    """The base class of embedders that query a server. The first read of ``identity`` contacts the server."""

    route = ""

    def __init__(self, model: str, endpoint: Endpoint) -> None:
        if not model:
            raise UsageError(
                f"the embedder {self.route!r} needs the name of a model",
                remedy=f"use --embedder {self.route}:MODEL",
            )
        self.model = model
        self.endpoint = endpoint
        self.prefixes = conventional_prefixes(model)

    @cached_property
    def identity(self) -> EmbedderIdentity:
        """The properties of the server's model that determine its vectors, such as the revision.

        Raises :class:`ModelError` if the server does not respond.
        """
        revision, max_tokens = self.describe()
        return EmbedderIdentity(
            name=self.route,
            model=self.model,
            revision=revision,
            dimension=self._request([_PROBE]).shape[1],
            max_tokens=max_tokens,
            query_prefix=self.prefixes.query,
            document_prefix=self.prefixes.document,
        )

    def embed_documents(self, texts: Sequence[str], progress: Progress = no_progress) -> Vectors:
        """Return the unit vectors of texts, one row per text. Each request contains at most 32 texts."""
        rows = np.empty((len(texts), self.identity.dimension), dtype=np.float32)
        for start in range(0, len(texts), BATCH):
            batch = texts[start : start + BATCH]
            rows[start : start + len(batch)] = self._checked(
                [f"{self.prefixes.document}{text}" for text in batch]
            )
            progress("embed", start + len(batch), len(texts))
        return rows

    def embed_query(self, text: str) -> Vectors:
        """Return the vector of a query, scaled to unit length."""
        row: Vectors = self._checked([f"{self.prefixes.query}{text}"])[0]
        return row

    @abstractmethod
    def describe(self) -> tuple[str, int]:
        """Return the model's revision (empty if unknown), and the maximum number of tokens in a text."""

    @abstractmethod
    def vectors(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Request the vectors of ``texts`` from the server, and return them in the order of ``texts``."""

    def _checked(self, texts: Sequence[str]) -> Vectors:
        dimension = self.identity.dimension
        rows = self._request(texts)
        if rows.shape[1] != dimension:
            raise ModelError(
                f"{self.model} at {self.endpoint.url} returned vectors with {rows.shape[1]} dimensions, "
                f"but earlier vectors had {dimension} dimensions",
                remedy="check which model runs on the embedding server, and run the command again",
            )
        return rows

    def _request(self, texts: Sequence[str]) -> Vectors:
        # An empty text is sent as one space, because servers reject empty texts.
        vectors = self.vectors([encodable(text) or " " for text in texts])
        lengths = {len(vector) for vector in vectors}
        if len(vectors) != len(texts) or len(lengths) != 1 or not all(lengths):
            raise ModelError(
                f"{self.model} at {self.endpoint.url} returned {len(vectors)} vectors of dimensions "
                f"{sorted(lengths)} for {len(texts)} texts",
                remedy="check the log of the embedding server, and run the command again",
            )
        with np.errstate(over="ignore"):
            rows = np.array(vectors, dtype=np.float32)
        return unit_rows(rows, origin=f"{self.model} at {self.endpoint.url}")


_REMEDIES = {
    401: "set BRANCHRANK_EMBEDDING_KEY to the key and BRANCHRANK_EMBEDDING_KEY_HOST to the endpoint's host",
    403: "set BRANCHRANK_EMBEDDING_KEY to the key and BRANCHRANK_EMBEDDING_KEY_HOST to the endpoint's host",
    404: "check the model's name and --embedding-url",
    413: "use a smaller --chunk-tokens",
    429: "wait, then run the command again; finished embeddings are kept",
} | dict.fromkeys((301, 302, 303, 307, 308), "pass the final URL with --embedding-url")


def _retry_after(header: str | None, otherwise: float) -> float:
    """Return the ``Retry-After`` delay, at most 10 seconds, or ``otherwise`` if there is no number."""
    return min(float(header), _LONGEST_WAIT) if header and header.isdecimal() else otherwise
