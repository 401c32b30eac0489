"""Chroma and exact search give the same rows over the questions of a whole documentation set."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from branchrank import Workspace
from branchrank.index.stores.chroma import ChromaVectors, build_collection
from branchrank.index.stores.vectors import ExactVectors, recall_against_exact

# One process builds the index of the fixture ``symfony``.
pytestmark = [pytest.mark.corpora, pytest.mark.xdist_group("symfony")]

QUESTIONS = Path(__file__).parents[2].parent / "shared" / "questions" / "symfony-dev.jsonl"


@pytest.fixture
def data_dir(symfony: Path) -> Path:
    return symfony / "data"


def test_rows_are_the_same(data_dir: Path, tmp_path: Path) -> None:
    rows = {}
    for store in ("chroma", "exact"):
        with Workspace.open(data_dir, settings={"index.vector_store": store}) as workspace:
            run = workspace.benchmark(
                ["local", "hybrid", "dense"],
                questions=QUESTIONS,
                latency_sample=0,
                settings={"hybrid.no_llm": True},
                reports=tmp_path / store,
            )
        (index,) = json.loads((run.directory / "run.json").read_text())["indexes"]
        assert index["vector_store"] == store
        rows[store] = (run.directory / "rows.jsonl").read_bytes()
    assert rows["chroma"] == rows["exact"] != b""


@pytest.mark.parametrize("build", range(3))
def test_every_build_finds_all_neighbors(data_dir: Path, tmp_path: Path, build: int) -> None:
    """Graphs differ from build to build; what they find must not."""
    questions = [json.loads(line)["question"] for line in QUESTIONS.read_text().splitlines()]
    with Workspace.open(data_dir, settings={"index.vector_store": "exact"}) as workspace:
        index = workspace.index
        vectors = [index.embedder.embed_query(question) for question in questions]
        ids = tuple(index.chunks)
        matrix = np.stack([index.exact_vectors.vector(key) for key in ids])
        build_collection(tmp_path / "chroma", "vectors", ExactVectors(ids, matrix))
        store = ChromaVectors(tmp_path / "chroma", "vectors", ExactVectors(ids, matrix))
        for depth in (40, 80, 100):
            assert recall_against_exact(store, index.exact_vectors, vectors, depth) == 1.0
        store.close()
