"""The bundled sample, indexed once, and questions about it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.commands import ROOT, json_lines
from support.sample_index import copy_sample_index

from branchrank import Workspace

SAMPLE = ROOT / "data" / "sample"
#: A distance below which most queries keep some chunks and lose others.
GREP_THRESHOLD = 1.4


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a workspace over the bundled sample."""
    data_dir = copy_sample_index(tmp_path_factory, tmp_path_factory.mktemp("sample") / "data")
    settings = {"grep.vector_score_threshold": GREP_THRESHOLD, "index.token_vectors": "int8"}
    Workspace.build(SAMPLE / "corpus", data_dir, embedder="all-MiniLM-L6-v2", settings=settings).close()
    return data_dir


@pytest.fixture(scope="session")
def questions() -> list[str]:
    """Eight of the sample's questions."""
    texts = [line["question"] for line in json_lines(SAMPLE / "questions.jsonl")]
    return random.Random(30).sample(texts, 8)
