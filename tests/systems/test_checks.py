"""Systems that cannot run are refused with every reason."""

from __future__ import annotations

import pytest

from branchrank.spec import Branch, Expand, Fuse, Group, Rerank, System, TreeSearch
from branchrank.systems.checks import problems

DENSE = Branch(kind="dense")
BM25 = Branch(kind="bm25")


@pytest.mark.parametrize(
    ("slots", "words"),
    [
        ({"branches": ()}, "no branches"),
        ({"branches": (Branch(kind="nothing"),)}, "unknown branch"),
        ({"branches": (Branch(kind="fts5", unit="node"),)}, "asks fts5 for nodes: it finds chunks"),
        ({"branches": (Branch(kind="tree", unit="chunk", tree=TreeSearch()),)}, "asks tree for chunks"),
        ({"branches": (Branch(kind="tree", unit="node"),)}, "needs `tree` settings"),
        ({"branches": (Branch(kind="bm25", threshold=0.5),)}, "`threshold` is a distance between vectors"),
        ({"branches": (Branch(kind="bm25", unit="node", expand=Expand()),)}, "expands nodes"),
        ({"branches": (Branch(kind="dense", weight=0.0),)}, "no branch of a weight above 0"),
        ({"branches": (DENSE, Branch(kind="bm25", unit="node"))}, "give every branch one unit"),
        ({"branches": (BM25, BM25)}, "has the branch bm25(chunks) twice"),
        ({"branches": (DENSE, BM25), "fuse": Fuse(method="none")}, "fuses 2 branches by the method none"),
        ({"branches": (DENSE,), "rerank": Rerank(method="llm")}, "names no endpoint"),
        ({"branches": (DENSE,), "rerank": Rerank(method="cross-encoder")}, "names no model"),
        ({"branches": (Branch(kind="bm25", unit="node"),), "group": Group(by="document")}, "groups nodes"),
    ],
)
def test_an_impossible_system_is_described(slots: dict[str, object], words: str) -> None:
    (problem,) = problems(System(name="mine", **slots))
    assert problem.startswith("system 'mine' ")
    assert words in problem


def test_a_possible_system_has_no_problems() -> None:
    assert problems(System(name="mine", branches=(DENSE, BM25))) == []
