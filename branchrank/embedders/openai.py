"""The embedder for any OpenAI-compatible ``/v1/embeddings`` endpoint."""

from __future__ import annotations

from collections.abc import Sequence

from branchrank.embedders.http import Endpoint, HttpEmbedder
from branchrank.errors import ModelError
from branchrank.records import Record

DEFAULT_URL = "https://api.openai.com/v1"
#: The maximum number of tokens in one input for OpenAI's models.
_OPENAI_TOKENS = 8191
#: The limit that is assumed for all other models.
_LEAST_TOKENS = 512


class _Embedding(Record, frozen=True, kw_only=True):
    index: int
    embedding: list[float]


class _Answer(Record, frozen=True, kw_only=True):
    data: list[_Embedding]


class OpenAIEmbedder(HttpEmbedder):
    """The embedding model ``model`` at the base URL ``url``, such as ``http://127.0.0.1:8080/v1``.

    If ``url`` is empty, requests go to OpenAI's server.
    """

    route = "openai"

    def __init__(self, model: str, url: str = "") -> None:
        endpoint = Endpoint(url or DEFAULT_URL)
        if not url and not endpoint.has_key:
            raise ModelError(
                f"the embedder 'openai:{model}' needs a server URL or an OpenAI API key",
                remedy="use --embedding-url, or set OPENAI_API_KEY",
            )
        super().__init__(model, endpoint)
        self._path = "/embeddings" if endpoint.has_path else "/v1/embeddings"

    def describe(self) -> tuple[str, int]:
        """Return an empty revision and the model's token limit, which depends on the model's name."""
        return "", _OPENAI_TOKENS if self.model.startswith("text-embedding-") else _LEAST_TOKENS

    def vectors(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Request the vectors of ``texts`` from the server, and return them in the order of ``texts``."""
        body = {"model": self.model, "input": texts, "encoding_format": "float"}
        data = self.endpoint.ask(self._path, body, _Answer, remedies={}).data
        data.sort(key=lambda item: item.index)
        if [item.index for item in data] != list(range(len(texts))):
            raise ModelError(
                f"{self.model} at {self.endpoint.url} returned vectors for texts numbered "
                f"{[item.index for item in data][:40]} instead of 0 to {len(texts) - 1}",
                remedy="check the log of the embedding server, and run the command again",
            )
        return [item.embedding for item in data]
