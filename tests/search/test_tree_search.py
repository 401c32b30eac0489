"""The lexical walk: which nodes it visits, in which order, and that it needs no LLM."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st
from support.asking import searched
from support.trees import grow

from branchrank.core.spec import TreeSearch
from branchrank.documents.tree_nodes import Tree


def lexical(tree: Tree, own: Mapping[str, float], **fields: int) -> tuple[list[str], list[str]]:
    """The ranking's keys and the fallbacks."""
    result = searched(tree, TreeSearch(**fields), own)
    assert result.calls == ()
    return [entry.key for entry in result.ranking], list(result.fallbacks)


def test_finds_the_best_section_and_its_ancestors() -> None:
    tree = grow([6, 6, 6])
    gold = "n3.4.2"
    keys, fallbacks = lexical(tree, {gold: 5.0, "n3.4": 2.0, "n1.1.1": 1.0})
    assert keys[:3] == [gold, "n3.4", "n1.1.1"]
    assert "n3" in keys
    assert fallbacks == []


def test_an_inner_node_is_a_candidate_with_its_own_text() -> None:
    tree = grow([6, 6])
    keys, _ = lexical(tree, {"n2": 9.0, "n2.1": 1.0})
    assert keys[:2] == ["n2", "n2.1"]


def test_the_walk_follows_at_most_beam_children() -> None:
    own = {f"n{number}": float(number) for number in range(1, 6)}
    assert lexical(grow([5]), own, beam=4)[0] == ["n5", "n4", "n3", "n2"]
    assert lexical(grow([5]), own, beam=5)[0] == ["n5", "n4", "n3", "n2", "n1"]


def test_depth_bounds_the_walk_and_folders_are_never_hits() -> None:
    tree = grow([6, 6, 6], folders=True)
    assert lexical(tree, {"n1.1.1": 1.0}, depth=1)[0] == []
    assert lexical(tree, {"n1.1.1": 1.0}, depth=2)[0] == ["n1.1"]
    assert lexical(tree, {"n1.1.1": 1.0}, depth=3)[0] == ["n1.1.1", "n1.1"]


def test_a_query_that_nothing_matches_visits_nothing() -> None:
    assert lexical(grow([6, 6]), {}) == ([], [])


@given(fans=st.lists(st.integers(1, 9), min_size=1, max_size=4), beam=st.integers(1, 5), data=st.data())
def test_the_best_scored_section_is_always_first(fans: list[int], beam: int, data: st.DataObject) -> None:
    tree = grow(fans)
    sections = [node.id for node in tree.sections]
    scores = data.draw(
        st.lists(st.floats(0.01, 9), min_size=len(sections), max_size=len(sections), unique=True)
    )
    own = dict(zip(sections, scores, strict=True))
    keys, _ = lexical(tree, own, beam=beam)
    assert keys[0] == max(own, key=lambda key: own[key])
