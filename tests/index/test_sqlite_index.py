"""The FTS5 file of an index."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.small_index import small_index

from branchrank.errors import StorageError
from branchrank.index import Index, sqlite_index
from branchrank.index.sqlite_index import PLACE, open_fts5

QUERY = "How do I limit max_retries of a request?"


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    opened, _, _ = small_index(tmp_path)
    with opened:
        yield opened


def test_sqlite_searches_the_chunks_of_the_index(index: Index) -> None:
    table = open_fts5(index)
    best = table.matches(QUERY, 5)[0]
    assert "max_retries" in index.chunks[best.key].text
    assert table.file.header.chunk_count == len(index.chunks)
    table.close()


def test_the_file_is_created_once_and_rebuilt_when_damaged(index: Index) -> None:
    open_fts5(index).close()
    path = index.directory / PLACE
    content, modified = path.read_bytes(), path.stat().st_mtime_ns
    open_fts5(index).close()
    assert path.stat().st_mtime_ns == modified
    path.write_bytes(content[: len(content) // 2])
    open_fts5(index).close()
    assert path.read_bytes() == content


def test_a_read_only_index_can_still_be_searched(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    build = sqlite_index.build_sqlite

    def refusing(path: Path, *arguments: object, **options: object) -> None:
        if index.directory in path.parents:
            raise StorageError("read-only")
        build(path, *arguments, **options)

    monkeypatch.setattr(sqlite_index, "build_sqlite", refusing)
    table = open_fts5(index)
    assert table.matches(QUERY, 5)
    assert not table.file.path.exists()
    table.close()
