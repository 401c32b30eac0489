"""The prefixes with which embedding models were trained, for queries and for documents.

The prompts in a model's configuration are preferred to the prefixes in this module. The prefixes here were
published for families of models. Published prefixes are used for models without prompts, and for models on a
server, because a server does not return the prompts.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Prefixes(NamedTuple):
    """The texts that are put before a query and before a document, including separators."""

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
    """Return the published prefixes for a model, which are empty for an unknown model.

    The owner and the tag in ``model`` (``owner/name:tag``) are ignored.
    """
    name = model.rstrip("/").rpartition("/")[2].partition(":")[0].lower()
    for pattern, prefixes in _CONVENTIONS:
        if re.fullmatch(pattern, name):
            return prefixes
    return Prefixes()
