"""Percentiles that claim what the sample supports, and risk against coverage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branchrank.runs.estimates import risk_coverage
from branchrank.runs.timings import percentile


@pytest.mark.parametrize(
    ("n", "value", "upper"),
    [(1, 1, None), (20, 19, None), (58, 56, None), (59, 57, 59), (92, 88, 92), (93, 89, 92), (200, 190, 196)],
)
def test_p95_has_a_bound_from_59_queries(n, value, upper):
    found = percentile([float(each) for each in range(n, 0, -1)], 0.95)
    assert (found.value_ms, found.upper_ms) == (value, upper)


@pytest.mark.parametrize(
    ("n", "words"),
    [(10, "slowest"), (20, "second-slowest"), (58, "third-slowest")],
)
def test_p95_names_its_rank_from_the_slowest(n, words):
    assert percentile([1.0] * n, 0.95).words == f"{words}; no upper bound"


@pytest.mark.parametrize(
    ("n", "quantile", "low", "high"),
    [(5, 0.5, None, None), (6, 0.5, 1, 6), (100, 0.5, 40, 61), (71, 0.95, None, None), (72, 0.95, 64, 72)],
)
def test_the_interval_of_a_percentile_is_two_sided(n, quantile, low, high):
    """Each side errs with at most 2.5%: of 100 times, the 40th and the 61st (Conover 1999, table A3)."""
    from scipy.stats import binom

    found = percentile([float(each) for each in range(1, n + 1)], quantile)
    assert (found.low_ms, found.high_ms) == (low, high)
    if low is not None:
        assert binom.cdf(low - 1, n, quantile) <= 0.025 < binom.cdf(low, n, quantile)
        assert binom.sf(high - 1, n, quantile) <= 0.025 < binom.sf(high - 2, n, quantile)


def test_a_risk_coverage_curve_matches_a_manual_calculation():
    found = risk_coverage([(0.9, True), (0.8, False), (0.7, True), (0.1, False)])
    assert found.points == ((0.25, 0), (0.5, 1 / 2), (0.75, 1 / 3), (1, 1 / 2))
    assert found.aurc == pytest.approx((0 + 1 / 2 + 1 / 3 + 1 / 2) / 4)
    assert found.excess == pytest.approx(found.aurc - (0 + 0 + 1 / 3 + 1 / 2) / 4)


def test_answers_with_equal_confidence_are_added_together():
    found = risk_coverage([(0.5, True), (0.5, False)])
    assert found.points == ((1.0, 0.5),)
    assert found.aurc == 0.5


def test_abstaining_lowers_coverage_but_not_risk():
    found = risk_coverage([(0.5, True), (None, False)])
    assert found.points[-1][0] == 0.5
    assert found.aurc == 0.0


def test_a_system_that_never_answers_has_an_undefined_risk():
    never = risk_coverage([(None, False), (None, False)])
    assert (never.points, never.aurc, never.excess) == ((), None, None)


@given(st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.3, 0.4]), st.booleans()), min_size=1, max_size=12))
def test_the_best_order_has_no_excess(pairs):
    found = risk_coverage(pairs)
    assert 0 <= found.excess <= found.aurc <= 1
    best = risk_coverage([(1.0 - place / 100 - (not right), right) for place, (_, right) in enumerate(pairs)])
    assert best.excess == pytest.approx(0)
