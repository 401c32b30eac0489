"""Sizing: the published table, brute force, and the way back from difference to questions."""

from math import ceil

import pytest

from branchrank.core.errors import UsageError
from branchrank.scoring.clustering import kish_effect, t_penalty
from branchrank.scoring.power import (
    NO_SHARED_PAGES,
    SharedPages,
    detectable_hit_difference,
    detectable_mean_difference,
    hit_power,
    pages_alone,
    pages_as_in,
    plan,
    questions_for_hit_difference,
    questions_for_mean_difference,
    unanimous_needed,
)
from branchrank.scoring.significance import mcnemar


@pytest.mark.parametrize(
    ("n", "low", "high", "at_20", "at_40"),
    [
        (20, 0.48, 0.86, None, 0.385),
        (50, 0.56, 0.81, 0.18, 0.255),
        (100, 0.60, 0.78, 0.13, 0.185),
        (200, 0.63, 0.76, 0.095, 0.13),
        (400, 0.65, 0.74, 0.065, 0.095),
    ],
)
def test_the_table_of_detectable_differences(n, low, high, at_20, at_40):
    """95% interval at a hit rate of .70, and the detectable difference in steps of .005, rounded up."""
    interval = plan(n).interval
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=0.0055)
    for disagreement, expected in ((0.2, at_20), (0.4, at_40)):
        found = detectable_hit_difference(n, disagreement)
        rounded = None if found is None else ceil(found * 200 - 0.01) / 200
        assert rounded == expected


@pytest.mark.parametrize(("n", "disagreement", "difference"), [(12, 0.5, 0.3), (15, 1.0, 0.4), (9, 0.8, 0.8)])
def test_power_matches_brute_force(n, disagreement, difference):
    from scipy.stats import multinomial

    win, lose = (disagreement + difference) / 2, (disagreement - difference) / 2
    outcomes = multinomial(n, [win, lose, 1 - disagreement])
    expected = sum(
        outcomes.pmf([wins, losses, n - wins - losses])
        for wins in range(n + 1)
        for losses in range(n + 1 - wins)
        if mcnemar(wins, losses) <= 0.05
    )
    assert hit_power(n, disagreement, difference) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("alpha", [0.05, 0.01, 1e-6])
def test_the_critical_values_are_exact(alpha):
    from scipy.stats import binom

    for n in range(5, 150):
        critical = binom.ppf(alpha / 2, n, 0.5)
        if 2 * binom.cdf(critical, n, 0.5) > alpha:
            critical -= 1
        expected = binom.cdf(critical, n, 0.65) + binom.sf(n - critical - 1, n, 0.65)
        assert hit_power(n, 1.0, 0.3, alpha) == pytest.approx(expected, abs=1e-9), n


def test_questions_needed_reach_the_power_and_one_fewer_does_not():
    needed = questions_for_hit_difference(0.2, 0.1)
    assert hit_power(needed, 0.2, 0.1) >= 0.8 > hit_power(needed - 1, 0.2, 0.1)
    assert questions_for_hit_difference(0.2, -0.1) == needed
    assert questions_for_hit_difference(0.2, 0.0) is None
    assert questions_for_hit_difference(0.4, 0.001) is None


def test_the_detectable_graded_difference_is_2_8_standard_errors():
    assert detectable_mean_difference(100, 0.5) == pytest.approx(2.8 * 0.5 / 10, rel=0.001)
    assert questions_for_mean_difference(0.5, 0.14) == 101
    assert questions_for_mean_difference(0.5, 0.0) is None
    assert questions_for_mean_difference(0.5, 0.001) is None


def test_unanimous_flips_needed_in_families():
    assert [unanimous_needed(family) for family in (1, 3, 6, 10)] == [6, 7, 8, 9]


def test_a_plan_gives_the_power_of_n_questions():
    made = plan(50, disagreement=0.2, difference=0.1)
    assert made.detectable == pytest.approx(0.18, abs=0.005)
    assert (made.differing, made.unanimous) == (10, 6)
    assert made.power < 0.8 < hit_power(made.questions_needed, 0.2, 0.1) + 1e-9
    assert plan(50, difference=0.1, family=5).questions_needed > made.questions_needed


@pytest.mark.parametrize(
    "wrong",
    [{"disagreement": 1.2}, {"rate_expected": -1}, {"family": 0}, {"difference": 0.5, "disagreement": 0.2}],
)
def test_an_impossible_plan_is_refused(wrong):
    with pytest.raises(UsageError):
        plan(50, **wrong)
    with pytest.raises(UsageError):
        plan(0)


def test_questions_on_shared_pages_detect_less_and_more_of_them_are_needed():
    pages = SharedPages(page_size=pages_alone(29), icc=0.2)
    shared, alone = (plan(154, difference=0.1, pages=each) for each in (pages, NO_SHARED_PAGES))
    size = 1.25 * 154 / 29
    worth = 154 / kish_effect(size, 0.2) * float(t_penalty(0.95, 154 / size - 1))
    assert shared.effective == pytest.approx(worth)
    assert shared.detectable == detectable_hit_difference(int(worth), 0.2)
    assert shared.detectable > alone.detectable
    assert shared.power == hit_power(int(worth), 0.2, 0.1) < alone.power
    assert shared.interval.high - shared.interval.low > alone.interval.high - alone.interval.low
    # 29 pages hold only so much: a rising number of questions on them is worth less and less.
    assert shared.questions_needed is None
    needed = plan(154, difference=0.15, pages=pages).questions_needed
    wanted = questions_for_hit_difference(0.2, 0.15)
    assert pages.effective_questions(needed, 0.95) >= wanted > pages.effective_questions(needed - 1, 0.95)


def test_a_pilot_measures_how_often_two_questions_share_a_page():
    """Two pages of two questions: 2 of the 6 pairs of questions are on one page."""
    assert pages_as_in([2, 2])(7) == pytest.approx(1 + 6 * (2 * 2) / (4 * 3))
    assert pages_as_in([1, 1, 1])(400) == 1
    assert pages_as_in([1])(400) == 1
    assert pages_alone(100)(50) == 1


def test_without_correlation_pages_only_reduce_the_degrees_of_freedom():
    pages = SharedPages(page_size=pages_alone(29), icc=0.0)
    assert 0.85 * 154 < plan(154, pages=pages).effective < 154


def test_a_correlation_outside_0_to_1_is_refused():
    with pytest.raises(UsageError):
        plan(50, pages=SharedPages(page_size=pages_alone(10), icc=1.5))
