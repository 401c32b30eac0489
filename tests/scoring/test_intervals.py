"""Intervals against published examples and statsmodels; what they do with pages; how often they hold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from branchrank.scoring.clustering import effective_questions, page_totals
from branchrank.scoring.intervals import (
    difference_interval,
    mean_bounds,
    mean_interval,
    mean_padding,
    score_bounds,
    wilson_bounds,
)


def singles(values):
    return [str(number) for number in range(len(values))]


def hits(successes, n):
    return [1.0] * successes + [0.0] * (n - successes)


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [  # Newcombe, Statistics in Medicine 1998, table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_matches_published_values(successes, n, low, high):
    found = mean_interval(hits(successes, n), singles(range(n)))
    assert (found.low, found.high) == pytest.approx((low, high), abs=5e-5)


def test_wilson_is_correct_at_0_and_1():
    assert mean_interval(hits(20, 20), singles(range(20))).high == 1.0
    assert mean_interval(hits(0, 20), singles(range(20))).low == 0.0
    assert mean_interval([], []) is None
    assert difference_interval([], []) is None


@pytest.mark.parametrize(("successes", "n"), [(0, 20), (7, 30), (81, 263), (148, 148)])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_a_padded_mean_of_hits_matches_agresti_and_coull(successes, n, level):
    """The interval of graded means, on hits, is Agresti and Coull's (statsmodels)."""
    from statsmodels.stats.proportion import proportion_confint

    values = hits(successes, n)
    low, high = mean_bounds(page_totals(values, singles(values)), level, rate=False)
    expected = proportion_confint(successes, n, alpha=1 - level, method="agresti_coull")
    assert (float(low), float(high)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("won", "lost", "n", "low", "high"),
    [
        (1, 7, 21, -0.517, -0.026),  # Fagerland, Lydersen and Laake, Statistics in Medicine 2014, table IV
        (86, 150, 1600, -0.059, -0.021),  # approval ratings: Agresti, Categorical Data Analysis, 10.1
    ],
)
def test_a_difference_of_hits_matches_tangos_interval(won, lost, n, low, high):
    differences = [1.0] * won + [-1.0] * lost + [0.0] * (n - won - lost)
    found = difference_interval(differences, singles(differences))
    assert (found.low, found.high) == pytest.approx((low, high), abs=5e-4)


@pytest.mark.parametrize(("won", "lost", "n"), [(8, 5, 154), (0, 3, 40), (30, 1, 60), (40, 0, 40)])
def test_tangos_bounds_solve_its_equation(won, lost, n):
    """At a bound, z standard errors of the restricted estimate separate it from the observed difference."""
    from scipy.optimize import minimize_scalar

    def likelihood(share_lost, true):
        parts = [(won, share_lost + true), (lost, share_lost), (n - won - lost, 1 - 2 * share_lost - true)]
        return sum(-count * np.log(max(part, 1e-300)) for count, part in parts if count)

    bounds = score_bounds(np.array((won - lost) / n), np.array((won + lost) / n), np.array(float(n)))
    for true in map(float, bounds):
        if abs(true) < 1:
            limits = (max(0.0, -true), (1 - true) / 2)
            found = minimize_scalar(likelihood, bounds=limits, args=(true,), options={"xatol": 1e-12})
            share = found.x
            variance = (2 * share + true - true**2) / n
            assert ((won - lost) / n - true) ** 2 == pytest.approx(1.959964**2 * variance, rel=1e-4)


def test_a_graded_difference_matches_students_interval_when_all_questions_differ():
    """BEIR's smallest sets: 50 queries whose AP differs a little on each."""
    from scipy.stats import t

    differences = 0.02 + np.random.default_rng(3).normal(0, 0.05, 50).round(4)
    found = difference_interval(differences, singles(differences))
    low, high = t.interval(0.95, 49, differences.mean(), differences.std(ddof=1) / 50**0.5)
    assert found.low + found.high == pytest.approx(low + high)
    assert 1 <= (found.high - found.low) / (high - low) < 1.03
    assert found.high - found.low < 0.035


def test_ties_widen_a_graded_difference_by_the_size_of_the_others():
    """By hand: 9 differences of 0.5 and one of -0.5 among 40 queries."""
    differences = [0.5] * 9 + [-0.5] + [0.0] * 30
    found = difference_interval(differences, singles(differences))
    n = 40 * (1.959964 / 2.022691) ** 2
    variance = (2.5 / 40 - 0.1**2) * 40 / 39 + 1.959964**2 * (31 / 41) * (3.5 / 11) / n
    half = 1.959964 * (variance / n) ** 0.5
    assert (found.low, found.high) == pytest.approx((0.1 - half, 0.1 + half), abs=1e-6)


def test_one_small_difference_does_not_prove_that_all_are_small():
    found = difference_interval([0.001] + [0.0] * 99, singles(range(100)))
    assert found.high > 0.02
    assert difference_interval([0.3], ["page"]).high == 1


def test_a_rate_on_shared_pages_has_wilsons_interval_for_the_effective_questions():
    values = hits(45, 60)
    pages = [str(number // 3) for number in range(60)]
    found = mean_interval(values, pages)
    n = effective_questions(page_totals(values, pages), 0.95, mean_padding(0.95))
    assert float(n) < 30
    assert (found.low, found.high) == pytest.approx(tuple(map(float, wilson_bounds(0.75, n))))
    alone = mean_interval(values, singles(values))
    assert found.high - found.low > 1.5 * (alone.high - alone.low)


def test_a_rate_never_treats_pages_as_independent():
    """Pages of four that show no correlation at all."""
    values, pages = np.tile([0.0, 1.0], 60), [str(number // 4) for number in range(120)]
    found = mean_interval(values, pages)
    n = float(effective_questions(page_totals(values, pages), 0.95, mean_padding(0.95)))
    assert n < 120 / 1.05
    assert (found.low, found.high) == pytest.approx(tuple(map(float, wilson_bounds(0.5, n))))


def test_a_difference_interval_widens_only_for_correlated_pages():
    pages = [str(number // 4) for number in range(120)]
    together, apart = np.repeat([1.0, 0, -1, 1, 0, 1] * 5, 4), np.tile([1.0, 0, -1, 1], 30)
    for values, least, most in ((together, 1.7, 2.6), (apart, 1.0, 1.1)):
        shared, alone = difference_interval(values, pages), difference_interval(values, singles(values))
        assert least < (shared.high - shared.low) / (alone.high - alone.low) < most


#: 100 questions on 83 pages, and 154 on 29.
SYMFONY = [3, 3, *[2] * 13, *[1] * 68]
SAMPLE = [12, 11, 9, 8, 8, 8, 7, 7, 7, *[6] * 5, 5, 5, 5, 4, 4, 4, 4, 3, 3, 2, 2, 2, 2, 1, 1]


def few_differences(sizes, won, lost, level=0.95):
    """The interval where the first questions of ``won`` and of ``lost`` other pages differ, in points."""
    pages = [str(page) for page, size in enumerate(sizes) for _ in range(size)]
    first = [pages.index(str(page)) for page in range(won + lost)]
    values = np.zeros(len(pages))
    values[first[:won]], values[first[won:]] = 1.0, -1.0
    found = difference_interval(values, pages, level=level)
    return round(100 * found.low, 1), round(100 * found.high, 1)


@pytest.mark.parametrize(
    ("sizes", "won", "lost", "level", "low", "high"),
    [
        (SYMFONY, 0, 0, 0.95, -4.1, 4.1),
        (SYMFONY, 0, 1, 0.95, -5.7, 3.0),
        (SYMFONY, 1, 1, 0.95, -4.9, 4.9),
        (SYMFONY, 0, 2, 0.95, -7.2, 1.9),
        (SYMFONY, 0, 3, 0.95, -8.6, 0.9),
        (SYMFONY, 0, 1, 0.99375, -9.5, 6.8),
        (SAMPLE, 0, 0, 0.95, -5.7, 5.7),
        (SAMPLE, 0, 1, 0.95, -6.3, 4.5),
        (SAMPLE, 1, 1, 0.95, -5.4, 5.4),
        (SAMPLE, 0, 2, 0.95, -6.9, 3.4),
    ],
)
def test_few_differing_questions(sizes, won, lost, level, low, high):
    assert few_differences(sizes, won, lost, level) == (low, high)
    assert few_differences(sizes, lost, won, level) == (-high, -low)


def test_few_failing_questions():
    """Of 100 questions on 83 pages none or one fails."""
    pages = [str(page) for page, size in enumerate(SYMFONY) for _ in range(size)]
    values = np.ones(100)
    assert mean_interval(values, pages).low == pytest.approx(0.956, abs=5e-4)
    values[0] = 0.0
    assert mean_interval(values, pages).low == pytest.approx(0.933, abs=5e-4)


@pytest.mark.parametrize("level", [0.95, 0.99375])
@pytest.mark.parametrize("sizes", [SYMFONY, SAMPLE, [8] * 30, [13] * 30], ids=len)
def test_one_question_more_lost_lowers_both_bounds(sizes, level):
    lost = [few_differences(sizes, 0, count, level) for count in range(7)]
    assert lost == sorted(lost, reverse=True)
    highs = [high for _, high in lost]
    assert highs == sorted(highs, reverse=True)
    widths = [high - low for low, high in lost]
    assert max(widths[:3]) < 1.2 * widths[0]


def test_few_pages_have_no_interval():
    values = np.tile([1.0, 0.0], 20)
    for pages in (["one"] * 40, [str(number // 10) for number in range(40)]):
        assert mean_interval(values, pages) is None
        assert difference_interval(values, pages) is None
    assert mean_interval(values, [str(number // 8) for number in range(40)]) is not None


SCORES = st.lists(
    st.tuples(st.sampled_from([0.0, 0.2, 1 / 3, 0.5, 1.0]), st.integers(0, 12)), min_size=1, max_size=40
)


@given(SCORES, st.booleans(), st.sampled_from([0.8, 0.95, 0.99]))
def test_every_interval_contains_the_mean_and_stays_within_the_scale(scores, alone, level):
    values = np.array([value for value, _ in scores])
    pages = singles(values) if alone else [str(page) for _, page in scores]
    whole = np.rint(1 - 2 * values)
    for found, lowest, mean in (
        (mean_interval(values, pages, level=level), 0, values.mean()),
        (mean_interval(np.rint(values), pages, level=level), 0, np.rint(values).mean()),
        (difference_interval(1 - 2 * values, pages, level=level), -1, (1 - 2 * values).mean()),
        (difference_interval(whole, pages, level=level), -1, whole.mean()),
    ):
        assert found is not None or not alone
        if found is not None:
            assert lowest <= found.low <= mean + 1e-12
            assert mean - 1e-12 <= found.high <= 1
            assert found.low < found.high


@given(SCORES, st.randoms(use_true_random=False))
def test_the_order_does_not_matter_and_a_sign_change_mirrors_the_interval(scores, random):
    values, pages = [value for value, _ in scores], [str(page) for _, page in scores]
    mixed = random.sample(list(zip(values, pages, strict=True)), len(values))
    found = difference_interval(values, pages)
    shuffled = difference_interval(*map(list, zip(*mixed, strict=True)))
    mirrored = difference_interval([-value for value in values], pages)
    if found is None:
        assert shuffled is None
        assert mirrored is None
    else:
        assert (shuffled.low, shuffled.high) == pytest.approx((found.low, found.high))
        assert (-mirrored.high, -mirrored.low) == pytest.approx((found.low, found.high))
