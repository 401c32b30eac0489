"""Token vectors in the workspace's cache, and the embedders that give them."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.counting import TEXTS, Counting

from branchrank.index.embedders.cache import TokenCache
from branchrank.index.embedders.fake import FakeEmbedder
from branchrank.index.maxsim import quantize


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "tokens.sqlite3"


@pytest.fixture
def cache(path: Path) -> Iterator[TokenCache]:
    opened = TokenCache(path)
    yield opened
    opened.close()


def test_a_document_is_embedded_once(path: Path, cache: TokenCache) -> None:
    embedder = Counting()
    first = cache.document_tokens(embedder, [*TEXTS, TEXTS[0]])
    assert embedder.asked == TEXTS
    again = TokenCache(path)
    second = again.document_tokens(embedder, [TEXTS[3], "a new text", TEXTS[0]])
    again.close()
    assert embedder.asked == [*TEXTS, "a new text"]
    expected = [quantize(rows, "int8") for rows in FakeEmbedder().embed_documents_and_tokens(TEXTS).tokens]
    for found, vectors in zip(
        [*first, second[0], second[2]], [*expected, expected[0], expected[3], expected[0]], strict=True
    ):
        assert np.array_equal(found.values, vectors.values)
        assert np.array_equal(found.scales, vectors.scales)


def test_the_file_stays_below_its_limit_by_evicting_the_oldest_rows(path: Path) -> None:
    limit = 200_000
    cache = TokenCache(path, limit_bytes=limit)
    embedder = Counting(256)
    texts = [f"number {number} " + "route " * 20 for number in range(120)]  # about 5.6 kB each
    for start in range(0, 120, 10):
        cache.document_tokens(embedder, texts[start : start + 10])
    assert len(embedder.asked) == 120
    cache.document_tokens(embedder, texts[-10:])
    assert len(embedder.asked) == 120  # the newest are there
    cache.document_tokens(embedder, texts[:10])
    assert len(embedder.asked) == 130  # the oldest are not
    cache.close()
    assert path.stat().st_size <= limit + 8192
