"""The intervals of a rate and of a mean, against published examples and formulas, and on pages."""

from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from branchrank.scoring.clustering import effective_questions, page_totals
from branchrank.scoring.intervals import (
    mean_bounds,
    mean_interval,
    mean_padding,
    repeat_variance,
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


@pytest.mark.parametrize(("successes", "n"), [(0, 20), (7, 30), (81, 263), (148, 148)])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_a_padded_mean_of_hits_matches_agresti_and_coull(successes, n, level):
    """The interval of graded means, on hits, is Agresti and Coull's."""
    values = hits(successes, n)
    low, high = mean_bounds(page_totals(values, singles(values)), level, rate=False)
    z = NormalDist().inv_cdf((1 + level) / 2)
    share = (successes + z**2 / 2) / (n + z**2)
    half = z * (share * (1 - share) / (n + z**2)) ** 0.5
    assert (float(low), float(high)) == pytest.approx((max(share - half, 0), min(share + half, 1)))


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


SYMFONY = [3, 3, *[2] * 13, *[1] * 68]


def test_few_failing_questions():
    """Of 100 questions on 83 pages none or one fails."""
    pages = [str(page) for page, size in enumerate(SYMFONY) for _ in range(size)]
    values = np.ones(100)
    assert mean_interval(values, pages).low == pytest.approx(0.956, abs=5e-4)
    values[0] = 0.0
    assert mean_interval(values, pages).low == pytest.approx(0.933, abs=5e-4)


def test_few_pages_have_no_interval():
    values = np.tile([1.0, 0.0], 20)
    for pages in (["one"] * 40, [str(number // 10) for number in range(40)]):
        assert mean_interval(values, pages) is None
    assert mean_interval(values, [str(number // 8) for number in range(40)]) is not None


SCORES = st.lists(
    st.tuples(st.sampled_from([0.0, 0.2, 1 / 3, 0.5, 1.0]), st.integers(0, 12)), min_size=1, max_size=40
)


@given(SCORES, st.booleans(), st.sampled_from([0.8, 0.95, 0.99]))
def test_every_interval_contains_the_mean_and_stays_within_the_scale(scores, alone, level):
    values = np.array([value for value, _ in scores])
    pages = singles(values) if alone else [str(page) for _, page in scores]
    for found, lowest, mean in (
        (mean_interval(values, pages, level=level), 0, values.mean()),
        (mean_interval(np.rint(values), pages, level=level), 0, np.rint(values).mean()),
    ):
        assert found is not None or not alone
        if found is not None:
            assert lowest <= found.low <= mean + 1e-12
            assert mean - 1e-12 <= found.high <= 1
            assert found.low < found.high


def test_repeats_that_flip_alone_add_only_chance():
    """Each question's repeats differ independently: the variance between the means contains all of it."""
    rng = np.random.default_rng(3)
    shares = [repeat_variance(rng.random((200, 3)) < rng.random((200, 1))) for _ in range(200)]
    spread = [np.var((rng.random((200, 3)) < rng.random((200, 1))).mean(axis=1)) / 200 for _ in range(200)]
    assert np.mean(shares) < 0.3 * np.mean(spread)


@pytest.mark.parametrize(
    ("repeats", "variance"),
    [
        ([1.0, 0.0], 0.25),  # half of the variance 0.5 of the two rates
        ([1.0, 0.0, 1.0], 1 / 9),
        ([1.0, 1.0, 1.0], 0.0),
        ([1.0], 0.0),
    ],
)
def test_a_repeat_that_is_better_on_all_questions_widens_the_interval(repeats, variance):
    values = [repeats] * 20
    assert repeat_variance(values) == pytest.approx(variance)
    means = [float(np.mean(each)) for each in values]
    alone = mean_interval(means, singles(values))
    found = mean_interval(means, singles(values), shared=repeat_variance(values))
    assert (found == alone) is (variance == 0)
    assert found.high - found.low >= min(2 * 1.96 * variance**0.5, 0.99)


def test_an_interval_of_repeats_covers_the_expected_rate():
    """Questions, repeats and their combinations vary; the interval without the repeats covers too seldom."""
    rng = np.random.default_rng(5)
    covered, without = 0, 0
    for _ in range(300):
        chances = np.clip(0.5 + rng.normal(0, 0.2, (60, 1)) + rng.normal(0, 0.15, (1, 8)), 0, 1)
        values = (rng.random((60, 8)) < chances).astype(float)
        means, pages = values.mean(axis=1), singles(values)
        wide = mean_interval(means, pages, shared=repeat_variance(values))
        narrow = mean_interval(means, pages)
        covered += wide.low <= 0.5 <= wide.high
        without += narrow.low <= 0.5 <= narrow.high
    assert covered >= 0.9 * 300 > without
