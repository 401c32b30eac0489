"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from branchrank.core.errors import InputError, StorageError
from branchrank.core.io.files import (
    atomic_writer,
    digest_bytes,
    digest_file,
    write_jsonl,
    write_text,
)
from branchrank.core.io.text_files import read_jsonl
from branchrank.core.records import Scored, Span


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o027, 0o640)])
def test_a_file_has_the_permissions_that_the_umask_leaves(tmp_path: Path, mask: int, mode: int) -> None:
    path = tmp_path / "report.md"
    before = os.umask(mask)
    try:
        write_text(path, "text")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == mode


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    write_text(path, "old\n")

    def records() -> Iterator[object]:
        yield Scored("a", 1.0)
        raise ValueError("half-way")

    with pytest.raises(ValueError, match="half-way"):
        write_jsonl(path, records())
    assert path.read_text() == "old\n"
    assert os.listdir(tmp_path) == ["rows.jsonl"]


def test_a_file_is_flushed_before_it_gets_its_name_and_the_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace

    def flush(descriptor: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        steps.append(f"flush {kind}")
        fsync(descriptor)

    def rename(source: str, target: str) -> None:
        steps.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", flush)
    monkeypatch.setattr(os, "replace", rename)
    write_text(tmp_path / "run.json", "{}")
    assert steps == ["flush file", "rename", "flush folder"]


def test_two_writers_of_one_file_do_not_mix_their_content(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    with atomic_writer(path) as first, atomic_writer(path) as second:
        first.write(b"first")
        second.write(b"second")
    assert path.read_bytes() == b"first", "the last to end wins, whole"
    assert os.listdir(tmp_path) == ["run.json"]


def test_a_disk_error_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write"):
        write_text(tmp_path / "file" / "below", "text")


def test_a_bad_line_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    path.write_bytes(b'{"source":"a","line_start":1,"line_end":2}\n\n{"source":"a"}\n')
    with pytest.raises(InputError, match=r"spans\.jsonl:3: .*line_start"):
        list(read_jsonl(path, Span))


def test_a_files_digest_is_that_of_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    assert digest_file(path) == digest_bytes(b"abc")
    assert digest_bytes(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
