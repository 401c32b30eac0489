"""The report section with the significance tests, and the differences that were not tested."""

from __future__ import annotations

from branchrank.core.io.table import Cell, Styled, Table, table_of
from branchrank.reports.blocks import Points, ReportSection
from branchrank.reports.recommendation import cautions
from branchrank.reports.result import judged_documents, means, over, rates_table
from branchrank.runs.comparisons import pairs_of
from branchrank.runs.estimates import difference, fragility
from branchrank.runs.run_data import RunData
from branchrank.runs.words import (
    NOTHING,
    confidence,
    effect,
    gap_with_interval,
    margin,
    opening,
    p_value,
    plural,
    record,
    sentence,
    size,
    verdict_words,
)
from branchrank.scoring.comparison import Comparison
from branchrank.scoring.measures import NamedMeasure

_EXPLANATION = (
    '"P-floor" is the smallest p-value that is possible for the number of clusters in which the two systems '
    'differ. "Detectable" is the smallest true difference that the test detects with 80% power, and '
    '"questions needed" about how many would decide an open comparison. "Deciding labels" shows how '
    "many gold labels would have to change for the difference to lose significance, of the labels of "
    "questions on which the leader scores higher. The effect size is the odds ratio for hits (wins divided "
    "by losses), and for other measures d_z (mean difference divided by the standard deviation of the "
    "differences)."
)


def statistics(run: RunData) -> ReportSection:
    """Return the section with the tests of the primary measure and the values of the untested measures."""
    untested = rates_table(run, f"Means over {over(run)}, with 95% intervals", means(run))
    if not run.judgment.comparisons:
        nothing = "There is nothing to compare: only one predictor answered, or no question is answerable."
        return ReportSection("Statistics", (untested, nothing))
    notes = cautions(run)
    verdicts = Points(
        items=tuple(
            (
                Styled(opening(each)),
                sentence(each),
                *(f"Warning: {note}" for note in notes if note.predictor in (each.candidate, each.baseline)),
            )
            for each in run.judgment.comparisons
        )
    )
    measures = [each for each in run.shown if not each.same(run.primary)]
    others = _exploratory(
        run,
        "Other measures (exploratory)",
        f", over {over(run)}",
        {measure.name.replace("_", " "): (run, measure) for measure in measures},
    )
    levels = {
        f"{level} ({plural(len(part.scores.answerable), 'question')})": (part, run.primary)
        for level, part in run.by_gold.items()
    }
    by_gold = [_exploratory(run, f"{run.primary.name} by gold level (exploratory)", "", levels)]
    return ReportSection(
        "Statistics",
        (
            verdicts,
            _conditions(run),
            _tests(run),
            _EXPLANATION,
            untested,
            *(by_gold if len(levels) > 1 else []),
            others,
        ),
    )


def _conditions(run: RunData) -> str:
    """Describe the measure, the baseline, the questions and the correction of the tests."""
    judgment, seal = run.judgment, run.record.seal
    first = judgment.comparisons[0]
    names = judgment.baselines
    compared = f"Baseline: {names[0]}" if len(names) == 1 else f"Baselines: {', '.join(names)}"
    if judgment.all_pairs:
        compared = "Every pair of predictors is compared"
    declared = "No seal was given (--seal), so the measure and baseline may have been chosen after the run."
    if seal is not None:
        declared = (
            f"Plan, questions, measure, baseline and alpha match the seal {seal.file} ({seal.digest[:16]}). "
            "A copy of the seal in another place can prove that it is older than the run."
        )
    units = f"in {plural(first.clusters, 'cluster')} (one for each gold source)"
    if judged_documents(run) is not None:
        units = "and no clusters"
    return (
        f"Primary measure: {judgment.measure}. {compared}. {declared} The test has "
        f"{plural(first.n, 'question')} {units}. Tests and intervals are adjusted for "
        f"{plural(first.family, 'comparison')} (Holm, Bonferroni), with alpha {first.alpha:g}. "
        "They assume symmetric differences if neither system is better. "
        f"Delta is {margin(first.delta, first.measure)}."
    )


def _tests(run: RunData) -> Table:
    judgment = run.judgment
    one = len(judgment.baselines) == 1
    return table_of(
        f"{judgment.measure} against {judgment.baseline if one else 'its baseline'}, over {over(run)}",
        judgment.comparisons,
        {
            "candidate": lambda each: each.candidate,
            **({} if one else {"baseline": lambda each: each.baseline}),
            "verdict": verdict_words,
            "test": lambda each: each.test,
            f"difference ({confidence(judgment.comparisons[0])})": lambda each: gap_with_interval(
                each, each.measure
            ),
            "effect size": effect,
            "wins, ties, losses": record,
            "p": lambda each: p_value(each.p),
            "adjusted p": lambda each: p_value(each.p_adjusted),
            "p-floor": lambda each: p_value(each.p_floor),
            "McNemar p": lambda each: NOTHING if each.p_mcnemar is None else p_value(each.p_mcnemar),
            "detectable": lambda each: NOTHING if each.mde is None else size(each.mde, each.measure),
            "questions needed": _enough,
            "deciding labels": lambda each: _deciding_labels(each, run),
        },
        labels=3 if one else 4,
    )


def _enough(each: Comparison) -> str:
    settled = each.is_significant and not each.more_pages
    return NOTHING if settled or each.enough is None else f"{each.enough[0]:,}"


def _deciding_labels(each: Comparison, run: RunData) -> str:
    if not each.is_significant:
        return NOTHING
    changed, favoring = fragility(
        run.scores.per_question(each.baseline, run.primary),
        run.scores.per_question(each.candidate, run.primary),
        run.clusters,
        # The significance level that Holm's correction uses for this comparison.
        alpha=each.alpha * each.p / each.p_adjusted if each.p_adjusted else each.alpha / each.family,
        seed=run.record.seed,
    )
    return f"{len(changed)} of {favoring}"


def _exploratory(
    run: RunData, title: str, scope: str, columns: dict[str, tuple[RunData, NamedMeasure]]
) -> Table:
    """Return a table of untested differences, with a column for each part of the run and measure."""
    judgment = run.judgment
    one = len(judgment.baselines) == 1
    whom = judgment.baseline if one else "the baseline"

    def cell(part: RunData, measure: NamedMeasure, pair: tuple[str, str]) -> Cell:
        baseline, candidate = (part.scores.per_question(name, measure) for name in pair)
        return gap_with_interval(difference(part, baseline, candidate), measure.name)

    return Table(
        caption=f"{title}: difference from {whom} (95% interval){scope}",
        headings=("candidate", *(() if one else ("baseline",)), *columns),
        rows=tuple(
            (pair[1], *(() if one else pair[:1]), *(cell(*column, pair) for column in columns.values()))
            for pair in run.scores.comparable(pairs_of(judgment.baselines, run.predictors))
        ),
        labels=1 if one else 2,
    )
