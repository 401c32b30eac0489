"""The summary table on the terminal."""

from __future__ import annotations

from branchrank.bench.benchmark import Outcome
from branchrank.bench.scores import STANDARD

PILOT = 50


def print_summary(outcome: Outcome) -> None:
    """Print one line per predictor: rates in percent, lines per hit, latency, LLM cost."""
    from rich.console import Console
    from rich.table import Table

    run = outcome.run
    asked = len(run.question_ids)
    table = Table(
        title=f"{'pilot: ' if asked < PILOT else ''}{run.experiment}, {asked} questions, seed {run.seed}",
        title_justify="left",
    )
    table.add_column("predictor", style="bold")
    table.add_column("llm")
    shown = [name for name in STANDARD[:4] if run.mode == "both" or name.startswith(run.mode)]
    for heading in (
        *(name.replace("_hit", "\nhit") for name in shown),
        "lines\nper hit",
        "p50\nms",
        "p95\nms",
        "calls\nper query",
        "tokens\nper query",
    ):
        table.add_column(heading, justify="right")
    for row in outcome.summary:
        table.add_row(
            row.predictor,
            row.llm,
            *(_percent(row.rates[name]) for name in shown),
            _number(row.lines_per_hit),
            _number(row.latency_p50_ms),
            _number(row.latency_p95_ms),
            _number(row.llm_calls_per_query),
            _number(row.llm_tokens_per_query, 0),
        )
    console = Console()
    console.print(table)
    for row in outcome.summary:
        if row.failures or row.fallbacks:
            console.print(
                f"{row.predictor}: {row.failures} failed queries, {row.fallbacks} with a fallback",
                style="yellow",
                markup=False,
            )


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}%"


def _number(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
