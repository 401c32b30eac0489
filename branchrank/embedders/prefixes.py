"""The prefixes that a model was trained with, for queries and for documents.

A model's own prompts are preferred. These prefixes, published for model families, are used for models without
prompts, and for models on a server, where the prompts can't be read.
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
    """The published prefixes for a model's name, ignoring owner and tag (``owner/name:tag``); else empty."""
    name = model.rstrip("/").rpartition("/")[2].partition(":")[0].lower()
    for pattern, prefixes in _CONVENTIONS:
        if re.fullmatch(pattern, name):
            return prefixes
    return Prefixes()
