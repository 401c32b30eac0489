"""The pages of a corpus without a question: against scipy, brute force, and planned numbers of pages."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from branchrank.scoring.clustering import page_totals
from branchrank.scoring.intervals import AskedPages, asked_pages, most_lost


@given(st.integers(1, 400), st.data(), st.sampled_from([0.1, 0.025]))
def test_the_most_lost_pages_are_those_of_the_hypergeometric_distribution(corpus, data, chance):
    from scipy.stats import hypergeom

    asked = data.draw(st.integers(1, corpus))
    lost = data.draw(st.integers(0, asked))
    found = most_lost(corpus, asked, lost, chance)
    assert lost <= found <= corpus - asked + lost
    assert hypergeom.cdf(lost, corpus, found, asked) >= chance - 1e-9
    if found < corpus - asked + lost:
        assert hypergeom.cdf(lost, corpus, found + 1, asked) < chance + 1e-9


@pytest.mark.parametrize(
    ("corpus", "five", "eight"), [(31, 21, 17), (172, 38, 27), (332, 44, 29), (3_000, 47, 30)]
)
def test_so_many_pages_exclude_that_lost_pages_undo_a_gain_of_5_or_8_points(corpus, five, eight):
    for gain, pages in ((0.05, five), (0.08, eight)):
        seen = AskedPages(corpus, 3, gain, 0, gain)
        assert 3 + seen.more_pages(0.1, 0.0) == pages
        enough = seen._replace(asked=pages)
        assert enough.more_pages(0.1, 0.0) == 0
        assert enough._replace(asked=pages - 1).more_pages(0.1, 0.0) == 1


def test_the_corrected_mean_by_hand():
    """12 of 40 pages: one lost, one won by half, the others tied; most_lost is the enumerated K."""
    from scipy.stats import hypergeom

    values = [-1.0, -1.0, 1.0, 0.0, *[0.0] * 10]
    pages = ["lost", "lost", "half", "half", *map(str, range(10))]
    seen = asked_pages(page_totals(values, pages), 40)
    assert seen[:2] == (40, 12)
    assert (seen.mean, seen.lost, seen.rest) == pytest.approx((-0.5 / 12, 1, 0.5 / 11))
    unseen = max(k for k in range(1, 30) if hypergeom.cdf(1, 40, k, 12) >= 0.1) - 1
    expected = (12 * seen.mean + (28 - unseen) * seen.rest - unseen) / 40
    assert seen.corrected(0.1) == pytest.approx(expected)
    mirrored = asked_pages(page_totals(-np.array(values), pages), 40)
    assert (mirrored.mean, mirrored.lost) == (-seen.mean, 0)


@given(st.integers(2, 300), st.data())
def test_more_pages_are_the_fewest_that_exclude_it(corpus, data):
    asked = data.draw(st.integers(1, corpus))
    lost = data.draw(st.integers(0, min(3, asked)))
    rest = data.draw(st.floats(0.01, 1))
    mean = (rest * (asked - lost) - lost) / asked
    assume(mean > 0.001)
    seen = AskedPages(corpus, asked, mean, lost, rest)
    more = seen.more_pages(0.1, 0.0)
    assert asked + more == corpus or seen.corrected(0.1, asked + more) > 0
    assert more == 0 or seen.corrected(0.1, asked + more - 1) <= 0
    if lost == 0:
        assert all(seen.corrected(0.1, asked + each) <= 0 for each in range(more))


def test_lost_pages_alone_leave_nothing_to_win():
    seen = asked_pages(page_totals([-1.0] * 4, ["a", "b", "c", "c"]), 9)
    assert (seen.mean, seen.lost, seen.rest) == (-1.0, 3, -1.0)
    assert seen.corrected(0.1) == pytest.approx(-1.0)
