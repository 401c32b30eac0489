"""The protocol that your own retriever must follow to be benchmarked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from branchrank.records import Hit


class Predictor(Protocol):
    """Your own retriever, which can be benchmarked together with the built-in systems.

    Any class with a method ``retrieve`` works; a base class is not needed. Two attributes are optional.
    ``name`` is the name in tables (by default the name of the class), and ``llm`` is the name of the LLM that
    the retriever uses (by default ``none``).
    """

    def retrieve(self, query: str, k: int) -> Sequence[Hit]:
        """Return at most ``k`` hits for ``query``, best first. If the method raises, the question counts as a
        miss.
        """
        ...
