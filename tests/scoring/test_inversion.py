"""The interval of a difference: typical values by brute force, and what every sample must satisfy."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from support.comparing import flip_test, sign_flip

from branchrank.scoring.clustering import page_totals
from branchrank.scoring.significance import FlipTest, difference_interval, mcnemar

#: 100 questions on 83 pages, and 154 on 29.
SYMFONY = [3, 3, *[2] * 13, *[1] * 68]
SAMPLE = [12, 11, 9, 8, 8, 8, 7, 7, 7, *[6] * 5, 5, 5, 5, 4, 4, 4, 4, 3, 3, 2, 2, 2, 2, 1, 1]
LEVELS = (0.05, 0.05 / 2, 0.05 / 7)


def typical_bounds(sums, sizes, alpha):
    """The bounds by enumeration: no difference between them has a sign-flip p below alpha."""
    halves = list(product((0, 1), repeat=len(sums)))[1:]
    means = np.sort([np.dot(half, sums) / np.dot(half, sizes) for half in halves])
    chance = 0.5 ** len(sums)
    skipped = int(np.ceil(alpha / 2 / chance - 1e-9)) - 2  # the empty half counts as extreme
    return (-1.0, 1.0) if skipped < 0 else (means[skipped], means[-1 - skipped])


PAGES = st.integers(1, 4).flatmap(lambda n: st.tuples(st.integers(-n, n), st.just(n)))


@given(st.lists(PAGES, min_size=1, max_size=9), st.sampled_from([1, 0.3]), st.sampled_from([0.05, 0.2]))
def test_the_bounds_of_the_sign_flip_are_typical_values(pages, unit, alpha):
    sums, sizes = np.array(pages).T
    found = flip_test(sums * unit, sizes)
    expected = typical_bounds(sums * unit, sizes, alpha)
    assert [found.flip_bound(alpha, side) for side in (-1, 1)] == pytest.approx(expected, abs=3e-8)
    assert found.p == pytest.approx(sign_flip(sums * unit).p, rel=1e-9)


def test_more_singles_than_can_be_added_one_by_one_have_mcnemars_p():
    found = flip_test([1] * 1_060 + [-1] * 940 + [0] * 3_000, [1] * 5_000)
    assert found.test == "sign-flip, exact"
    assert found.p == pytest.approx(mcnemar(1_060, 940), rel=1e-9)


def test_drawn_halves_give_the_exact_bounds_and_p_within_their_error():
    random = np.random.default_rng(5)
    sizes = random.integers(1, 5, 40)
    sums = random.integers(-1, 3, 40).clip(-sizes, sizes)
    exact, drawn = (flip_test(sums * unit, sizes, seed=2) for unit in (1, 1 - 1e-6))
    assert (exact.test, drawn.test) == ("sign-flip, exact", "sign-flip, 100,000 draws")
    assert drawn.p == pytest.approx(exact.p, abs=0.003)
    for side in (-1, 1):
        assert drawn.flip_bound(0.05, side) == pytest.approx(exact.flip_bound(0.05, side), abs=0.005)


@pytest.mark.parametrize("asked", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("lost", [0, 1, 3])
def test_few_differences_have_the_bounds_of_the_score_test(lost, asked):
    """At the outer bound of the floor, z standard errors separate it from the mean: pages of 4 questions."""
    values = np.repeat([1.0] * lost + [0.0] * (200 - 4 * lost), [4] * lost + [1] * (200 - 4 * lost))[:200]
    pages = [str(n // 4) for n in range(200)]
    found = FlipTest(page_totals(-values, pages), asked=asked)
    z2 = 1.959964**2
    icc = 0.4 * (1 - asked)
    added = z2 * (1 + 3 * icc)
    naive = values.var() * 200**2 / 199 + added
    clustered = lost * (4 - 4 * values.mean()) ** 2 + (50 - lost) * (4 * values.mean()) ** 2
    effect = 1.0 if asked == 1 else (clustered / (1 - 4 / 200) + added * (1 + 3 * icc)) / naive

    def beyond(theta):
        return (theta - values.mean()) ** 2 - z2 * effect / 200 * theta * (1 - theta)

    expected = brentq(beyond, values.mean() + 1e-6, 1)
    assert -found.interval(0.05).low == pytest.approx(
        max(expected, -found.flip_bound(0.05, -1), values.mean() + found._t_half(0.05))
    )
    assert expected > 1.2 * values.mean()


def few_differences(sizes, won, lost):
    """The interval where the first questions of ``won`` and of ``lost`` other pages differ, in points."""
    pages = [str(page) for page, size in enumerate(sizes) for _ in range(size)]
    first = [pages.index(str(page)) for page in range(won + lost)]
    values = np.zeros(len(pages))
    values[first[:won]], values[first[won:]] = 1.0, -1.0
    found = difference_interval(values, pages)
    return round(100 * found.low, 1), round(100 * found.high, 1)


@pytest.mark.parametrize("sizes", [SYMFONY, SAMPLE, [8] * 30, [13] * 30], ids=len)
def test_one_question_more_lost_lowers_both_bounds(sizes):
    lost = [few_differences(sizes, 0, count) for count in range(7)]
    assert lost == sorted(lost, reverse=True)
    highs = [high for _, high in lost]
    assert highs == sorted(highs, reverse=True)


@pytest.mark.parametrize("pages", [1, 4])
def test_few_pages_have_no_interval(pages):
    values = np.tile([1.0, 0.0, 1.0], 20)
    assert difference_interval(values, [str(n % pages) for n in range(60)]) is None
    assert difference_interval([], []) is None
    single = difference_interval([0.3], ["page"])
    assert (single.low, single.high) == (-1.0, 1.0)


SCORES = [-1.0, -0.5, -1 / 3, -0.2, 0.0, 0.0, 0.0, 0.1, 1 / 3, 0.5, 1.0]
SAMPLES = st.booleans().flatmap(
    lambda hits: st.lists(
        st.tuples(st.sampled_from([-1.0, 0.0, 0.0, 1.0] if hits else SCORES), st.integers(0, 30)),
        min_size=1,
        max_size=60,
    )
)


def flip_of(sample, asked=0.0, sign=1):
    values = sign * np.array([value for value, _ in sample])
    return FlipTest(page_totals(values, [str(page) for _, page in sample]), asked=asked, draws=999)


@given(SAMPLES, st.sampled_from([0.0, 0.5, 1.0]))
def test_an_interval_agrees_with_p_contains_the_mean_and_is_wider_at_a_smaller_alpha(sample, asked):
    found = flip_of(sample, asked)
    wider = None
    for alpha in (*LEVELS, found.p):
        interval = found.interval(alpha)
        if interval is None:
            continue
        assert -1 <= interval.low <= found.mean <= interval.high <= 1
        assert (interval.low <= 0 <= interval.high) == (found.p >= alpha)
        if wider is not None and alpha != found.p:
            assert interval.low <= wider.low
            assert interval.high >= wider.high
        wider = interval


@given(SAMPLES, st.randoms(use_true_random=False))
def test_the_order_of_questions_does_not_matter_and_a_sign_change_mirrors_the_interval(sample, random):
    found = flip_of(sample)
    shuffled, mirrored = flip_of(random.sample(sample, len(sample))), flip_of(sample, sign=-1)
    exact = "exact" in found.test
    assert mirrored.p == pytest.approx(found.p)
    if exact:
        assert shuffled.p == pytest.approx(found.p)
    if (interval := found.interval(0.05)) is None:
        assert shuffled.interval(0.05) is mirrored.interval(0.05) is None
        return
    other = mirrored.interval(0.05)
    assert (-other.high, -other.low) == pytest.approx((interval.low, interval.high), abs=5e-8)
    if exact:
        other = shuffled.interval(0.05)
        assert (other.low, other.high) == pytest.approx((interval.low, interval.high), abs=5e-8)
