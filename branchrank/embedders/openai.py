"""The embedder for any OpenAI-compatible ``/v1/embeddings`` endpoint."""

from __future__ import annotations

from collections.abc import Sequence

from branchrank.embedders.http import Endpoint, HttpEmbedder
from branchrank.errors import ModelError
from branchrank.records import Record

DEFAULT_URL = "https://api.openai.com/v1"
#: The limit of OpenAI's own models; for other models a smaller, common limit is assumed.
_OPENAI_TOKENS = 8191
_LEAST_TOKENS = 512


class _Embedding(Record, frozen=True, kw_only=True):
    index: int
    embedding: list[float]


class _Answer(Record, frozen=True, kw_only=True):
    data: list[_Embedding]


class OpenAIEmbedder(HttpEmbedder):
    """``model`` at ``url`` (a base URL such as ``http://127.0.0.1:8080/v1``; empty: OpenAI itself)."""

    route = "openai"

    def __init__(self, model: str, url: str = "") -> None:
        endpoint = Endpoint(url or DEFAULT_URL)
        if not url and not endpoint.has_key:
            raise ModelError(
                f"the embedder 'openai:{model}' has neither an endpoint nor a key for OpenAI's",
                remedy="give --embedding-url, or set OPENAI_API_KEY",
            )
        super().__init__(model, endpoint)
        self._path = "/embeddings" if endpoint.has_path else "/v1/embeddings"

    def describe(self) -> tuple[str, int]:
        """An empty revision, and the limit in tokens for the model's name."""
        return "", _OPENAI_TOKENS if self.model.startswith("text-embedding-") else _LEAST_TOKENS

    def vectors(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """The vectors, sorted by the index in each item of the response."""
        body = {"model": self.model, "input": texts, "encoding_format": "float"}
        data = self.endpoint.ask(self._path, body, _Answer, remedies={}).data
        data.sort(key=lambda item: item.index)
        if [item.index for item in data] != list(range(len(texts))):
            raise ModelError(
                f"{self.model} at {self.endpoint.url} returned vectors for texts "
                f"{[item.index for item in data][:40]} of {len(texts)}",
                remedy="check the server's log; the answer is incomplete",
            )
        return [item.embedding for item in data]
