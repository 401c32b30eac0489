"""How few labels carry a lead, and which pipelines are worth their price."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.comparing import sign_flip

from branchrank.runs.estimates import Standing, cheapest_not_inferior, fragility, frontier
from branchrank.scoring.comparison import CompareOptions


def scored(values):
    return {f"q{number:02}": float(value) for number, value in enumerate(values)}


def own(scores):
    return {each: each for each in scores}


def test_the_questions_with_the_largest_effect_come_first():
    a, b = scored([0, 0, 0.9]), scored([0.2, 1, 1])
    assert fragility(a, b, own(a), alpha=1) == (("q01",), 3)


@given(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 1.0]), min_size=6, max_size=11))
def test_the_set_of_labels_is_minimal(differences):
    a, b = scored([0.0] * len(differences)), scored(differences)
    found, _ = fragility(a, b, own(a))
    values = np.array(differences) * (1 if sum(differences) > 0 else -1)

    def fewest(done):
        for size in range(len(values) + 1):
            for chosen in combinations(range(len(values)), size):
                flipped = values.copy()
                flipped[list(chosen)] *= -1
                if done(flipped):
                    return size
        raise AssertionError

    assert len(found) == fewest(lambda flipped: sign_flip(flipped).p >= 0.05)


def standing(name, quality, p95_ms, cost):
    return Standing(name=name, quality=quality, p95_ms=p95_ms, cost=cost)


def test_the_frontier_drops_dominated_systems():
    best, cheap = standing("llm", 0.9, 900, 2000), standing("bm25", 0.7, 5, 0)
    middle, beaten = standing("hybrid", 0.8, 40, 0), standing("slow", 0.8, 50, 0)
    assert frontier([cheap, beaten, middle, best]) == (best, middle, cheap)


@pytest.mark.parametrize(
    "other",
    [standing("b", 0.9, 20, 20), standing("b", 0.7, 5, 20), standing("b", 0.7, 20, 5)],
    ids=["better", "faster", "cheaper"],
)
def test_a_system_that_leads_in_one_dimension_stays_on_the_frontier(other):
    assert set(frontier([standing("a", 0.8, 10, 10), other])) == {standing("a", 0.8, 10, 10), other}


def test_the_cheapest_non_inferior_system_is_selected():
    n = 400
    llm, hybrid, bm25 = [1] * 320 + [0] * 80, [1] * 318 + [0] * 80 + [1] * 2, [1] * 240 + [0] * 160
    scores = {"llm": scored(llm), "hybrid": scored(hybrid), "bm25": scored(bm25)}
    standings = [
        standing("llm", sum(llm) / n, 900, 2000),
        standing("hybrid", sum(hybrid) / n, 40, 0),
        standing("bm25", sum(bm25) / n, 5, 0),
    ]
    tight = CompareOptions(delta=0.02)
    found = cheapest_not_inferior(standings, scores, own(scores["llm"]), measure="Success@1", options=tight)
    assert (found.best, found.cheapest.name) == ("hybrid", "hybrid")
    assert found.not_inferior == ("llm", "hybrid")
    loose = cheapest_not_inferior(
        standings, scores, own(scores["llm"]), measure="Success@1", options=CompareOptions(delta=0.5)
    )
    assert loose.cheapest.name == "bm25"


def test_a_tie_is_won_by_the_preferred_system():
    """The baseline, as in a report's recommendation, though another is cheaper."""
    scores = {"a": scored([1, 0] * 40), "b": scored([1, 0] * 40)}
    standings = [standing("a", 0.5, 5, 0), standing("b", 0.5, 9, 1)]

    def best(preferred):
        return cheapest_not_inferior(
            standings, scores, own(scores["a"]), measure="Success@1", preferred=preferred
        ).best

    assert [best(""), best("b"), best("a")] == ["a", "b", "a"]


def test_a_few_questions_without_a_difference_do_not_show_non_inferiority():
    scores = {"a": scored([1, 0] * 4), "b": scored([1, 0] * 4)}
    standings = [standing("a", 0.5, 5, 0), standing("b", 0.5, 9, 0)]
    found = cheapest_not_inferior(standings, scores, own(scores["a"]), measure="Success@1")
    assert found.not_inferior == ("a",)
