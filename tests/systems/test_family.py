"""The searches of grep, FTS5 and Qdrant over one index."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.fake_qdrant import fake_qdrant
from support.small_index import small_index

from branchrank.errors import ArtifactError, UsageError
from branchrank.settings import Resolved, resolve
from branchrank.stores.index import Index
from branchrank.stores.sqlite_search import SqliteSearch
from branchrank.systems import family as family_module
from branchrank.systems.family import FamilySources

QUERY = "How do I limit max_retries of a request?"


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[tuple[Index, Path, Resolved]]:
    index, root, settings = small_index(tmp_path)
    with index:
        yield index, root, settings


def test_every_kind_ranks_chunks_and_agrees_on_the_first(opened: tuple[Index, Path, Resolved]) -> None:
    index = opened[0]
    with FamilySources(*opened) as family:
        found = {kind: search(QUERY, 5) for kind, search in family.searches().items()}
    assert set(found) == {"grep", "fts5", "qdrant-dense", "qdrant-sparse"}
    for kind, ranking in found.items():
        assert "max_retries" in index.chunks[ranking[0].key].text, kind
        assert all(entry.key in index.chunks for entry in ranking)
    exact = index.vectors.search(index.embedder.embed_query(QUERY), 5)
    assert [entry.key for entry in found["qdrant-dense"]] == [entry.key for entry in exact]


def test_nothing_is_opened_before_it_is_asked(
    opened: tuple[Index, Path, Resolved], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(family_module, "build_sqlite", None)
    monkeypatch.setattr(family_module, "chunk_points", None)
    with FamilySources(*opened) as family:
        assert family.searches()["grep"](QUERY, 5)


def test_the_search_file_is_built_once_and_again_when_damaged(opened: tuple[Index, Path, Resolved]) -> None:
    with FamilySources(*opened) as family:
        path = family.search_file
    assert path.parent == opened[0].directory
    before = path.stat().st_mtime_ns
    with FamilySources(*opened) as family:
        assert family.search_file == path
    assert path.stat().st_mtime_ns == before
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with FamilySources(*opened) as family:
        assert family.searches()["fts5"](QUERY, 5)
    assert path.read_bytes() == content


def test_the_search_file_holds_the_vectors_of_the_index(opened: tuple[Index, Path, Resolved]) -> None:
    index = opened[0]
    with FamilySources(*opened) as family:
        search = SqliteSearch(family.search_file, embedder=index.embedder)
    exact = index.vectors.search(index.embedder.embed_query(QUERY), 3)
    assert [e.key for e in search.semantic(index.embedder.embed_query(QUERY), 3)] == [e.key for e in exact]
    search.close()


def test_a_read_only_index_is_searched_from_a_temporary_file(
    opened: tuple[Index, Path, Resolved], monkeypatch: pytest.MonkeyPatch
) -> None:
    from branchrank.errors import StorageError

    build = family_module.build_sqlite

    def refusing(path: Path, *arguments: object, **options: object) -> None:
        if path.parent == opened[0].directory:
            raise StorageError("read-only")
        build(path, *arguments, **options)

    monkeypatch.setattr(family_module, "build_sqlite", refusing)
    family = FamilySources(*opened)
    assert family.searches()["fts5"](QUERY, 5)
    temporary = family.search_file
    assert temporary.exists()
    family.close()
    assert not temporary.exists()


def test_the_embedding_section_must_name_the_model_of_the_index(opened: tuple[Index, Path, Resolved]) -> None:
    index, root, _ = opened
    for model, expected in (("", None), ("fake:64", index.embedder)):
        with FamilySources(
            index, root, resolve(toml={"embedding": {"model": model}}, environment={})
        ) as family:
            assert family.search_embedder() is expected
    with (
        FamilySources(
            index, root, resolve(toml={"embedding": {"model": "fake:32"}}, environment={})
        ) as family,
        pytest.raises(UsageError, match="fake:32"),
    ):
        family.search_embedder()


def test_a_server_is_filled_once_and_answers_like_the_embedded_collection(
    opened: tuple[Index, Path, Resolved],
) -> None:
    index, root, settings = opened
    with FamilySources(index, root, settings) as family:
        expected = {kind: family.searches()[kind](QUERY, 5) for kind in ("qdrant-dense", "qdrant-sparse")}
    with fake_qdrant() as server:
        served = resolve(toml={"qdrant": {"url": server.url}}, environment={})
        for _ in range(2):
            with FamilySources(index, root, served) as family:
                found = {kind: family.searches()[kind](QUERY, 5) for kind in expected}
            assert {kind: [e.key for e in r] for kind, r in found.items()} == {
                kind: [e.key for e in r] for kind, r in expected.items()
            }
        ((_, collection),) = server.collections.items()
        assert len(collection["points"]) == len(index.chunks)


def test_a_server_that_keeps_only_a_part_is_refused(opened: tuple[Index, Path, Resolved]) -> None:
    with fake_qdrant() as server:
        server.drop_points = 1
        served = resolve(toml={"qdrant": {"url": server.url}}, environment={})
        with (
            FamilySources(opened[0], opened[1], served) as family,
            pytest.raises(ArtifactError, match="only a part"),
        ):
            family.qdrant.count()


def test_without_hybrid_the_collection_is_dense_only(opened: tuple[Index, Path, Resolved]) -> None:
    dense_only = resolve(toml={"qdrant": {"enable_hybrid": False}}, environment={})
    with FamilySources(opened[0], opened[1], dense_only) as family:
        assert not family.qdrant.has_sparse
        assert family.searches()["qdrant-sparse"](QUERY, 5) == []
