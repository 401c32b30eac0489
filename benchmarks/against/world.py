"""The chunks, vectors and questions for every comparison."""

from __future__ import annotations

import importlib.util
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from benchmarks.against.table import Skipped
from branchrank.core.records import Question
from branchrank.index.embedders.minilm import MODEL
from branchrank.index.embedders.protocol import Vectors
from branchrank.index.index_build import build_index
from branchrank.index.reader import Index, open_index
from branchrank.index.stores.analyzer import chunk_terms, embedded_text
from branchrank.index.workspace_folder import WorkspaceFolder, configure
from branchrank.questions.question_files import load_questions

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "data" / "sample"
#: The default workspace and questions, which are used only if both exist.
LARGER = (ROOT / "data" / "symfony", ROOT.parent / "shared" / "questions" / "symfony-dev.jsonl")


class World(NamedTuple):
    """The chunks and questions that every comparison uses.

    For each chunk in ``ids``, ``texts`` contains the text to embed, ``terms`` contains the text for BM25, and
    ``matrix`` contains the unit vector. ``asked`` contains the unit vector of each question.
    """

    folder: WorkspaceFolder
    index: Index
    questions: list[Question]
    questions_file: Path
    ids: list[str]
    texts: list[str]
    terms: list[str]
    matrix: Vectors
    asked: Vectors
    scratch: Path

    @property
    def queries(self) -> list[str]:
        """The text of each question."""
        return [question.question for question in self.questions]


@contextmanager
def opened(data_dir: Path | None, questions: Path | None) -> Iterator[World]:
    """Open a workspace, and yield its chunks, vectors and questions.

    If ``data_dir`` is ``None``, Symfony's workspace is opened. If Symfony's workspace or its question file
    does not exist, the bundled sample is indexed and opened.
    """
    with TemporaryDirectory() as name:
        scratch = Path(name)
        if data_dir is None and all(path.exists() for path in LARGER):
            data_dir, questions = LARGER[0], questions or LARGER[1]
        if data_dir is None:
            data_dir, questions = scratch / "data", questions or SAMPLE / "questions.jsonl"
            configure(data_dir, corpus=SAMPLE / "corpus", settings={"index.embedder": MODEL})
            build_index(WorkspaceFolder.open(data_dir)).close()
        flags = {"index.vector_store": "exact", "index.embedder_precision": "float32"}
        folder = WorkspaceFolder.open(data_dir, flags=flags)
        path = questions or SAMPLE / "questions.jsonl"
        loaded = load_questions(path)
        with open_index(folder) as index:
            if index.manifest.embedder.model != MODEL:
                raise SystemExit(
                    f"{data_dir} was not indexed with {MODEL}\nfix: branchrank index --data-dir {data_dir} "
                    f"--embedder {MODEL}"
                )
            chunks = list(index.chunks.values())
            asked = np.array([index.embedder.embed_query(each.question) for each in loaded])
            yield World(
                folder,
                index,
                loaded,
                path,
                [chunk.id for chunk in chunks],
                [embedded_text(chunk) for chunk in chunks],
                [chunk_terms(chunk) for chunk in chunks],
                np.array([index.exact_vectors.vector(chunk.id) for chunk in chunks]),
                asked,
                scratch,
            )


def named(package: str) -> str:
    """Return the name of a package with its version, such as ``bm25s 0.3.16``."""
    return f"{package} {version(package)}"


def missing(group: str, package: str, module: str = "") -> Skipped | None:
    """Return a :class:`Skipped` comparison if the package is not installed, and ``None`` otherwise."""
    if importlib.util.find_spec(module or package.replace("-", "_")) is not None:
        return None
    return Skipped(
        group=group, against=package, reason="the package is not installed (`make bench` installs it)"
    )


def cpu_name() -> str:
    """The processor's name."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
