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

#: The seed of the draw; ``None`` where campaigns are whole. Read once, as tests change the environment.
DRAWN_WITH = int(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None

Trial = TypeVar("Trial")


def seed() -> int:
    """The seed for what a campaign draws by itself."""
    return SEED if DRAWN_WITH is None else DRAWN_WITH


def number(trials: int) -> int:
    """How many of a campaign's trials are made."""
    return trials if DRAWN_WITH is None else -(-trials // SHARE)


def some(trials: Iterable[Trial]) -> list[Trial]:
    """The drawn trials in their order, or all."""
    every = list(trials)
    if DRAWN_WITH is None:
        return every
    places = Random(DRAWN_WITH).sample(range(len(every)), number(len(every)))
    return [every[place] for place in sorted(places)]
