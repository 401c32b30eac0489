"""The report sections about latency, LLM calls and shared work."""

from __future__ import annotations

from branchrank.io.table import Table
from branchrank.llm.ledger import Totals, totals, totals_by
from branchrank.records import LLMCall
from branchrank.report.blocks import Block, Paragraph, Section
from branchrank.runs.directory import RunRecord
from branchrank.runs.run import RunData
from branchrank.runs.summary import SummaryRow
from branchrank.runs.timings import COMPUTE, CPU, LLM_WAIT, TOTAL, Percentile, Warm
from branchrank.runs.words import NOTHING, milliseconds, number, percent

_NOT_STAGES = (TOTAL, COMPUTE, LLM_WAIT, CPU, "embed cpu")


def latency(run: RunData) -> Section:
    """Return the section about the latency of whole queries and of each stage."""
    if not run.timed:
        return Section(
            title="Latency", blocks=(Paragraph(text="Latency was not measured (--latency-sample 0)."),)
        )
    found = {row.predictor: Warm(run.timed, row.predictor).percentiles() for row in run.summary_rows}
    stages = tuple(
        (name, stage, str(p50.n), milliseconds(p50.value_ms), milliseconds(p95.value_ms))
        for name, by_stage in found.items()
        for stage, (p50, p95) in by_stage.items()
        if stage not in _NOT_STAGES
    )
    return Section(
        title="Latency",
        blocks=(
            Table(
                caption="Whole queries, in milliseconds",
                headings=(
                    "predictor",
                    "queries",
                    "p50",
                    "95% interval of p50",
                    "p95",
                    "95% interval of p95",
                    "first query",
                    "compute p50",
                    "LLM wait p50",
                    "CPU mean",
                    "CPU mean without embedding",
                ),
                rows=tuple(
                    _whole_query(row, found[row.predictor])
                    for row in run.summary_rows
                    if TOTAL in found[row.predictor]
                ),
            ),
            Paragraph(
                text=f"Queries run one at a time and without caches. {_timed(run.settings.latency_repeats)}. "
                'The column "first query" shows the time of the first query to each predictor. In a new '
                "process, the first query takes longer, because the index and the models must be opened. "
                "After the first queries, the predictors take turns in a seeded random order. "
                '"Compute" is the time of a query minus the wait for an LLM. "CPU" is the CPU time of all '
                "threads of the process. The two-sided intervals are based on order statistics. An interval "
                "for p95 needs at least 72 queries, and an upper bound for p95 needs at least 59."
            ),
            Table(
                caption="Stages, in milliseconds",
                headings=("predictor", "stage", "queries", "p50", "p95"),
                rows=stages,
                labels=2,
            ),
        ),
    )


def _timed(repeats: int) -> str:
    """Describe how each query was timed."""
    return "Each query is timed once" if repeats == 1 else f"Each time is the median of {repeats} repeats"


def _whole_query(row: SummaryRow, found: dict[str, tuple[Percentile, Percentile]]) -> tuple[str, ...]:
    p50, p95 = found[TOTAL]
    return (
        row.predictor,
        str(p50.n),
        milliseconds(p50.value_ms),
        _between(p50),
        milliseconds(p95.value_ms),
        _between(p95),
        milliseconds(row.first_query_ms),
        milliseconds(found[COMPUTE][0].value_ms),
        milliseconds(found[LLM_WAIT][0].value_ms),
        milliseconds(row.cpu_mean_ms),
        milliseconds(row.cpu_without_embedding_mean_ms),
    )


def _between(found: Percentile) -> str:
    """Format a percentile's interval, or its upper bound if there are too few queries for an interval."""
    if found.low_ms is not None and found.high_ms is not None:
        return f"{milliseconds(found.low_ms)} to {milliseconds(found.high_ms)}"
    return found.words if found.upper_ms is None else f"at most {milliseconds(found.upper_ms)}"


def llm_cost(run: RunData) -> Section:
    """Return the section about LLM calls, tokens and money, by predictor and stage."""
    record, scores = run.record, run.scores
    calls = {name: [call for row in scores.rows(name) for call in row.calls] for name in scores.predictors}
    if not any(calls.values()):
        text = "No predictor in this run called an LLM (0 calls and 0 tokens per query)."
        return Section(title="LLM cost", blocks=(Paragraph(text=text),))
    headings = (
        "calls per query",
        "tokens per query",
        "prompt",
        "completion",
        "cached",
        "from cache",
        "failed",
    )
    by_predictor = tuple(
        (name, *_figures(totals(calls[name], record.prices), len(scores.rows(name)), record))
        for name in scores.predictors
    )
    by_stage = tuple(
        (name, stage, *_figures(found, len(scores.rows(name)), record))
        for name in scores.predictors
        for stage, found in totals_by(calls[name], _stage, record.prices).items()
    )
    money = (f"{record.prices.currency} per query",) if record.prices else ()
    return Section(
        title="LLM cost",
        blocks=(
            Table(
                caption="LLM use by predictor, over all queries (including unanswerable questions)",
                headings=("predictor", "queries", *headings, "estimated", *money),
                rows=by_predictor,
            ),
            Table(
                caption="LLM use by stage, over all queries of the predictor",
                headings=("predictor", "stage", "queries", *headings, "estimated", *money),
                rows=by_stage,
                labels=2,
            ),
            Paragraph(
                text="All calls and their tokens are counted, including calls that were answered from a "
                'cache or a cassette. "From cache" is the number of calls that were answered without a '
                'server. "Estimated" is the number of calls whose tokens the server did not report. '
                + _price_words(record)
            ),
        ),
    )


def _stage(call: LLMCall) -> str:
    return call.stage


def _figures(found: Totals, queries: int, record: RunRecord) -> tuple[str, ...]:
    money: tuple[str, ...] = ()
    if record.prices:
        money = (NOTHING if found.cost is None else number(found.cost / queries, 6),)
    return (
        str(queries),
        number(found.calls / queries, 2),
        number(found.tokens / queries, 0),
        str(found.prompt_tokens),
        str(found.completion_tokens),
        str(found.cached_tokens),
        str(found.cached_calls),
        str(found.failed_calls),
        str(found.estimated_calls),
        *money,
    )


def _price_words(record: RunRecord) -> str:
    if record.prices is None:
        return "To show monetary costs, pass a price table (--price-table)."
    return f"Prices as of {record.prices.date}."


def shared_work(record: RunRecord) -> Section:
    """Return the section about results that were computed once and reused by several predictors."""
    names = sorted(record.computed.keys() | record.reused.keys())
    if not names:
        return Section(title="Shared work", blocks=(Paragraph(text="The predictors shared no work."),))
    rows = []
    for name in names:
        computed, reused = record.computed.get(name, 0), record.reused.get(name, 0)
        rows.append((name, str(computed), str(reused), percent(reused / (computed + reused or 1))))
    blocks: tuple[Block, ...] = (
        Table(
            caption="Work that the predictors shared in the quality pass",
            headings=("work", "computed", "reused", "share saved"),
            rows=tuple(rows),
        ),
    )
    return Section(title="Shared work", blocks=blocks)
