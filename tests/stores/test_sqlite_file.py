"""The SQLite file: atomic builds, foreign and damaged files."""

import sqlite3
from pathlib import Path

import pytest

from branchrank.errors import ArtifactError, StorageError
from branchrank.records import Chunk
from branchrank.stores import sqlite_file
from branchrank.stores.sqlite_file import SqliteFile, build_sqlite
from branchrank.stores.sqlite_fts5 import Fts5Table

CHUNKS = [
    Chunk(
        id=f"{n}.rst@1",
        node_id=f"{n}.rst",
        source=f"{n}.rst",
        line_start=1,
        line_end=2,
        breadcrumb="b",
        text=t,
    )
    for n, t in enumerate(["alpha beta", "gamma delta", "epsilon zeta eta"])
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "search.sqlite"
    build_sqlite(file, CHUNKS, corpus_digest="abc")
    return file


def test_the_header_names_the_sources_of_the_file(path: Path) -> None:
    header = SqliteFile(path).header
    assert (header.corpus_digest, header.chunk_count) == ("abc", 3)
    assert SqliteFile(path).chunks([3, 1]) == [CHUNKS[2], CHUNKS[0]]
    assert list(path.parent.iterdir()) == [path]


def test_two_builds_give_the_same_bytes(path: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.sqlite"
    build_sqlite(again, CHUNKS[::-1], corpus_digest="abc")
    assert again.read_bytes() == path.read_bytes()


def test_an_empty_corpus_gives_an_empty_answer(tmp_path: Path) -> None:
    build_sqlite(tmp_path / "s", [], corpus_digest="")
    assert Fts5Table(tmp_path / "s").matches("anything", 5) == []


def test_a_failed_build_keeps_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()
    with pytest.raises(ArtifactError, match="UNIQUE"):
        build_sqlite(path, [*CHUNKS, CHUNKS[0]], corpus_digest="")

    def full(connection: object) -> str:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(sqlite_file, "_fts_digest", full)
    with pytest.raises(StorageError, match="full"):
        build_sqlite(path, CHUNKS, corpus_digest="")
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_missing_and_foreign_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="does not exist"):
        SqliteFile(tmp_path / "missing")
    (tmp_path / "text").write_text("not a database " * 100)
    with pytest.raises(ArtifactError, match="damaged"):
        SqliteFile(tmp_path / "text")
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(ArtifactError, match="not a BranchRank search file"):
        SqliteFile(tmp_path / "empty")
    connection = sqlite3.connect(tmp_path / "other")
    connection.execute("CREATE TABLE chunks (id)")
    connection.close()
    with pytest.raises(ArtifactError, match="not a BranchRank search file"):
        SqliteFile(tmp_path / "other")


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("CREATE VIEW trap AS SELECT load_extension('evil')", "tables"),
        ("CREATE TRIGGER trap AFTER INSERT ON chunks BEGIN DELETE FROM chunks; END", "tables"),
        ("CREATE TABLE more (x)", "tables"),
        ("DROP TABLE words", "tables"),
        ("DELETE FROM chunks WHERE rowid = 2", "chunks are missing"),
        ("PRAGMA user_version = 99", "schema version 99"),
        ("DELETE FROM meta", "damaged"),
        ("UPDATE meta SET header = 'x'", "damaged"),
        ("INSERT INTO stems (rowid, breadcrumb, text) VALUES (9, 'x', 'y')", "full-text"),
        ("INSERT INTO words (rowid, breadcrumb, text) VALUES (9, 'x', 'y')", "full-text"),
    ],
)
def test_a_modified_file_is_refused(path: Path, statement: str, reason: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()
    with pytest.raises(ArtifactError, match=reason):
        SqliteFile(path)


def test_a_modified_chunk_is_refused_when_it_is_read(path: Path) -> None:
    connection = sqlite3.connect(path)
    replaced = "CAST(replace(chunk, 'alpha', 'omega') AS BLOB)"
    connection.execute(f"UPDATE chunks SET chunk = {replaced} WHERE rowid = 1")
    connection.commit()
    connection.close()
    table = Fts5Table(path)
    with pytest.raises(ArtifactError, match="checksum"):
        table.matches("alpha", 5)
    assert table.matches("gamma", 5)[0].key == "1.rst@1"
    table.close()


def test_a_flipped_byte_never_changes_a_result(path: Path) -> None:
    """Every answer from a file with a flipped byte is the right one, or a refusal."""
    content = path.read_bytes()
    right = answers(path)
    refused = 0
    for position in range(0, len(content), 97):
        damaged = bytearray(content)
        damaged[position] ^= 0x15
        path.write_bytes(damaged)
        try:
            assert answers(path) == right, position
        except ArtifactError:
            refused += 1
    assert refused > 10


def answers(path: Path) -> list[tuple[str, float]]:
    table = Fts5Table(path)
    try:
        found = [table.matches(query, 5) for query in ("beta", "zeta eta", "gam")]
        return [(match.key, match.score) for matches in found for match in matches]
    finally:
        table.close()


def test_a_truncated_file_is_refused(path: Path) -> None:
    content = path.read_bytes()
    for length in range(1, len(content), 1013):
        path.write_bytes(content[:length])
        with pytest.raises(ArtifactError):
            SqliteFile(path)
