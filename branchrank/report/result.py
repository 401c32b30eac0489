"""The report sections about the hit rates, the differences from the baseline, and the passages returned."""

from __future__ import annotations

from branchrank.io.table import Table
from branchrank.measures.matching import SHARES
from branchrank.report import plots
from branchrank.report.blocks import Block, Section
from branchrank.report.rates import (
    Costs,
    at_depths,
    averages,
    hits,
    judged_documents,
    mixed_words,
    over,
    rates_plot,
    rates_table,
    value,
)
from branchrank.report.recommendation import recommendation
from branchrank.runs.comparisons import Judgment
from branchrank.runs.estimates import flip_rate
from branchrank.runs.run import RunData, with_others
from branchrank.runs.words import is_share, milliseconds, number, percent, plural


def result(run: RunData) -> Section:
    """Return the section about the recommendation, the hit rates and the differences from the baseline."""
    comparisons = run.judgment.comparisons
    words = " ".join([*_scoring_words(run), _bold_words(run.judgment)])
    blocks: list[Block] = [recommendation(run), *mixed_words(run), _rates(run), words]
    if comparisons:
        blocks.append(plots.differences(comparisons))
    elif run.scores.answerable:
        blocks.append(rates_plot(run))
    others = [each for each in run.extra if not is_share(each.name) and not each.same(run.primary)]
    for words, measures in (
        ("Hits with any, half or all of the gold lines", at_depths(run)),
        ("Other requested measures", others),
    ):
        if measures:
            blocks.append(rates_table(run, f"{words}, over {over(run)}, with 95% intervals", measures))
    flips = tuple(
        (each.name, str(each.repeats), percent(flip_rate(run, each.name, run.primary)))
        for each in run.record.predictors
        if each.repeats > 1 and each.name in run.predictors
    )
    if flips:
        caption = f"Share of {over(run)} whose repeats have different values of {run.primary.name}"
        blocks.append(Table(caption=caption, headings=("predictor", "repeats", "flip rate"), rows=flips))
    return Section("Result", tuple(blocks))


def _rates(run: RunData) -> Table:
    """Return a table with each predictor's hit rates, primary measure, latency and LLM tokens."""
    standard = tuple(measure for measure in hits(run) if measure in run.standard)
    columns = with_others(standard, [run.primary, *hits(run)])
    caption = f"{averages(columns)} over {over(run)}, with 95% intervals"
    costs: Costs = {}
    if any(row.latency_p50_ms is not None for row in run.summary_rows):
        costs["p50 ms"] = lambda row: milliseconds(row.latency_p50_ms)
        costs["p95 ms"] = lambda row: milliseconds(row.latency_p95_ms)
        caption += f"; p50 and p95 of {plural(run.summary_rows[0].timed_queries, 'timed query')}"
    if any(row.llm_calls_per_query for row in run.summary_rows):
        costs["LLM tokens per query"] = lambda row: number(row.llm_tokens_per_query, 0)
        caption += f"; LLM tokens over {plural(len(run.asked), 'question')}"
    return rates_table(run, caption, columns, llm=True, costs=costs)


def _scoring_words(run: RunData) -> list[str]:
    """Explain how hits are scored, how failed queries count, and how intervals are computed."""
    modes = {each.mode for each in run.shown}
    words = []
    if modes & {"strict", *SHARES}:
        words.append(
            "A strict hit contains at least one line of the gold, a half hit at least half of the gold's "
            "lines, and a full hit all of the gold's lines."
        )
    if "relaxed" in modes:
        words.append("A relaxed hit is on the gold's page.")
    if "graded" in modes:
        words.append(
            "In graded measures, the gain of a hit is the grade of its judgment. For measures without "
            "grades, such as AP and R, every document judged above 0 is relevant."
        )
    words.append("A failed query counts as a miss.")
    if judged_documents(run) is None:
        words.append(
            "Intervals account for the correlation between questions whose gold is on the same page."
        )
    return words


def _bold_words(judgment: Judgment) -> str:
    corrected = "after adjustment for multiple comparisons."
    if judgment.winner is None:
        return (
            "No predictor is shown in bold, because no lead on the primary measure is significant "
            f"{corrected}"
        )
    one = len(judgment.baselines) == 1
    if judgment.all_pairs:
        who, whom = "The predictor in bold", "every other predictor"
    elif judgment.winner in judgment.baselines:
        who = "The baseline (in bold)" if one else "One of the baselines (in bold)"
        whom = "every candidate" if one else "every other predictor"
    else:
        who, whom = "The best candidate (in bold)", "the baseline" if one else "every baseline"
        corrected += " Candidates were not tested against each other."
    return f"{who} is significantly better than {whom}, {corrected}"


def passages(run: RunData) -> Section:
    """Return the section about the length of the returned passages."""
    strict = [each for each in at_depths(run) if each.measure.cutoff == 1 or each.mode == "strict"]
    with_lines = run.summary_rows[0].span_questions
    costs: Costs = {
        "lines per hit": lambda row: number(row.lines_per_hit),
        "characters per hit": lambda row: number(row.characters_per_hit, 0),
        "tokens per hit": lambda row: number(row.tokens_per_hit, 0),
        "repeated pages": lambda row: percent(row.repeated_pages),
    }
    caption = f"Mean length of the first five hits, over {over(run)}"
    words = '"Repeated pages" is the share of hits whose page already has a higher-ranked hit.'
    if strict:
        caption = f"Hit rates, and mean length of the first five hits, over {over(run)}"
        words = (
            "A system that returns whole files has a higher rate of strict hits, but each of its hits takes "
            "longer to read. The columns with lines, characters and tokens show the mean length of a hit. "
            f"{words}"
        )
    if with_lines:
        costs["span precision"] = lambda row: percent(row.span_precision)
        costs["gold coverage"] = lambda row: percent(row.gold_coverage)
        caption += f"; span precision and gold coverage over the {with_lines} questions whose gold has lines"
        words = (
            '"Span precision" is the share of the returned lines that are gold. "Gold coverage" is the share '
            f"of the gold lines that were returned. {words}"
        )
    return Section("Passages", (rates_table(run, caption, strict, cell=value, costs=costs), words))
