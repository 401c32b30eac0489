"""The report section with the significance tests and the untested differences, and the power analysis.

The power analysis shows the smallest differences that n questions can detect.
"""

from __future__ import annotations

from collections.abc import Sequence

from branchrank.core.errors import UsageError
from branchrank.core.io.printable import safe
from branchrank.core.io.table import Cell, Styled, Table, plain, table_of
from branchrank.core.records import Record
from branchrank.reports.blocks import Points, ReportSection
from branchrank.reports.recommendation import cautions
from branchrank.reports.result import judged_documents, means, over, rates_table
from branchrank.runs.comparisons import pairs_of
from branchrank.runs.estimates import Pilot, difference, fragility
from branchrank.runs.run_data import RunData
from branchrank.runs.words import (
    MORE_PAGES,
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
from branchrank.scoring import power
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

#: Assumptions for a power analysis without a pilot. In our runs, score differences of questions on the same
#: page had correlations from 0 to 0.13.
ASSUMED = Pilot(rate=0.7, disagreement=0.2, icc=0.1, candidates=1, page_sizes=())


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


class PowerAnalysis(Record, frozen=True, kw_only=True):
    """The results of a power analysis, with one plan for each number of questions.

    ``icc`` is the assumed correlation between the score differences of questions on the same page, or
    ``None`` if no two questions share a page, and ``pages`` is the number of pages, or ``None`` if every
    question has its own page. ``pairs`` lists the disagreement of each pair of predictors in
    the pilot. ``pairs`` is "" if the pilot has fewer than two pairs, or if the disagreement was given instead
    of being taken from the pilot. ``deciding`` says how many questions would decide the pilot's open
    comparisons. ``str()`` returns the table that ``branchrank power`` prints.
    """

    plans: tuple[power.PowerEstimate, ...]
    icc: float | None = None
    pages: int | None = None
    pairs: str = ""
    deciding: tuple[str, ...] = ()

    def __str__(self) -> str:
        first = self.plans[0]
        candidates = "one predictor" if first.family == 1 else f"{first.family} predictors"
        pages = "one question per page"
        if self.icc is not None:
            pages = f"correlation {self.icc:.2f} between questions on one page"
        lines = [
            f"Assumed: hit rate {first.rate:.2f}, different results on {first.disagreement:.0%} of the "
            f"questions, {pages}.",
            *([self.pairs] if self.pairs else []),
            *plain(self.table),
            f"With {candidates} against the baseline, an adjusted p below {first.alpha:g} needs at least "
            f"{first.unanimous} differing questions, if all favor the same system.",
        ]
        if self.plans[-1].detectable is None:
            lines.append('"none": no difference is detectable. Try more questions (--questions).')
            if self.pages is not None:
                wider = f"more pages than {self.pages} (--sources)"
                lines[-1] = f"{lines[-1][:-1]}, {wider}, and the usual correlation (--icc {ASSUMED.icc:g})."
        lines += map(safe, self.deciding)
        if first.difference is not None:
            most = f"{power.MOST_QUESTIONS:,}"
            where = "as many pages" if self.pages is None else f"{self.pages:,} pages"
            needed = f"more than {most}" if first.questions_needed is None else f"{first.questions_needed:,}"
            confirmed = f"Confirming a difference of {first.difference:g} needs {needed} questions on {where}"
            if first.questions_needed is None and self.pages is not None:
                confirmed = f"{where} can't confirm a difference of {first.difference:g}: {MORE_PAGES}"
            lines.append(f"{confirmed} (80% power).")
            if self.pages is not None:
                alone = power.questions_for_hit_difference(
                    first.disagreement, first.difference, first.alpha / first.family
                )
                each = f"more than {most}" if alone is None else f"{alone:,}"
                lines.append(f"On a page each, it needs {each} questions.")
        return "\n".join(lines)

    @property
    def table(self) -> Table:
        """The table with one row for each number of questions."""
        powered = {"power": lambda each: f"{each.power:.0%}"} if self.plans[0].power is not None else {}
        return table_of(
            "",
            self.plans,
            {
                "questions": lambda each: str(each.n),
                "worth": lambda each: f"{each.effective:.0f}",
                "95% interval": lambda each: f"{each.interval.low:.2f} to {each.interval.high:.2f}",
                "detectable": lambda each: "none" if each.detectable is None else f"{each.detectable:.3f}",
                "differing": lambda each: str(each.differing),
                "p-floor": lambda each: p_value(each.p_floor),
                **powered,
            },
            labels=0,
        )


def power_analysis(
    questions: Sequence[int], given: power.Assumptions, pilot: Pilot | None = None
) -> PowerAnalysis:
    """Return a power analysis for hit rates, with one plan for each number in ``questions``.

    Assumptions that are ``None`` are taken from the pilot, or from ``ASSUMED`` if there is no pilot. Raises
    :class:`UsageError` if ``icc`` is given without ``sources`` or a pilot.
    """
    measured = pilot or ASSUMED
    within = measured.icc if given.icc is None else given.icc
    if given.sources is not None:
        pages = power.SharedPages(
            page_size=power.pages_alone(given.sources, given.page_variation), icc=within
        )
    elif pilot is not None:
        pages = power.SharedPages(page_size=power.pages_as_in(pilot.page_sizes), icc=within)
    elif given.icc is None:
        pages = power.NO_SHARED_PAGES
    else:
        raise UsageError(
            "a correlation within pages was given, but not the number of pages",
            remedy="give the number of pages with --sources, or a run with --run",
        )
    plans = tuple(
        power.plan(
            n,
            rate_expected=measured.rate if given.rate is None else given.rate,
            disagreement=measured.disagreement if given.disagreement is None else given.disagreement,
            difference=given.difference,
            family=measured.candidates if given.candidates is None else given.candidates,
            alpha=given.alpha,
            pages=pages,
        )
        for n in questions
    )
    return PowerAnalysis(
        plans=plans,
        icc=None if pages is power.NO_SHARED_PAGES else pages.icc,
        pages=given.sources or (len(pilot.page_sizes) if pilot else None),
        pairs=_pairs(measured) if given.disagreement is None else "",
        deciding=measured.deciding,
    )


def _pairs(pilot: Pilot) -> str:
    """Describe the disagreement of each pair of predictors in the pilot ("" for fewer than two pairs)."""
    if len(pilot.pairs) < 2:
        return ""
    each = ", ".join(f"{name} {share:.1%}" for name, share in pilot.pairs)
    return (
        f"The assumed share is the mean of {len(pilot.pairs)} candidates against {safe(pilot.baseline)}: "
        f"{safe(each)}. To plan for one candidate, pass that candidate's share with --disagreement."
    )
