"""Symbolic links in a workspace that someone else made: nothing outside it is deleted or written."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from support.small_corpus import reopened, small_workspace

from branchrank.core.errors import ArtifactError, StorageError
from branchrank.core.io.files import links_beneath, remove_beneath, write_beneath
from branchrank.core.settings import LLMSettings
from branchrank.index.embedders.cache import open_cache
from branchrank.index.index_build import build_index
from branchrank.index.reader import bm25_name, open_index
from branchrank.search.llm.session import LLMSession


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder with a file that must stay, named like what BranchRank deletes."""
    for name in ("000001", "000009"):
        (tmp_path / "outside" / name).mkdir(parents=True)
        (tmp_path / "outside" / name / "kept.txt").write_text("kept")
    return tmp_path / "outside"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_link_in_place_of_the_indexes_does_not_delete_files_outside(tmp_path: Path, outside: Path) -> None:
    workspace = small_workspace(tmp_path)
    workspace.generations.directory.parent.mkdir(parents=True)
    workspace.generations.directory.symlink_to(outside)
    before = contents(outside)
    with pytest.raises(ArtifactError, match="symbolic link"):
        build_index(workspace)
    assert contents(outside) == before


def test_a_link_in_place_of_a_generation_does_not_delete_files_outside(tmp_path: Path, outside: Path) -> None:
    workspace = small_workspace(tmp_path)
    workspace.generations.directory.mkdir(parents=True)
    (workspace.generations.directory / "000007").symlink_to(outside)
    before = contents(outside)
    build_index(workspace).close()
    assert contents(outside) == before


def test_a_link_in_place_of_bm25_weights_does_not_delete_files_outside(tmp_path: Path, outside: Path) -> None:
    build_index(small_workspace(tmp_path)).close()
    workspace = reopened(tmp_path, bm25__k1=2.0)
    generation = (workspace.generations.directory / "current").resolve()
    inside = (generation / bm25_name("chunks", workspace.bm25_settings)).parent
    (outside / "chunks").mkdir()
    (outside / "chunks" / "kept.txt").write_text("kept")
    inside.symlink_to(outside)
    before = contents(outside)
    with pytest.raises(ArtifactError, match="symbolic link"), open_index(workspace) as index:
        _ = index.bm25_chunks
    assert contents(outside) == before


@pytest.mark.parametrize("name", [".build.lock", "hybrid", "hybrid/cache", "hybrid/cache/embeddings.sqlite3"])
def test_nothing_is_written_through_a_link(tmp_path: Path, outside: Path, name: str) -> None:
    workspace = small_workspace(tmp_path)
    link = workspace.data_dir / name
    shutil.rmtree(link, ignore_errors=True)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside / "000001" / "kept.txt" if "." in link.name else outside)
    before = contents(outside)
    with pytest.raises(ArtifactError, match="symbolic link"):
        build_index(workspace)
    assert contents(outside) == before


def test_the_collection_of_another_server_is_not_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A generation that someone else made may name any server."""
    dropped: list[str] = []
    monkeypatch.setattr(
        "branchrank.index.stores.chroma.drop_collection", lambda url, name: dropped.append(url)
    )
    workspace = small_workspace(tmp_path)
    build_index(workspace).close()
    manifest = (workspace.generations.directory / "current").resolve() / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"embedded"', '"http://127.0.0.1:1"'))
    for _ in range(3):
        build_index(workspace, force=True).close()
    assert not manifest.exists()
    assert dropped == []


def test_files_are_written_and_removed_below_a_folder_only(tmp_path: Path, outside: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    write_beneath(root, "a/b/file.txt", b"text")
    (root / "link").symlink_to(outside)
    (root / "a" / "file").symlink_to(outside / "000001" / "kept.txt")
    before = contents(outside)
    for path in ("link/000001", "link/new.txt", "../outside/000001", "/etc", "a/../../outside"):
        with pytest.raises(PermissionError):
            remove_beneath(root, path)
        with pytest.raises(PermissionError):
            write_beneath(root, path, b"")
    assert sorted(links_beneath(root)) == [root / "a" / "file", root / "link"]
    write_beneath(root, "a/file", b"replaces the link")
    remove_beneath(root, "link")
    remove_beneath(root, "a/b")
    remove_beneath(root, "missing/file")
    assert contents(root) == {"a/file": b"replaces the link"}
    assert contents(outside) == before


@pytest.mark.parametrize("part", ["hybrid", "hybrid/cache", "hybrid/cache/embeddings.sqlite3"])
def test_a_cache_is_not_used_through_a_link(tmp_path: Path, outside: Path, part: str) -> None:
    notices: list[str] = []
    workspace = small_workspace(tmp_path)
    build_index(workspace).close()
    (workspace.data_dir / part).rename(outside / "moved")
    (workspace.data_dir / part).symlink_to(outside / "moved")
    before = contents(outside)
    place = workspace.cache_directory / "embeddings.sqlite3"
    cache = open_cache(place, root=workspace.data_dir, notify=notices.append)
    cache.put_many({"a": np.ones(3, dtype=np.float32)})
    cache.close()
    assert any("not cached" in notice for notice in notices)
    assert contents(outside) == before


def test_decisions_are_not_stored_through_a_link(tmp_path: Path, outside: Path) -> None:
    place = tmp_path / "workspace" / "hybrid" / "cache" / "decisions.sqlite"
    place.parent.parent.mkdir(parents=True)
    place.parent.symlink_to(outside)
    with pytest.raises(StorageError, match="symbolic links"):
        LLMSession(LLMSettings(), cache_path=place, environment={})
    assert not (outside / "decisions.sqlite").exists()
