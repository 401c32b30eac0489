"""The report section about what chunking costs, for runs with several indexes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from branchrank.core.io.table import Table
from branchrank.core.settings import IndexSettings
from branchrank.reports.blocks import ReportSection
from branchrank.reports.result import over
from branchrank.runs.directory import IndexFacts
from branchrank.runs.run_data import RunData
from branchrank.runs.summary import SummaryRow
from branchrank.runs.words import number


def chunking(run: RunData) -> ReportSection | None:
    """Return the section, or ``None`` for a run with fewer than two indexes."""
    record = run.record
    indexes = {index.name: index for index in record.indexes}
    used = {each.name: each.index for each in record.predictors if each.system is not None}
    if len(indexes) < 2 or not run.scores.answerable:
        return None
    rows = tuple(
        _cells(run, row, indexes[used[row.predictor]])
        for row in run.summary_rows
        if used.get(row.predictor) in indexes
    )
    headings = ("predictor", "chunker", "chunks", "index size", "lines per hit")
    caption = f"What chunking costs, over {over(run)}"
    words = (
        "A chunk has no more tokens than the embedder reads, less two that the model adds; by default, all "
        "embedders have chunks of 254. Hits of different indexes have different lengths; the table of the "
        "reading compares them."
    )
    return ReportSection("Chunking", (Table(caption=caption, headings=headings, rows=rows, labels=2), words))


def _cells(run: RunData, row: SummaryRow, index: IndexFacts) -> tuple[str, ...]:
    return (
        row.predictor,
        _described(run.record.index_settings.get(index.name, {}), index.chunk_tokens),
        str(index.chunks),
        f"{index.bytes / 1e6:.1f} MB",
        number(row.lines_per_hit),
    )


def _described(settings: Mapping[str, Any], tokens: int) -> str:
    """Describe the chunking of an index, with the number of tokens that the embedder reads.

    Older runs lack the default chunker, and for them ``tokens`` is 0.
    """
    default = IndexSettings()
    chunker = settings.get("chunker", default.chunker)
    wanted = settings.get("chunk_tokens", default.chunk_tokens)
    cut = f" (of {wanted})" if tokens and tokens < wanted else ""
    overlap = settings.get("chunk_overlap", default.chunk_overlap)
    return f"{chunker}, {tokens or wanted} tokens{cut}" + (f", overlap {overlap}" if overlap else "")
