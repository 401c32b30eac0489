"""An index whose vectors are in a Chroma server."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chromadb
import pytest
from chromadb.api.models.Collection import Collection
from chromadb.config import Settings
from support.artifacts import LOADED, Planted
from support.chroma_process import chroma_server
from support.commands import ROOT, invoke, program
from support.ports import free_port
from support.small_corpus import PAGES, small_workspace
from support.worlds import write_pages

from branchrank import Workspace
from branchrank.core.errors import ArtifactError
from branchrank.core.io.http_client import BoundedTransport
from branchrank.index.index_build import _server_collection, build_index
from branchrank.index.reader import open_index
from branchrank.index.stores import chroma
from branchrank.index.stores.chroma import MADE_FOR, disconnect


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with chroma_server(tmp_path_factory.mktemp("server")) as address:
        yield address


@pytest.fixture
def client(url: str) -> Iterator[chromadb.ClientAPI]:
    opened = chromadb.HttpClient(
        host="127.0.0.1",
        port=int(url.rsplit(":", 1)[1]),
        settings=Settings(_env_file=None, anonymized_telemetry=False),
    )
    for collection in opened.list_collections():
        opened.delete_collection(collection.name)
    yield opened
    disconnect(opened)


def test_a_server_answers_as_the_exact_store_does(
    tmp_path: Path, url: str, client: chromadb.ClientAPI
) -> None:
    workspace = small_workspace(tmp_path, vector_store="chroma", chroma_url=url)
    with build_index(workspace) as index:
        assert index.vector_store == "chroma server"
        query = index.embedder.embed_query("limescale")
        assert index.vectors.search(query, 4) == index.exact_vectors.search(query, 4)
        assert [collection.name for collection in client.list_collections()] == [index.report.collection]
        assert not (index.directory / "chroma").exists()


def test_a_proxy_from_the_environment_is_not_used_for_loopback(
    tmp_path: Path, url: str, client: chromadb.ClientAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = f"http://127.0.0.1:{free_port()}"
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, proxy)
    monkeypatch.setenv("no_proxy", "example.org")
    workspace = small_workspace(tmp_path, vector_store="chroma", chroma_url=url)
    with build_index(workspace) as index:
        query = index.embedder.embed_query("limescale")
        assert index.vectors.search(query, 4) == index.exact_vectors.search(query, 4)
    assert os.environ["no_proxy"] == "example.org"


def test_collections_are_deleted_with_their_generations(
    tmp_path: Path, url: str, client: chromadb.ClientAPI
) -> None:
    workspace = small_workspace(tmp_path, vector_store="chroma", chroma_url=url)
    names = []
    for _ in range(3):
        with build_index(workspace, force=True) as index:
            names.append(index.report.collection)
    assert {collection.name for collection in client.list_collections()} == set(names[-2:])


def test_a_lost_collection_is_built_again(tmp_path: Path, url: str, client: chromadb.ClientAPI) -> None:
    workspace = small_workspace(tmp_path, vector_store="chroma", chroma_url=url)
    with build_index(workspace) as index:
        name = index.report.collection
    collection = client.get_collection(name, embedding_function=None)
    collection.delete(ids=collection.get(limit=1)["ids"])
    with (
        open_index(workspace) as index,
        pytest.raises(ArtifactError, match=url),
    ):
        _ = index.vectors
    with build_index(workspace) as index:
        assert index.vectors.search(index.embedder.embed_query("lid"), 1)
        assert index.report.embedded == 0


def test_check_finds_an_id_that_no_sample_holds(tmp_path: Path, url: str, client: chromadb.ClientAPI) -> None:
    write_pages(tmp_path / "docs", {"page.md": "".join(f"# Part {n}\n\nText {n}.\n\n" for n in range(200))})
    workspace = small_workspace(tmp_path, vector_store="chroma", chroma_url=url)
    with build_index(workspace) as index:
        name, lost = index.report.collection, index.chunks.ids[1]
    collection = client.get_collection(name, embedding_function=None)
    words = ("check", "--data-dir", workspace.data_dir)
    assert "no damage found" in invoke(*words).output
    [vector] = collection.get(ids=[lost], include=["embeddings"])["embeddings"]
    collection.delete(ids=[lost])
    collection.add(ids=["stranger"], embeddings=[-vector])  # far from every vector, so no search finds it
    damaged = invoke(*words)
    assert damaged.exit_code == 4, damaged.output
    assert repr(lost) in damaged.output


UPLOAD_KILLED = """
import os, signal, sys
from chromadb.api.models.Collection import Collection
from branchrank.frontends.cli.main import main
from branchrank.index.stores import chroma

chroma.BATCH, chroma.UPLOADS = 2, 1
add, calls = Collection.add, []

def killed(self, **given):
    calls.append(given)
    if len(calls) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return add(self, **given)

Collection.add = killed
main(sys.argv[1:])
"""


def uploads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of every vector that is uploaded from now on."""
    sent: list[str] = []
    add = Collection.add

    def recorded(self: Collection, **given: Any) -> None:
        sent.extend(given["ids"])
        add(self, **given)

    monkeypatch.setattr(Collection, "add", recorded)
    return sent


def test_a_killed_upload_resumes_with_the_missing_vectors(
    tmp_path: Path, url: str, client: chromadb.ClientAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pages(tmp_path / "docs", PAGES)
    words = ["index", tmp_path / "docs", "--data-dir", tmp_path / "data", "--embedder", "fake"]
    words += ["--chunk-tokens", 32, "--chroma-url", url]
    killed = program("-c", UPLOAD_KILLED, *words, cwd=tmp_path)
    assert killed.returncode == -signal.SIGKILL
    [collection] = client.list_collections()
    held = set(collection.get()["ids"])
    assert len(held) == 2
    sent = uploads(monkeypatch)
    monkeypatch.setattr(chroma, "BATCH", 3)
    done = invoke(*words)
    assert done.exit_code == 0, done.output
    with Workspace.open(tmp_path / "data") as workspace:
        assert set(sent) == set(workspace.index.chunks) - held
        assert len(sent) == len(set(sent)) == 4
        exact = workspace.index.exact_vectors
        query = workspace.index.embedder.embed_query("limescale")
        assert workspace.index.vectors.search(query, 9) == exact.search(query, 9)
    assert [each.name for each in client.list_collections()] == [collection.name]


def test_an_interrupted_upload_with_a_wrong_vector_is_repeated(
    tmp_path: Path, url: str, client: chromadb.ClientAPI
) -> None:
    workspace = small_workspace(tmp_path, vector_store="chroma", chroma_url=url)
    with build_index(workspace) as index:
        name, key = index.report.collection, next(iter(index.chunks))
    collection = client.get_collection(name, embedding_function=None)
    width = len(collection.get(ids=[key], include=["embeddings"])["embeddings"][0])
    collection.update(ids=[key], embeddings=[[1.0] + [0.0] * (width - 1)])
    (workspace.generations.directory / "current").unlink()  # as if the build had not been published
    with build_index(workspace) as index:
        assert index.report.collection == name
        assert index.vectors.search(index.vectors.vector(key), 1)[0].key == key


def test_a_foreign_collection_is_never_replaced(tmp_path: Path, url: str, client: chromadb.ClientAPI) -> None:
    workspace = small_workspace(tmp_path, vector_store="chroma", chroma_url=url)
    name = _server_collection(workspace.generations.directory / "000001")
    client.create_collection(name, embedding_function=None).add(ids=["theirs"], embeddings=[[1.0, 0.0]])
    with pytest.raises(ArtifactError, match=name) as caught:
        build_index(workspace)
    assert "delete the collection" in caught.value.remedy
    assert client.get_collection(name, embedding_function=None).count() == 1


def test_the_collection_of_another_index_is_refused(
    tmp_path: Path, url: str, client: chromadb.ClientAPI
) -> None:
    workspace = small_workspace(tmp_path, vector_store="chroma", chroma_url=url)
    with build_index(workspace) as index:
        name = index.report.collection
    client.get_collection(name, embedding_function=None).modify(metadata={MADE_FOR: "another"})
    with open_index(workspace) as index, pytest.raises(ArtifactError, match="made for another") as caught:
        _ = index.vectors
    assert "branchrank index" in caught.value.remedy


@pytest.mark.full
def test_the_sample_gives_the_same_results_on_a_server_and_embedded(
    tmp_path: Path, url: str, client: chromadb.ClientAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chroma, "BATCH", 50)
    corpus, questions = ROOT / "data/sample/corpus", ROOT / "data/sample/questions.jsonl"
    rows = []
    for place in ({"index.chroma_url": url}, {}):
        data = tmp_path / ("server" if place else "embedded")
        settings = {"index.embedder": "fake", "index.vector_store": "chroma", **place}
        with Workspace.build(corpus, data, settings=settings) as workspace:
            run = workspace.benchmark(
                ["local"], questions=questions, reports=tmp_path / data.name / "reports",
                settings={"benchmark.latency_sample": 0, "benchmark.sample_size": 40},
            )  # fmt: skip
        rows.append((run.directory / "rows.jsonl").read_bytes())
    assert rows[0] == rows[1]


def test_a_function_planted_on_the_server_is_never_loaded(
    tmp_path: Path, url: str, client: chromadb.ClientAPI
) -> None:
    workspace = small_workspace(tmp_path, vector_store="chroma", chroma_url=url)
    with build_index(workspace) as index:
        name = index.report.collection
    client.delete_collection(name)
    client.create_collection(name, embedding_function=Planted())
    LOADED.clear()
    with open_index(workspace) as index, pytest.raises(ArtifactError, match="embedding function"):
        _ = index.vectors
    assert LOADED == []


def test_an_unreachable_server_is_reported(tmp_path: Path) -> None:
    workspace = small_workspace(tmp_path, vector_store="chroma", chroma_url=f"http://127.0.0.1:{free_port()}")
    with pytest.raises(ArtifactError, match="Chroma at http") as caught:
        build_index(workspace)
    assert "chroma run" in caught.value.remedy
    assert not list((tmp_path / "data").glob("indexes/*/0*"))


def test_a_server_that_never_answers_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chroma, "_HEARTBEAT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        workspace = small_workspace(tmp_path, vector_store="chroma", chroma_url=address)
        with pytest.raises(ArtifactError, match="timed out") as caught:
            build_index(workspace)
    assert "chroma run" in caught.value.remedy


def test_the_time_and_size_of_server_answers_are_limited(url: str, client: chromadb.ClientAPI) -> None:
    """Other tests try the limits of the transport itself."""
    with chroma.connected(url) as connected:
        servers = chroma._servers(connected)
        assert servers
        assert all(isinstance(each._session._transport, BoundedTransport) for each in servers)
