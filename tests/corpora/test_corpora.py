"""Every file of real documentation sets: lines, sections, chunks, tree, and every word in exactly one chunk.

The folder beside the project, Django's docs (fetched at their pinned version), and those that
``BRANCHRANK_TEST_CORPORA`` names, separated by ``:``.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from documents.invariants import problems_of, text_of
from documents.scanner import line_count

from branchrank.core.errors import BranchRankError
from branchrank.documents.loading import discover, load_corpus
from branchrank.documents.named import add_corpus
from branchrank.documents.tree_build import build_nodes
from branchrank.documents.tree_nodes import check_nodes

pytestmark = pytest.mark.corpora

BESIDE = Path(__file__).parents[2].parent / "shared" / "corpora" / "symfony-docs"
GIVEN = [path for path in os.environ.get("BRANCHRANK_TEST_CORPORA", "").split(":") if path]


@pytest.fixture(params=[str(BESIDE), "django", *GIVEN], ids=lambda name: Path(name).name)
def corpus(request: pytest.FixtureRequest) -> Path:
    if request.param == "django":
        try:
            return add_corpus("django")
        except BranchRankError as error:
            pytest.skip(str(error))
    path = Path(request.param)
    if not path.is_dir() and request.param not in GIVEN:
        pytest.skip(f"{path} is not here")
    return path


def test_every_word_is_in_exactly_one_chunk(corpus: Path) -> None:
    files = discover(corpus).files
    problems = [
        problem
        for file in files
        for problem in problems_of(file.source, (corpus / file.source).read_bytes(), target_tokens=256)
    ]
    print(f"{len(files)} files, {len(problems)} problems")
    assert not problems, "\n".join(problems[:100])


def test_the_tree_is_sound(corpus: Path) -> None:
    loaded = load_corpus(corpus)
    nodes, _ = build_nodes(loaded.documents, corpus.name)
    line_counts = {
        document.source: line_count(text_of(document.source, (corpus / document.source).read_bytes()))
        for document in loaded.documents
    }
    assert check_nodes(nodes, line_counts) == []
    assert sum(node.kind == "file" for node in nodes) == len(loaded.documents)
