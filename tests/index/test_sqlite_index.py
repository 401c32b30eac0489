"""The SQLite search file of an index."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.small_index import small_index

from branchrank.errors import StorageError, UsageError
from branchrank.index import Index, sqlite_index
from branchrank.index.sqlite_index import PLACE, open_search
from branchrank.settings import EmbeddingSettings

QUERY = "How do I limit max_retries of a request?"
EMBEDDING = EmbeddingSettings(model="fake:64")


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    opened, _, _ = small_index(tmp_path)
    with opened:
        yield opened


def test_all_modes_search_the_chunks_and_vectors_of_the_index(index: Index) -> None:
    search = open_search(index, EMBEDDING)
    for mode in ("keyword", "semantic", "hybrid"):
        best = search.search(QUERY, mode=mode)[0]
        assert "max_retries" in best.hit.text, mode
    vector = index.embedder.embed_query(QUERY)
    exact = index.vectors.search(vector, 3)
    assert [entry.key for entry in search.semantic(vector, 3)] == [entry.key for entry in exact]
    search.close()


def test_the_embedding_section_decides_over_semantic_search(index: Index) -> None:
    search = open_search(index, EmbeddingSettings())
    assert search.search(QUERY, mode="keyword")
    with pytest.raises(UsageError, match=r"\[embedding\] section"):
        search.search(QUERY, mode="semantic")
    search.close()
    with pytest.raises(UsageError, match="fake:32"):
        open_search(index, EmbeddingSettings(model="fake:32"))


def test_the_file_is_made_once_and_again_when_it_is_damaged(index: Index) -> None:
    open_search(index, EMBEDDING).close()
    path = index.directory / PLACE
    content, modified = path.read_bytes(), path.stat().st_mtime_ns
    open_search(index, EMBEDDING).close()
    assert path.stat().st_mtime_ns == modified
    path.write_bytes(content[: len(content) // 2])
    open_search(index, EMBEDDING).close()
    assert path.read_bytes() == content


def test_an_index_that_cannot_be_written_is_searched_all_the_same(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = sqlite_index.build_sqlite

    def refusing(path: Path, *arguments: object, **options: object) -> None:
        if index.directory in path.parents:
            raise StorageError("read-only")
        build(path, *arguments, **options)

    monkeypatch.setattr(sqlite_index, "build_sqlite", refusing)
    search = open_search(index, EMBEDDING)
    assert search.search(QUERY)
    assert not search.file.path.exists()
    search.close()
