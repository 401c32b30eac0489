"""The summary table on the terminal."""

from __future__ import annotations

from collections import Counter

from rich.console import Console
from rich.table import Table
from rich.text import Text

from branchrank.printable import safe
from branchrank.report.content import heading
from branchrank.runs.words import milliseconds, number, opening, percent, sentence
from branchrank.runs.run import RunData
from branchrank.runs.scores import STANDARD

#: Wide enough that a line stays one line for whatever reads the output next.
PIPE_WIDTH = 400

_RATES = {
    "strict_hit@1": "S@1",
    "strict_hit@5": "S@5",
    "relaxed_hit@1": "R@1",
    "relaxed_hit@5": "R@5",
}


def print_summary(loaded: LoadedRun) -> None:
    """Print one line per predictor, a legend, and the verdicts; 80 columns are enough."""
    outcome, run = loaded.outcome, loaded.outcome.run
    judgement = judge_run(loaded.scores, run)
    shown = [name for name in STANDARD if name in _RATES and (run.mode == "both" or run.mode in name)]
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="underline")
    table.add_column("predictor", overflow="fold")
    table.add_column("LLM", overflow="fold")
    for name in (*(_RATES[name] for name in shown), "lines", "p50", "p95", "calls", "tokens"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in outcome.summary:
        table.add_row(
            Text(safe(row.predictor), style="bold" if row.predictor == judgement.winner else ""),
            Text(safe(row.llm)),
            *(percent(row.rates[name]) for name in shown),
            number(row.lines_per_hit),
            milliseconds(row.latency_p50_ms),
            milliseconds(row.latency_p95_ms),
            number(row.llm_calls_per_query),
            number(row.llm_tokens_per_query, 0),
        )
    console = Console()
    if not console.is_terminal:
        console = Console(width=PIPE_WIDTH)
    say(console, f"{heading(loaded)}, seed {run.seed}", style="bold")
    console.print(table)
    say(console, _legend(shown), style="dim")
    for warning in run.warnings:
        say(console, warning, style="yellow")
    for row in outcome.summary:
        if row.failures or row.fallbacks:
            text = f"{row.predictor}: {row.failures} failed queries, {row.fallbacks} with a fallback"
            errors = Counter(
                each.error for each in outcome.rows if each.predictor == row.predictor and each.error
            )
            for error, _ in errors.most_common(1):
                text += f"; most often: {error}"
            say(console, text, style="yellow")
    for comparison in judgement.comparisons:
        say(console, f"{opening(comparison)} {sentence(comparison)}")


def _legend(shown: list[str]) -> str:
    rates = {
        "S": "S@k strict hit@k, the answer is in the first k hits",
        "R": "R@k relaxed hit@k, its page is",
    }
    parts = [text for letter, text in rates.items() if any(_RATES[name][0] == letter for name in shown)]
    return f"{'; '.join(parts)}; lines per hit; p50, p95 in ms; LLM calls and tokens per query"


def say(console: Console, text: str, style: str = "") -> None:
    """Print text from anywhere without markup."""
    console.print(Text(safe(text), style=style))
