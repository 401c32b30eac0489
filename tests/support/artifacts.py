"""What a program of somebody else's leaves: chunks, nodes, a Chroma collection by plain chromadb code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
from chromadb.config import Settings
from chromadb.utils import embedding_functions

from branchrank.index.embedders.fake import FakeEmbedder
from branchrank.index.embedders.protocol import Vectors

#: Their model; ``fake:64`` here.
MODEL = FakeEmbedder(64)


#: What was done with :class:`Planted`.
LOADED: list[str] = []


@embedding_functions.register_embedding_function
class Planted(chromadb.EmbeddingFunction):  # type: ignore[type-arg]
    """Stands for any function that loads a model when it is rebuilt from a configuration."""

    def __init__(self) -> None:
        pass

    def __call__(self, input: object) -> object:  # noqa: A002
        LOADED.append("call")
        return []

    @staticmethod
    def name() -> str:
        return "planted"

    def get_config(self) -> dict[str, object]:
        return {}

    @staticmethod
    def build_from_config(config: dict[str, object]) -> Planted:
        LOADED.append("build")
        return Planted()


def paragraphs(pages: dict[str, str]) -> list[dict[str, Any]]:
    """Every paragraph of the pages with its document and its lines."""
    found = []
    for source, text in pages.items():
        lines = text.split("\n")
        start: int | None = None
        for number, line in enumerate([*lines, ""], start=1):
            if line.strip() and start is None:
                start = number
            elif not line.strip() and start is not None:
                content = "\n".join(lines[start - 1 : number - 1])
                found.append({"file_path": source, "text": content, "lines": (start, number - 1)})
                start = None
    return [{"id": f"c{n}", **each} for n, each in enumerate(found)]


def write_objects(path: Path, objects: Sequence[dict[str, Any]]) -> Path:
    """One object a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in objects), encoding="utf-8")
    return path


def make_chroma(
    folder: Path,
    chunks: Sequence[dict[str, Any]],
    vectors: Vectors | None = None,
    *,
    name: str = "docs",
    **options: Any,
) -> None:
    """A collection as tutorials make one: ids, documents, metadata and vectors of any length."""
    client = chromadb.PersistentClient(str(folder), Settings(anonymized_telemetry=False))
    collection = client.create_collection(name, **{"embedding_function": None, **options})
    if vectors is None:
        vectors = 3 * MODEL.embed_documents([each["text"] for each in chunks])
    collection.add(
        ids=[each["id"] for each in chunks],
        documents=[each["text"] for each in chunks],
        metadatas=[{"source": each["file_path"]} for each in chunks],
        embeddings=np.asarray(vectors),
    )
    client.close()


def state(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Bytes and modification time of every file, and the time of every folder."""
    return {
        path.relative_to(folder).as_posix(): (
            path.read_bytes() if path.is_file() else b"",
            path.lstat().st_mtime_ns,
        )
        for path in [folder, *folder.rglob("*")]
    }
