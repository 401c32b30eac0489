"""Effect sizes against worked examples and scipy."""

from math import inf

import numpy as np
import pytest

from branchrank.scoring.intervals import cohens_d, matched_odds, mean_interval


def pages(count):
    return [str(number) for number in range(count)]


def test_the_odds_of_a_differing_question_have_wilsons_interval():
    gaps = [1.0] * 12 + [0.0] * 30 + [-1.0] * 6
    found = matched_odds(gaps, pages(48))
    share = mean_interval([1.0] * 12 + [0.0] * 6, pages(18))
    assert found[0] == 2.0
    assert found[1:] == pytest.approx((share.low / (1 - share.low), share.high / (1 - share.high)))
    mirrored = matched_odds([-gap for gap in gaps], pages(48))
    assert mirrored[:2] == pytest.approx((0.5, 1 / found[2]))


def test_the_odds_are_infinite_without_losses_and_undefined_without_differences():
    found = matched_odds([1.0] * 7, pages(7), rejected=True)
    assert found[::2] == (inf, inf)
    assert found[1] > 1
    assert matched_odds([0.0] * 7, pages(7)) == (None, None, None)


def test_the_interval_contains_1_unless_the_test_rejects():
    gaps = [1.0] * 6 + [-1.0]
    assert matched_odds(gaps, pages(7))[1] <= 1
    assert matched_odds(gaps, pages(7), rejected=True)[1] >= 1
    assert matched_odds([-gap for gap in gaps], pages(7), rejected=True)[2] <= 1


def test_differing_questions_of_few_pages_have_no_interval():
    found = matched_odds([1.0] * 6 + [-1.0] * 2, ["a"] * 4 + ["b"] * 4)
    assert found == (3.0, None, None)


def test_cohens_d_is_t_divided_by_the_square_root_of_n():
    from scipy.stats import ttest_1samp

    gaps = np.random.default_rng(4).normal(0.1, 0.3, 40)
    assert cohens_d(gaps) == pytest.approx(ttest_1samp(gaps, 0).statistic / np.sqrt(40))
    assert cohens_d([0.2]) is None
    assert cohens_d([0.2, 0.2]) is None
    assert cohens_d([0.1, 0.3]) == pytest.approx(0.2 / np.sqrt(0.02))
