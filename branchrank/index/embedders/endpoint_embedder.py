"""Embedders that request vectors from a server, with one request per batch of texts.

1. Requests go only to the configured host (:mod:`branchrank.core.io.http_client`), with the key that
   :func:`branchrank.core.io.keys.key_for` selects. Redirects are errors. No message contains an API key.
2. A request is retried at most twice after a lost connection or a response with the status 429, 502, 503 or
   504.
3. An index's embedder has the index's identity without a request. Its first response is compared with it.
4. A response must contain one vector per text. All vectors must have the same dimension, and must be finite
   and not zero. For an invalid response, the error message contains the server's URL.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET

from branchrank.core.errors import ModelError, Remedy, UsageError
from branchrank.core.io.files import NOT_JSON
from branchrank.core.io.keys import open_endpoint
from branchrank.core.io.printable import Redactor, encodable, url_to_show
from branchrank.core.records import Record
from branchrank.core.settings import IndexSettings
from branchrank.index.embedders.protocol import (
    MOST_DIMENSIONS,
    EmbedderIdentity,
    Vectors,
    conventional_prefixes,
    model_changed,
    sent_prefixes,
    unit_rows,
)

if TYPE_CHECKING:
    from openai import OpenAI

T = TypeVar("T")
Role = Literal["query", "passage"]

BATCH = 32
TIMEOUT_S = 120.0
#: The seconds to wait before each retry, unless the server sends a ``Retry-After`` header.
RETRY_WAITS = (0.5, 2.0)
_LONGEST_WAIT = 10.0
_RETRIED = (429, 502, 503, 504)
_LARGEST_ANSWER = 64 * 1024 * 1024
#: The number of tokens that is assumed to fit any model, and the maximum for OpenAI's models.
_LEAST_TOKENS, _OPENAI_TOKENS = 512, 8191
#: A larger context length in a server's answer is treated as unknown.
_MOST_TOKENS = 1_000_000_000
_REMEDIES = {
    401: "set BRANCHRANK_EMBEDDING_KEY to the key and BRANCHRANK_EMBEDDING_KEY_HOST to the endpoint's host",
    403: "set BRANCHRANK_EMBEDDING_KEY to the key and BRANCHRANK_EMBEDDING_KEY_HOST to the endpoint's host",
    404: "check the model's name and --embedding-url",
    413: "use a smaller --chunk-tokens",
    429: "wait, then run the command again; finished embeddings are kept",
} | dict.fromkeys((301, 302, 303, 307, 308), "pass the final URL with --embedding-url")


class _Embedding(Record, frozen=True, kw_only=True):
    index: int
    embedding: list[float]


class _OpenAIAnswer(Record, frozen=True, kw_only=True):
    data: list[_Embedding]


class _OllamaAnswer(Record, frozen=True, kw_only=True):
    embeddings: list[list[float]]


class _OllamaModel(Record, frozen=True, kw_only=True):
    #: The key for the context length starts with the architecture's name: ``nomic-bert.context_length``.
    model_info: dict[str, Any]


class _OllamaTag(Record, frozen=True, kw_only=True):
    name: str
    digest: str = ""


class _OllamaTags(Record, frozen=True, kw_only=True):
    models: list[_OllamaTag]


class ServerEmbedder(ABC):
    """The base class of embedders that query a server.

    ``model`` is the name of the model. If ``settings`` contain no URL, the route's default server is used.
    ``built`` is the identity of the embedder that built the index, if any. Without it, the first read of
    ``identity`` contacts the server.
    """

    route = ""
    default_url = ""
    told: Mapping[str, Any] = {}

    def __init__(self, model: str, settings: IndexSettings, built: EmbedderIdentity | None = None) -> None:
        if not model:
            raise UsageError(
                f"the embedder {self.route!r} needs the name of a model",
                remedy=Remedy("use {}", "--embedder", f"{self.route}:MODEL"),
            )
        self.model = model
        self._built = built
        self.prefixes = sent_prefixes(settings, conventional_prefixes(model))
        url = settings.embedding_url
        self.endpoint = open_endpoint("EMBEDDING", url or self.default_url, os.environ)
        if self.endpoint.query:
            raise UsageError(
                f"{url_to_show(url)!r} is not the base URL of an embedding endpoint",
                remedy=Remedy(
                    "use an http or https URL without `?`: {}", "--embedding-url", "http://127.0.0.1:8080/v1"
                ),
            )
        self._remedies = _REMEDIES

    @cached_property
    def identity(self) -> EmbedderIdentity:
        """The properties of the server's model that determine its vectors, such as the revision.

        Raises :class:`ModelError` if the server does not respond.
        """
        return self._built or self._current(self._request(["dimension"], "passage").shape[1])

    def _current(self, dimension: int) -> EmbedderIdentity:
        revision, max_tokens = self._description
        return EmbedderIdentity(
            name=self.route,
            model=self.model,
            revision=revision,
            dimension=dimension,
            max_tokens=max_tokens,
            query_prefix=self.prefixes.query,
            document_prefix=self.prefixes.document,
            **self.told,
        )

    @cached_property
    def _description(self) -> tuple[str, int]:
        return self.describe()

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Return the unit vectors of texts, one row per text. Each request contains at most 32 texts."""
        rows = np.empty((len(texts), self.identity.dimension), dtype=np.float32)
        for start in range(0, len(texts), BATCH):
            batch = [f"{self.prefixes.document}{text}" for text in texts[start : start + BATCH]]
            rows[start : start + len(batch)] = self._checked(batch, "passage")
        return rows

    def embed_query(self, text: str) -> Vectors:
        """Return the vector of a query, scaled to unit length."""
        row: Vectors = self._checked([f"{self.prefixes.query}{text}"], "query")[0]
        return row

    @abstractmethod
    def describe(self) -> tuple[str, int]:
        """Return the model's revision (empty if unknown), and the maximum number of tokens in a text."""

    @abstractmethod
    def vectors(self, texts: Sequence[str], role: Role) -> Sequence[Sequence[float]]:
        """Request the vectors of ``texts`` from the server, and return them in the order of ``texts``."""

    def ask(self, path: str, body: object, answer: type[T]) -> T:
        """Send a request to ``path``, and return the JSON response as an instance of ``answer``.

        The request is a POST request with ``body`` as JSON, or a GET request if ``body`` is ``None``. Raises
        :class:`ModelError` if the request fails or the response can't be decoded.
        """
        url = f"{self.endpoint.url}{path}"
        content = self._answered(url, body)
        try:
            if content.count(b",") > BATCH * (MOST_DIMENSIONS + 100):  # decoding would use much memory
                raise msgspec.DecodeError("it has too many numbers")
            return msgspec.json.decode(content, type=answer)
        except NOT_JSON as error:
            raise ModelError(
                f"the response of {url} does not contain embeddings: {error}",
                remedy=Remedy("check that {} is the URL of an embedding server", "--embedding-url"),
            ) from None

    @property
    def _failures(self) -> type[Exception]:
        """The base class of the errors that :meth:`_sent` raises."""
        import httpx2

        return httpx2.HTTPError

    def _sent(self, url: str, body: object) -> bytes:
        """Send one request, and return the response."""
        from branchrank.core.io.http_client import send

        headers = {"Authorization": self.endpoint.authorization} if self.endpoint.authorization else {}
        return send(url, body, headers=headers, deadline_s=TIMEOUT_S, limit_bytes=_LARGEST_ANSWER)

    def _answered(self, url: str, body: object) -> bytes:
        """Return the body of the first successful response, after up to two retries."""
        from branchrank.core.io.http_client import LOST, retry_after

        for wait in (*RETRY_WAITS, None):
            try:
                return self._sent(url, body)
            except self._failures as error:
                response, cause = getattr(error, "response", None), error.__cause__ or error
                lost = isinstance(cause, LOST) if response is None else response.status_code in _RETRIED
                if lost and wait is not None:
                    asked = None if response is None else retry_after(response.headers)
                    time.sleep(wait if asked is None else min(asked, _LONGEST_WAIT))
                    continue
                if response is None:
                    remedy = "start the embedding server, or correct --embedding-url"
                    raise ModelError(f"no answer from {url}: {cause}", remedy=remedy) from None
                shown = self._readable(response.content) or response.reason_phrase
                remedy = self._remedies.get(response.status_code, "check the log of the embedding server")
                raise ModelError(f"{url} answered {response.status_code}: {shown}", remedy=remedy) from None
        raise AssertionError("unreachable, because the last attempt returns a response or raises an error")

    def _readable(self, content: bytes) -> str:
        """Return at most 300 characters of the server's message, without secrets or control characters."""
        text = Redactor(self.endpoint.secrets)(content.decode("utf-8", "replace"))
        for secret in self.endpoint.secrets:  # The redactor ignores very short keys.
            text = text.replace(secret, "[key]")
        return "".join(letter if letter.isprintable() else " " for letter in text).strip()[:300]

    def _checked(self, texts: Sequence[str], role: Role) -> Vectors:
        rows = self._request(texts, role)
        current = self._current(rows.shape[1])
        if self._built and current != self._built:
            raise model_changed(self._built, current)
        if current != self.identity:
            raise self._invalid(
                f"{rows.shape[1]} dimensions, but earlier vectors had {self.identity.dimension} dimensions"
            )
        return rows

    def _request(self, texts: Sequence[str], role: Role) -> Vectors:
        # An empty text is sent as one space, because servers reject empty texts.
        vectors = self.vectors([encodable(text) or " " for text in texts], role)
        lengths = {len(vector) for vector in vectors}
        if len(vectors) != len(texts) or len(lengths) != 1 or not 0 < max(lengths) <= MOST_DIMENSIONS:
            raise self._invalid(
                f"{len(vectors)} vectors of dimensions {sorted(lengths)} for {len(texts)} texts"
            )
        with np.errstate(over="ignore"):
            rows = np.array(vectors, dtype=np.float32)
        return unit_rows(rows, origin=f"{self.model} at {self.endpoint.url}")

    def _invalid(self, returned: str) -> ModelError:
        return ModelError(
            f"{self.model} at {self.endpoint.url} returned {returned}",
            remedy="check the embedding server's model and log, and run the command again",
        )


class OpenAIEmbedder(ServerEmbedder):
    """A model on any server with an OpenAI-compatible endpoint ``/v1/embeddings``."""

    route = "openai"
    default_url = "https://api.openai.com/v1"

    def __init__(self, model: str, settings: IndexSettings, built: EmbedderIdentity | None = None) -> None:
        super().__init__(model, settings, built)
        self.told = {name: settings.sent.get(name, UNSET) for name in ("query_model", "input_type")}
        if not settings.embedding_url and not self.endpoint.authorization:
            raise ModelError(
                f"the embedder 'openai:{model}' needs a server URL or an OpenAI API key",
                remedy=(Remedy("use {}", "--embedding-url"), "set OPENAI_API_KEY"),
            )
        if "/" not in self.endpoint.url.partition("://")[2]:
            self.endpoint.url += "/v1"

    def describe(self) -> tuple[str, int]:
        """Return an empty revision and the model's token limit, which depends on the model's name."""
        return "", _OPENAI_TOKENS if self.model.startswith("text-embedding-") else _LEAST_TOKENS

    def vectors(self, texts: Sequence[str], role: Role) -> Sequence[Sequence[float]]:
        """Request the vectors of ``texts`` from the server, and return them in the order of ``texts``."""
        model = (role == "query" and self.told["query_model"]) or self.model
        told = {"input_type": role} if self.told["input_type"] else {}
        body = {"model": model, "input": texts, "encoding_format": "float", **told}
        data = sorted(self.ask("/embeddings", body, _OpenAIAnswer).data, key=lambda item: item.index)
        if [item.index for item in data] != list(range(len(texts))):
            numbers = [item.index for item in data][:40]
            raise self._invalid(f"vectors for texts numbered {numbers} instead of 0 to {len(texts) - 1}")
        return [item.embedding for item in data]

    @cached_property
    def _sdk(self) -> OpenAI:
        from branchrank.core.io.http_client import BoundedTransport, open_sdk

        transport = BoundedTransport(self.endpoint.url, deadline_s=TIMEOUT_S, limit_bytes=_LARGEST_ANSWER)
        return open_sdk(self.endpoint, transport)

    @property
    def _failures(self) -> type[Exception]:
        import openai

        return openai.APIError

    def _sent(self, url: str, body: object) -> bytes:
        """Send one request with the ``openai`` package, and return the response."""
        import httpx2

        # An embedder is never closed, so no connection stays open after a request.
        options: Any = {"headers": {"Connection": "close"}}
        return self._sdk.post("/embeddings", cast_to=httpx2.Response, body=body, options=options).content


class OllamaEmbedder(ServerEmbedder):
    """A model on an Ollama server, which truncates texts that are longer than the model's context."""

    route = "ollama"
    default_url = "http://127.0.0.1:11434"

    def __init__(self, model: str, settings: IndexSettings, built: EmbedderIdentity | None = None) -> None:
        super().__init__(model, settings, built)
        self._remedies = {**_REMEDIES, 404: f"ollama pull {model}"}

    def describe(self) -> tuple[str, int]:
        """Return the digest of the model's files and the model's context length in tokens."""
        shown = self.ask("/api/show", {"model": self.model}, _OllamaModel)
        context = shown.model_info.get(f"{shown.model_info.get('general.architecture')}.context_length")
        tagged = self.model if ":" in self.model else f"{self.model}:latest"
        tags = self.ask("/api/tags", None, _OllamaTags)
        digests = [tag.digest for tag in tags.models if tag.name == tagged]
        if not isinstance(context, int) or not 0 < context <= _MOST_TOKENS:
            context = _LEAST_TOKENS
        return "".join(digests[:1]), context

    def vectors(self, texts: Sequence[str], role: Role) -> Sequence[Sequence[float]]:
        """Request the vectors of ``texts`` from the server, and return them in the order of ``texts``."""
        body = {"model": self.model, "input": texts, "truncate": True}
        return self.ask("/api/embed", body, _OllamaAnswer).embeddings
