"""The share of the long campaigns that ``make test-full`` draws by a seed.

``BRANCHRANK_TEST_DRAW`` is the seed. Without it, campaigns are whole, and draw with the seed that the table
in ``docs/security.md`` names.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from random import Random
from typing import TypeVar

VARIABLE = "BRANCHRANK_TEST_DRAW"
#: One of so many trials is drawn.
SHARE = 40
#: The seed of the whole campaigns.
SEED = 42

Trial = TypeVar("Trial")


def drawn_with() -> int | None:
    """The seed of the draw; ``None`` where campaigns are whole."""
    given = os.environ.get(VARIABLE)
    return int(given) if given else None


def seed() -> int:
    """The seed for what a campaign draws by itself."""
    draw = drawn_with()
    return SEED if draw is None else draw


def number(trials: int) -> int:
    """How many of a campaign's trials are made."""
    return trials if drawn_with() is None else -(-trials // SHARE)


def some(trials: Iterable[Trial]) -> list[Trial]:
    """The drawn trials in their order, or all."""
    every = list(trials)
    if (draw := drawn_with()) is None:
        return every
    places = Random(draw).sample(range(len(every)), number(len(every)))
    return [every[place] for place in sorted(places)]
