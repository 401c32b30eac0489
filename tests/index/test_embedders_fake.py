import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from branchrank.core.errors import UsageError
from branchrank.core.settings import IndexSettings
from branchrank.index.embedders import open_embedder
from branchrank.index.embedders.fake import FakeEmbedder


def test_shared_words_make_texts_similar() -> None:
    embedder = FakeEmbedder(256)
    documents = embedder.embed_documents(
        ["Configuring the routes of a service", "How to bake bread", "Routing: configure a route"]
    )
    scores = documents @ embedder.embed_query("configure routing")
    assert scores[2] > scores[0] > scores[1]


def test_inflected_words_get_the_same_vector() -> None:
    embedder = FakeEmbedder()
    assert np.array_equal(embedder.embed_query("connected"), embedder.embed_query("Connecting"))


@settings(max_examples=40, derandomize=True)
@given(st.lists(st.text(), max_size=5), st.sampled_from([2, 64, 300]))
def test_every_text_has_a_unit_row_of_its_own(texts: list[str], dimension: int) -> None:
    embedder = FakeEmbedder(dimension)
    rows = embedder.embed_documents(texts)
    assert rows.shape == (len(texts), dimension)
    assert rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    for text, row in zip(texts, rows, strict=True):
        assert np.array_equal(row, embedder.embed_query(text))


def test_another_process_gives_the_same_bytes() -> None:
    code = (
        "import sys; from branchrank.index.embedders.fake import FakeEmbedder;"
        "sys.stdout.write(FakeEmbedder().embed_query('parse the route').tobytes().hex())"
    )
    environment = {"PYTHONHASHSEED": "7"}
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert result.stdout == FakeEmbedder().embed_query("parse the route").tobytes().hex()


@pytest.mark.parametrize("name", ["fake:many", "fake:1", "fake:-3"])
def test_a_wrong_dimension_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="dimension"):
        open_embedder(IndexSettings(embedder=name))
