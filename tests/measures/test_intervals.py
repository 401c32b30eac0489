"""Intervals against published examples and statsmodels; what they do with pages; how often they hold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from branchrank.measures.clustering import effective_questions, page_totals
from branchrank.measures.intervals import (
    difference_interval,
    mean_bounds,
    mean_interval,
    mean_padding,
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
def test_wilson_as_published(successes, n, low, high):
    found = mean_interval(hits(successes, n), singles(range(n)))
    assert (found.low, found.high) == pytest.approx((low, high), abs=5e-5)


def test_wilson_at_the_edges():
    assert mean_interval(hits(20, 20), singles(range(20))).high == 1.0
    assert mean_interval(hits(0, 20), singles(range(20))).low == 0.0
    assert mean_interval([], []) is None
    assert difference_interval([], []) is None


@pytest.mark.parametrize(("successes", "n"), [(0, 20), (7, 30), (81, 263), (148, 148)])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_a_padded_mean_of_hits_as_agresti_and_coull(successes, n, level):
    """The interval of graded means, on hits, is Agresti and Coull's (statsmodels)."""
    from statsmodels.stats.proportion import proportion_confint

    values = hits(successes, n)
    low, high = mean_bounds(page_totals(values, singles(values)), level, rate=False)
    expected = proportion_confint(successes, n, alpha=1 - level, method="agresti_coull")
    assert (float(low), float(high)) == pytest.approx(expected)


def test_a_difference_as_bonett_and_price():
    """Their example of 2012, as R's statpsych prints it: of 48 pairs 26 to 4 differ; estimate 0.44, standard
    error 0.09448809. They add two questions, which is z**2 at a level of 84%."""
    from scipy.special import ndtr

    differences = [1.0] * 26 + [-1.0] * 4 + [0.0] * 18
    found = difference_interval(differences, singles(differences), level=2 * ndtr(2**0.5) - 1)
    centre, half = (found.low + found.high) / 2, (found.high - found.low) / 2
    assert (centre, half / 2**0.5) == pytest.approx((0.44, 0.09448809), abs=5e-9)


def test_no_difference_in_n_questions_is_wilsons_bound_of_none_in_n():
    """Newcombe's 0 of 20: 0.1611."""
    found = difference_interval([0.0] * 20, singles(range(20)))
    assert (found.low, found.high) == pytest.approx((-0.1611, 0.1611), abs=5e-5)
    widths = [difference_interval([0.0] * n, singles(range(n))).high for n in (50, 100, 400)]
    assert widths == pytest.approx([0.0713, 0.0370, 0.0095], abs=5e-5)


def test_a_rate_on_shared_pages_is_wilsons_at_the_effective_questions():
    values = hits(45, 60)
    pages = [str(number // 3) for number in range(60)]
    found = mean_interval(values, pages)
    n = effective_questions(page_totals(values, pages), 0.95, mean_padding(0.95))
    assert float(n) < 30
    assert (found.low, found.high) == pytest.approx(tuple(map(float, wilson_bounds(0.75, n))))
    alone = mean_interval(values, singles(values))
    assert found.high - found.low > 1.5 * (alone.high - alone.low)


def test_a_rate_never_takes_its_pages_for_independent():
    """Pages of four that show no correlation at all."""
    values, pages = np.tile([0.0, 1.0], 60), [str(number // 4) for number in range(120)]
    found = mean_interval(values, pages)
    n = float(effective_questions(page_totals(values, pages), 0.95, mean_padding(0.95)))
    assert n < 120 / 1.05
    assert (found.low, found.high) == pytest.approx(tuple(map(float, wilson_bounds(0.5, n))))


def test_a_difference_allows_for_shared_pages_only_where_they_matter():
    pages = [str(number // 4) for number in range(120)]
    together, apart = np.repeat([1.0, 0, -1, 1, 0, 1] * 5, 4), np.tile([1.0, 0, -1, 1], 30)
    for values, least, most in ((together, 1.7, 2.6), (apart, 1.0, 1.1)):
        shared, alone = difference_interval(values, pages), difference_interval(values, singles(values))
        assert least < (shared.high - shared.low) / (alone.high - alone.low) < most


#: 100 questions on 83 pages, and 154 on 29 (the bundled sample).
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
        (SYMFONY, 0, 0, 0.95, -4.2, 4.2),
        (SYMFONY, 0, 1, 0.95, -5.5, 3.6),
        (SYMFONY, 1, 1, 0.95, -5.0, 5.0),
        (SYMFONY, 0, 2, 0.95, -6.8, 3.0),
        (SYMFONY, 0, 3, 0.95, -8.1, 2.3),
        (SYMFONY, 0, 1, 0.99375, -9.3, 7.4),
        (SAMPLE, 0, 0, 0.95, -6.4, 6.4),
        (SAMPLE, 0, 1, 0.95, -6.9, 5.7),
        (SAMPLE, 1, 1, 0.95, -6.4, 6.4),
        (SAMPLE, 0, 2, 0.95, -7.5, 5.0),
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


def test_a_higher_level_is_wider():
    values = hits(30, 60)
    widths = [
        found.high - found.low
        for found in (
            difference_interval(values, singles(values), level=level) for level in (0.9, 0.95, 0.99)
        )
    ]
    assert widths == sorted(widths)
    assert widths[2] > 1.25 * widths[1]


SCORES = st.lists(
    st.tuples(st.sampled_from([0.0, 0.2, 1 / 3, 0.5, 1.0]), st.integers(0, 12)), min_size=1, max_size=40
)


@settings(derandomize=True, max_examples=150, deadline=None)
@given(SCORES, st.booleans(), st.sampled_from([0.8, 0.95, 0.99]))
def test_every_interval_holds_the_mean_and_stays_on_the_scale(scores, alone, level):
    values = np.array([value for value, _ in scores])
    pages = singles(values) if alone else [str(page) for _, page in scores]
    for found, lowest, mean in (
        (mean_interval(values, pages, level=level), 0, values.mean()),
        (mean_interval(np.rint(values), pages, level=level), 0, np.rint(values).mean()),
        (difference_interval(1 - 2 * values, pages, level=level), -1, (1 - 2 * values).mean()),
    ):
        assert found is not None or not alone
        if found is not None:
            assert lowest <= found.low <= mean + 1e-12
            assert mean - 1e-12 <= found.high <= 1
            assert found.low < found.high


@settings(derandomize=True, max_examples=80, deadline=None)
@given(SCORES, st.randoms(use_true_random=False))
def test_order_is_nothing_and_a_sign_mirrors(scores, random):
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
