"""A few pages of the bundled sample, indexed once, and questions about them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.commands import json_lines
from support.sample_index import copy_few_pages

from branchrank import Workspace

#: A distance below which most queries keep some chunks and lose others.
GREP_THRESHOLD = 1.4


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a workspace over these pages."""
    data_dir = tmp_path_factory.mktemp("sample") / "data"
    corpus = copy_few_pages(data_dir.parent / "sample") / "corpus"
    settings = {"grep.vector_score_threshold": GREP_THRESHOLD, "index.token_vectors": "int8"}
    Workspace.build(corpus, data_dir, embedder="all-MiniLM-L6-v2", settings=settings).close()
    return data_dir


@pytest.fixture(scope="session")
def questions(sample: Path) -> list[str]:
    """Eight of the questions about them."""
    texts = [line["question"] for line in json_lines(sample.parent / "sample" / "questions.jsonl")]
    return random.Random(30).sample(texts, 8)
