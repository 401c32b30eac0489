"""The embedder for a model on an Ollama server.

The server's ``/api/embed`` endpoint returns the vectors. ``/api/show`` returns the model's context length,
and ``/api/tags`` returns the digest of the model's files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from branchrank.embedders.http import Endpoint, HttpEmbedder
from branchrank.records import Record

DEFAULT_URL = "http://127.0.0.1:11434"
_LEAST_TOKENS = 512


class _Answer(Record, frozen=True, kw_only=True):
    embeddings: list[list[float]]


class _Shown(Record, frozen=True, kw_only=True):
    #: The key for the context length starts with the architecture's name: ``nomic-bert.context_length``.
    model_info: dict[str, Any]


class _Tag(Record, frozen=True, kw_only=True):
    name: str
    digest: str = ""


class _Tags(Record, frozen=True, kw_only=True):
    models: list[_Tag]


class OllamaEmbedder(HttpEmbedder):
    """The embedder for the model ``model`` on the Ollama server at ``url``.

    The server truncates texts that are longer than the model's context.
    """

    route = "ollama"

    def __init__(self, model: str, url: str = "") -> None:
        super().__init__(model, Endpoint(url or DEFAULT_URL))
        self._remedies = {404: f"ollama pull {model}"}

    def describe(self) -> tuple[str, int]:
        """Return the digest of the model's files and the model's context length in tokens."""
        shown = self.endpoint.ask("/api/show", {"model": self.model}, _Shown, remedies=self._remedies)
        context = shown.model_info.get(f"{shown.model_info.get('general.architecture')}.context_length")
        tags = self.endpoint.ask("/api/tags", None, _Tags, remedies={})
        tagged = self.model if ":" in self.model else f"{self.model}:latest"
        digests = [tag.digest for tag in tags.models if tag.name == tagged]
        return "".join(digests[:1]), context if isinstance(context, int) and context > 0 else _LEAST_TOKENS

    def vectors(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Request the vectors of ``texts`` from the server, and return them in the order of ``texts``."""
        body = {"model": self.model, "input": texts, "truncate": True}
        return self.endpoint.ask("/api/embed", body, _Answer, remedies=self._remedies).embeddings
