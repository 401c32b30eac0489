"""``rows.jsonl``: rows are appended durably, a torn tail is cut off, damage is named."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import msgspec
import pytest

from branchrank.artifacts import write_jsonl
from branchrank.errors import RunError, StorageError
from branchrank.records import LLMCall, Placement, StageTrace
from branchrank.runs.rows import Row, RowHit, RowLog, is_under_way, read_rows

ROW = Row(
    question_id="q\n\r\u2028é",
    predictor="local",
    llm="none",
    hits=(
        RowHit(
            id="a.md#x@1",
            source="a.md",
            line_start=1,
            line_end=3,
            characters=40,
            score=0.1 + 0.2,
            gain=2,
            gold=0,
            page=0,
            branches={"dense(chunks)": Placement(rank=1, score=1 / 3)},
        ),
    ),
    trace=(StageTrace(stage="fusion", unit="chunk", keys=("a.md#x@1",), scores=(0.3,)),),
    stages=("fusion",),
    gold_ranks={"fusion": 1},
    calls=(
        LLMCall(
            predictor="local",
            question_id="q",
            stage="rerank",
            attempt=1,
            repeat=0,
            model="m",
            prompt_tokens=3,
            completion_tokens=4,
            cached_tokens=0,
            reported=True,
            latency_ms=1.5,
            served_by="server",
            outcome="ok",
        ),
    ),
)


def rows(count: int) -> list[Row]:
    return [msgspec.structs.replace(ROW, question_id=f"q{number}") for number in range(count)]


def filled(path: Path, count: int) -> None:
    with RowLog(path) as log:
        for row in rows(count):
            log.append(row)


def test_a_row_survives_the_file(tmp_path: Path) -> None:
    with RowLog(tmp_path / "new" / "rows.jsonl") as log:
        log.append(ROW)
    assert read_rows(log.path) == [ROW]
    with RowLog(log.path) as again:
        assert list(again.rows.values()) == [ROW]


def test_a_finished_file_is_what_the_log_wrote(tmp_path: Path) -> None:
    filled(tmp_path / "rows.jsonl", 3)
    write_jsonl(tmp_path / "again.jsonl", rows(3))
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "rows.jsonl").read_bytes()


def test_a_tail_torn_anywhere_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    filled(path, 2)
    whole = path.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    for length in {*range(last, len(whole), 25), last + 1, len(whole) - 1}:
        path.write_bytes(whole[:length])
        with RowLog(path) as log:
            assert log.torn == (length > last)
            assert list(log.rows.values()) == rows(1)
            log.append(rows(2)[1])
        assert path.read_bytes() == whole


def test_no_file_is_no_rows(tmp_path: Path) -> None:
    with RowLog(tmp_path / "rows.jsonl") as log:
        assert (log.torn, log.rows) == (False, {})
    assert read_rows(tmp_path / "none.jsonl") == []


@pytest.mark.parametrize(
    "damage", [b"{}", b"nonsense", b'{"question_id": 3}', b"\xff\xfe", b'{"x": ' + b"[" * 50_000]
)
def test_a_damaged_line_is_named(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "rows.jsonl"
    filled(path, 2)
    path.write_bytes(path.read_bytes() + damage + b"\n")
    for read in (read_rows, RowLog):
        with pytest.raises(RunError) as caught:
            read(path)
        assert caught.value.message.startswith(f"{path}:3: ")
        assert caught.value.exit_code == 3
        assert caught.value.remedy


def test_a_full_disk_is_said_and_earlier_rows_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.jsonl"

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with RowLog(path) as log:
        log.append(rows(1)[0])
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(StorageError, match="No space left") as caught:
            log.append(rows(2)[1])
        assert "free some space" in caught.value.remedy
        assert list(log.rows.values()) == rows(1)
    assert read_rows(path)[:1] == rows(1)


def test_a_row_is_on_the_disk_before_the_next_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bytes] = []
    path = tmp_path / "rows.jsonl"
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(path.read_bytes()))
    filled(path, 2)
    assert [content.count(b"\n") for content in synced] == [1, 2]


def test_rows_under_way_are_held(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    assert not is_under_way(path)
    with RowLog(path):
        assert is_under_way(path)
        with pytest.raises(RunError, match="another process is writing"):
            RowLog(path)
    assert not is_under_way(path)
