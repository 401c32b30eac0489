"""The summary table: what a terminal and a notebook show of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from branchrank.measures.names import NamedMeasure
from branchrank.measures.verdicts import Comparison
from branchrank.printable import safe
from branchrank.report.blocks import Cell, Strong, Table
from branchrank.report.content import heading
from branchrank.report.recommendation import recommendation
from branchrank.report.result import named
from branchrank.runs.run import RunData, with_primary
from branchrank.runs.words import milliseconds, number, opening, plural, score, sentence, verdict_words

#: Wide enough that a line stays one line for whatever reads the output next.
PIPE_WIDTH = 400

_RATES = {
    "strict_hit@1": "S@1",
    "strict_hit@5": "S@5",
    "relaxed_hit@1": "R@1",
    "relaxed_hit@5": "R@5",
}
#: The longest name of a model that the table shows whole.
_MODEL_CHARACTERS = 12
_VERDICT_STYLES = {
    "better": "bold green",
    "worse": "bold red",
    "equivalent within delta": "bold cyan",
    "inconclusive": "bold",
    "too few questions to tell": "bold",
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
            *(score(row.rates[measure.name], measure.name) for measure in shown),
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
    """Print the recommendation with its warnings, one line per predictor, the verdicts, and a legend.

    80 columns are enough. Colours are for terminals, and for none that sets NO_COLOR.
    """
    console = Console()
    if not console.is_terminal:
        console = Console(width=PIPE_WIDTH)
    callout = recommendation(run)
    say(console, title(run), style="bold")
    console.print()
    console.print(Text(" ").join(map(_text, callout.text)))
    for caution in callout.cautions:
        say(console, f"Warning: {caution}", style="yellow")
    console.print()
    console.print(_table(summary_table(run)))
    if run.judgement.comparisons:
        console.print()
        for each in run.judgement.comparisons:
            console.print(_verdict(each))
    console.print()
    say(console, legend(run), style="dim")
    if cached := cached_calls(run):
        say(console, cached, style="dim")


def _table(content: Table) -> RichTable:
    table = RichTable(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="underline")
    for place, name in enumerate(content.headings):
        if place < content.labels:
            table.add_column(name, overflow="fold")
        else:
            table.add_column(name, justify="right", no_wrap=True)
    for predictor, llm, *figures in content.rows:
        table.add_row(_text(predictor), short_model(safe(str(llm))), *map(_text, figures))
    return table


def short_model(name: str) -> str:
    """A model's name without its publisher, its middle cut out where it is long.

    >>> short_model("openai/gpt-oss-20b"), short_model("meta-llama/Llama-3.3-70B-Instruct")
    ('gpt-oss-20b', 'Llama…uct')
    """
    own = name.rpartition("/")[2] or name
    return own if len(own) <= _MODEL_CHARACTERS else f"{own[:5]}…{own[-3:]}"


def _verdict(comparison: Comparison) -> Text:
    """The verdict in its colour, and the sentence with its figures."""
    verdict = verdict_words(comparison)
    names = opening(comparison).removesuffix(f"{verdict}.")
    return Text.assemble(
        safe(names), (verdict, _VERDICT_STYLES[comparison.verdict]), f". {safe(sentence(comparison))}"
    )


def _text(cell: Cell) -> Text:
    return Text(safe(cell.text), style="bold") if isinstance(cell, Strong) else Text(safe(cell))


def say(console: Console, text: str, style: str = "") -> None:
    """Print text from anywhere without markup."""
    console.print(Text(safe(text), style=style))
