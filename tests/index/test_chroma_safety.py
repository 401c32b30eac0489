"""Chroma directories and servers are untrusted: damage is found, stored functions are never loaded."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import struct
from pathlib import Path

import chromadb
import numpy as np
import pytest
from chromadb.config import Settings
from support.artifacts import LOADED, Planted, make_chroma

from branchrank.core.errors import ArtifactError, UsageError
from branchrank.index.adopted_files import read_chroma
from branchrank.index.embedders.protocol import Vectors
from branchrank.index.stores.chroma import ChromaVectors, build_collection, drop_collection
from branchrank.index.stores.vectors import ExactVectors

IDS = [f"k{number:03}" for number in range(200)]


def rows(seed: int = 0) -> Vectors:
    matrix = np.random.default_rng(seed).normal(size=(len(IDS), 8))
    return (matrix / np.linalg.norm(matrix, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture
def location(tmp_path: Path) -> Path:
    build_collection(tmp_path / "chroma", "vectors", ExactVectors(IDS, rows()))
    return tmp_path / "chroma"


def refuses(location: Path | str, message: str, matrix: Vectors | None = None, ids: list[str] = IDS) -> None:
    with pytest.raises(ArtifactError, match=message) as caught:
        ChromaVectors(location, "vectors", ExactVectors(ids, rows() if matrix is None else matrix))
    assert caught.value.remedy


def test_a_missing_collection_or_database_is_refused_and_not_made(tmp_path: Path, location: Path) -> None:
    refuses(tmp_path / "nowhere", "does not contain a Chroma database")
    assert not (tmp_path / "nowhere").exists()
    drop_collection(location, "vectors")
    drop_collection(location, "vectors")
    refuses(location, "vectors")


def test_vectors_of_another_index_are_refused(location: Path) -> None:
    refuses(location, "searches find only", matrix=rows(seed=1))
    refuses(location, "has 200 vectors", ids=IDS[:-1], matrix=rows()[:-1])
    refuses(location, "not in the index", ids=[f"x{key}" for key in IDS])


def test_a_truncated_database_is_refused(location: Path) -> None:
    path = location / "chroma.sqlite3"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    refuses(location, "Chroma")


def test_a_graph_that_loses_its_vectors_is_rebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    probe = ChromaVectors._probe
    failures = ["first", "second"]

    def unlucky(self: ChromaVectors) -> None:
        probe(self)
        if failures:
            failures.pop()
            raise ArtifactError("searches find only 3 of 64 sampled vectors", remedy="x")

    monkeypatch.setattr(ChromaVectors, "_probe", unlucky)
    build_collection(tmp_path / "chroma", "vectors", ExactVectors(IDS, rows()))
    assert failures == []
    store = ChromaVectors(tmp_path / "chroma", "vectors", ExactVectors(IDS, rows()))
    assert store.search(rows()[7], 1)[0].key == IDS[7]
    store.close()
    failures.extend(["first", "second", "third"])
    with pytest.raises(ArtifactError, match="only 3 of 64") as caught:
        build_collection(tmp_path / "chroma", "vectors", ExactVectors(IDS, rows()))
    assert caught.value.remedy == "use --vector-store exact"


def test_near_duplicates_can_still_be_found(tmp_path: Path) -> None:
    """Pages that differ in a number alone: with few links per point, a graph leaves some of them out."""
    noise = np.random.default_rng(3).normal(size=(90, 64)).astype(np.float32)
    noise[:, 2:] = np.where(np.abs(noise[:, 2:]) > 2.2, noise[:, 2:], 0)
    noise[:, :2] = 4
    matrix = noise / np.linalg.norm(noise, axis=1, keepdims=True)
    keys = [f"n{number:02d}" for number in range(90)]
    for number in range(10):
        location = tmp_path / f"chroma-{number}"
        build_collection(location, "vectors", ExactVectors(keys, matrix))
        store = ChromaVectors(location, "vectors", ExactVectors(keys, matrix))
        answers = store._collection.query(query_embeddings=matrix, n_results=1, include=["distances"])
        assert [found for found in answers["distances"] if not found or found[0] > 1e-4] == []
        store.close()


def test_an_answer_with_a_foreign_id_is_refused(location: Path) -> None:
    store = ChromaVectors(location, "vectors", ExactVectors(IDS, rows()))

    class Foreign:
        def query(self, **arguments: object) -> object:
            return {"ids": [["k001", "someone else's"]]}

    store._collection = Foreign()
    with pytest.raises(ArtifactError, match="someone else"):
        store.search(rows()[0], 3)
    store.close()


def test_a_stored_embedding_function_is_refused_and_never_loaded(location: Path) -> None:
    drop_collection(location, "vectors")
    client = chromadb.PersistentClient(
        path=str(location), settings=Settings(_env_file=None, anonymized_telemetry=False)
    )
    client.create_collection("vectors", embedding_function=Planted())
    client.close()
    LOADED.clear()
    refuses(location, "embedding function.*planted")
    assert LOADED == []


@pytest.mark.parametrize("key", ["#embedding", "#document", "elsewhere"])
def test_a_function_hidden_in_the_schema_is_refused(location: Path, key: str) -> None:
    database = sqlite3.connect(location / "chroma.sqlite3")
    ((text,),) = database.execute("SELECT schema_str FROM collections").fetchall()
    schema = json.loads(text)
    function = {"type": "known", "name": "planted", "config": {}}
    index = {"enabled": True, "config": {"embedding_function": function, "bm25": False}}
    schema["keys"].setdefault(key, {})["sparse_vector"] = {"sparse_vector_index": index}
    database.execute("UPDATE collections SET schema_str = ?", [json.dumps(schema)])
    database.commit()
    database.close()
    LOADED.clear()
    refuses(location, "embedding function|Chroma at")
    assert LOADED == []


def test_another_metric_is_refused(location: Path) -> None:
    drop_collection(location, "vectors")
    client = chromadb.PersistentClient(
        path=str(location), settings=Settings(_env_file=None, anonymized_telemetry=False)
    )
    client.create_collection("vectors", embedding_function=None, configuration={"hnsw": {"space": "ip"}}).add(
        ids=IDS, embeddings=rows()
    )
    client.close()
    refuses(location, "metric 'ip'")


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT"
#: What a stranger writes into a database that Chroma made.
STRANGERS = {
    "a dimension past the buffer": "UPDATE collections SET dimension = 100000",
    "a dimension one too large": "UPDATE collections SET dimension = dimension + 1",
    "a dimension one too small": "UPDATE collections SET dimension = dimension - 1",
    "a negative dimension": "UPDATE collections SET dimension = -1",
    "no dimension": "UPDATE collections SET dimension = NULL",
    "an endless view": f"DROP TABLE collections; CREATE VIEW collections AS {ENDLESS} i AS id FROM n",
    "an endless view of ids": f"DROP TABLE embeddings; CREATE VIEW embeddings AS {ENDLESS} i AS id FROM n",
    "a trigger": f"CREATE TRIGGER t AFTER UPDATE ON acquire_write BEGIN {ENDLESS} i FROM n; END",
    "a computed column": "ALTER TABLE collections ADD COLUMN c AS (zeroblob(1000000000))",
    "another virtual table": "CREATE VIRTUAL TABLE more USING fts5(text, content='embeddings')",
    "a queued vector that is too short": "UPDATE embeddings_queue SET vector = x'00'",
}


@pytest.mark.parametrize("statements", STRANGERS.values(), ids=STRANGERS)
def test_a_strangers_database_is_refused_before_chroma_opens_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statements: str
) -> None:
    make_chroma(tmp_path / "chroma", [{"id": "a", "text": "tea", "file_path": "tea.md"}])
    with contextlib.closing(sqlite3.connect(tmp_path / "chroma" / "chroma.sqlite3")) as database:
        database.executescript(statements)
    # Compiled code that reads past a buffer would end the tests.
    monkeypatch.setattr(chromadb, "PersistentClient", None)
    with pytest.raises(ArtifactError, match=r"computes values|do not have") as caught:
        read_chroma(tmp_path / "chroma", remedy="x")
    assert caught.value.remedy == "x"
    with pytest.raises(ArtifactError, match=r"computes values|do not have"):
        ChromaVectors(tmp_path / "chroma", "docs", ExactVectors(["a"], rows()[:1]))


@pytest.mark.parametrize("field", range(5))
@pytest.mark.parametrize("value", [0, 1, 2**20, 2**63])
def test_a_graph_with_other_sizes_is_refused(
    location: Path, monkeypatch: pytest.MonkeyPatch, field: int, value: int
) -> None:
    """The first fields of the graph's header: its capacity, its count, and where a vector's parts begin."""
    (path,) = location.rglob("header.bin")
    header = bytearray(path.read_bytes())
    if field < 2 and value < 2:
        pytest.skip("a smaller graph is read within its file")
    struct.pack_into("<Q", header, 12 + 8 * field, value)
    path.write_bytes(header)
    monkeypatch.setattr(chromadb, "PersistentClient", None)
    refuses(location, "dimension 8")


def test_a_journal_that_names_another_file_is_refused_and_deletes_nothing(
    location: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    precious = location.parent / "precious.txt"
    precious.write_text("mine\n", encoding="utf-8")
    name = str(precious).encode() + b"\0"
    tail = struct.pack(">II", len(name), sum(name)) + bytes.fromhex("d9d505f920a163d7")
    header = bytes.fromhex("d9d505f920a163d7") + struct.pack(">IIIII", 0, 0, 1, 512, 4096)
    journal = header.ljust(512, b"\0") + struct.pack(">I", 1) + name + tail
    (location / "chroma.sqlite3-journal").write_bytes(journal)
    monkeypatch.setattr(chromadb, "PersistentClient", None)
    refuses(location, "another file")
    assert precious.read_text() == "mine\n"


@pytest.mark.parametrize(
    "url", ["localhost:8000", "ftp://host", "http://", "http://u:p@host", "http://h:99999"]
)
def test_an_invalid_url_is_a_usage_error(url: str) -> None:
    with pytest.raises(UsageError, match="--chroma-url"):
        ChromaVectors(url, "vectors", ExactVectors(IDS, rows()))
