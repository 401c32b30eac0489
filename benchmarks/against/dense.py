"""Compare BranchRank's vector search with plain NumPy and with Chroma, on the same vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.against.pairs import Pair, Source
from benchmarks.against.world import World, named
from branchrank.index.embedders.protocol import Vectors
from branchrank.index.reader import open_index
from branchrank.index.stores.vectors import ExactVectors
from branchrank.index.workspace_folder import WorkspaceFolder

DEPTH = 40
GROUP = "vector search"
#: Chroma accepts at most a few thousand records in one call.
BATCH = 4000


def pairs(world: World) -> Source:
    """Compare BranchRank's exact search with NumPy and Chroma, and BranchRank's Chroma store with Chroma."""
    exact = ExactVectors(world.ids, world.matrix)
    nearest = [[scored.key for scored in exact.search(vector, DEPTH)] for vector in world.asked]

    def ours() -> object:
        return [exact.search(vector, DEPTH) for vector in world.asked]

    def plain() -> list[list[str]]:
        return [_plain(world, vector) for vector in world.asked]

    number = len(world.asked)
    what = f"exact search, {DEPTH} nearest vectors"
    yield Pair(GROUP, what, named("numpy"), ours, plain, number, "vector", _same(world, nearest, plain()))
    collection = chroma_collection(world)

    def theirs() -> list[list[str]]:
        return [_asked(collection, vector) for vector in world.asked]

    answers = _recall(nearest, theirs())
    yield Pair(GROUP, what, named("chromadb"), ours, theirs, number, "vector", answers)
    folder = WorkspaceFolder.open(world.folder.data_dir, flags={"index.vector_store": "chroma"})
    with open_index(folder) as index:
        store = index.vectors

        def wrapped() -> list[list[str]]:
            return [[scored.key for scored in store.search(vector, DEPTH)] for vector in world.asked]

        found = f"ours: {_recall(nearest, wrapped())}; its defaults: {answers}"
        what = f"BranchRank's Chroma store, {DEPTH} nearest vectors"
        yield Pair(GROUP, what, named("chromadb"), wrapped, theirs, number, "vector", found)


def chroma_collection(world: World) -> Any:
    """Return a collection with cosine distance and Chroma's default settings."""
    import chromadb
    from chromadb.config import Settings

    settings = Settings(_env_file=None, anonymized_telemetry=False)
    client = chromadb.PersistentClient(path=str(world.scratch / "chroma"), settings=settings)
    collection = client.get_or_create_collection(
        "chunks", configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
    )
    for start in range(0, 0 if collection.count() else len(world.ids), BATCH):
        part = slice(start, start + BATCH)
        collection.add(ids=world.ids[part], embeddings=world.matrix[part], documents=world.texts[part])
    return collection


def _plain(world: World, vector: Vectors) -> list[str]:
    scores = world.matrix @ vector
    top = np.argpartition(-scores, DEPTH)[:DEPTH] if len(scores) > DEPTH else np.arange(len(scores))
    return [world.ids[n] for n in top[np.argsort(-scores[top])]]


def _asked(collection: Any, vector: Vectors) -> list[str]:
    found: list[str] = collection.query(query_embeddings=[vector], n_results=DEPTH, include=["distances"])[
        "ids"
    ][0]
    return found


def _recall(nearest: list[list[str]], found: list[list[str]]) -> str:
    """Return the recall of ``found`` (the share of the ``nearest`` chunks that were found) as text."""
    shares = [len(set(a) & set(b)) / len(a) for a, b in zip(nearest, found, strict=True)]
    return f"recall {np.mean(shares):.4f}"


def _same(world: World, nearest: list[list[str]], found: list[list[str]]) -> str:
    """Check that the cosines are equal, rank by rank. Texts with equal cosines may be in any order."""
    rows = {key: row for row, key in enumerate(world.ids)}
    for vector, a, b in zip(world.asked, nearest, found, strict=True):
        ours, theirs = (world.matrix[[rows[key] for key in keys]] @ vector for keys in (a, b))
        assert np.abs(ours - theirs).max() < 1e-6, "other neighbors"
    return "the same neighbors"
