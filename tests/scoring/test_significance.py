"""Tests of significance against published examples, statsmodels, brute force, and simulated nulls."""

from itertools import product
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.comparing import sign_flip

from branchrank.scoring.significance import holm, mcnemar, paired_t

# Darwin's maize: cross- minus self-fertilized heights, eighths of an inch. Fisher (The Design of
# Experiments, 1935, section 21) counts 863 of 32,768 sign patterns that reach the total of 314.
MAIZE = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]


def test_the_exact_test_matches_fishers_count_for_darwins_maize():
    expected = 2 * 863 / 32768
    assert sign_flip(np.array(MAIZE, dtype=float)).p == pytest.approx(expected, rel=1e-12)
    assert sign_flip(np.array(MAIZE) / 8).p == pytest.approx(expected, rel=1e-12)
    assert sign_flip(np.array(MAIZE) / 8).test == "sign-flip, exact"
    assert paired_t(MAIZE) == pytest.approx(0.0497, abs=5e-5)


@pytest.mark.parametrize(("wins", "losses"), [(0, 0), (6, 0), (0, 6), (10, 2), (7, 7), (121, 59), (1, 0)])
def test_mcnemar_matches_statsmodels(wins, losses):
    from statsmodels.stats.contingency_tables import mcnemar as reference

    expected = reference([[50, wins], [losses, 50]], exact=True).pvalue if wins + losses else 1.0
    assert mcnemar(wins, losses) == pytest.approx(expected, rel=1e-9)


@given(st.integers(1, 40), st.integers(0, 40))
def test_mcnemar_is_the_sign_flip_of_single_questions(wins, losses):
    sums = np.array([1.0] * wins + [-1.0] * losses)
    assert sign_flip(sums).p == pytest.approx(mcnemar(wins, losses), rel=1e-9)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=9), st.sampled_from([1, 0.1]))
def test_exact_p_is_the_brute_force_count(sums, unit):
    patterns = [
        sum(s * v for s, v in zip(signs, sums, strict=True)) for signs in product((1, -1), repeat=len(sums))
    ]
    expected = sum(abs(total) >= abs(sum(sums)) for total in patterns) / len(patterns)
    assert sign_flip(np.array(sums) * unit).p == pytest.approx(expected, rel=1e-9)


def test_random_draws_come_near_the_exact_p_and_repeat_by_seed():
    values = np.random.default_rng(7).normal(0.2, 1, 20)
    exact = sign_flip(values)
    padded = np.concatenate([values, [1e-8]])  # a 21st cluster that changes nothing but the method
    drawn = sign_flip(padded, seed=3)
    assert (exact.test, drawn.test) == ("sign-flip, exact", "sign-flip, 100,000 draws")
    assert drawn.p == pytest.approx(exact.p, abs=0.005)
    assert sign_flip(padded, seed=3).p == drawn.p != sign_flip(padded, seed=4).p


@given(
    st.lists(st.permutations([1, 1 / 2, 1 / 3, 1 / 4, 1 / 5]), min_size=1, max_size=25),
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
)
def test_sums_that_differ_from_0_by_rounding_do_not_change_p(permuted, real):
    """Reciprocal ranks that only changed places have the true sum 0, in whatever order they are added."""
    differences = [np.array(ranks) - (1, 1 / 2, 1 / 3, 1 / 4, 1 / 5) for ranks in permuted]
    noise = [float(each.cumsum()[-1]) for each in differences]
    found, expected = sign_flip(noise + real), sign_flip(real)
    assert (found.p, found.test) == (pytest.approx(expected.p), expected.test)


def test_a_drawn_p_is_never_zero():
    assert sign_flip(np.linspace(0.5, 1, 60), draws=999).p == 1 / 1000


@patch("gc.collect", int)  # statsmodels collects the garbage of the whole process in every call.
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_matches_statsmodels(p_values):
    from statsmodels.stats.multitest import multipletests

    assert holm(p_values) == pytest.approx(tuple(multipletests(p_values, method="holm")[1]))


def test_the_t_test_is_undefined_without_spread():
    from scipy.stats import ttest_1samp

    assert paired_t([0.1, 0.1, 0.1]) is None
    assert paired_t([0.1, 0.2, 0.4]) == pytest.approx(ttest_1samp([0.1, 0.2, 0.4], 0).pvalue)
    assert paired_t([0.3]) is None
