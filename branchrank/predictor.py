"""The protocol of a retriever of your own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from branchrank.records import Hit


class Predictor(Protocol):
    """A retriever of your own, benchmarked beside the built-in systems.

    Any class with this method works; it need not inherit from anything. Two attributes are optional:
    ``name``, the name in tables (default: that of the class), and ``llm``, the model it asks (default:
    ``none``).
    """

    def retrieve(self, query: str, k: int) -> Sequence[Hit]:
        """At most ``k`` hits for ``query``, best first. An exception counts as a missed question."""
        ...
