"""Token vectors that an index keeps: what is written, reused, checked and refused."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from support.small_corpus import reopened, small_workspace

from branchrank.embedders import DocumentVectors, FakeEmbedder, Vectors, token_embedder
from branchrank.errors import ArtifactError
from branchrank.index.build import build_index
from branchrank.index.reader import TOKENS, Index, open_index
from branchrank.io.progress import Progress, no_progress
from branchrank.ranking.maxsim import TokenPrecision, TokenVectors, quantize
from branchrank.stores.analyzer import embedded_text


def computed(index: Index, precision: TokenPrecision) -> list[TokenVectors]:
    texts = [embedded_text(chunk) for chunk in index.chunks.values()]
    rows = token_embedder(index.embedder, "fake").embed_documents_and_tokens(texts).tokens
    return [quantize(each, precision) for each in rows]


def rewrite(path: Path, text: str) -> None:
    before = path.stat().st_mtime_ns
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(before + 10**9, before + 10**9))


def assert_kept(index: Index, precision: TokenPrecision) -> None:
    kept = index.token_vectors
    assert kept is not None
    for chunk, expected in zip(index.chunks, computed(index, precision), strict=True):
        found = kept.vectors(chunk)
        assert found.values.dtype == expected.values.dtype
        assert np.array_equal(found.values, expected.values)
        assert np.array_equal(found.scales, expected.scales)


@pytest.mark.parametrize("precision", ["int8", "fp16"])
def test_an_index_keeps_the_token_vectors_of_its_chunks(tmp_path: Path, precision: TokenPrecision) -> None:
    workspace = small_workspace(tmp_path, token_vectors=precision)
    with build_index(workspace) as index:
        assert_kept(index, precision)
        assert index.report.token_texts == len(index.chunks)
    with open_index(workspace) as index:
        assert_kept(index, precision)


def test_unchanged_chunks_are_copied_from_the_index_in_use(tmp_path: Path) -> None:
    workspace = small_workspace(tmp_path, token_vectors="int8")
    build_index(workspace).close()
    page = tmp_path / "docs" / "index.md"
    rewrite(page, page.read_text().replace("hot plate", "very hot plate"))
    with build_index(workspace) as index:
        assert index.is_new
        assert index.report.token_texts == 1
        assert_kept(index, "int8")
    (tmp_path / "docs" / "copy.md").write_text(page.read_text())  # the same texts
    with build_index(workspace) as index:
        assert index.is_new
        assert index.report.token_texts == 0
        assert_kept(index, "int8")


def test_equal_texts_are_embedded_once(tmp_path: Path) -> None:
    workspace = small_workspace(tmp_path, token_vectors="int8")
    for name in ("a", "b"):
        page = tmp_path / "docs" / name / "same.md"
        page.parent.mkdir()
        page.write_text("# Same\n\nThe same words.\n")
    with build_index(workspace) as index:
        texts = {embedded_text(chunk) for chunk in index.chunks.values()}
        assert index.report.token_texts == len(texts)
        assert_kept(index, "int8")


class Watched(FakeEmbedder):
    """Notes which texts are embedded with their tokens and which without."""

    def __init__(self) -> None:
        super().__init__(16)
        self.with_tokens: list[str] = []
        self.without: list[str] = []

    def embed_documents(self, texts: Sequence[str], progress: Progress = no_progress) -> Vectors:
        self.without += texts
        return FakeEmbedder(16).embed_documents(texts, progress)

    def embed_query(self, text: str) -> Vectors:
        return FakeEmbedder(16).embed_query(text)

    def embed_documents_and_tokens(
        self, texts: Sequence[str], progress: Progress = no_progress
    ) -> DocumentVectors:
        self.with_tokens += texts
        return FakeEmbedder(16).embed_documents_and_tokens(texts, progress)


def test_the_model_runs_once_for_a_chunks_vector_and_its_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with build_index(small_workspace(tmp_path / "plain")) as plain:
        expected = plain.manifest.digests["vectors.arrays"]
    watched = Watched()
    monkeypatch.setattr("branchrank.index.build.open_embedder", lambda settings, notify: watched)
    workspace = small_workspace(tmp_path / "kept", token_vectors="int8")
    seen: list[tuple[str, int, int]] = []
    with build_index(workspace, progress=lambda *at: seen.append(at)) as index:
        texts = [embedded_text(chunk) for chunk in index.chunks.values()]
        assert index.manifest.digests["vectors.arrays"] == expected
        assert (index.report.embedded, index.report.token_texts) == (len(texts), len(texts))
    assert (watched.with_tokens, watched.without) == (texts, [])
    assert ("tokens", len(texts), len(texts)) in seen
    rewrite(tmp_path / "kept" / "docs" / "index.md", "# Other\n\nNew words.\n")
    with build_index(workspace) as index:
        assert (index.report.embedded, index.report.token_texts) == (1, 1)
    assert (len(watched.with_tokens), watched.without) == (len(texts) + 1, [])
    with build_index(reopened(tmp_path / "kept", index__token_vectors="none")) as index:
        assert (index.report.embedded, index.report.token_texts) == (0, 0)  # the cache has them


def test_vectors_of_another_precision_or_model_are_not_copied(tmp_path: Path) -> None:
    build_index(small_workspace(tmp_path, token_vectors="int8")).close()
    workspace = reopened(tmp_path, index__token_vectors="fp16")
    with build_index(workspace) as index:
        assert index.report.token_texts == len(index.chunks)
        assert index.report.embedded == 0
        assert_kept(index, "fp16")


def test_two_builds_write_the_same_token_vectors(tmp_path: Path) -> None:
    workspace = small_workspace(tmp_path, token_vectors="int8")
    digests = []
    for _ in range(2):
        with build_index(workspace, force=True) as index:
            digests.append(index.manifest.digests)
    assert digests[0] == digests[1]
    assert TOKENS in digests[0]


def test_an_index_without_token_vectors_is_stale_if_they_are_required(tmp_path: Path) -> None:
    build_index(small_workspace(tmp_path)).close()
    with pytest.raises(ArtifactError) as caught:
        open_index(reopened(tmp_path, index__token_vectors="int8"))
    assert "--token-vectors int8" in (caught.value.remedy or "")


def test_unused_token_vectors_are_ignored_by_searches_and_dropped_by_builds(tmp_path: Path) -> None:
    build_index(small_workspace(tmp_path, token_vectors="int8")).close()
    without = reopened(tmp_path, index__token_vectors="none")
    with open_index(without) as index:
        assert index.token_vectors is None
        assert (index.directory / TOKENS).exists()
    with build_index(without) as index:
        assert index.is_new
        assert not (index.directory / TOKENS).exists()


def test_a_damaged_file_is_refused_at_first_use_and_rebuilt(tmp_path: Path) -> None:
    workspace = small_workspace(tmp_path, token_vectors="int8")
    with build_index(workspace) as index:
        path = index.directory / TOKENS
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))
    with open_index(workspace) as index, pytest.raises(ArtifactError, match="damaged"):
        _ = index.token_vectors
    with build_index(workspace) as index:
        assert index.is_new
        assert index.report.token_texts == len(index.chunks)
        assert_kept(index, "int8")
