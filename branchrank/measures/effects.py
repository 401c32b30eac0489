"""Effect sizes for paired comparisons. Unlike p-values, effect sizes do not depend on the sample size.

1. The effect size for hit rates is the matched odds ratio, wins / losses (Agresti 2013, section 11.1). Let p
   be the share of wins among the questions on which the systems differ. The confidence interval for the odds
   ratio is the interval for the share p (clustered by page), with each bound converted to odds.
2. The effect size for other measures is Cohen's d_z, the mean difference divided by the standard deviation of
   the differences (Cohen 1988, section 2.3.5; Lakens 2013, equation 7).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from branchrank.measures.intervals import LEVEL, compatible, mean_interval
from branchrank.measures.significance import ROUNDING, Floats
from branchrank.records import Record


class Odds(Record, frozen=True, kw_only=True):
    """A matched odds ratio (from 0 to infinity; infinity means no losses) with its confidence interval.

    The bounds are ``None`` if too few pages contain gold of the questions on which the systems differ.
    """

    ratio: float
    low: float | None
    high: float | None


def matched_odds(
    differences: Sequence[float] | Floats,
    pages: Sequence[str],
    *,
    level: float = LEVEL,
    rejected: bool = False,
) -> Odds | None:
    """Return the matched odds ratio of ``differences`` (n,), with an interval clustered by ``pages`` (n,).

    ``rejected`` is true if the significance test rejected equality. If ``rejected`` is true, the odds ratios
    in the interval are all at least 1 or all at most 1. If ``rejected`` is false, the interval includes 1.
    Returns ``None`` if all differences are 0.

    >>> found = matched_odds([1.0] * 12 + [-1.0] * 6, [str(n) for n in range(18)])
    >>> found.ratio, round(found.low, 2), round(found.high, 2)
    (2.0, 0.78, 5.14)
    """
    won = [float(gap > 0) for gap in differences if gap]
    if not won:
        return None
    share, lost = sum(won) / len(won), won.count(0.0)
    where = [page for gap, page in zip(differences, pages, strict=True) if gap]
    found = compatible(mean_interval(won, where, level=level), share, rejected=rejected, null=0.5)
    return Odds(
        ratio=sum(won) / lost if lost else inf,
        low=None if found is None else _odds(found.low),
        high=None if found is None else _odds(found.high),
    )


def _odds(share: float) -> float:
    return inf if share >= 1 else share / (1 - share)


def cohens_d(differences: Sequence[float] | Floats) -> float | None:
    """Return Cohen's d_z of paired ``differences`` (n,), their mean divided by their standard deviation.

    Returns ``None`` if there are fewer than two questions, or if all differences are equal.

    >>> round(cohens_d([0.2, 0.5, -0.1, 0.4]), 3)
    0.945
    """
    values = np.asarray(differences, dtype=np.float64)
    if len(values) < 2 or np.ptp(values) < ROUNDING:
        return None
    return float(values.mean() / values.std(ddof=1))
