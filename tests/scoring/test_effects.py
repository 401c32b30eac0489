"""Effect sizes against worked examples and scipy."""

from math import inf

import numpy as np
import pytest

from branchrank.scoring.intervals import cohens_d, matched_odds


def test_the_odds_are_infinite_without_losses_and_undefined_without_differences():
    assert (matched_odds(12, 6), matched_odds(0, 6)) == (2.0, 0.0)
    assert (matched_odds(7, 0), matched_odds(0, 0)) == (inf, None)


def test_cohens_d_is_t_divided_by_the_square_root_of_n():
    from scipy.stats import ttest_1samp

    gaps = np.random.default_rng(4).normal(0.1, 0.3, 40)
    assert cohens_d(gaps) == pytest.approx(ttest_1samp(gaps, 0).statistic / np.sqrt(40))
    assert cohens_d([0.2]) is None
    assert cohens_d([0.2, 0.2]) is None
    assert cohens_d([0.1, 0.3]) == pytest.approx(0.2 / np.sqrt(0.02))
