"""Opening an index reads no records and no contents of files, and yet notices every change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.commands import invoke
from support.small_corpus import small_workspace

from branchrank.errors import ArtifactError
from branchrank.index import build_index, open_index, records_file, stamps
from branchrank.index.workspace_folder import WorkspaceFolder


@pytest.fixture
def workspace(tmp_path: Path) -> WorkspaceFolder:
    workspace = small_workspace(tmp_path)
    build_index(workspace).close()
    return workspace


def flip(path: Path) -> None:
    """Change one byte, and set the times of the content back."""
    before = path.stat()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_no_record_is_decoded_until_it_is_asked_for(
    workspace: WorkspaceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded = []
    original = records_file.RecordsFile._decoded

    def counting(self: records_file.RecordsFile, line: bytes, row: int) -> object:
        decoded.append(row)
        return original(self, line, row)

    monkeypatch.setattr(records_file.RecordsFile, "_decoded", counting)
    with open_index(workspace) as index:
        found = index.bm25_chunks.search("limescale", 3)
        found += index.vectors.search(index.embedder.embed_query("limescale"), 3)
        assert len(found) > 3
        assert decoded == []
        assert index.chunks[found[0].key].id == found[0].key
        assert len(decoded) == 1


def test_an_unchanged_file_is_not_read_again(
    workspace: WorkspaceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stamps, "digest_stream", lambda stream: pytest.fail("a file was read"))
    open_index(workspace).close()


def test_a_changed_byte_is_noticed_even_with_its_old_times(workspace: WorkspaceFolder) -> None:
    with open_index(workspace) as index:
        names = list(index.manifest.digests)
        directory = index.directory
    for name in names:
        content = (directory / name).read_bytes()
        flip(directory / name)
        with pytest.raises(ArtifactError, match="is damaged"):
            open_index(workspace)
        (directory / name).write_bytes(content)
    open_index(workspace).close()


def test_check_reads_files_that_have_a_stamp(workspace: WorkspaceFolder) -> None:
    data = workspace.data_dir
    words = ("check", "--data-dir", data, "--embedder", workspace.index_settings.embedder)
    whole = invoke(*words)
    assert whole.exit_code == 0, whole.output
    assert "as they were built" in whole.output
    with open_index(workspace) as index:
        directory, names = index.directory, list(index.manifest.digests)
    flip(directory / "vectors.npy")
    stamps.write_stamps(directory, names)  # as if the disk had changed it, below the file system
    open_index(workspace).close()
    damaged = invoke(*words)
    assert damaged.exit_code == 4, damaged.output
    assert "vectors.npy is damaged" in damaged.output
