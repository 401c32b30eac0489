"""Opening an index reads no records and no contents of files, and yet notices every change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.commands import invoke
from support.small_corpus import small_workspace

from branchrank.core.errors import ArtifactError
from branchrank.core.records import Scored
from branchrank.documents.tree_build import load_nodes
from branchrank.index import manifest
from branchrank.index.index_build import build_index
from branchrank.index.reader import open_index
from branchrank.index.stores.chroma import connected
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.search.ranking.expansion import expand


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


def test_the_bytes_read_to_open_an_index_do_not_grow_with_the_corpus(tmp_path: Path) -> None:
    sizes = []
    for documents in (1, 300):
        docs = tmp_path / f"docs{documents}"
        docs.mkdir()
        for number in range(documents):
            (docs / f"page{number:03}.md").write_text(f"# Page {number}\n\nText.\n")
        data = tmp_path / f"data{documents}"
        made = invoke("index", docs, "--data-dir", data, "--embedder", "none", "--quiet")
        assert made.exit_code == 0, made.output
        [manifest] = data.glob("indexes/*/000001/manifest.json")
        sizes.append(sum((manifest.parent / name).stat().st_size for name in ("manifest.json", "build.json")))
    assert sizes[1] < sizes[0] + 300


def test_a_mapped_tree_is_the_tree_of_its_nodes(workspace: WorkspaceFolder) -> None:
    with open_index(workspace) as index:
        expected = load_nodes(index.directory / "pageindex" / "nodes.jsonl")
        tree = index.tree
        assert list(tree.nodes.items()) == list(expected.nodes.items())
        assert list(tree.sections) == list(expected.sections)
        for key, node in expected.nodes.items():
            assert tree.parent(key) == expected.parent(key)
            assert tree.children(key) == expected.children(key)
            assert tree.height(key) == expected.height(key)
            if node.own_span is not None:
                assert tree.overlapping(node.own_span) == expected.overlapping(node.own_span)
                seed = [Scored(key, 1.0)]
                assert expand(seed, tree, depth=3, siblings=2) == expand(seed, expected, depth=3, siblings=2)


def test_a_changed_byte_is_detected_even_with_unchanged_timestamps(workspace: WorkspaceFolder) -> None:
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


def test_check_reads_even_files_with_a_matching_stamp(workspace: WorkspaceFolder) -> None:
    data = workspace.data_dir
    words = ("check", "--data-dir", data, "--embedder", workspace.index_settings.embedder)
    whole = invoke(*words)
    assert whole.exit_code == 0, whole.output
    assert "no damage found" in whole.output
    with open_index(workspace) as index:
        directory, names = index.directory, list(index.manifest.digests)
    flip(directory / "vectors.arrays")
    manifest.write_stamps(directory, names)  # as if the disk had changed it, below the file system
    open_index(workspace).close()
    damaged = invoke(*words)
    assert damaged.exit_code == 4, damaged.output
    assert "vectors.arrays is damaged" in damaged.output


def test_check_looks_into_the_chroma_collection(tmp_path: Path) -> None:
    workspace = small_workspace(tmp_path, vector_store="chroma")
    with build_index(workspace) as index:
        place, name, lost = index.directory / "chroma", index.report.collection, index.chunks.ids[1]
    words = ("check", "--data-dir", workspace.data_dir)
    assert "no damage found" in invoke(*words).output
    with connected(place) as client:  # one change stays in Chroma's log, and changes no file with a digest
        client.get_collection(name, embedding_function=None).delete(ids=[lost])
    damaged = invoke(*words)
    assert damaged.exit_code == 4, damaged.output
    assert f"{len(index.chunks) - 1} vectors" in damaged.output
