"""The leakage of a question: the share of its content words that the answer contains."""

from __future__ import annotations

from branchrank.settings import Bm25Settings
from branchrank.stores.analyzer import analyzer

#: Returns the stems of a text's words, without stop words and question words.
content_stems = analyzer(Bm25Settings(stop_words="questions", split_identifiers=False))


def leaked_share(question: str, answer: str) -> float:
    """Return the share, in 0..1, of the question's distinct content words that also occur in the answer."""
    asked = frozenset(content_stems(question))
    return len(asked & frozenset(content_stems(answer))) / len(asked) if asked else 0.0
