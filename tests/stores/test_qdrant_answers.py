"""What a Qdrant server may answer: bounded in size, never decompressed."""

from __future__ import annotations

import gzip
import tracemalloc

import numpy as np
import pytest
from support.fake_qdrant import fake_qdrant

from branchrank.errors import ArtifactError
from branchrank.settings import QdrantSettings
from branchrank.stores.qdrant import own_layout, served_collection

BOMB = gzip.compress(b"[" * (100 << 20), 9)


@pytest.mark.parametrize(("answer", "encoding"), [(BOMB, "gzip"), (b"[" * (65 << 20), "")])
def test_a_decompression_bomb_is_an_error_and_uses_little_memory(answer: bytes, encoding: str) -> None:
    with fake_qdrant() as server:
        collection = served_collection("docs", own_layout(4), QdrantSettings(url=server.url))
        server.answer, server.encoding = answer, encoding
        tracemalloc.start()
        try:
            with pytest.raises(ArtifactError, match="Qdrant server"):
                collection.dense(np.ones(4, dtype=np.float32) / 2, 3)
            assert tracemalloc.get_traced_memory()[1] < 90 << 20
        finally:
            tracemalloc.stop()
            collection.close()
