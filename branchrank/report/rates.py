"""Tables and a plot of hit rates and other means, for terminals, notebooks, Markdown and HTML.

1. Every table states the number of questions. By default, means are shown with their 95% intervals.
2. If the gold is lines for some questions and a whole file for others, tables show the rates for each gold
   level, followed by the combined rates. A whole file is easier to find than lines, so the combined rates
   rise with the share of questions whose gold is a whole file.
3. Hit rates are shown for hits that contain any gold line (strict), at least half of the gold lines (half),
   and all gold lines (full).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from branchrank.io.table import Cell, Styled, Table
from branchrank.measures.matching import SHARES, gold_level, is_judged
from branchrank.measures.measures import Mode, NamedMeasure
from branchrank.records import GoldLevel
from branchrank.report import plots
from branchrank.report.blocks import Plot
from branchrank.runs.comparisons import Judgment
from branchrank.runs.run import RunData
from branchrank.runs.scores import Estimate
from branchrank.runs.summary import SummaryRow
from branchrank.runs.words import interval, is_share, plural, score

#: How the sentences of a report describe each gold level.
_GOLD_WORDS: dict[GoldLevel, str] = {"span": "lines", "file": "a whole file"}
_AT_DEPTHS: tuple[Mode, ...] = ("strict", *SHARES)


Costs = dict[str, Callable[[SummaryRow], str]]


def named(predictor: str, judgment: Judgment) -> Cell:
    """Return a predictor's name, in bold if the predictor is the winner."""
    return Styled(predictor) if predictor == judgment.winner else predictor


def asked(run: RunData) -> str:
    """Describe how many questions the run has, and how many of them are unanswerable."""
    without = len(run.asked) - len(run.scores.answerable)
    return plural(len(run.asked), "question") + (f", {without} of them unanswerable" if without else "")


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
    shares = [is_share(each.name) for each in measures]
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
        f"The questions have gold at two levels: {gold_counts(run)}. If the gold is a whole file, any hit in "
        "the file is correct, so file-level and line-level questions are reported separately. A combined "
        "rate depends on how many questions there are at each level. The verdicts cover both levels together."
    ]


def rates_table(
    run: RunData,
    caption: str,
    measures: Sequence[NamedMeasure],
    *,
    headings: Sequence[str] = (),
    llm: bool = False,
    cell: Callable[[Estimate | None, str], str] = interval,
    costs: Mapping[str, Callable[[SummaryRow], str]] = MappingProxyType({}),
) -> Table:
    """Return a table with one row per predictor.

    If there are two gold levels, each predictor has one row per level and one row for all questions. ``llm``
    adds a column with the predictor's model. ``costs`` maps the headings of additional columns to the
    functions for their cells.
    """
    is_mixed = len(run.by_gold) > 1
    rows: list[tuple[Cell, ...]] = []
    for level, part in run.by_gold.items():
        for row in part.summary_rows:
            name = named(row.predictor, run.judgment) if part is run else row.predictor
            asked = (level, str(len(part.scores.answerable))) if is_mixed else ()
            means = (cell(row.estimates[measure.name], measure.name) for measure in measures)
            more = (cost(row) for cost in costs.values())
            rows.append((name, *((row.llm,) if llm else ()), *asked, *means, *more))
    return Table(
        caption=caption,
        headings=(
            "predictor",
            *(("LLM",) if llm else ()),
            *(("gold", "n" if headings else "questions") if is_mixed else ()),
            *(headings or [measure.name.replace("_", " ") for measure in measures]),
            *costs,
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
    return [each for each in run.shown if is_share(each.name) and each not in depths]


def at_depths(run: RunData, *, strict: bool = True) -> list[NamedMeasure]:
    """Return the rates of half hits, full hits and (if ``strict``) strict hits in a report, by cutoff."""
    standard = [each for each in run.shown if each in run.standard]
    found = [each for each in standard if is_share(each.name) and each.mode in _AT_DEPTHS]
    ordered = sorted(found, key=lambda each: (each.measure.cutoff or 0, _AT_DEPTHS.index(each.mode)))
    return [each for each in ordered if strict or each.mode in SHARES]


def means(run: RunData) -> list[NamedMeasure]:
    """Return all of a report's measures that are not hit rates."""
    return [measure for measure in run.shown if not is_share(measure.name)]


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
