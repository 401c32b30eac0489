"""Evidence, expansion, grouping and passage choice on a small tree."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branchrank.ranking.expansion import evidence, expand
from branchrank.ranking.lists import group, ranked
from branchrank.ranking.passages import best_passage
from branchrank.records import Node, Scored
from branchrank.tree.navigate import Tree


def section(identifier: str, parent: str, first: int, own_end: int, end: int, *children: str) -> Node:
    return Node(
        id=identifier,
        parent_id=parent,
        children=children,
        depth=identifier.count("/") + identifier.count("#") + 1,
        kind="section" if "#" in identifier else "file",
        title=identifier,
        source=identifier.partition("#")[0],
        line_start=first,
        line_end=end,
        own_line_end=own_end,
    )


TREE = Tree(
    [
        Node(id="", parent_id=None, children=("a.md", "b.md"), depth=0, kind="root", title="docs"),
        section("a.md", "", 1, 2, 60, "a.md#x", "a.md#y", "a.md#z"),
        section("a.md#x", "a.md", 3, 20, 20),
        section("a.md#y", "a.md", 21, 25, 40, "a.md#y/p"),
        section("a.md#y/p", "a.md#y", 26, 40, 40),
        section("a.md#z", "a.md", 41, 60, 60),
        section("b.md", "", 1, 9, 9),
    ]
)


def test_evidence_follows_its_formula() -> None:
    shortlist = [Scored("c1", 0.9), Scored("c2", 0.8), Scored("c3", 0.5)]
    nodes = {"c1": ["a.md#x"], "c2": ["a.md#y"], "c3": ["a.md#x"]}
    assert dict(evidence(shortlist, nodes.__getitem__)) == pytest.approx(
        {
            "a.md#x": 0.6 * 0.9 + 0.3 * 11 / 11 + 0.1 * 0.5,
            "a.md#y": 0.6 * 0.8 + 0.3 * 11 / 12,
        }
    )


def test_a_chunk_can_support_several_nodes_and_negative_similarity_adds_no_proximity() -> None:
    found = dict(evidence([Scored("c1", -0.5)], lambda _: ["a.md#x", "a.md#y"]))
    assert found == pytest.approx({"a.md#x": 0.3, "a.md#y": 0.3})


def test_neighbors_inherit_their_shares() -> None:
    reached = dict(expand([Scored("a.md#y", 1.0)], TREE, depth=1, siblings=1, file_roots=0))
    assert reached == pytest.approx({"a.md#y": 1.0, "a.md": 0.75, "a.md#y/p": 0.7, "a.md#x": 0.6})


NODE_IDS = [node.id for node in TREE.sections]
SEEDS = st.dictionaries(st.sampled_from(NODE_IDS), st.floats(0.01, 1.0), min_size=1)


@given(seeds=SEEDS, depth=st.integers(0, 3), siblings=st.integers(0, 3), order=st.randoms())
def test_expansion_does_not_depend_on_order_and_keeps_its_seeds(seeds, depth, siblings, order) -> None:
    entries = ranked(seeds)
    shuffled = list(entries)
    order.shuffle(shuffled)
    reached = expand(entries, TREE, depth=depth, siblings=siblings, file_roots=2)
    assert reached == expand(shuffled, TREE, depth=depth, siblings=siblings, file_roots=2)
    scores = dict(reached)
    assert all(scores[key] >= score for key, score in seeds.items())
    assert max(scores.values()) == pytest.approx(max(seeds.values()))
    assert all(TREE.node(key).source for key in scores)


@given(seeds=SEEDS)
def test_a_deeper_walk_reaches_no_fewer_nodes(seeds) -> None:
    reached = [{entry.key for entry in expand(ranked(seeds), TREE, depth=depth)} for depth in range(4)]
    assert all(shallow <= deep for shallow, deep in pairwise(reached))


def test_a_group_is_represented_by_its_best_member() -> None:
    entries = [Scored("a1", 0.9), Scored("b1", 0.8), Scored("a2", 0.3), Scored("a3", 0.1)]
    assert group(entries, lambda key: key[0], members=2) == [
        (Scored("a1", 0.9), (Scored("a1", 0.9), Scored("a2", 0.3))),
        (Scored("b1", 0.8), (Scored("b1", 0.8),)),
    ]


def test_averaging_ranks_a_document_by_the_mean_of_its_shown_members() -> None:
    entries = [Scored("a1", 0.9), Scored("b1", 0.8), Scored("a2", 0.3), Scored("a3", 0.1)]
    groups = group(entries, lambda key: key[0], aggregate="avg", members=2)
    assert [entry.key for entry, _ in groups] == ["b1", "a1"]
    assert groups[1][0].score == pytest.approx(0.6)


def test_the_passage_with_the_best_combined_score_is_chosen() -> None:
    dense = {"c1": 0.2, "c2": 0.9, "c3": 0.8}
    lexical = {"c1": 5.0, "c3": 4.0}
    assert best_passage(["c1", "c2", "c3"], dense, lexical) == "c3"
    assert best_passage(["c1", "c2", "c3"], dense) == "c2"
    assert best_passage(["c1", "c2", "c3"]) == "c1"
    with pytest.raises(ValueError, match="is empty"):
        best_passage([])
