"""A value out of range is an error that shows it, and one text is as good as a list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from support.commands import make_project
from support.predictors import WholePages

from branchrank import System, Workspace
from branchrank.core import errors
from branchrank.core.spec import Branch


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    with Workspace.open(make_project(tmp_path_factory.mktemp("arguments")) / "data") as opened:
        yield opened


Call = Callable[[Workspace], object]
#: The argument at fault, and a call with a value out of range.
WRONG: list[tuple[str, Call]] = [
    *(("k", lambda w, value=value: w.search("tea", k=value)) for value in (0, -1)),
    ("mode", lambda w: w.search_documents("tea", "keywords")),
    ("limit", lambda w: w.search_documents("tea", "keyword", 0)),
    ("ranking", lambda w: w.tools.grep_search("tea", ranking="bm52")),
    ("ranking", lambda w: w.tools.hybrid_search("tea", ranking=5)),
    ("limit", lambda w: w.tools.grep_search("tea", limit=0)),
]


@pytest.mark.parametrize("folder", ["data", Path("data")])
def test_a_workspace_of_a_path_names_the_method_that_opens_it(folder: str | Path) -> None:
    with pytest.raises(errors.UsageError) as caught:
        Workspace(folder)  # type: ignore[arg-type]
    assert caught.value.remedy == "Workspace.open('data')"


@pytest.mark.parametrize(("name", "call"), WRONG, ids=[f"{n}-{name}" for n, (name, _) in enumerate(WRONG)])
def test_a_wrong_argument_is_named_with_its_value(workspace: Workspace, name: str, call: Call) -> None:
    with pytest.raises(errors.UsageError) as caught:
        call(workspace)
    assert caught.value.message.split()[0] == name
    assert caught.value.remedy.startswith(name)


def test_unusual_but_valid_arguments_are_accepted(workspace: Workspace) -> None:
    expected = workspace.search("tea", "local", 2)
    assert workspace.search("tea", "local", np.int64(2)) == expected
    assert workspace.search("tea", workspace.system("local"), 2, filters=()) == expected
    assert workspace.search("", "local", 2) == workspace.search("", "local", 2)
    assert workspace.tools.grep_search("tea", ranking="bm25", limit=1).results


@pytest.mark.parametrize(
    ("one", "name"),
    [
        ("bm25", "bm25"),
        (System(name="words", branches=(Branch(kind="bm25"),)), "words"),
        (WholePages(), "whole-pages"),
    ],
)
def test_one_predictor_and_one_measure_are_no_list(
    workspace: Workspace, tmp_path: Path, one: object, name: str
) -> None:
    run = workspace.benchmark(one, measures="nDCG@3", latency_sample=0, reports=tmp_path)
    assert list(run.predictors) == [name]
    assert "nDCG@3" in run.summary.columns


def test_one_filter_is_no_list(workspace: Workspace) -> None:
    one = workspace.search("tea", "local", filters="file_path=guide/*.md")
    assert one == workspace.search("tea", "local", filters=["file_path=guide/*.md"]) != []
