"""Arguments that take one value or several: a lone string is one value, never its letters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands import make_project
from support.predictors import WholePages

from branchrank import System, Workspace
from branchrank.spec import Branch


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    folder = make_project(tmp_path_factory.mktemp("one"))
    with Workspace.open(folder / "data") as opened:
        yield opened


@pytest.mark.parametrize(
    ("one", "name"),
    [
        ("bm25", "bm25"),
        (System(name="words", branches=(Branch(kind="bm25"),)), "words"),
        (WholePages(), "whole-pages"),
    ],
)
def test_one_predictor_and_one_measure(workspace: Workspace, tmp_path: Path, one: object, name: str) -> None:
    run = workspace.benchmark(one, measures="nDCG@3", latency_sample=0, reports=tmp_path)
    assert list(run.predictors) == [name]
    assert "nDCG@3" in run.summary.columns


def test_one_filter(workspace: Workspace) -> None:
    one = workspace.search("tea", "local", filters="file_path=guide/*.md")
    assert one == workspace.search("tea", "local", filters=["file_path=guide/*.md"]) != []
