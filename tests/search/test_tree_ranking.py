"""Evidence, expansion, grouping and passage choice on a small tree."""

from __future__ import annotations

import pytest

from branchrank.core.ranked_lists import group, rescore
from branchrank.core.records import Scored
from branchrank.search.ranking.expansion import evidence
from branchrank.search.ranking.passages import best_passage


def test_evidence_follows_its_formula() -> None:
    shortlist = [Scored("c1", 0.9), Scored("c2", 0.8), Scored("c3", 0.5)]
    nodes = {"c1": ["a.md#x"], "c2": ["a.md#y"], "c3": ["a.md#x"]}
    assert dict(evidence(shortlist, nodes.__getitem__)) == pytest.approx(
        {"a.md#x": 0.6 * 0.9 + 0.3 * 11 / 11 + 0.1 * 0.5, "a.md#y": 0.6 * 0.8 + 0.3 * 11 / 12}
    )


def test_a_chunk_can_support_several_nodes_and_negative_similarity_adds_no_proximity() -> None:
    found = dict(evidence([Scored("c1", -0.5)], lambda _: ["a.md#x", "a.md#y"]))
    assert found == pytest.approx({"a.md#x": 0.3, "a.md#y": 0.3})


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
    assert best_passage(["c1", "c2"], {"c2": 0.5}) == "c2"
    assert best_passage(["c1", "c2", "c3"]) == "c1"


def test_rescored_keys_lead_and_the_others_follow_in_their_order() -> None:
    entries = [Scored("a", 0.9), Scored("b", 0.8), Scored("c", 0.3)]
    assert rescore(entries, ["c"]) == [Scored("c", 1.0), Scored("a", 1 / 2), Scored("b", 1 / 3)]
    with pytest.raises(ValueError, match="'x'"):
        rescore(entries, ["x"])
