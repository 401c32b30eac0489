"""The report sections about hit rates, differences and passages, and the tables and plot of rates.

1. Every table states the number of questions. By default, means are shown with their 95% intervals.
2. If the gold is lines for some questions and a whole file for others, tables show the rates for each gold
   level, followed by the combined rates. A whole file is easier to find than lines, so the combined rates
   rise with the share of questions whose gold is a whole file.
3. Hit rates are shown for hits that contain any gold line (strict), at least half of the gold lines (half),
   and all gold lines (full).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from branchrank.core.io.table import Cell, Styled, Table
from branchrank.core.records import GoldLevel
from branchrank.reports import plots
from branchrank.reports.blocks import Block, Plot, ReportSection
from branchrank.reports.recommendation import is_pilot, recommendation
from branchrank.runs.comparisons import Judgment
from branchrank.runs.estimates import flip_rate
from branchrank.runs.run_data import RunData, with_others
from branchrank.runs.scores import STRICT_MODES, Estimate
from branchrank.runs.summary import Column, SummaryRow, columns_of
from branchrank.runs.words import interval, percent, plural, score
from branchrank.scoring.matching import SHARES, gold_level, is_judged
from branchrank.scoring.measures import NamedMeasure

#: How the sentences of a report describe each gold level.
_GOLD_WORDS: dict[GoldLevel, str] = {"span": "lines", "file": "a whole file"}
#: A predictor name in a sweep, such as ``name[rrf_k=10, vector_weight=0.5]``.
_SWEPT = re.compile(r"^(?P<name>[^\[]+)\[(?P<point>[\w.-]+=.*)\]$", re.DOTALL)
_SETTING = re.compile(r", (?=[\w.-]+=)")


def result(run: RunData) -> list[ReportSection]:
    """Return the section about the recommendation, the hit rates and the differences from the baseline.

    For fewer than 50 questions, a second section contains all but the recommendation and the first table.
    """
    comparisons = run.judgment.comparisons
    words = " ".join([*scoring_words(run), _bold_words(run.judgment)])
    first, *tables = rates_tables(run)
    head: tuple[Block, ...] = (recommendation(run), *mixed_words(run), first)
    blocks: list[Block] = [words]
    if comparisons:
        blocks.append(plots.differences(comparisons))
    elif run.scores.answerable:
        blocks.append(rates_plot(run))
    blocks += tables
    flips = tuple(
        (each.name, str(each.repeats), percent(flip_rate(run, each.name, run.primary)))
        for each in run.record.predictors
        if each.repeats > 1 and each.name in run.predictors
    )
    if flips:
        caption = f"Share of {over(run)} whose repeats have different values of {run.primary.name}"
        blocks.append(Table(caption=caption, headings=("predictor", "repeats", "flip rate"), rows=flips))
    if is_pilot(run):
        return [ReportSection("Result", head), ReportSection("Rates and differences", tuple(blocks))]
    return [ReportSection("Result", (*head, *blocks))]


def rates_tables(run: RunData) -> list[Table]:
    """Return the table of rates, and those of half and full hits and of other requested measures, if any."""
    others = [each for each in run.extra if not each.is_share and not each.same(run.primary)]
    more = {
        "Hits with any, half or all of the gold lines": at_depths(run),
        "Other requested measures": others,
    }
    return [
        _rates(run),
        *(
            rates_table(run, f"{words}, over {over(run)}, with 95% intervals", measures)
            for words, measures in more.items()
            if measures
        ),
    ]


def _rates(run: RunData) -> Table:
    """Return a table with each predictor's hit rates, primary measure, latency and LLM tokens."""
    standard = tuple(measure for measure in hits(run) if measure in run.standard)
    columns = with_others(standard, [run.primary, *hits(run)])
    caption = f"{averages(columns)} over {over(run)}, with 95% intervals"
    costs = columns_of("report", run.summary_rows)
    if SummaryRow.latency_p50_ms in costs:
        caption += f"; p50 and p95 of {plural(run.summary_rows[0].timed_queries, 'timed query')}"
    if SummaryRow.llm_tokens_per_query in costs:
        caption += f"; LLM tokens over {plural(len(run.asked), 'question')}"
    caption += "".join(f"; {each.heading}: {each.meaning}" for each in costs if each.meaning)
    return rates_table(run, caption, columns, llm=True, costs=costs)


def scoring_words(run: RunData) -> list[str]:
    """Explain how hits are scored, how failed queries count, and how intervals are computed."""
    modes = {each.mode for each in run.shown}
    words = []
    if modes & {"strict", *SHARES}:
        words.append(
            "A strict hit contains at least one gold line, a half hit at least half, a full hit all of them."
        )
        if run.gold_facts:
            words.append("Half and full hits count only lines with content.")
    if "relaxed" in modes:
        words.append("A relaxed hit is on the gold's page.")
    if "graded" in modes:
        words.append(
            "Graded measures use the grades of the judgments; AP and R count every grade above 0 as relevant."
        )
    words.append("A failed query counts as a miss.")
    if judged_documents(run) is None:
        words.append("Intervals account for the correlation between questions about the same page.")
    return words


def _bold_words(judgment: Judgment) -> str:
    corrected = "after adjustment for multiple comparisons."
    if judgment.winner is None:
        return "No predictor is shown in bold: no lead on the primary measure is clear."
    lead = "The predictor in bold is significantly better than"
    if judgment.all_pairs or judgment.winner in judgment.baselines:
        return f"{lead} every other predictor, {corrected}"
    return f"{lead} every baseline, {corrected} Candidates were not tested against each other."


def passages(run: RunData) -> ReportSection:
    """Return the section about the length of the returned passages."""
    strict = [each for each in at_depths(run) if each.measure.cutoff == 1 or each.mode == "strict"]
    with_lines = run.summary_rows[0].span_questions
    costs: list[Column[Any]] = [
        *(SummaryRow.lines_per_hit, SummaryRow.characters_per_hit),
        *(SummaryRow.tokens_per_hit, SummaryRow.repeated_pages),
    ]
    caption = f"Mean length of the first five hits, over {over(run)}"
    words = '"Repeated pages" is the share of hits whose page already has a higher-ranked hit.'
    if strict:
        caption = f"Hit rates, and mean length of the first five hits, over {over(run)}"
        words = f"A system that returns whole files has more strict hits, but longer ones. {words}"
    if with_lines:
        costs += (SummaryRow.span_precision, SummaryRow.gold_coverage)
        caption += f"; span precision and gold coverage over the {with_lines} questions whose gold has lines"
        words = (
            '"Span precision" is the share of the returned lines that are gold, and "gold coverage" the '
            f"share of the gold lines that were returned. {words}"
        )
    return ReportSection("Passages", (rates_table(run, caption, strict, cell=value, costs=costs), words))


def swept(predictor: str) -> tuple[str, dict[str, str]]:
    """Return the name of a system and its settings in a sweep, if there are any.

    >>> swept("local[rrf_k=10, vector_weight=0.5]")
    ('local', {'rrf_k': '10', 'vector_weight': '0.5'})
    """
    found = _SWEPT.match(predictor)
    if found is None:
        return predictor, {}
    pairs = (each.partition("=") for each in _SETTING.split(found["point"]))
    return found["name"], {key: value for key, _, value in pairs}


def named_rows(run: RunData, winner: str | None) -> list[tuple[Cell, SummaryRow]]:
    """Return the rows of the summary with their names, in bold for the ``winner``.

    If the run has a sweep, all rows are sorted by the primary measure, and points are named by what differs.
    The system is also named if the run has sweeps of several systems.
    """
    points: dict[str, list[dict[str, str]]] = {}
    for row in run.summary_rows:
        name, values = swept(row.predictor)
        points.setdefault(name, []).extend([values] if values else [])
    sweeps = {name: of for name, of in points.items() if len(of) > 1}

    def short(predictor: str) -> str:
        name, values = swept(predictor)
        if not values or name not in sweeps:
            return predictor
        differing = [key for key in values if any(each.get(key) != values[key] for each in sweeps[name])]
        words = ", ".join(f"{key}={values[key]}" for key in differing)
        return f"{name}[{words}]" if len(sweeps) > 1 else words

    rows = sorted(run.summary_rows, key=lambda row: -(row.rates[run.primary.name] or 0) if sweeps else 0)
    named = ((short(row.predictor), row) for row in rows)
    return [(Styled(name) if row.predictor == winner else name, row) for name, row in named]


def asked(run: RunData) -> str:
    """Describe how many questions the run has, how many rates leave out, and how many have ``needs``."""
    without = sum(not question.answerable for question in run.asked)
    apart = sum(bool(question.gold_state) for question in run.asked)
    together = sum(bool(each.needs) for each in run.asked)
    words = plural(len(run.asked), "question") + (f", {without} of them unanswerable" if without else "")
    words += f", {apart} with changed gold, which the rates leave out" if apart else ""
    return words + (f", {together} that need several passages together" if together else "")


def judged_documents(run: RunData) -> int | None:
    """Return the number of documents judged relevant, or ``None`` if any gold item is not a judged document.

    If the gold consists of judged documents (as in BEIR), questions that share documents are not clustered.
    """
    answerable = [each for each in run.asked if each.gold]
    if not answerable or not all(map(is_judged, answerable)):
        return None
    return len({item.source_file for each in answerable for item in each.gold})


def over(run: RunData) -> str:
    """Describe the number of answerable questions, in total and at each gold level."""
    words = f"the {plural(len(run.scores.answerable), 'question')} with an answer"
    if len(run.by_gold) == 1:
        return words
    return f"{words} ({gold_counts(run)})"


def averages(measures: Sequence[NamedMeasure]) -> str:
    """Return "Hit rates", "Means" or "Hit rates and means" for the caption of a table of ``measures``."""
    shares = [each.is_share for each in measures]
    if all(shares):
        return "Hit rates"
    return "Hit rates and means" if any(shares) else "Means"


def gold_counts(run: RunData) -> str:
    """Describe how many questions have lines as gold, and how many have a whole file as gold."""
    counts = Counter(gold_level(question) for question in run.asked if question.gold)
    return " and ".join(f"{counts[level]} for {words}" for level, words in _GOLD_WORDS.items())


def mixed_words(run: RunData) -> list[str]:
    """Return a note about the gold levels if there are two levels, otherwise an empty list."""
    if len(run.by_gold) == 1:
        return []
    return [
        f"The questions have gold at two levels: {gold_counts(run)}. A whole file is easier to find, so a "
        "combined rate depends on how many questions there are at each level. The verdicts cover both levels."
    ]


def rates_table(
    run: RunData,
    caption: str,
    measures: Sequence[NamedMeasure],
    *,
    llm: bool = False,
    cell: Callable[[Estimate | None, str], str] = interval,
    costs: Sequence[Column[Any]] = (),
) -> Table:
    """Return a table with one row per predictor.

    If there are two gold levels, each predictor has one row per level and one row for all questions. ``llm``
    adds a column with the predictor's model. ``costs`` are additional columns of the summary.
    """
    is_mixed = len(run.by_gold) > 1
    rows: list[tuple[Cell, ...]] = []
    for level, part in run.by_gold.items():
        for name, row in named_rows(part, run.judgment.winner if part is run else None):
            asked = (level, str(len(part.scores.answerable))) if is_mixed else ()
            means = (cell(row.estimates[measure.name], measure.name) for measure in measures)
            more = (column.text(row) for column in costs)
            rows.append((name, *((row.llm,) if llm else ()), *asked, *means, *more))
    return Table(
        caption=caption,
        headings=(
            "predictor",
            *(("LLM",) if llm else ()),
            *(("gold", "questions") if is_mixed else ()),
            *(measure.name.replace("_", " ") for measure in measures),
            *(column.heading for column in costs),
        ),
        rows=tuple(rows),
        labels=1 + llm + is_mixed,
    )


def value(found: Estimate | None, measure: str) -> str:
    """Format an estimate without its interval."""
    return score(None if found is None else found.value, measure)


def hits(run: RunData) -> list[NamedMeasure]:
    """Return a report's hit rates, except those for half and full hits, which have their own table."""
    depths = at_depths(run, strict=False)
    return [each for each in run.shown if each.is_share and each not in depths]


def at_depths(run: RunData, *, strict: bool = True) -> list[NamedMeasure]:
    """Return the rates of half hits, full hits and (if ``strict``) strict hits in a report, by cutoff."""
    standard = [each for each in run.shown if each in run.standard]
    found = [each for each in standard if each.is_share and each.mode in STRICT_MODES]
    ordered = sorted(found, key=lambda each: (each.measure.cutoff or 0, STRICT_MODES.index(each.mode)))
    return [each for each in ordered if strict or each.mode in SHARES]


def means(run: RunData) -> list[NamedMeasure]:
    """Return all of a report's measures that are not hit rates."""
    return [measure for measure in run.shown if not measure.is_share]


def rates_plot(run: RunData) -> Plot:
    """Plot every predictor's hit rates with intervals, separately for each gold level."""
    apart = {f" ({level})": part for level, part in run.by_gold.items() if part is not run}
    return plots.rates(
        [
            (f"{row.predictor}{level}", measure.name, row.estimates[measure.name])
            for level, part in (apart or {"": run}).items()
            for row in part.summary_rows
            for measure in hits(run) or run.shown
        ]
    )
