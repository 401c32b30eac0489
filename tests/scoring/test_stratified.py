"""Macro differences over datasets: by hand, and by simulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.comparing import sign_flip

from branchrank.scoring.comparison import CompareOptions
from branchrank.scoring.intervals import Interval
from branchrank.scoring.verdicts import Stratum, compare_strata, macro_interval

SAMPLES = 400


def stratum(name, gaps, pages=None):
    """A dataset whose questions have these differences of hits."""
    ids = [f"{name}{number}" for number in range(len(gaps))]
    base = {key: float(gap < 0) for key, gap in zip(ids, gaps, strict=True)}
    candidate = {key: float(gap > 0) for key, gap in zip(ids, gaps, strict=True)}
    return Stratum(scores={"a": base, "b": candidate}, pages=dict(zip(ids, pages or ids, strict=True)))


def compare(*strata, **options):
    chosen = CompareOptions(**{"draws": 1_999, **options})
    (found,) = compare_strata(strata, [("a", "b")], measure="hit@1", options=chosen)
    return found


def test_every_dataset_counts_the_same_whatever_its_size():
    small, large = stratum("s", [1] * 4 + [0] * 6), stratum("l", [-1] * 10 + [0] * 90)
    found = compare(small, large)
    assert found.differences == pytest.approx((0.4, -0.1))
    assert found.difference == pytest.approx(0.15)
    assert (found.wins, found.ties, found.losses) == (4, 96, 10)


def test_the_test_is_a_sign_flip_of_pages_weighted_by_dataset():
    small = stratum("s", [1, 1, 0, 1, -1], pages=["x", "x", "y", "z", "z"])
    large = stratum("l", [1] * 5 + [-1] * 2 + [0] * 13)
    sums = [2 / 5, 0, 0, *[1 / 20] * 5, *[-1 / 20] * 2]
    assert compare(small, large).p == pytest.approx(sign_flip(np.array(sums)).p)
    assert compare(small, large).test.startswith("stratified sign-flip")
    four, six = stratum("f", [1, 1, 1, -1]), stratum("s", [1, 1, -1, 0, 0, 0])
    sums = [*[1 / 4] * 3, -1 / 4, *[1 / 6] * 2, -1 / 6]
    assert compare(four, six).p == pytest.approx(sign_flip(np.array(sums)).p)


def test_the_interval_is_that_of_zou_and_donner():
    parts = [Interval(low=0.1, high=0.35), Interval(low=-0.2, high=0.1)]
    found = macro_interval([0.2, 0.0], parts)
    assert found.low == pytest.approx(0.1 - np.hypot(0.1, 0.2) / 2)
    assert found.high == pytest.approx(0.1 + np.hypot(0.15, 0.1) / 2)
    assert macro_interval([0.2, 0.0], [parts[0], None]) is None


def test_the_interval_contains_0_unless_the_test_rejects_and_few_pages_have_none():
    pages = [str(number % 30) for number in range(390)]
    gaps = [1] * 3 + [0] * 387
    found = compare(stratum("x", gaps, pages), stratum("y", gaps, pages))
    assert found.verdict == "better"
    assert 0 < found.ci_low < found.difference < found.ci_high
    few = compare(stratum("x", [1] * 3 + [0] * 37, pages=["p"] * 40), stratum("y", [1, 0]))
    assert (few.ci_low, few.ci_high, few.verdict) == (None, None, "too few questions to tell")


def test_candidates_are_one_family():
    base = stratum("x", [1] * 20 + [-1] * 6 + [0] * 50)
    scores = {**base.scores, "c": base.scores["b"], "d": base.scores["b"]}
    pairs = [("a", name) for name in "bcd"]
    three = compare_strata(
        [Stratum(scores, base.pages)] * 2, pairs, measure="hit@1", options=CompareOptions(draws=1_999)
    )
    one = compare(base, base)
    assert [each.family for each in three] == [3, 3, 3]
    assert three[0].p_adjusted == pytest.approx(3 * one.p)
    assert three[0].ci_high > one.ci_high


GAPS = st.lists(st.tuples(st.sampled_from([-1, 0, 0, 0, 1]), st.integers(0, 12)), min_size=12, max_size=40)


@given(GAPS, GAPS)
def test_no_interval_contradicts_its_test(first, second):
    parts = [[list(each) for each in zip(*gaps, strict=True)] for gaps in (first, second)]
    found = compare(
        *(
            stratum(name, gaps, [str(p) for p in pages])
            for name, (gaps, pages) in zip("xy", parts, strict=True)
        ),
        draws=499,
    )
    if found.ci_low is not None:
        assert found.ci_low <= found.difference <= found.ci_high
        assert (found.p < 0.05) == (not found.ci_low <= 0 <= found.ci_high)


def test_ties_of_a_dataset_are_in_the_halves():
    """With two equal datasets, the bounds are close to those of one dataset with all their questions."""
    gaps = [1] * 14 + [-1] * 2 + [0] * 44
    one, two = compare(stratum("x", gaps * 2)), compare(stratum("x", gaps), stratum("y", gaps), draws=20_000)
    assert two.p == pytest.approx(one.p, abs=1e-4)
    assert (two.ci_low, two.ci_high) == pytest.approx((one.ci_low, one.ci_high), abs=0.01)


@pytest.mark.full
def test_the_stratified_test_keeps_its_level_and_the_interval_its_coverage():
    """Datasets of other sizes, disagreement and pages; a true difference of 0, or of 0.1 and -0.02."""
    random = np.random.default_rng(3)
    rejected = held = 0
    for _ in range(SAMPLES):
        null = [
            stratum("x", random.choice([1, -1, 0], 80, p=[0.2, 0.2, 0.6])),
            stratum(
                "y",
                random.choice([1, -1, 0], 150, p=[0.05, 0.05, 0.9]),
                [str(number // 3) for number in range(150)],
            ),
        ]
        rejected += compare(*null, draws=199).p < 0.05
        moved = [
            stratum("x", random.choice([1, -1, 0], 80, p=[0.2, 0.1, 0.7])),
            stratum("y", random.choice([1, -1, 0], 150, p=[0.04, 0.06, 0.9])),
        ]
        found = compare(*moved, draws=199)
        held += found.ci_low <= 0.04 <= found.ci_high
    assert rejected / SAMPLES <= 0.05 + 3 * (0.05 * 0.95 / SAMPLES) ** 0.5
    assert held / SAMPLES >= 0.93 - 3 * (0.93 * 0.07 / SAMPLES) ** 0.5
