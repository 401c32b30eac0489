import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.counting import TEXTS, Counting

from branchrank.core.io.progress import Notify
from branchrank.index.embedders import Vectors
from branchrank.index.embedders.cache import EmbeddingCache, cached_documents, cached_query, open_cache
from branchrank.index.embedders.fake import FakeEmbedder

OPENED: list[EmbeddingCache] = []


def opened(path: Path, notify: Notify | None = None) -> EmbeddingCache:
    OPENED.append(open_cache(path, notify=notify))
    return OPENED[-1]


@pytest.fixture(autouse=True)
def closed_caches() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "embeddings.sqlite"


def raw(path: Path, statement: str, *parameters: object) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    with connection:
        rows = connection.execute(statement, parameters).fetchall()
    connection.close()
    return rows


def fill(path: Path) -> Vectors:
    cache = opened(path)
    rows = cached_documents(Counting(), cache, TEXTS)
    cache.close()
    return rows


def test_a_second_run_embeds_nothing(path: Path) -> None:
    first = fill(path)
    embedder = Counting()
    second = cached_documents(embedder, opened(path), TEXTS)
    assert embedder.asked == []
    assert np.array_equal(first, second)
    assert np.array_equal(first, FakeEmbedder().embed_documents(TEXTS))


def test_only_the_new_text_is_embedded_and_repeats_once(path: Path) -> None:
    fill(path)
    embedder = Counting()
    rows = cached_documents(embedder, opened(path), ["new", TEXTS[3], "new"])
    assert embedder.asked == ["new"]
    assert np.array_equal(rows, FakeEmbedder().embed_documents(["new", TEXTS[3], "new"]))


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "other"},
        {"model": "other"},
        {"revision": "other"},
        {"dtype": "bfloat16"},
        {"weights_digest": "0"},
        {"document_prefix": "passage: "},
        {"max_tokens": 8},
    ],
)
def test_another_identity_shares_nothing(path: Path, changes: dict[str, object]) -> None:
    fill(path)
    embedder = Counting(**changes)
    cached_documents(embedder, opened(path), TEXTS)
    assert embedder.asked == TEXTS


def test_a_query_is_kept_apart_from_a_document_of_the_same_text(path: Path) -> None:
    fill(path)
    embedder, cache = Counting(), opened(path)
    first = cached_query(embedder, cache, TEXTS[0])
    again = cached_query(embedder, cache, TEXTS[0])
    assert embedder.asked == [TEXTS[0]]
    assert np.array_equal(first, again)
    cached_query(embedder, None, TEXTS[0])
    assert embedder.asked == [TEXTS[0]] * 2


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE embeddings SET vector = zeroblob(256)",
        "UPDATE embeddings SET vector = substr(vector, 1, 252)",
        "UPDATE embeddings SET checksum = zeroblob(16)",
        "UPDATE embeddings SET vector = 'text'",
        "UPDATE embeddings SET vector = 5",
        "DELETE FROM embeddings",
    ],
)
def test_a_damaged_row_is_a_miss_and_is_rewritten(path: Path, damage: str) -> None:
    expected = fill(path)
    raw(path, damage)
    embedder, cache = Counting(), opened(path)
    assert np.array_equal(cached_documents(embedder, cache, TEXTS), expected)
    assert embedder.asked == TEXTS
    embedder = Counting()
    assert np.array_equal(cached_documents(embedder, cache, TEXTS), expected)
    assert embedder.asked == []


def test_rows_with_the_vector_and_checksum_of_another_are_misses(path: Path) -> None:
    expected = fill(path)
    (one, *other), (two, *vector) = raw(path, "SELECT key, vector, checksum FROM embeddings LIMIT 2")
    for key, content in ((one, vector), (two, other)):
        raw(path, "UPDATE embeddings SET vector = ?, checksum = ? WHERE key = ?", *content, key)
    embedder = Counting()
    assert np.array_equal(cached_documents(embedder, opened(path), TEXTS), expected)
    assert len(embedder.asked) == 2


@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.integers(0, 100_000), st.integers(1, 255))
def test_a_flipped_byte_never_changes_an_answer(
    tmp_path_factory: pytest.TempPathFactory, position: int, mask: int
) -> None:
    path = tmp_path_factory.mktemp("flip") / "embeddings.sqlite"
    expected = fill(path)
    content = bytearray(path.read_bytes())
    content[position % len(content)] ^= mask
    path.write_bytes(content)
    assert np.array_equal(cached_documents(Counting(), opened(path), TEXTS), expected)


TRIGGER = "CREATE TRIGGER t AFTER INSERT ON embeddings BEGIN DELETE FROM embeddings; END"
FOREIGN: dict[str, tuple[bool, Callable[[Path], object]]] = {
    "foreign database": (False, lambda path: raw(path, "CREATE TABLE notes (text)")),
    "trigger": (True, lambda path: raw(path, TRIGGER)),
    "text": (False, lambda path: path.write_text("a text that is no database. " * 100)),
    "torn": (True, lambda path: path.write_bytes(path.read_bytes()[:5000])),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_file_of_something_else_is_set_aside_with_one_notice(path: Path, kind: str) -> None:
    path.parent.mkdir()
    is_filled, make = FOREIGN[kind]
    if is_filled:
        fill(path)
    make(path)
    before = path.read_bytes()
    notices: list[str] = []
    cache = opened(path, notify=notices.append)
    rows = cached_documents(Counting(), cache, TEXTS)
    assert np.array_equal(rows, FakeEmbedder().embed_documents(TEXTS))
    embedder = Counting()
    cached_documents(embedder, cache, TEXTS)
    assert embedder.asked == []
    assert len(notices) == 1
    assert "set-aside-1" in notices[0]
    assert path.with_name("embeddings.sqlite.set-aside-1").read_bytes() == before


@pytest.mark.parametrize("kind", ["parent is a file", "directory", "fifo", "device"])
def test_without_a_cache_file_embedding_continues_with_one_notice(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "embeddings.sqlite"
    if kind == "parent is a file":
        path.write_text("")
        path = path / "embeddings.sqlite"
    elif kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/full")
    notices: list[str] = []
    cache = opened(path, notify=notices.append)
    rows = cached_documents(Counting(), cache, TEXTS)
    cached_query(Counting(), cache, "query")
    assert np.array_equal(rows, FakeEmbedder().embed_documents(TEXTS))
    assert len(notices) == 1
    assert "not cached" in notices[0]


READ_ONLY = """
import os, sys
from pathlib import Path
from branchrank.index.embedders.fake import FakeEmbedder
from branchrank.index.embedders.cache import cached_documents, open_cache
if os.geteuid() == 0:
    os.setgid(65534); os.setuid(65534)
cache = open_cache(Path(sys.argv[1]), notify=print)
for _ in range(3):
    assert cached_documents(FakeEmbedder(), cache, ["a", "b"]).shape == (2, 64)
"""


@pytest.mark.parametrize("filled", [True, False])
def test_a_folder_without_write_permission_means_no_cache_and_one_notice(filled: bool) -> None:
    # Not below pytest's own folder, which another user may not enter.
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "embeddings.sqlite"
        if filled:
            fill(path)
            path.chmod(0o444)
        Path(name).chmod(0o555)
        result = subprocess.run(
            [sys.executable, "-c", READ_ONLY, str(path)],
            capture_output=True,
            text=True,
            env={"PYTHONPATH": str(Path(__file__).parents[2])},
        )
        Path(name).chmod(0o755)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("\n") == 1
    assert "not cached" in result.stdout


def test_only_the_user_can_read_the_file(path: Path) -> None:
    fill(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_interrupted_build_loses_at_most_the_current_batch(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("branchrank.index.embedders.cache.BATCH", 4)

    def stop(stage: str, done: int, total: int) -> None:
        if done == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached_documents(Counting(), opened(path), TEXTS, stop)
    embedder = Counting()
    cached_documents(embedder, opened(path), TEXTS)
    assert embedder.asked == TEXTS[8:]
