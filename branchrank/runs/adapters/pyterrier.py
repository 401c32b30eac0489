"""PyTerrier: transformers that map a data frame of queries to one of results.

1. ``transform`` is called with a frame of one row, with the columns ``qid`` and ``query``. The rows of the
   result are ordered by ``rank``, or by descending ``score``.
2. ``docno`` is the source, and the column ``text`` the passage; add ``pt.text.get_text(...)`` where a
   retriever returns ids alone. The suffix of PyTerrier's passages (``%p3``) is not part of the source.
3. How many results there are is set in the pipeline (``num_results``, ``% k``). PyTerrier reports no LLM
   calls.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from branchrank.core.records import Answer
from branchrank.runs.adapters import Adapter, Retriever, no_options, passage, unusable

_PASSAGE = re.compile(r"%p\d+$")


class PyTerrierAdapter(Adapter):
    """Transformers of PyTerrier."""

    name = "pyterrier"
    package = "pyterrier"
    types = ("pyterrier.transformer:Transformer",)
    made_of = "a PyTerrier transformer, or a class or function that makes one"

    def wrap(self, thing: Any, options: Mapping[str, str]) -> Retriever:
        """Return a retriever that runs the transformer."""
        no_options(self, options)
        return _Retriever(thing)


class _Retriever(Retriever):
    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def retrieve(self, query: str, k: int) -> Answer:
        import pandas as pd

        found = self.transformer.transform(pd.DataFrame([["1", query]], columns=["qid", "query"]))
        if not hasattr(found, "columns"):
            raise unusable(type(found).__name__, "a data frame of results")
        if len(found) and not {"docno", "text"} & {*found.columns}:
            columns = ", ".join(map(str, found.columns))
            raise unusable(f"the columns {columns}", "a data frame with the column docno or text")
        if "rank" in found.columns:
            found = found.sort_values("rank", kind="stable")
        elif "score" in found.columns:
            found = found.sort_values("score", ascending=False, kind="stable")
        return Answer(
            hits=[
                passage(
                    row["text"] if isinstance(row.get("text"), str) else "",
                    {**row, "docno": _PASSAGE.sub("", str(row.get("docno", "")))},
                    score=row.get("score"),
                    key=row.get("docno"),
                )
                for row in found.head(k).to_dict("records")
            ],
        )


PYTERRIER = PyTerrierAdapter()
