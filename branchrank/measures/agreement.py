"""Agreement of two annotators beyond chance: Cohen's kappa with its interval.

With ``p[i][j]`` the share of items that the first annotator puts into category i and the second into j:

1. Observed agreement ``po = sum p[i][i]``, and by chance ``pe = sum p[i][.] * p[.][i]``.
2. ``kappa = (po - pe) / (1 - pe)`` (Cohen 1960). It is not defined if both use only one and the same
   category.
3. Its large-sample standard error is that of Fleiss, Cohen and Everitt 1969 (Fleiss, Levin and Paik 2003,
   "Statistical Methods for Rates and Proportions", formula 18.15); the interval is the normal one,
   cut at -1 and 1. It takes the items as independent.
4. If they agree on every item, that error is 0, which is too optimistic for few items. The lower bound is
   then step 2 with the lower bound of ``po`` (Clopper and Pearson 1934: ``(alpha / 2) ** (1 / n)``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import NormalDist

from branchrank.records import Record


class Agreement(Record, frozen=True, kw_only=True):
    """Two annotators over the same ``n`` items.

    ``table[i][j]`` counts items of category i by the first and j by the second. ``observed`` and ``expected``
    are shares in 0..1. ``kappa``, in -1..1, with ``low`` and ``high`` is ``None`` where it is not defined.
    """

    categories: tuple[str, ...]
    table: tuple[tuple[int, ...], ...]
    n: int
    observed: float
    expected: float
    kappa: float | None
    standard_error: float | None
    low: float | None
    high: float | None


def cohens_kappa(
    pairs: Sequence[tuple[str, str]], categories: Sequence[str], *, alpha: float = 0.05
) -> Agreement:
    """Cohen's kappa over pairs of categories, one pair an item. Raises ``ValueError`` without items.

    >>> found = cohens_kappa([("yes", "yes"), ("yes", "no"), ("no", "no"), ("no", "no")], ("yes", "no"))
    >>> found.observed, found.expected, found.kappa
    (0.75, 0.5, 0.5)
    """
    if not pairs:
        raise ValueError("no items")
    counts = Counter(pairs)
    table = tuple(tuple(counts[first, second] for second in categories) for first in categories)
    n = len(pairs)
    shares = [[count / n for count in row] for row in table]
    size = range(len(categories))
    rows = [sum(shares[i]) for i in size]
    columns = [sum(shares[i][j] for i in size) for j in size]
    observed = sum(shares[i][i] for i in size)
    expected = sum(rows[i] * columns[i] for i in size)
    kappa = error = low = high = None
    if expected < 1:
        kappa = (observed - expected) / (1 - expected)
        error = _standard_error(shares, rows, columns, kappa, expected, n)
        reach = NormalDist().inv_cdf(1 - alpha / 2) * error
        low, high = max(-1.0, kappa - reach), min(1.0, kappa + reach)
        if all(table[i][j] == 0 for i in size for j in size if i != j):
            low = ((alpha / 2) ** (1 / n) - expected) / (1 - expected)
    return Agreement(
        categories=tuple(categories),
        table=table,
        n=n,
        observed=observed,
        expected=expected,
        kappa=kappa,
        standard_error=error,
        low=low,
        high=high,
    )


def _standard_error(
    shares: Sequence[Sequence[float]],
    rows: Sequence[float],
    columns: Sequence[float],
    kappa: float,
    expected: float,
    n: int,
) -> float:
    size = range(len(rows))
    agreed = sum(shares[i][i] * (1 - (rows[i] + columns[i]) * (1 - kappa)) ** 2 for i in size)
    apart = sum(shares[i][j] * (columns[i] + rows[j]) ** 2 for i in size for j in size if i != j)
    spread = agreed + (1 - kappa) ** 2 * apart - (kappa - expected * (1 - kappa)) ** 2
    return math.sqrt(max(0.0, spread) / n) / (1 - expected)
