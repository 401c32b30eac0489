"""Late interaction in Qdrant: its multivector MaxSim gives the scores of our own, wherever the points are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from support.fake_qdrant import fake_qdrant

from branchrank.core.settings import QdrantSettings
from branchrank.index.embedders.protocol import Vectors
from branchrank.index.maxsim import maxsim, quantize, unit_tokens
from branchrank.index.stores import qdrant_engines
from branchrank.index.stores.qdrant_store import (
    Point,
    QdrantCollection,
    embedded_collection,
    own_layout,
    served_collection,
)

pytestmark = pytest.mark.filterwarnings("ignore:Local mode")
WIDTH = 24
LAYOUT = own_layout(8, token_dimension=WIDTH)
PLACES = ("embedded", "fake server", "local mode")


def unit(*shape: int, seed: int) -> Vectors:
    rows = np.random.default_rng(seed).normal(size=shape)
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


@pytest.fixture
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], QdrantCollection]]:
    """A function that makes a collection with multivectors, at the place that the parameter names."""
    with ExitStack() as opened:
        if request.param == "embedded":
            yield lambda: embedded_collection(tmp_path / "shard", LAYOUT)
            return
        url = "http://127.0.0.1:6333"
        if request.param == "fake server":
            url = opened.enter_context(fake_qdrant()).url
        else:
            use_local_mode(monkeypatch)
        yield lambda: served_collection("docs", LAYOUT, QdrantSettings(url=url))


def use_local_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let qdrant-client's local mode take the place of a server, in memory."""
    import qdrant_client

    client = qdrant_client.QdrantClient(":memory:")
    monkeypatch.setattr(client, "close", lambda: None)
    monkeypatch.setattr(qdrant_engines, "connect", lambda url: client)


@pytest.mark.parametrize("place", PLACES, indirect=True)
@pytest.mark.parametrize("precision", ["int8", "fp16"])
def test_qdrants_maxsim_matches_ours(place: Callable[[], QdrantCollection], precision: str) -> None:
    documents = [quantize(unit(count, WIDTH, seed=count), precision) for count in (1, 2, 7, 40, 3)]
    collection = place()
    vectors = unit(len(documents) + 1, 8, seed=0)
    points = [
        Point(key=f"k{n}", vector=vectors[n], text="", payload={}, tokens=unit_tokens(tokens))
        for n, tokens in enumerate(documents)
    ]
    bare = Point(key="bare", vector=vectors[-1], text="", payload={}, tokens=np.zeros((0, WIDTH), np.float32))
    collection.upsert([*points, bare])
    for count in (1, 5, 30):
        query = quantize(unit(count, WIDTH, seed=100 + count), precision)
        found = collection.maxsim(unit_tokens(query), ["k4", "k0", "k2", "bare"])
        expected = maxsim(query, [documents[4], documents[0], documents[2]])
        assert found.keys() == {"k4", "k0", "k2"}
        assert [found[key] for key in ("k4", "k0", "k2")] == pytest.approx(expected, abs=1e-5)
    assert collection.maxsim(np.zeros((0, WIDTH), np.float32), ["k0"]) == {}
    assert collection.maxsim(unit_tokens(query), []) == {}
    collection.close()
