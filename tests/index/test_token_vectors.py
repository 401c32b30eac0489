"""Token vectors that an index keeps: what is written, reused, checked and refused."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from support.small_corpus import reopened, small_workspace

from branchrank.core.errors import ArtifactError
from branchrank.index.embedders import token_embedder
from branchrank.index.index_build import build_index
from branchrank.index.maxsim import TokenPrecision, TokenVectors, quantize
from branchrank.index.reader import TOKENS, Index, open_index
from branchrank.index.stores.analyzer import embedded_text


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


def test_vectors_of_another_precision_or_model_are_not_copied(tmp_path: Path) -> None:
    build_index(small_workspace(tmp_path, token_vectors="int8")).close()
    workspace = reopened(tmp_path, index__token_vectors="fp16")
    with build_index(workspace) as index:
        assert index.report.token_texts == len(index.chunks)
        assert index.report.embedded == 0
        assert_kept(index, "fp16")


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
