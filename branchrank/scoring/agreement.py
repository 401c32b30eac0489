"""Cohen's kappa, which measures how far two annotators agree beyond chance, and its confidence interval.

Let ``p[i][j]`` be the share of items that the first annotator puts into category i and the second into j.

1. The observed agreement is ``po = sum p[i][i]``, and the agreement expected by chance is ``pe = sum p[i][.]
   * p[.][i]``, where a dot means that ``p`` is summed over that index.
2. ``kappa = (po - pe) / (1 - pe)`` (Cohen 1960). Kappa is not defined if both annotators put all items into
   the same category.
3. The standard error is computed with the large-sample formula of Fleiss, Cohen and Everitt 1969, which is
   formula 18.15 in Fleiss, Levin and Paik 2003 ("Statistical Methods for Rates and Proportions"). The
   confidence interval is computed from the standard error with the normal approximation, and is limited to
   the range from -1 to 1. The formula for the standard error assumes that the items are independent.
4. If the annotators agree on every item, the standard error is 0, which is too optimistic if there are only a
   few items. Without disagreements, the lower bound of kappa is computed from the lower bound of ``po``,
   which is ``(alpha / 2) ** (1 / n)`` for n items (Clopper and Pearson 1934).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from branchrank.core.records import Record


class Agreement(Record, frozen=True, kw_only=True):
    """The agreement between two annotators on the same ``n`` items.

    ``table[i][j]`` counts the items that the first annotator put into category i and the second into j.
    ``observed`` is the share of items that both annotators put into the same category. ``expected`` is the
    value of ``observed`` that would be expected by chance. ``kappa``, ``low`` and ``high`` are in -1..1, or
    ``None`` if kappa is not defined.
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
    """Return Cohen's kappa for ``pairs``, which contains the two annotators' categories for each item.

    Raises ``ValueError`` if there are no items.

    >>> found = cohens_kappa([("yes", "yes"), ("yes", "no"), ("no", "no"), ("no", "no")], ("yes", "no"))
    >>> found.observed, found.expected, found.kappa
    (0.75, 0.5, 0.5)
    """
    if not pairs:
        raise ValueError("no items")
    counts, n = Counter(pairs), len(pairs)
    table = np.array([[counts[first, second] for second in categories] for first in categories])
    shares = table / n
    rows, columns = shares.sum(axis=1), shares.sum(axis=0)
    observed, expected = float(np.trace(shares)), float(rows @ columns)
    kappa = error = low = high = None
    if expected < 1:
        kappa = (observed - expected) / (1 - expected)
        apart = shares * ~np.eye(len(table), dtype=bool)
        spread = float(np.diag(shares) @ (1 - (rows + columns) * (1 - kappa)) ** 2)
        spread += (1 - kappa) ** 2 * float((apart * (columns[:, None] + rows) ** 2).sum())
        spread -= (kappa - expected * (1 - kappa)) ** 2
        error = math.sqrt(max(0.0, spread) / n) / (1 - expected)
        reach = NormalDist().inv_cdf(1 - alpha / 2) * error
        low, high = max(-1.0, kappa - reach), min(1.0, kappa + reach)
        if not apart.any():
            low = ((alpha / 2) ** (1 / n) - expected) / (1 - expected)
    return Agreement(
        categories=tuple(categories),
        table=tuple(map(tuple, table.tolist())),
        n=n,
        observed=observed,
        expected=expected,
        kappa=kappa,
        standard_error=error,
        low=low,
        high=high,
    )
