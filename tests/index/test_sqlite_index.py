"""The FTS5 file of an index."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.small_index import small_index

from branchrank.index.reader import FTS5, Index


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    opened, _, _ = small_index(tmp_path)
    with opened:
        yield opened


def test_the_file_is_created_once_and_rebuilt_when_damaged(index: Index) -> None:
    index.open_fts5().close()
    path = index.directory / FTS5
    content, modified = path.read_bytes(), path.stat().st_mtime_ns
    index.open_fts5().close()
    assert path.stat().st_mtime_ns == modified
    for damaged in (content[: len(content) // 2], b"", content[:-1] + bytes([content[-1] ^ 1])):
        path.write_bytes(damaged)
        index.open_fts5().close()
        assert path.read_bytes() == content
