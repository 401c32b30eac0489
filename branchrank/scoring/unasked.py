"""What the pages of a corpus that have no questions could change.

A of the C pages have questions. The mean difference of their page means is d. A page is lost if the candidate
loses each of its questions: k of the A pages are lost, and w is the mean of the page means of the others.

1. K is the largest number of lost pages in the corpus with which a random draw of A pages has at most k lost
   pages with a probability of at least ``chance`` (the hypergeometric distribution). L = K - k of them may be
   among the pages without questions.
2. The mean over the corpus is then (A * d + (C - A - L) * w - L) / C.
3. If this mean is not positive at a chance of .1, a ``better`` has a caution, which names how many more pages
   with a question would exclude it, if d, w and k stay the same.

The formulas assume that the pages with questions were drawn at random. If every page has a question, L is 0.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple

import numpy as np

from branchrank.scoring.clustering import PageTotals
from branchrank.scoring.significance import ROUNDING

#: The probability with which a sample may miss the pages that would undo a ``better``.
CAUTION = 0.1


class AskedPages(NamedTuple):
    """The pages of a corpus that have questions, seen from the side of one system.

    ``corpus`` is the number of pages of the corpus, and ``asked`` how many have questions. ``mean`` is the
    mean of the page means of the difference. ``lost`` counts the lost pages. ``rest`` is the mean of the page
    means of the other pages.
    """

    corpus: int
    asked: int
    mean: float
    lost: int
    rest: float

    def corrected(self, chance: float, asked: int = 0) -> float:
        """Return the mean over the corpus, with as many lost pages as ``chance`` allows.

        ``asked`` replaces the number of pages with questions.
        """
        asked = asked or self.asked
        unseen = most_lost(self.corpus, asked, self.lost, chance) - self.lost
        rest = (self.corpus - asked - unseen) * self.rest
        return (asked * self.mean + rest - unseen) / self.corpus

    def more_pages(self, chance: float, above: float) -> int:
        """Return how many more pages need a question for a corrected mean above ``above``, or 0."""
        if self.corrected(chance) > above:
            return 0
        enough = range(self.asked, self.corpus)
        return bisect_left(enough, True, key=lambda asked: self.corrected(chance, asked) > above)


def asked_pages(totals: PageTotals, corpus: int) -> AskedPages:
    """Count the lost pages of ``totals``, in which each page of gold is a page."""
    means = totals.sums / totals.sizes
    lost = means <= ROUNDING - 1
    mean = float(means.mean())
    rest = mean if lost.all() else float(means[~lost].mean())
    return AskedPages(max(corpus, len(means)), len(means), mean, int(lost.sum()), rest)


def most_lost(corpus: int, asked: int, lost: int, chance: float) -> int:
    """Return the largest K with P(Hypergeometric(corpus, K, asked) <= lost) >= ``chance``.

    >>> most_lost(31, 31, 2, 0.1), most_lost(332, 33, 0, 0.1)
    (2, 21)
    """
    possible = range(lost, corpus - asked + lost + 1)
    return (
        lost
        + bisect_right(possible, -chance, key=lambda all_lost: -_at_most(corpus, all_lost, asked, lost))
        - 1
    )


def _at_most(corpus: int, lost: int, asked: int, most: int) -> float:
    """Return P(Hypergeometric(corpus, lost, asked) <= most)."""
    from scipy.special import gammaln

    def log_choose(n: int, k: np.ndarray | int) -> np.ndarray:
        return np.asarray(gammaln(n + 1) - gammaln(np.add(k, 1)) - gammaln(np.subtract(n + 1, k)))

    drawn = np.arange(max(0, asked - (corpus - lost)), min(most, lost, asked) + 1)
    logs = log_choose(lost, drawn) + log_choose(corpus - lost, asked - drawn) - log_choose(corpus, asked)
    return float(np.exp(logs).sum())
