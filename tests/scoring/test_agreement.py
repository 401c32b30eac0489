"""Cohen's kappa: a textbook's values, and its extremes."""

from __future__ import annotations

import pytest

from branchrank.runs.passage_pools import cohens_kappa


def pairs(table: list[list[int]]) -> list[tuple[str, str]]:
    return [
        ("abc"[i], "abc"[j])
        for i, row in enumerate(table)
        for j, count in enumerate(row)
        for _ in range(count)
    ]


def test_kappa_matches_a_textbook_example() -> None:
    """Fleiss, Levin and Paik 2003, table 18.1: 100 diagnoses by two raters; kappa .68 (.51 to .85)."""
    found = cohens_kappa(pairs([[75, 1, 4], [5, 4, 1], [0, 0, 10]]), "abc")
    assert found.n == 100
    assert (found.observed, round(found.expected, 4)) == (0.89, 0.66)
    assert found.kappa == pytest.approx(0.6765, abs=5e-5)
    assert (found.high - found.kappa) / 1.96 == pytest.approx(0.0877, abs=5e-5)
    assert (found.low, found.high) == (pytest.approx(0.5046, abs=5e-5), pytest.approx(0.8484, abs=5e-5))


def test_kappa_is_correct_at_its_extremes() -> None:
    chance = cohens_kappa(pairs([[25, 25, 0], [25, 25, 0], [0, 0, 0]]), "abc")
    assert chance.kappa == 0
    opposed = cohens_kappa(pairs([[0, 10, 0], [10, 0, 0], [0, 0, 0]]), "abc")
    assert (opposed.kappa, opposed.low) == (-1, -1)
    perfect = cohens_kappa(pairs([[2, 0, 0], [0, 2, 0], [0, 0, 0]]), "abc")
    assert (perfect.kappa, perfect.high) == (1, 1)
    assert perfect.low == pytest.approx((0.025**0.25 - 0.5) / 0.5), "four items show little"
    alone = cohens_kappa(pairs([[5, 0, 0], [0, 0, 0], [0, 0, 0]]), "abc")
    assert (alone.kappa, alone.low, alone.observed) == (None, None, 1)
    with pytest.raises(ValueError, match="no items"):
        cohens_kappa([], "abc")
