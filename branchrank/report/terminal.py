"""The summary table: what a terminal and a notebook show of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from branchrank.measures.names import NamedMeasure
from branchrank.printable import safe
from branchrank.report.blocks import Cell, Strong, Table
from branchrank.report.content import heading
from branchrank.report.result import named
from branchrank.runs.run import RunData, with_primary
from branchrank.runs.words import milliseconds, number, opening, percent, plural, sentence

#: Wide enough that a line stays one line for whatever reads the output next.
PIPE_WIDTH = 400

_RATES = {
    "strict_hit@1": "S@1",
    "strict_hit@5": "S@5",
    "relaxed_hit@1": "R@1",
    "relaxed_hit@5": "R@5",
}


def title(run: RunData) -> str:
    """The line above the table."""
    return f"{heading(run)}, seed {run.record.seed}"


def summary_table(run: RunData) -> Table:
    """One row per predictor: hit rates, the primary measure, lines, latency, LLM calls and tokens."""
    shown = _shown(run)
    rows = tuple(
        (
            named(row.predictor, run.judgement),
            row.llm,
            *(percent(row.rates[measure.name]) for measure in shown),
            number(row.lines_per_hit),
            milliseconds(row.latency_p50_ms),
            milliseconds(row.latency_p95_ms),
            number(row.llm_calls_per_query),
            number(row.llm_tokens_per_query, 0),
        )
        for row in run.summary_rows
    )
    rates = (_RATES.get(measure.name, measure.name) for measure in shown)
    headings = ("predictor", "LLM", *rates, "lines", "p50", "p95", "calls", "tokens")
    return Table(caption=legend(run), headings=headings, rows=rows, labels=2)


def _shown(run: RunData) -> Sequence[NamedMeasure]:
    return with_primary(tuple(each for each in run.standard if each.name in _RATES), run.primary)


def legend(run: RunData) -> str:
    """What the columns mean."""
    rates = {
        "S": "S@k strict hit@k, the answer is in the first k hits",
        "R": "R@k relaxed hit@k, its page is",
    }
    letters = {_RATES[measure.name][0] for measure in _shown(run) if measure.name in _RATES}
    parts = [text for letter, text in rates.items() if letter in letters]
    over = f"over the {plural(len(run.scores.answerable), 'question')} with an answer"
    return f"{'; '.join(parts)}, {over}; lines per hit; p50, p95 in ms; LLM calls and tokens per query"


def notices(run: RunData) -> list[str]:
    """The run's warnings, and each predictor's failures and fallbacks."""
    found = list(run.record.warnings)
    for row in run.summary_rows:
        if row.failures or row.fallbacks:
            text = f"{row.predictor}: {row.failures} failed queries, {row.fallbacks} with a fallback"
            errors = Counter(
                each.error for each in run.rows if each.predictor == row.predictor and each.error
            )
            for error, _ in errors.most_common(1):
                text += f"; most often: {error}"
            found.append(text)
    return found


def cached_calls(run: RunData) -> str:
    """How many LLM calls of each predictor the decision cache answered; empty when it answered none."""
    asked = Counter(call.predictor for call in run.ledger)
    cached = Counter(call.predictor for call in run.ledger if call.served_by == "cache")
    counts = ", ".join(f"{cached[name]} of {asked[name]} ({name})" for name in run.predictors if cached[name])
    return counts and f"LLM calls from the decision cache: {counts}"


def verdicts(run: RunData) -> list[str]:
    """A sentence for each declared comparison."""
    return [f"{opening(each)} {sentence(each)}" for each in run.judgement.comparisons]


def print_summary(run: RunData) -> None:
    """Print one line per predictor, a legend, and the verdicts; 80 columns are enough."""
    content = summary_table(run)
    table = RichTable(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="underline")
    for place, name in enumerate(content.headings):
        if place < content.labels:
            table.add_column(name, overflow="fold")
        else:
            table.add_column(name, justify="right", no_wrap=True)
    for row in content.rows:
        table.add_row(*(_text(cell) for cell in row))
    console = Console()
    if not console.is_terminal:
        console = Console(width=PIPE_WIDTH)
    say(console, title(run), style="bold")
    console.print(table)
    say(console, legend(run), style="dim")
    if cached := cached_calls(run):
        say(console, cached, style="dim")
    for notice in notices(run):
        say(console, notice, style="yellow")
    for verdict in verdicts(run):
        say(console, verdict)


def _text(cell: Cell) -> Text:
    return Text(safe(cell.text), style="bold") if isinstance(cell, Strong) else Text(safe(cell))


def say(console: Console, text: str, style: str = "") -> None:
    """Print text from anywhere without markup."""
    console.print(Text(safe(text), style=style))
