"""Small HTTP servers that answer as Ollama and as an OpenAI-compatible server do, errors included."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from support.loopback import Reply, answering

from branchrank.index.embedders.fake import FakeEmbedder

DIGEST = "0a109f422b47e3a30ba2b10eca18548e944e8a23073ee3f3e947efcf3c45e59f"


class EmbeddingServer:
    """Serves both APIs on a loopback port. ``script`` holds replies that come before the regular ones."""

    def __init__(self) -> None:
        self.dimension = 8
        self.context = 2048
        self.script: list[Reply | Callable[[dict[str, Any]], Reply]] = []
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.url = ""

    def inputs(self) -> list[str]:
        """Every text that was sent for embedding, in order."""
        return [text for _, _, body in self.requests for text in body.get("input", [])]

    def reply(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> Reply:
        self.requests.append((path, headers, body))
        if self.script and path in ("/api/embed", "/v1/embeddings"):
            scripted = self.script.pop(0)
            return scripted if isinstance(scripted, Reply) else scripted(body)
        if path == "/v1/embeddings":
            return Reply(self.openai_answer(body))
        if path.startswith("/api/") and body.get("model", "nomic-embed-text") != "nomic-embed-text":
            return Reply({"error": f'model "{body["model"]}" not found, try pulling it first'}, 404)
        if path == "/api/embed":
            return Reply(self.ollama_answer(body))
        if path == "/api/show":
            return Reply(
                {
                    "modelfile": "FROM nomic-embed-text",
                    "details": {"format": "gguf", "family": "nomic-bert", "parameter_size": "137M"},
                    "model_info": {
                        "general.architecture": "nomic-bert",
                        "nomic-bert.context_length": self.context,
                        "nomic-bert.embedding_length": self.dimension,
                    },
                    "capabilities": ["embedding"],
                }
            )
        if path == "/api/tags":
            names = ("other:latest", "nomic-embed-text:latest")
            return Reply({"models": [{"name": name, "model": name, "digest": DIGEST} for name in names]})
        return Reply({"error": "not found"}, 404)

    def rows(self, body: dict[str, Any]) -> list[list[float]]:
        # Not of unit length, as some servers answer.
        return (FakeEmbedder(self.dimension).embed_documents(body["input"]) * 3).tolist()

    def ollama_answer(self, body: dict[str, Any]) -> dict[str, Any]:
        return {
            "model": body["model"],
            "embeddings": self.rows(body),
            "total_duration": 14143917,
            "load_duration": 1019500,
            "prompt_eval_count": 8,
        }

    def openai_answer(self, body: dict[str, Any]) -> dict[str, Any]:
        data = [
            {"object": "embedding", "index": index, "embedding": row}
            for index, row in enumerate(self.rows(body))
        ]
        usage = {"prompt_tokens": 8, "total_tokens": 8}
        return {"object": "list", "data": data[::-1], "model": body["model"], "usage": usage}


@contextmanager
def serving() -> Iterator[EmbeddingServer]:
    """Run an :class:`EmbeddingServer` until the block ends."""
    service = EmbeddingServer()
    with answering(lambda request: service.reply(request.path, request.headers, request.json)) as service.url:
        yield service
