"""What questions on shared pages are worth: against matrices, scipy and values worked out by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from branchrank.scoring.clustering import (
    Padding,
    design_effect,
    effective_pages,
    effective_questions,
    intraclass_correlation,
    observed_degrees,
    page_totals,
    t_penalty,
    working_degrees,
)

SIZES = np.array([12.0, 7, 7, 3, 2, 2, 1])


def sample(seed, sizes=SIZES, spread=0.5):
    """Values in 0..1 of pages that differ, and their pages."""
    rng = np.random.default_rng(seed)
    values = [np.clip(rng.normal(0.5 + spread * rng.normal(0, 0.3), 0.2, int(size)), 0, 1) for size in sizes]
    return np.concatenate(values), [f"p{page}" for page, size in enumerate(sizes) for _ in range(int(size))]


def test_the_correlation_within_pages_matches_scipys_analysis_of_variance():
    from scipy.stats import f_oneway

    values, pages = sample(3)
    groups = [values[[each == page for each in pages]] for page in dict.fromkeys(pages)]
    f = f_oneway(*groups).statistic
    n, typical = len(values), (SIZES.sum() - (SIZES**2).sum() / SIZES.sum()) / (len(SIZES) - 1)
    assert n == 34
    found = float(intraclass_correlation(page_totals(values, pages)))
    assert found == pytest.approx((f - 1) / (f - 1 + typical))


@pytest.mark.parametrize("icc", [0.0, 0.2, 1.0])
def test_degrees_of_freedom_match_the_matrix_formula(icc):
    """Bell and McCaffrey: the squared sum of the eigenvalues over the sum of their squares."""
    share = SIZES / SIZES.sum()
    residual = np.eye(len(SIZES)) - np.outer(share, np.ones(len(SIZES)))
    covariance = residual @ np.diag(SIZES * (1 + (SIZES - 1) * icc)) @ residual.T
    eigenvalues = np.linalg.eigvals(np.diag(1 / (1 - share)) @ covariance).real
    expected = eigenvalues.sum() ** 2 / (eigenvalues**2).sum()
    assert float(working_degrees(SIZES, np.asarray(icc))) == pytest.approx(expected)


def test_degrees_of_freedom_depend_on_the_spread_of_the_pages():
    """Deviations 1 and -1 on two pages, 0 on two: squares 1, 1, 0, 0 with weight 4/3 each."""
    totals = page_totals([1.0, 0, 0.5, 0.5], ["a", "b", "c", "d"])
    assert float(observed_degrees(totals)) == pytest.approx(2 * 2**2 / ((1 - 0.5) ** 2 * 4 * 4 / 3))
    alike = page_totals([1.0, 0, 1, 0], ["a", "b", "c", "d"])
    assert float(observed_degrees(alike)) == np.inf


def test_a_dominant_page_reduces_the_effective_questions():
    pages = [str(number // 4) for number in range(160)]
    values = np.tile([0.0, 1.0, 0, 0, 1, 0, 0, 1], 20)
    values[:4] = 1.0
    values[4:8] = 1.0
    totals = page_totals(values, pages)
    degrees = observed_degrees(totals)
    assert float(degrees) < 30
    expected = 160 / float(design_effect(totals)) * float(t_penalty(0.95, degrees))
    assert float(effective_questions(totals, 0.95)) == pytest.approx(expected)
    assert expected < 140


def test_each_page_counts_as_at_least_one_observation():
    totals = page_totals([0.0] * 10 + [1.0] * 90, [f"p{number // 10}" for number in range(100)])
    assert 100 / float(design_effect(totals)) * float(t_penalty(0.95, observed_degrees(totals))) < 4
    least = 10 * float(t_penalty(0.95, np.asarray(9.0)))
    assert float(effective_questions(totals, 0.95)) == pytest.approx(least)


def test_padding_matches_a_manual_calculation():
    """One differing question of 40 on pages of four, and 4 effective questions added, which are 10 questions:
    with a correlation of 0.5 their design effect is 2.5."""
    values, pages = [1.0] + [0.0] * 39, [str(number // 4) for number in range(40)]
    totals, padding = page_totals(values, pages), Padding(questions=4, variance=1.0, icc=0.5)
    own = ((1 - 0.1) ** 2 + 9 * 0.1**2) / 0.9
    naive = (1 / 40 - 1 / 1600) * 1600 / 39
    assert float(design_effect(totals)) == 1.0
    assert float(design_effect(totals, padding)) == pytest.approx((own + 25) / (naive + 10))
    assert float(observed_degrees(totals)) < 3
    ratio = float(observed_degrees(totals, padding) / observed_degrees(totals))
    assert ratio == pytest.approx(((own + 25) / own) ** 2)


def test_the_design_effect_matches_a_manual_calculation():
    rng = np.random.default_rng(8)
    pages = [str(number // 5) for number in range(200)]
    together = np.repeat(rng.choice([-1.0, 0.0, 1.0], size=40), 5)
    assert float(design_effect(page_totals(together, pages))) == pytest.approx(5 * (40 / 39) / (200 / 199))
    alone = page_totals(together, [str(number) for number in range(200)])
    assert float(design_effect(alone)) == 1.0
    assert float(intraclass_correlation(alone)) == 0.0


def test_with_equal_values_a_page_counts_as_one_question():
    totals = page_totals(np.zeros(60), [str(number // 4) for number in range(60)])
    assert float(design_effect(totals)) == 4
    worth = effective_questions(totals, 0.95)
    assert worth is not None
    assert float(worth) == pytest.approx(15 * float(t_penalty(0.95, np.asarray(14.0))))


def test_the_t_penalty_matches_scipy():
    from scipy.stats import norm, t

    found = t_penalty(0.95, np.array([4.0, 28.0, np.inf]))
    assert found == pytest.approx((norm.ppf(0.975) / t.ppf(0.975, [4, 28, np.inf])) ** 2)


def test_effective_pages_counts_equal_pages_and_discounts_a_large_one():
    assert effective_pages(np.full(9, 3.0)) == pytest.approx(9)
    assert effective_pages(np.array([30.0, 1, 1, 1])) < 1.3


def test_few_pages_have_no_effective_size_unless_each_has_one_question():
    def worth(sizes):
        values, pages = sample(1, sizes)
        return effective_questions(page_totals(values, pages), 0.95)

    assert worth([10, 10, 10, 10]) is None
    assert worth([100, 1, 1, 1, 1, 1, 1, 1]) is None
    assert worth([10] * 5) is not None
    assert worth([1, 1]) == 2
    assert worth([7]) is None


@given(st.lists(st.integers(1, 9), min_size=6, max_size=20), st.integers(0, 9))
def test_effective_questions_never_exceed_the_questions(sizes, seed):
    values, pages = sample(seed, sizes)
    worth = effective_questions(page_totals(values, pages), 0.95)
    if worth is not None:
        assert 0 < float(worth) <= len(values)


def test_many_samples_at_once_give_the_results_of_single_samples():
    rng = np.random.default_rng(5)
    sizes = np.array([4, 4, 3, 2, 2, 1, 1, 1])
    pages = [str(page) for page, size in enumerate(sizes) for _ in range(size)]
    values = rng.choice([0.0, 0.5, 1.0], size=(20, 18))
    each = [page_totals(row, pages) for row in values]
    together = each[0]._replace(
        sums=np.stack([one.sums for one in each]), squares=np.array([one.squares for one in each])
    )
    assert effective_questions(together, 0.95) == pytest.approx(
        [float(effective_questions(one, 0.95)) for one in each]
    )
