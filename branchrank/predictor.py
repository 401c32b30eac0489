"""The protocol that your own retriever must follow to be benchmarked as a predictor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from branchrank.records import Hit


class Predictor(Protocol):
    """A retriever of your own, which can be benchmarked together with the built-in systems.

    Any class with a method ``retrieve`` can be used, without a base class. The class can define two optional
    attributes. ``name`` is the predictor's name in tables (by default the name of the class), and ``llm`` is
    the name of the LLM that the predictor uses (by default ``none``).
    """

    def retrieve(self, query: str, k: int) -> Sequence[Hit]:
        """Return at most ``k`` hits for ``query``, best first.

        If ``retrieve`` raises an exception, the question counts as a miss.
        """
        ...
