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
        (
            {"branches": (Branch(kind="fts5", unit="node"),)},
            "has a branch fts5 with the unit node, which must be chunk",
        ),
        (
            {"branches": (Branch(kind="tree", unit="chunk", tree=TreeSearch()),)},
            "has a branch tree with the unit chunk",
        ),
        ({"branches": (Branch(kind="tree", unit="node"),)}, "needs `tree` settings"),
        ({"branches": (Branch(kind="bm25", threshold=0.5),)}, "`threshold` is a distance between vectors"),
        ({"branches": (Branch(kind="bm25", unit="node", expand=Expand()),)}, "only chunks can be expanded"),
        ({"branches": (Branch(kind="dense", weight=0.0),)}, "only branches with weight 0"),
        ({"branches": (DENSE, Branch(kind="bm25", unit="node"))}, "give all branches the same unit"),
        ({"branches": (BM25, BM25)}, "has the branch bm25(chunks) twice"),
        ({"branches": (DENSE, BM25), "fuse": Fuse(method="none")}, "has 2 branches, but fuse.method"),
        ({"branches": (DENSE,), "rerank": Rerank(method="llm")}, "has no endpoint"),
        ({"branches": (DENSE,), "rerank": Rerank(method="cross-encoder")}, "has no model"),
        (
            {"branches": (Branch(kind="bm25", unit="node"),), "group": Group(by="document")},
            "groups by document",
        ),
    ],
)
def test_an_impossible_system_is_described(slots: dict[str, object], words: str) -> None:
    (problem,) = problems(System(name="mine", **slots))
    assert problem.startswith("system 'mine' ")
    assert words in problem


def test_a_possible_system_has_no_problems() -> None:
    assert problems(System(name="mine", branches=(DENSE, BM25))) == []
