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
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with ``corpus/`` and ``questions.jsonl``."""
    return copy_few_pages(tmp_path_factory.mktemp("pages") / "sample")


@pytest.fixture(scope="session")
def sample(pages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a workspace over these pages, with a model and what every predictor needs."""
    data_dir = tmp_path_factory.mktemp("sample") / "data"
    settings = {"grep.vector_score_threshold": GREP_THRESHOLD, "index.token_vectors": "int8"}
    Workspace.build(pages / "corpus", data_dir, embedder="all-MiniLM-L6-v2", settings=settings).close()
    return data_dir


@pytest.fixture(scope="session")
def quick(pages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a workspace over these pages, with the fake embedder and exact search."""
    data_dir = tmp_path_factory.mktemp("quick") / "data"
    settings = {"index.vector_store": "exact"}
    Workspace.build(pages / "corpus", data_dir, embedder="fake:64", settings=settings).close()
    return data_dir


@pytest.fixture(scope="session")
def questions(pages: Path) -> list[str]:
    """Four of the questions about them."""
    texts = [line["question"] for line in json_lines(pages / "questions.jsonl")]
    return random.Random(30).sample(texts, 4)
