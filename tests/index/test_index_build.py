"""Building and opening an index: what it holds, when it is stale, what a rebuild costs."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from support.small_corpus import PAGES, reopened, small_workspace
from support.worlds import write_pages

from branchrank.core.errors import ArtifactError
from branchrank.core.io.files import write_jsonl
from branchrank.core.settings import IndexSettings, settings_of
from branchrank.index.embedders.protocol import MODEL
from branchrank.index.index_build import build_index
from branchrank.index.reader import Index, fts5_name, open_index, searches_exactly
from branchrank.index.stores.analyzer import embedded_text
from branchrank.index.stores.vectors import EXACT_UP_TO


def rewrite(path: Path, text: str) -> None:
    """Change a file and make sure that its modification time changes too."""
    before = path.stat().st_mtime_ns
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(before + 10**9, before + 10**9))


def answers(index: Index) -> tuple[object, ...]:
    query = "loose lid and limescale"
    return (
        index.vectors.search(index.embedder.embed_query(query), 5),
        index.bm25_chunks.search(query, 5),
        index.bm25_nodes.search(query, 5),
        tuple(index.tree.nodes.values()),
    )


def test_an_index_contains_the_corpus(tmp_path: Path) -> None:
    workspace = small_workspace(tmp_path)
    with build_index(workspace) as index:
        assert {chunk.source for chunk in index.chunks.values()} == set(PAGES)
        assert tuple(index.vectors.ids) == tuple(index.chunks) == tuple(index.bm25_chunks.ids)
        assert index.manifest.documents == 3
        assert index.manifest.chunks == len(index.chunks)
        assert index.manifest.nodes == len(index.tree.nodes)
        assert index.report.embedded == len(index.chunks)
        assert index.report.reused == 0
        (first, *_) = index.chunks.values()
        expected = index.embedder.embed_documents([embedded_text(first)])[0]
        assert np.array_equal(index.vectors.vector(first.id), expected)
        for node in index.tree.sections:
            assert all(chunk.node_id == node.id for chunk in index.chunks_of(node.id))
        assert index.chunks_of(index.tree.root.id) == ()
        assert sum(len(index.chunks_of(node.id)) for node in index.tree.sections) == len(index.chunks)
        assert index.bm25_chunks.search("fuse", 1)[0].key.startswith("guide/repair.rst")


@pytest.mark.parametrize("tokens", [40, 255, 256])
def test_all_embedders_that_read_256_tokens_get_the_same_chunks(tmp_path: Path, tokens: int) -> None:
    words = "\n".join(f"word{number % 97} goes here." for number in range(120))
    write_pages(tmp_path / "docs", {**PAGES, "long.md": f"# Long\n\n{words}\n"})
    found = []
    for kind in ("none", "fake:16", MODEL):
        kept = {"embedder": kind, "chunk_tokens": tokens, "token_vectors": "none"}
        with build_index(small_workspace(tmp_path, **kept)) as index:
            found.append([*index.chunks.values()])
            assert index.manifest.embedder.chunk_tokens(512) == (254 if kind == MODEL else 510)
    assert found[0] == found[1] == found[2]
    assert len(found[0]) > len(PAGES) + 2


def resident(path: Path) -> int:
    """The KiB of a mapped file that are in this process's memory."""
    kib = mapped = 0
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines():
        name, _, rest = line.partition(" ")
        if not name.endswith(":"):
            mapped = line.endswith(f" {path}")
        elif mapped and name == "Rss:":
            kib += int(rest.split()[0])
    return kib


def test_a_pass_over_all_records_keeps_no_memory(tmp_path: Path) -> None:
    with build_index(small_workspace(tmp_path)) as index:
        path = index.chunks.path.resolve()
        passing = index.chunks.stream()
        first = next(passing)
        assert resident(path) > 0
        rest = list(passing)
        assert resident(path) == 0
        assert [first, *rest] == list(index.chunks.values())


def test_the_fixed_names_lead_to_the_default_index(tmp_path: Path) -> None:
    workspace = small_workspace(tmp_path)
    build_index(workspace).close()
    data = tmp_path / "data"
    with open_index(workspace) as index:
        assert (data / "chunks.jsonl").resolve() == index.directory.resolve() / "chunks.jsonl"
        assert (data / "pageindex" / "nodes.jsonl").exists()
        other = reopened(tmp_path, index__embedder="fake:8")
        build_index(other).close()
        assert (data / "chunks.jsonl").resolve().is_relative_to(index.directory.resolve())
    assert len(workspace.index_names) == 2


def test_two_builds_write_the_same_bytes(tmp_path: Path) -> None:
    trees = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        with build_index(small_workspace(folder)) as index:
            files = (path for path in index.directory.rglob("*") if path.is_file())
            trees.append(
                {
                    path.relative_to(index.directory): path.read_bytes()
                    for path in files
                    if path.name not in ("build.json", "modified.json", "stamps.json")
                }
            )
    assert trees[0].keys() == trees[1].keys()
    assert trees[0] == trees[1]


def test_an_up_to_date_index_is_not_rebuilt(tmp_path: Path) -> None:
    workspace = small_workspace(tmp_path)
    with build_index(workspace) as first, build_index(workspace) as second:
        assert first.directory == second.directory
    with build_index(workspace, force=True) as third:
        assert third.directory != first.directory
        assert third.report.embedded == 0


def test_only_changed_content_makes_the_index_stale(tmp_path: Path) -> None:
    workspace = small_workspace(tmp_path)
    build_index(workspace).close()
    page = tmp_path / "docs" / "guide" / "descale.md"
    rewrite(page, page.read_text())
    open_index(workspace).close()
    page.unlink()
    with pytest.raises(ArtifactError, match="is gone"):
        open_index(workspace)
    open_index(workspace, check_corpus=False).close()


def test_an_exclude_is_part_of_the_index(tmp_path: Path) -> None:
    workspace = small_workspace(tmp_path)
    build_index(workspace).close()
    config = tmp_path / "data" / "branchrank.toml"
    config.write_text('exclude = ["guide"]\n' + config.read_text())
    with pytest.raises(ArtifactError, match=r"exclude = \[\], not \['guide'\]"):
        open_index(reopened(tmp_path))
    with build_index(reopened(tmp_path)) as index:
        assert {chunk.source for chunk in index.chunks.values()} == {"index.md"}


def test_an_index_of_another_model_or_size_is_not_used(tmp_path: Path) -> None:
    workspace = small_workspace(tmp_path)
    build_index(workspace).close()
    other = reopened(tmp_path, index__embedder="fake:8")
    (tmp_path / "data" / "indexes" / "unfinished").mkdir()
    with pytest.raises(ArtifactError, match=r"fake:8 \(its indexes: fake-[\w-]+\)") as caught:
        open_index(other)
    assert "--embedder fake:8" in caught.value.remedy
    with build_index(other) as index:
        assert index.manifest.embedder.dimension == 8


def test_a_model_that_changed_under_its_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = small_workspace(tmp_path)
    build_index(workspace).close()
    from branchrank.index.embedders.fake import FakeEmbedder

    original = FakeEmbedder.__init__

    def changed(self: FakeEmbedder, dimension: int) -> None:
        import msgspec

        original(self, dimension)
        self.identity = msgspec.structs.replace(self.identity, revision="2")

    monkeypatch.setattr(FakeEmbedder, "__init__", changed)
    with open_index(workspace) as index, pytest.raises(ArtifactError, match="revision='2'"):
        _ = index.embedder
    with build_index(workspace) as index:
        assert index.manifest.embedder.revision == "2"
        assert index.report.reused == 0


def test_bm25_settings_need_no_embedding(tmp_path: Path) -> None:
    build_index(small_workspace(tmp_path)).close()
    with open_index(reopened(tmp_path, bm25__k1=2.0)) as index:
        derived = index.bm25_chunks
        assert derived.settings.k1 == 2.0
        kept = {path.parent.name for path in index.directory.glob("bm25/*/chunks.arrays")}
        assert len(kept) == 2
    with open_index(reopened(tmp_path, bm25__k1=2.0)) as index:
        assert index.bm25_chunks.search("lid", 3) == derived.search("lid", 3)
    with open_index(reopened(tmp_path)) as index:
        assert index.bm25_chunks.settings.k1 != 2.0


def test_damaged_derived_weights_are_recomputed(tmp_path: Path) -> None:
    build_index(small_workspace(tmp_path)).close()
    with open_index(reopened(tmp_path, bm25__b=0.1)) as index:
        before = index.bm25_nodes.search("lid", 3)
        written = set(index.directory.glob("bm25/*/nodes.arrays"))
        for path in written - {index.directory / name for name in index.manifest.digests}:
            path.write_bytes(b"damaged")
    with open_index(reopened(tmp_path, bm25__b=0.1)) as index:
        assert index.bm25_nodes.search("lid", 3) == before


def test_the_fts5_file_is_created_once_and_made_again_when_damaged(tmp_path: Path) -> None:
    with build_index(small_workspace(tmp_path)) as index:
        index.open_fts5().close()
        path = index.directory / fts5_name(index.bm25_settings)
        content, modified = path.read_bytes(), path.stat().st_mtime_ns
        index.open_fts5().close()
        assert path.stat().st_mtime_ns == modified
        for damaged in (content[: len(content) // 2], b"", content[:-1] + bytes([content[-1] ^ 1])):
            path.write_bytes(damaged)
            index.open_fts5().close()
            assert path.read_bytes() == content


def test_chroma_holds_the_same_vectors(tmp_path: Path) -> None:
    workspace = small_workspace(tmp_path, vector_store="chroma")
    with build_index(workspace) as index:
        assert index.vector_store == "chroma"
        query = index.embedder.embed_query("limescale")
        assert index.vectors.search(query, 4) == index.exact_vectors.search(query, 4)
        assert (tmp_path / "data" / "chroma" / "chroma.sqlite3").exists()
        (data,) = index.directory.glob("chroma/*/data_level0.bin")
    content = bytearray(data.read_bytes())
    content[200] ^= 1
    data.write_bytes(content)
    with pytest.raises(ArtifactError, match="data_level0"):
        open_index(workspace)
    with open_index(reopened(tmp_path, index__vector_store="exact")) as index:
        assert index.vector_store == "exact"
    build_index(workspace).close()
    open_index(workspace).close()


def test_a_missing_collection_is_reported(tmp_path: Path) -> None:
    build_index(small_workspace(tmp_path)).close()
    with pytest.raises(ArtifactError, match="location none, not embedded"):
        open_index(reopened(tmp_path, index__vector_store="chroma"))
    open_index(reopened(tmp_path, index__vector_store="auto")).close()


def test_a_reader_keeps_the_generation_that_it_opened(tmp_path: Path) -> None:
    workspace = small_workspace(tmp_path)
    reader = build_index(workspace)
    expected = answers(reader)
    for number in range(3):
        rewrite(tmp_path / "docs" / "index.md", f"# Kettle {number}\n\nOther text {number}.\n")
        build_index(workspace).close()
    names = {path.name for path in workspace.generations.directory.iterdir() if not path.is_symlink()}
    assert names == {reader.directory.name, "000003", "000004"}
    with open_index(workspace, check_corpus=False) as current:
        assert answers(current) != expected
    del reader.__dict__["vectors"]
    assert answers(reader) == expected
    reader.close()
    build_index(workspace, force=True).close()
    assert not reader.directory.exists()


class TestGivenFiles:
    """Chunks and nodes of the user's own."""

    @staticmethod
    def write(folder: Path, **changes: object) -> Path:
        path = folder / "mine.jsonl"
        record = {
            "id": "m1",
            "source": "index.md",
            "line_start": 3,
            "line_end": 6,
            "text": "The kettle boils water. Safety.",
            "score": 1,
        }
        other = {"id": "m2", "source": "guide/repair.rst", "line_start": 4, "line_end": 4, "text": "fuse"}
        write_jsonl(path, [record | changes, other])
        return path

    @staticmethod
    def use(folder: Path, key: str, path: Path) -> None:
        config = folder / "data" / "branchrank.toml"
        config.write_text(f'{key} = "{path}"\n' + config.read_text())

    def test_chunks_map_onto_nodes_by_their_lines(self, tmp_path: Path) -> None:
        small_workspace(tmp_path)
        self.use(tmp_path, "chunks", self.write(tmp_path))
        with build_index(reopened(tmp_path)) as index:
            assert list(index.chunks) == ["m1", "m2"]
            assert [chunk.id for chunk in index.chunks_of("index.md")] == ["m1"]
            assert [chunk.id for chunk in index.chunks_of("index.md#safety")] == ["m1"]
            assert index.chunks["m1"].breadcrumb == "Kettle"
        (tmp_path / "mine.jsonl").write_text(
            (tmp_path / "mine.jsonl").read_text().replace("fuse", "another fuse")
        )
        with pytest.raises(ArtifactError, match="`chunks`"):
            open_index(reopened(tmp_path))

    def test_a_file_under_a_fixed_name_is_never_replaced(self, tmp_path: Path) -> None:
        workspace = small_workspace(tmp_path)
        path = tmp_path / "data" / "chunks.jsonl"
        content = self.write(tmp_path).read_bytes()
        path.write_bytes(content)
        with pytest.raises(ArtifactError, match=r"chunks\.jsonl") as caught:
            build_index(workspace)
        assert caught.value.remedy.startswith("branchrank adopt ")
        self.use(tmp_path, "chunks", Path("chunks.jsonl"))
        with build_index(reopened(tmp_path)) as index:
            assert list(index.chunks) == ["m1", "m2"]
        assert path.read_bytes() == content
        assert not path.is_symlink()


def test_auto_searches_exactly_up_to_the_crossover() -> None:
    auto, exact, chroma = (IndexSettings(vector_store=name) for name in ("auto", "exact", "chroma"))
    assert searches_exactly(auto, EXACT_UP_TO)
    assert not searches_exactly(auto, EXACT_UP_TO + 1)
    assert searches_exactly(exact, 10**9)
    assert not searches_exactly(chroma, 1)
    (vector_store,) = [entry for entry in settings_of(IndexSettings) if entry.name == "vector_store"]
    assert f"up to {EXACT_UP_TO:,} chunks" in vector_store.description
