"""``rows.jsonl``, also compressed: rows are appended durably, a torn tail is cut off, damage is named."""

from __future__ import annotations

import errno
import os
import tracemalloc
from pathlib import Path

import msgspec
import pytest
import zstandard

from branchrank.core.errors import RunError, StorageError
from branchrank.core.records import LLMCall, Placement, StageTrace
from branchrank.runs import rows as rows_module
from branchrank.runs.rows import Row, RowLog, is_under_way, read_rows
from branchrank.scoring.matching import JudgedHit

ROW = Row(
    question_id="q\n\r\u2028é",
    predictor="local",
    llm="none",
    hits=(
        JudgedHit(
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


@pytest.fixture(params=["rows.jsonl", "rows.jsonl.zst"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / "run" / str(request.param)


def rows(count: int) -> list[Row]:
    return [msgspec.structs.replace(ROW, question_id=f"q{number}") for number in range(count)]


def filled(path: Path, count: int) -> None:
    with RowLog(path) as log:
        for row in rows(count):
            log.append(row)


def test_a_row_is_written_and_read_back(path: Path) -> None:
    with RowLog(path) as log:
        log.append(ROW)
    assert read_rows(log.path) == [ROW]
    with RowLog(log.path) as again:
        assert list(again.rows.values()) == [ROW]


def test_a_compressed_file_unpacks_to_the_plain_one(tmp_path: Path) -> None:
    plain, packed = tmp_path / "rows.jsonl", tmp_path / "rows.jsonl.zst"
    for path in (plain, packed):
        filled(path, 30)
    appended = packed.stat().st_size
    assert unpacked(packed) == plain.read_bytes()
    with RowLog(packed) as log:
        log.rewrite(rows(30))
    assert unpacked(packed) == plain.read_bytes()
    assert packed.stat().st_size < appended / 5


def unpacked(path: Path) -> bytes:
    with path.open("rb") as stream:
        reader = zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True)
        return bytes(reader.read())


def test_an_incomplete_last_line_is_removed(path: Path) -> None:
    filled(path, 1)
    last = path.stat().st_size
    path.unlink()
    filled(path, 2)
    whole = path.read_bytes()
    for length in {*range(last, len(whole), 25), last + 1, len(whole) - 1}:
        path.write_bytes(whole[:length])
        with RowLog(path) as log:
            assert log.torn == (length > last)
            assert list(log.rows.values()) == rows(1)
            log.append(rows(2)[1])
        assert path.read_bytes() == whole


def test_a_finished_compressed_file_that_is_cut_short_or_damaged_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.zst"
    with RowLog(path) as log:
        log.rewrite(rows(5))
    whole = path.read_bytes()
    flipped = bytes([*whole[:-6], whole[-6] ^ 255, *whole[-5:]])
    for content, reason in ((whole[:-1], "truncated after 0 rows"), (flipped, "damaged after 0 rows")):
        path.write_bytes(content)
        with pytest.raises(RunError, match=reason) as caught:
            read_rows(path)
        assert "restore the file" in caught.value.remedy


def test_a_compressed_file_unpacks_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "MOST_BYTES", 1 << 20)
    path = tmp_path / "rows.jsonl.zst"
    path.write_bytes(zstandard.compress(b" " * (1 << 28)))
    tracemalloc.start()
    try:
        with pytest.raises(RunError, match="is larger than"):
            read_rows(path)
        assert tracemalloc.get_traced_memory()[1] < 48 << 20
    finally:
        tracemalloc.stop()


def test_a_small_file_may_unpack_to_many_times_its_size(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.zst"
    path.write_bytes(zstandard.compress(b"x" * (1 << 20) + b"\n"))
    assert 1000 * path.stat().st_size < 1 << 20
    assert rows_module.read_lines(path) == [b"x" * (1 << 20)]


@pytest.mark.parametrize(
    "damage", [b"{}", b"nonsense", b'{"question_id": 3}', b"\xff\xfe", b'{"x": ' + b"[" * 50_000]
)
def test_a_damaged_line_is_named(path: Path, damage: bytes) -> None:
    filled(path, 2)
    path.write_bytes(path.read_bytes() + rows_module.packed(path, damage + b"\n"))
    for read in (read_rows, RowLog):
        with pytest.raises(RunError) as caught:
            read(path)
        assert caught.value.message.startswith(f"{path}:3: ")
        assert caught.value.exit_code == 3
        assert caught.value.remedy


def test_a_full_disk_is_reported_and_earlier_rows_are_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

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


def test_a_row_is_on_the_disk_before_the_next_question(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(len(read_rows(path))))
    filled(path, 2)
    assert synced == [1, 2]


def test_a_file_that_is_being_written_is_locked(path: Path) -> None:
    assert not is_under_way(path)
    with RowLog(path):
        assert is_under_way(path)
        with pytest.raises(RunError, match="another process"):
            RowLog(path)
    assert not is_under_way(path)
