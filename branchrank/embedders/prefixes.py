"""What a model was trained to see before a query and before a document.

A model that states its own prompts is asked first; these are the published conventions of model families
that often don't, or that are served by name, where there is no one to ask.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Prefixes(NamedTuple):
    """Texts put before a query and before a document, separators included."""

    query: str = ""
    document: str = ""


_CONVENTIONS = (
    (r"coderankembed", Prefixes("Represent this query for searching relevant code: ")),
    (r"nomic-embed-text.*", Prefixes("search_query: ", "search_document: ")),
    (r"(multilingual-)?e5-(small|base|large)(-v2)?", Prefixes("query: ", "passage: ")),
    (
        r"(bge-(small|base|large)-en.*|mxbai-embed-large.*)",
        Prefixes("Represent this sentence for searching relevant passages: "),
    ),
)


def conventional_prefixes(model: str) -> Prefixes:
    """The published prefixes for a model's name, owner and tag (``owner/name:tag``) apart; else none."""
    name = model.rstrip("/").rpartition("/")[2].partition(":")[0].lower()
    for pattern, prefixes in _CONVENTIONS:
        if re.fullmatch(pattern, name):
            return prefixes
    return Prefixes()
