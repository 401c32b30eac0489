"""The prefixes that embedding models expect before queries and documents.

If a model's configuration contains prompts, the prompts are used as prefixes. For models without prompts,
this module contains prefixes that the models' authors published. The published prefixes are also used for
models on a server, because a server does not report a model's prompts.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Prefixes(NamedTuple):
    """The texts to put before each query and before each document, including separators."""

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
    """Return the published prefixes for a model, or empty prefixes for an unknown model.

    If ``model`` has the form ``owner/name:tag``, the owner and the tag are ignored.
    """
    name = model.rstrip("/").rpartition("/")[2].partition(":")[0].lower()
    for pattern, prefixes in _CONVENTIONS:
        if re.fullmatch(pattern, name):
            return prefixes
    return Prefixes()
