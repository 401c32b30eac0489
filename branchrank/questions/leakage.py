"""How much of an answer's wording a question gives away."""

from __future__ import annotations

from branchrank.settings import Bm25Settings
from branchrank.stores.analyzer import analyzer

#: The stems of a text without stop words and without the words that ask.
content_stems = analyzer(Bm25Settings(stop_words="questions", split_identifiers=False))


def leaked_share(question: str, answer: str) -> float:
    """Share, in 0..1, of the question's distinct content words that the answer's wording has too."""
    asked = frozenset(content_stems(question))
    return len(asked & frozenset(content_stems(answer))) / len(asked) if asked else 0.0
