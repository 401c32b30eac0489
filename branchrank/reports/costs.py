"""The report sections about the trade-off, sweeps, chunking, latency, LLM calls and shared work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from branchrank.core.io.table import Table, table_of
from branchrank.core.records import NOT_REPORTED
from branchrank.core.settings import IndexSettings
from branchrank.reports import line_plots, plots
from branchrank.reports.blocks import Block, ReportSection
from branchrank.reports.line_plots import Swept
from branchrank.reports.result import over, swept
from branchrank.runs.directory import IndexFacts, RunRecord
from branchrank.runs.estimates import choice, standings
from branchrank.runs.run_data import RunData
from branchrank.runs.summary import SummaryRow, agent_table
from branchrank.runs.timings import COMPUTE, CPU, LLM_WAIT, TOTAL, Percentile
from branchrank.runs.words import NOTHING, margin, milliseconds, number, percent, plural
from branchrank.search.llm.ledger import Totals, totals, totals_by

_NOT_STAGES = (TOTAL, COMPUTE, LLM_WAIT, CPU, "embed cpu")


def trade_off(run: RunData) -> ReportSection:
    """Return the section that shows quality, latency and LLM cost together."""
    found = standings(run)
    title = "Quality, latency and cost"
    if not found or not run.scores.answerable:
        text = (
            "No predictor has both a measured latency and a known LLM use, so there is no trade-off to show."
        )
        text = text if run.timed else "Latency was not measured, so there is no trade-off to show."
        return ReportSection(title, (text,))
    best, chosen = choice(run, found)
    measure, prices = run.primary.name, run.record.prices
    highest = max(each.quality for each in found)
    leaders = ", ".join(each.name for each in found if each.quality == highest)
    text = (
        f"Quality is {measure.replace('_', ' ')} over {over(run)}. The p95 is computed from "
        f"{plural(run.summary_rows[0].timed_queries, 'timed query')}, and the cost is the mean over "
        f"{plural(len(run.asked), 'question')}. Highest observed quality: {leaders}."
    )
    if silent := [row.predictor for row in run.summary_rows if not row.reports_llm]:
        text += f" Left out, because their LLM use is {NOT_REPORTED}: {', '.join(silent)}."
    others = ", ".join(name for name in chosen.not_inferior if name != chosen.best)
    close = f"less than {margin(run.settings.delta, measure)} worse than {chosen.best}"
    text += f" Systems shown to be {close}: {others or 'none'}."
    if others:
        text += f" The cheapest of these (if several cost the same, the fastest) is {chosen.cheapest.name}."
    unit = f"{prices.currency} per query" if prices else "LLM tokens per query"
    return ReportSection(title, (plots.frontier(found, {each.name for each in best}, measure, unit), text))


def sweeps(run: RunData) -> ReportSection | None:
    """Return a section with one plot per swept setting and system, or ``None`` if the run has no sweep."""
    blocks: list[Block] = []
    for name, points in _by_system(run).items():
        for axis in _axes(points):
            blocks.append(line_plots.sweep(name, points, axis, run.primary.name, len(blocks) + 1))
    if not blocks:
        return None
    text = "The best point of a sweep is often best by chance. Confirm the best point with other questions."
    return ReportSection("Sweeps", (*blocks, text))


def _by_system(run: RunData) -> dict[str, list[Swept]]:
    """Map the system name of each sweep, such as ``local``, to the sweep's points."""
    found: dict[str, list[Swept]] = {}
    for row in run.summary_rows:
        name, values = swept(row.predictor)
        estimate = row.estimates[run.primary.name]
        if values and estimate is not None:
            found.setdefault(name, []).append(Swept(name=row.predictor, values=values, estimate=estimate))
    return {name: points for name, points in found.items() if len(points) > 1}


def _axes(points: list[Swept]) -> list[str]:
    """Return the settings whose values vary, or an empty list if the systems vary different settings."""
    named = points[0].values
    if any(each.values.keys() != named.keys() for each in points):
        return []
    return [key for key in named if len({each.values[key] for each in points}) > 1]


def chunking(run: RunData) -> ReportSection | None:
    """Return the section, or ``None`` for a run with fewer than two indexes."""
    record = run.record
    indexes = {index.name: index for index in record.indexes}
    used = {each.name: each.index for each in record.predictors if each.system is not None}
    if len(indexes) < 2 or not run.scores.answerable:
        return None
    rows = tuple(
        _chunking_row(run, row, indexes[used[row.predictor]])
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


def _chunking_row(run: RunData, row: SummaryRow, index: IndexFacts) -> tuple[str, ...]:
    return (
        row.predictor,
        _chunks(run.record.index_settings.get(index.name, {}), index.chunk_tokens),
        str(index.chunks),
        f"{index.bytes / 1e6:.1f} MB",
        number(row.lines_per_hit),
    )


def _chunks(settings: Mapping[str, Any], tokens: int) -> str:
    """Describe the chunking of an index, with the number of tokens that the embedder reads.

    Older runs lack the default chunker, and for them ``tokens`` is 0.
    """
    default = IndexSettings()
    chunker = settings.get("chunker", default.chunker)
    wanted = settings.get("chunk_tokens", default.chunk_tokens)
    cut = f" (of {wanted})" if tokens and tokens < wanted else ""
    overlap = settings.get("chunk_overlap", default.chunk_overlap)
    return f"{chunker}, {tokens or wanted} tokens{cut}" + (f", overlap {overlap}" if overlap else "")


def latency(run: RunData) -> ReportSection:
    """Return the section about the latency of whole queries and of each stage."""
    if not run.timed:
        return ReportSection("Latency", ("Latency was not measured (--latency-sample 0).",))
    whole = table_of(
        "Whole queries, in milliseconds",
        [row for row in run.summary_rows if row.timed_queries],
        {
            "predictor": lambda row: row.predictor,
            "queries": lambda row: str(row.timed_queries),
            "p50": lambda row: milliseconds(row.latency_p50_ms),
            "range of p50": lambda row: _between(row.p50),
            "p95": lambda row: milliseconds(row.latency_p95_ms),
            "range of p95": lambda row: _between(row.p95),
            "first query": lambda row: milliseconds(row.first_query_ms),
            "compute p50": lambda row: milliseconds(row.compute_p50_ms),
            "LLM wait p50": lambda row: milliseconds(row.llm_wait_p50_ms),
            "CPU mean": lambda row: milliseconds(row.cpu_mean_ms),
            "CPU mean without embedding": lambda row: milliseconds(row.cpu_without_embedding_mean_ms),
        },
    )
    rows = tuple(
        (row.predictor, stage, str(p50.n), milliseconds(p50.value_ms), milliseconds(p95.value_ms))
        for row in run.summary_rows
        for stage, (p50, p95) in row.warm.percentiles().items()
        if stage not in _NOT_STAGES
    )
    headings = ("predictor", "stage", "queries", "p50", "p95")
    stages = Table(caption="Stages, in milliseconds", headings=headings, rows=rows, labels=2)
    repeats = run.settings.latency_repeats
    timed = "measured once" if repeats == 1 else f"the median of {repeats} repeats"
    words = (
        f"Queries run one at a time and without caches; each time is {timed}. The first query of a predictor "
        "also opens the index and the models. After that, the predictors take turns in a seeded random "
        'order. "Compute" is the time without the wait for an LLM, and "CPU" the CPU time of all threads. '
        "The ranges would be 95% intervals (for p95 from 72 queries on, and an upper bound from 59) if the "
        "times of queries were independent. If the machine is slow for a while, they are too narrow."
    )
    return ReportSection("Latency", (whole, words, stages))


def _between(found: Percentile | None) -> str:
    """Format a percentile's interval, or its upper bound if there are too few queries for an interval."""
    if found is None:
        return NOTHING
    if found.low_ms is not None and found.high_ms is not None:
        return f"{milliseconds(found.low_ms)} to {milliseconds(found.high_ms)}"
    return found.words if found.upper_ms is None else f"at most {milliseconds(found.upper_ms)}"


def llm_cost(run: RunData) -> ReportSection:
    """Return the section about LLM calls, tokens and money, by predictor and stage."""
    prices, scores = run.record.prices, run.scores
    calls = {name: [call for row in scores.rows(name) for call in row.calls] for name in scores.predictors}
    silent = [row.predictor for row in run.summary_rows if not row.reports_llm]
    unknown = f" LLM use {NOT_REPORTED}: {', '.join(silent)}." if silent else ""
    if not any(calls.values()):
        text = "No predictor in this run called an LLM (0 calls and 0 tokens per query)."
        text = "No predictor in this run reported an LLM call." if silent else text
        return ReportSection("LLM cost", (text + unknown,))
    queries = {name: len(scores.rows(name)) for name in scores.predictors}
    columns: dict[str, Callable[[tuple[str, str, Totals]], str]] = {
        "predictor": lambda each: each[0],
        "stage": lambda each: each[1],
        "queries": lambda each: str(queries[each[0]]),
        "calls per query": lambda each: number(each[2].calls / queries[each[0]], 2),
        "tokens per query": lambda each: number(each[2].tokens / queries[each[0]], 0),
        "prompt": lambda each: str(each[2].prompt_tokens),
        "completion": lambda each: str(each[2].completion_tokens),
        "cached": lambda each: str(each[2].cached_tokens),
        "from cache": lambda each: str(each[2].cached_calls),
        "failed": lambda each: str(each[2].failed_calls),
        "estimated": lambda each: str(each[2].estimated_calls),
    }
    if prices:
        columns[f"{prices.currency} per query"] = lambda each: (
            NOTHING if each[2].cost is None else number(each[2].cost / queries[each[0]], 6)
        )
    by_predictor = table_of(
        "LLM use by predictor, over all queries (including unanswerable questions)",
        [(name, "", totals(found, prices)) for name, found in calls.items() if name not in silent],
        {heading: cell for heading, cell in columns.items() if heading != "stage"},
    )
    by_stage = table_of(
        "LLM use by stage, over all queries of the predictor",
        [
            (name, stage, found)
            for name in scores.predictors
            for stage, found in totals_by(calls[name], lambda call: call.stage, prices).items()
        ],
        columns,
        labels=2,
    )
    priced = f"Prices as of {prices.date}." if prices else "Pass --price-table to show monetary costs."
    words = (
        '"From cache" is the number of calls answered from a cache or a cassette, which count like all '
        f'others. "Estimated" is the number of calls whose tokens the server did not report. {priced}'
        f"{unknown}"
    )
    spent = [
        (row.predictor, row.llm_tokens_per_query, estimate)
        for row in run.summary_rows
        if row.llm_tokens_per_query is not None and (estimate := row.estimates[run.primary.name]) is not None
    ]
    plot = [plots.tokens(spent, run.primary.name)] if spent else []
    return ReportSection("LLM cost", (*plot, by_predictor, by_stage, words))


def agents(run: RunData) -> ReportSection | None:
    """Return the section about what agents did, or ``None`` if the run has no agent."""
    table = agent_table(run.summary_rows)
    return ReportSection("Agents", (table,)) if table else None


def shared_work(record: RunRecord) -> ReportSection:
    """Return the section about results that were computed once and reused by several predictors."""
    names = sorted(record.computed.keys() | record.reused.keys())
    if not names:
        return ReportSection("Shared work", ("The predictors shared no work.",))
    work = [(name, record.computed.get(name, 0), record.reused.get(name, 0)) for name in names]
    rows = tuple((name, str(a), str(b), percent(b / (a + b or 1))) for name, a, b in work)
    caption = "Work that the predictors shared in the quality pass"
    headings = ("work", "computed", "reused", "share saved")
    return ReportSection("Shared work", (Table(caption=caption, headings=headings, rows=rows),))
