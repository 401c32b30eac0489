"""Cassettes: what is recorded is what is replayed; damage never answers; nothing foreign is opened."""

from __future__ import annotations

import shutil
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier

import pytest

from branchrank.core.errors import ArtifactError, StorageError
from branchrank.core.io import key_values
from branchrank.search.llm.cassette import Cassette
from branchrank.search.llm.request import (
    CallContext,
    CallResult,
    LLMReply,
    LLMRequest,
    Message,
    Tool,
    ToolCall,
    Usage,
)

RECORDED = CallResult(
    reply=LLMReply(
        text='{"ids": ["s01"]}\u202e',
        usage=Usage(prompt_tokens=10, completion_tokens=2, cached_tokens=1, reported=True),
        latency_ms=12.345,
        model="m-1",
        logprobs=({"Yes": -0.25},),
        attempt=2,
    )
)


def request(text: str = "first line\nsecond line", question: str = "q1", **fields: object) -> LLMRequest:
    context = CallContext(question_id=question, predictor="p", **fields)
    return LLMRequest(stage="rerank", messages=(Message(role="user", content=text),), context=context)


def test_get_returns_exactly_what_was_put(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    with Cassette(path) as cassette:
        cassette.put(request(), "m", RECORDED)
        assert cassette.get(request(), "m") == RECORDED
    with Cassette(path, readonly=True) as cassette:
        assert cassette.get(request(), "m") == RECORDED
        assert len(cassette) == 1
        assert cassette.models() == ["m"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["c.sqlite"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def damage(path: Path, column: str, at: int) -> None:
    database = sqlite3.connect(path)
    (value,) = database.execute(f"SELECT {column} FROM calls").fetchone()
    flipped = value[:at] + chr(ord(value[at]) ^ 1) + value[at + 1 :]
    database.execute(f"UPDATE calls SET {column} = ?", (flipped,))
    database.commit()
    database.close()


@pytest.mark.parametrize("column", ["stage", "question", "request", "recorded", "checksum"])
def test_a_damaged_row_is_never_returned(tmp_path: Path, column: str) -> None:
    path = tmp_path / "c.sqlite"
    with Cassette(path) as cassette:
        cassette.put(request(), "m", RECORDED)
    damage(path, column, 1)
    with Cassette(path, readonly=True) as cassette:
        assert cassette.get(request(), "m") is None
        if column in ("recorded", "checksum"):
            assert "damaged" in cassette.difference(request(), "m")
    with Cassette(path) as cassette:
        cassette.put(request(), "m", RECORDED)
        assert cassette.get(request(), "m") == RECORDED


def test_a_miss_reports_the_difference_from_the_nearest_call(tmp_path: Path) -> None:
    with Cassette(tmp_path / "c.sqlite") as cassette:
        assert "is empty" in cassette.difference(request(), "m")
        cassette.put(request("unrelated"), "m", RECORDED)
        cassette.put(request(), "m", RECORDED)
        cassette.put(request("first line\nsecond line", seed=3), "other", RECORDED)
        assert cassette.difference(request("first line\nthird line"), "m") == (
            "prompt line 2 is 'third line', recorded 'second line'"
        )
        assert cassette.difference(request(seed=3), "m") in (
            "model is 'm', recorded 'other'",
            "seed is 3, recorded 42",
        )
        assert "repeat is 2, recorded 0" in cassette.difference(request(repeat=2), "m")
        long = cassette.difference(request("first line\n" + "x" * 1000), "m")
        assert len(long) < 300


def test_a_miss_names_the_tool_or_tool_call_that_differs(tmp_path: Path) -> None:
    def step(*arguments: str, about: str = "Search.") -> LLMRequest:
        calls = tuple(ToolCall(id="c1", name="grep", arguments=text) for text in arguments)
        messages = (
            Message(role="user", content="why?"),
            Message(role="assistant", content="", tool_calls=calls),
        )
        tools = (Tool(name="read", description="Read.", parameters={}),)
        tools += (Tool(name="grep", description=about, parameters={}),) if about else ()
        return LLMRequest(stage="agent", messages=messages, tools=tools)

    recorded = CallResult(
        reply=LLMReply(text="", tool_calls=(ToolCall(id="c1", name="grep", arguments='{"pattern": "x"}'),))
    )
    with Cassette(tmp_path / "c.sqlite") as cassette:
        cassette.put(step('{"pattern": "x"}'), "m", recorded)
        assert cassette.get(step('{"pattern": "x"}'), "m") == recorded
        assert cassette.difference(step('{"pattern": "y"}'), "m") == (
            """prompt line 4 is 'c1 grep {"pattern": "y"}', recorded 'c1 grep {"pattern": "x"}'"""
        )
        assert "prompt line 4 is 'nothing', recorded 'c1 grep" in cassette.difference(step(), "m")
        assert "prompt line 2 is 'grep: " in cassette.difference(step('{"pattern": "x"}', about="Find."), "m")
        fewer = cassette.difference(step('{"pattern": "x"}', about=""), "m")
        assert fewer.startswith("prompt line 2 is 'why?', recorded 'grep: ")
        cassette.put(step("{" + "x" * 500 + "1"), "m", recorded)
        far = cassette.difference(step("{" + "x" * 500 + "2"), "m")
        assert far == f"prompt line 4 from character 460 is '{'x' * 50}2', recorded '{'x' * 50}1'"


def test_a_miss_is_compared_with_the_calls_of_its_question(tmp_path: Path) -> None:
    """Another question's call is more alike, and its name comes before and after this one's."""
    for other in ("q0", "q2"):
        with Cassette(tmp_path / f"{other}.sqlite") as cassette:
            cassette.put(request("first line\nold", question="q1"), "m", RECORDED)
            cassette.put(request("first line\nnew!", question=other), "m", RECORDED)
            told = cassette.difference(request("first line\nnew", question="q1"), "m")
            assert told == "prompt line 2 is 'new', recorded 'old'"


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE other (x)"],
        ["CREATE VIEW calls AS SELECT 1 AS key"],
        ["PRAGMA application_id = 1112697965", "CREATE TABLE calls (key TEXT)"],
        ["PRAGMA application_id = 7"],
        ["CREATE TRIGGER t AFTER INSERT ON calls BEGIN DELETE FROM calls; END"],
    ],
)
def test_a_foreign_database_is_refused(tmp_path: Path, statements: list[str]) -> None:
    path = tmp_path / "c.sqlite"
    if "TRIGGER" in statements[0]:
        Cassette(path).close()
    database = sqlite3.connect(path)
    for statement in statements:
        database.execute(statement)
    database.commit()
    database.close()
    for readonly in (True, False):
        with pytest.raises(ArtifactError, match="not a cassette"):
            Cassette(path, readonly=readonly)


@pytest.mark.parametrize("content", [b"hello", b"SQLite format 3\0" + b"\xff" * 2000, b"x" * 5000])
def test_a_file_that_is_not_a_database_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "c.sqlite"
    path.write_bytes(content)
    with pytest.raises((ArtifactError, StorageError)):
        Cassette(path)
    assert path.read_bytes() == content


def test_processes_that_open_a_new_cassette_at_once_all_get_it(tmp_path: Path) -> None:
    """Threads stand for processes: each has a connection of its own, and SQLite locks these alike."""
    openers = 4
    together = Barrier(openers)

    def open_and_put(path: Path, number: int) -> None:
        together.wait()
        with Cassette(path) as cassette:
            cassette.put(request(str(number)), "m", RECORDED)

    with ThreadPoolExecutor(openers) as pool:
        for attempt in range(25):
            path = tmp_path / f"{attempt}.sqlite"
            list(pool.map(partial(open_and_put, path), range(openers)))
            with Cassette(path, readonly=True) as cassette:
                assert len(cassette) == openers


def test_an_interrupted_creation_leaves_a_usable_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before each statement the files are copied, as a kill would leave them."""
    live = tmp_path / "live"
    copies: list[Path] = []

    class Copied(sqlite3.Connection):
        def execute(self, *arguments: object) -> sqlite3.Cursor:
            copies.append(Path(shutil.copytree(live, tmp_path / f"copy-{len(copies)}")))
            return super().execute(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Copied))
        Cassette(live / "c.sqlite").close()
    assert len(copies) > 10
    for copy in copies:
        database = sqlite3.connect(copy / "c.sqlite")
        tables = database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        mark = database.execute("PRAGMA application_id").fetchone()[0]
        database.close()
        assert (tables, bool(mark)) in ((0, False), (1, True))
        with Cassette(copy / "c.sqlite") as cassette:
            cassette.put(request(), "m", RECORDED)


def test_a_file_that_stays_locked_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_values, "PATIENCE", 0.05)
    path = tmp_path / "c.sqlite"
    owner = sqlite3.connect(path, isolation_level=None)
    owner.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StorageError, match="locked"):
        Cassette(path)
    owner.close()
    Cassette(path).close()
