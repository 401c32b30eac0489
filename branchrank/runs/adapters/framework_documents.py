"""Turn a framework's documents into passages: source, lines and score from the names that frameworks use."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from branchrank.core.errors import UsageError
from branchrank.core.records import Passage

#: The keys of metadata under which loaders store where a text is from, the most complete path first.
SOURCES = ("source", "file_path", "path", "source_file", "url", "file_name", "filename", "docno")
#: The keys under which splitters store the first and the last line.
LINES = (("line_start", "line_end"), ("start_line", "end_line"))


def unusable(returned: str, wanted: str) -> UsageError:
    """Return the error for a retriever that returned something other than what its framework defines."""
    return UsageError(f"the retriever returned {returned}, not {wanted}", remedy=f"return {wanted}")


def documents(found: object, field: str, name: str) -> list[Any]:
    """Return what a retriever returned as a list.

    Raises :class:`UsageError` if it is not a list of objects called ``name``, which have the ``field``.
    """
    if not isinstance(found, Iterable) or isinstance(found, str | Mapping):
        raise unusable(type(found).__name__, f"a list of {name}")
    listed = list(found)
    for each in listed:
        if not hasattr(each, field):
            raise unusable(f"a list of {type(each).__name__}", f"a list of {name}")
    return listed


def passage(
    text: str, metadata: Mapping[str, Any], rank: int, *, score: object = None, key: object = ""
) -> Passage:
    """Return a document at ``rank`` (from 1) as a passage.

    A missing or invalid score is replaced by ``1 / rank``. Lines that are not whole numbers are ignored.
    """
    named = (metadata.get(key) for key in SOURCES)
    source = next((str(each) for each in named if each is not None and str(each)), None)
    spans = [(metadata.get(first), metadata.get(last)) for first, last in LINES]
    start, end = next(((a, b) for a, b in spans if _is_line(a) and _is_line(b)), (None, None))
    return Passage(
        text=text,
        source=source,
        line_start=start,
        line_end=end,
        score=_finite(score, 1 / rank),
        id=str(key or ""),
    )


def _is_line(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _finite(score: Any, otherwise: float) -> float:
    try:
        value = float(score)
    except (TypeError, ValueError):
        return otherwise
    return value if math.isfinite(value) else otherwise
