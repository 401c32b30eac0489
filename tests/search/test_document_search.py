"""Keyword, semantic and hybrid search of documents, through ``Workspace.search_documents``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.worlds import make_workspace

from branchrank.core.errors import UsageError
from branchrank.index.index_build import build_index
from branchrank.search.systems.builtin import Mode
from branchrank.workspace import Workspace

MODES: tuple[Mode, ...] = ("keyword", "semantic", "hybrid")


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_workspace(tmp_path_factory.mktemp("documents"))
    build_index(folder).close()
    return folder.data_dir


@pytest.fixture(scope="module")
def workspace(data_dir: Path) -> Iterator[Workspace]:
    with opened(data_dir) as made:
        yield made


def opened(data_dir: Path) -> Workspace:
    return Workspace.open(data_dir, settings={"embedding.model": "fake:64"})


@pytest.mark.parametrize("mode", ["semantic", "hybrid"])
def test_a_model_other_than_that_of_the_index_is_refused(data_dir: Path, mode: Mode) -> None:
    with (
        Workspace.open(data_dir, settings={"embedding.model": "fake:32"}) as workspace,
        pytest.raises(UsageError, match=r"fake:32.*fake:64"),
    ):
        workspace.search_documents("tea", mode)


def test_limits_and_ties_by_id(tmp_path: Path) -> None:
    pages = {f"{n:03}.md": "# Same\n\nthe same words\n" for n in range(99, -1, -1)}
    folder = make_workspace(tmp_path, pages)
    build_index(folder).close()
    with opened(folder.data_dir) as workspace:
        for mode in MODES:
            hits = workspace.search_documents("same words", mode)
            assert [hit.source for hit in hits] == [f"{n:03}.md" for n in range(12)]
        assert len(workspace.search_documents("same", "keyword", limit=3)) == 3


@given(query=st.text(max_size=60), mode=st.sampled_from(MODES))
def test_scores_lie_in_the_unit_interval_best_first(workspace: Workspace, query: str, mode: Mode) -> None:
    for text in (query, f"{query} tea"):
        scores = [hit.score for hit in workspace.search_documents(text, mode)]
        assert all(0.0 <= score <= 1.0 for score in scores)
        assert scores == sorted(scores, reverse=True)
