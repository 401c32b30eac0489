"""Fusion against hand-computed values, and its laws over generated lists."""

from __future__ import annotations

from math import sqrt
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branchrank.core.ranked_lists import ranked
from branchrank.core.records import Scored
from branchrank.core.spec import Fuse, FusionMethod
from branchrank.search.ranking.fusion import fuse, rrf, score


def convex(branches, weights=()):
    return fuse(branches, Fuse(method="convex"), dict(weights))


def dbsf(branches, weights=()):
    return fuse(branches, Fuse(method="dbsf"), dict(weights))


#: The methods for several branches.
SEVERAL = [method for method in get_args(FusionMethod) if method != "none"]
KEYS = st.text(alphabet="abcdefgh", min_size=1, max_size=2)
SCORES = st.dictionaries(KEYS, st.floats(-10, 10), max_size=12)
BRANCHES = st.dictionaries(st.sampled_from(["bm25", "dense", "grep"]), SCORES.map(ranked), max_size=3)


def test_rrf_adds_reciprocal_ranks_from_one() -> None:
    fused = rrf({"dense": [Scored("a", 9.0), Scored("b", 8.0)], "bm25": [Scored("b", 3.0)]}, k=60)
    assert fused == [Scored("b", 1 / 62 + 1 / 61), Scored("a", 1 / 61)]


def test_rrf_weights_multiply_and_zero_removes_the_branch() -> None:
    branches = {"dense": [Scored("a", 1.0)], "bm25": [Scored("b", 1.0)]}
    assert rrf(branches, k=10, weights={"dense": 3.0}) == [Scored("a", 3 / 11), Scored("b", 1 / 11)]
    assert rrf(branches, weights={"dense": 0.0}) == [Scored("b", 1 / 61)]


def test_a_repeated_key_counts_once_at_its_best_rank() -> None:
    assert rrf({"grep": [Scored("a", 2.0), Scored("a", 1.0), Scored("b", 0.5)]}, k=0) == [
        Scored("a", 1.0),
        Scored("b", 0.5),
    ]


def test_convex_normalizes_each_branch_to_the_unit_interval() -> None:
    fused = convex(
        {"dense": [Scored("a", 0.9), Scored("b", 0.5), Scored("c", 0.1)], "bm25": [Scored("b", 7.0)]},
        weights={"dense": 0.6, "bm25": 0.4},
    )
    assert [entry.key for entry in fused] == ["b", "a", "c"]
    assert [entry.score for entry in fused] == pytest.approx([0.6 * 0.5 + 0.4, 0.6, 0.0])


def test_dbsf_places_the_mean_in_the_middle() -> None:
    fused = dict(dbsf({"dense": [Scored("a", 3.0), Scored("b", 2.0), Scored("c", 1.0)]}))
    assert fused["b"] == pytest.approx(0.5)
    assert fused["a"] + fused["c"] == pytest.approx(1.0)
    assert fused["a"] == pytest.approx(0.5 + 1 / (6 * sqrt(2 / 3)))


def test_score_fusion_adds_the_cosine_and_half_of_the_relative_bm25_score() -> None:
    fused = score(
        {
            "dense": [Scored("a", 0.8), Scored("b", 0.6), Scored("c", -0.25)],
            "bm25": [Scored("b", 8.0), Scored("a", 2.0), Scored("d", 1.0)],
        },
        shares=["bm25"],
    )
    # a: 0.8 + 0.5 * 2 / 8; b: 0.6 + 0.5; c: its cosine; d: 0.5 * 1 / 8.
    assert [entry.key for entry in fused] == ["b", "a", "d", "c"]
    assert [entry.score for entry in fused] == pytest.approx([1.1, 0.925, 0.0625, -0.25])


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        # The most is 2 + 1 / 2: (2 * 0.8 + 0.5) / 2.5, and 0.5 * 5 / 10 / 2.5.
        ("score", [0.84, 0.1]),
        ("rrf", [1.0, (1 / 62) / (3 / 61)]),
    ],
)
def test_in_the_unit_interval_the_best_possible_score_is_one(method, expected) -> None:
    lists = {"dense": [Scored("a", 0.8)], "bm25": [Scored("a", 10.0), Scored("b", 5.0)]}
    slot = Fuse(method=method, k=60, unit_interval=True)
    fused = fuse(lists, slot, {"dense": 2.0, "bm25": 1.0}, shares=["bm25"])
    assert [entry.key for entry in fused] == ["a", "b"]
    assert [entry.score for entry in fused] == pytest.approx(expected)


@pytest.mark.parametrize(("method", "expected"), [("convex", [1.0, 0.0]), ("dbsf", [2 / 3, 1 / 3])])
def test_in_the_unit_interval_normalized_scores_are_divided_by_the_weights(method, expected) -> None:
    lists = {"dense": [Scored("a", 0.8), Scored("b", 0.2)], "bm25": [Scored("a", 9.0), Scored("b", 3.0)]}
    fused = fuse(lists, Fuse(method=method, unit_interval=True), {"dense": 2.0, "bm25": 1.0})
    assert [entry.key for entry in fused] == ["a", "b"]
    assert [entry.score for entry in fused] == pytest.approx(expected)


WEIGHT = st.one_of(st.just(0.0), st.floats(0.01, 100))


@pytest.mark.parametrize("method", get_args(FusionMethod))
@given(branches=BRANCHES.filter(bool), weights=st.tuples(WEIGHT, WEIGHT, WEIGHT))
def test_scores_lie_in_the_unit_interval_for_all_weights(method, branches, weights) -> None:
    weighted = dict(zip(["bm25", "dense", "grep"], weights, strict=True))
    fused = fuse(branches, Fuse(method=method, unit_interval=True), weighted, shares=["bm25"])
    assert all(0.0 <= entry.score <= 1.0 for entry in fused)


def test_score_weighs_each_part() -> None:
    branches = {"dense": [Scored("a", 0.5)], "bm25": [Scored("b", 8.0), Scored("a", 4.0)]}
    fused = score(branches, {"dense": 2.0, "bm25": 3.0}, shares=["bm25"])
    assert fused == [Scored("a", 1.75), Scored("b", 1.5)]
    assert score(branches, {"bm25": 0.0}, shares=["bm25"]) == [Scored("a", 0.5)]


def test_a_branch_whose_best_score_is_zero_adds_nothing() -> None:
    branches = {"dense": [Scored("a", 0.5)], "bm25": [Scored("b", 0.0)]}
    assert score(branches, shares=["bm25"]) == [Scored("a", 0.5), Scored("b", 0.0)]


COSINES = st.dictionaries(KEYS, st.floats(-1, 1), max_size=8).map(ranked)
WORDS = st.dictionaries(KEYS, st.floats(0.5, 30), min_size=1, max_size=8).map(ranked)


@given(dense=COSINES, words=WORDS, factor=st.sampled_from([0.25, 2.0, 64.0]))
def test_shares_do_not_depend_on_the_scale_of_the_scores(dense, words, factor) -> None:
    scaled = [Scored(key, value * factor) for key, value in words]
    assert score({"d": dense, "w": scaled}, shares=["w"]) == score({"d": dense, "w": words}, shares=["w"])


@given(dense=COSINES, words=WORDS, worst=st.floats(-1, 1))
def test_a_lower_candidate_does_not_change_other_scores(dense, words, worst) -> None:
    before = dict(score({"d": dense, "w": words}, shares=["w"]))
    more = ranked({**dict(dense), "zz": min([worst, *(each.score for each in dense)])})
    longer = ranked({**dict(words), "zz": 0.1})
    after = dict(score({"d": more, "w": longer}, shares=["w"]))
    assert {key: after[key] for key in before} == before


@pytest.mark.parametrize("method", SEVERAL)
@given(branches=BRANCHES)
def test_fusion_returns_each_key_once_in_order(method, branches) -> None:
    fused = fuse(branches, Fuse(method=method), dict.fromkeys(branches, 1.0))
    assert {entry.key for entry in fused} == {entry.key for entries in branches.values() for entry in entries}
    assert fused == sorted(fused, key=lambda entry: (-entry.score, entry.key))


@given(branches=BRANCHES, factor=st.floats(0.1, 10))
def test_rrf_depends_on_ranks_alone(branches, factor) -> None:
    stretched = {
        name: [Scored(entry.key, entry.score * factor) for entry in entries]
        for name, entries in branches.items()
    }
    assert rrf(stretched) == rrf(branches)


@given(entries=SCORES.map(ranked))
def test_one_branch_keeps_its_order(entries) -> None:
    assert [entry.key for entry in rrf({"dense": entries})] == [entry.key for entry in entries]
