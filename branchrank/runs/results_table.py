"""A results table for publication, with systems, measures and marks for significant differences.

1. The table shows each system's mean for each measure. All means are over the same questions (queries).
2. On each tested measure, all systems are compared either with one baseline or with each other. P-values
   (with Holm's correction) and intervals are adjusted for all comparisons on the same measure
   (:mod:`branchrank.scoring.verdicts`). A run tests only its primary measure, so the other measures of its
   table have no marks.
3. A mean that differs significantly from another system's mean is marked in the table. If there is one
   baseline, means that differ significantly from the baseline's mean are marked with a dagger. If there are
   several baselines, each system is identified by a letter, and a mean is marked with the letters of the
   systems whose means are significantly different.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from string import ascii_lowercase
from textwrap import wrap

import msgspec
from msgspec.structs import replace

from branchrank.core.errors import UsageError
from branchrank.core.io.printable import safe
from branchrank.core.io.table import DAGGER, Cell, Styled, Table, plain
from branchrank.core.records import Record
from branchrank.runs.run_comparison import RunComparison
from branchrank.runs.run_data import RunData
from branchrank.runs.scores import Estimate, bounded, estimate
from branchrank.runs.summary import SummaryRow, columns_of
from branchrank.runs.words import (
    FEW_PAGES,
    MINUS,
    NOTHING,
    confidence,
    effect_size,
    p_value,
    record,
    verdict_words,
)
from branchrank.scoring.comparison import CompareOptions, Comparison
from branchrank.scoring.measures import NamedMeasure
from branchrank.scoring.verdicts import compare_pairs

#: The width of text lines, in columns.
WIDTH = 79
#: Maps a system, a measure and a question id to a score in 0..1.
SystemScores = Mapping[str, Mapping[str, Mapping[str, float]]]
_GRADED = "graded_"


class SystemResult(Record, frozen=True, kw_only=True):
    """One row of the table, with a system's mean and 95% interval for each measure.

    ``costs`` maps the headings of columns about latency and LLM use to the system's cells.
    """

    name: str
    means: dict[str, Estimate]
    costs: dict[str, str] = msgspec.field(default_factory=dict)


class ResultsTable(Record, frozen=True, kw_only=True):
    """The mean scores of systems over ``questions`` questions, and the comparisons on each measure.

    ``title`` describes the questions. ``str()`` returns the table as text, with a line for each comparison.
    """

    title: str
    questions: int
    measures: tuple[str, ...]
    systems: tuple[SystemResult, ...]
    comparisons: tuple[Comparison, ...]
    #: The share of judged hits (:func:`~branchrank.runs.words.judged_words`).
    judged: tuple[str, bool] = ("", False)

    @property
    def baselines(self) -> tuple[str, ...]:
        """The distinct baselines of the comparisons."""
        return tuple(dict.fromkeys(each.baseline for each in self.comparisons))

    @property
    def letters(self) -> dict[str, str]:
        """A dict from each system's name to the letter that marks significant differences from this system.

        If there are fewer than two baselines, the dict is empty, because the table marks significant
        differences with a dagger instead of letters.
        """
        if len(self.baselines) < 2:
            return {}
        return {each.name: _letter(place) for place, each in enumerate(self.systems)}

    def marks(self, system: str, measure: str) -> str:
        """Return the dagger or letters that mark a mean, or "" if no difference is significant."""
        letters = self.letters
        found = [each for each in self.comparisons if each.measure == measure and each.is_significant]
        if not letters:
            return DAGGER if any(each.candidate == system for each in found) else ""
        others = {each.baseline for each in found if each.candidate == system}
        others |= {each.candidate for each in found if each.baseline == system}
        return ",".join(letter for name, letter in letters.items() if name in others)

    @property
    def test(self) -> str:
        """The meaning of a dagger or letter (test, correction and level), or "" without comparisons."""
        if not self.comparisons:
            return ""
        first = self.comparisons[0]
        several = len({each.measure for each in self.comparisons}) > 1
        by_test: dict[str, dict[str, None]] = {}
        for each in self.comparisons:
            of = each.measure if several else f"{each.candidate} vs {each.baseline}"
            by_test.setdefault(_test_words(each.test), {})[of] = None
        tests = [name if len(by_test) == 1 else f"{name} for {', '.join(of)}" for name, of in by_test.items()]
        corrected = (
            "" if first.family == 1 else f", Holm-corrected for {first.family} comparisons per measure"
        )
        who = "the system with that letter" if self.letters else self.baselines[0]
        tested = dict.fromkeys(each.measure for each in self.comparisons)
        if len(tested) < len(self.measures):
            who += f" on {', '.join(tested)}, the only tested measure"
        compared = {name for each in self.comparisons for name in (each.baseline, each.candidate)}
        rest = ", ".join(each.name for each in self.systems if each.name not in compared)
        return (
            f"differs from {who} ({'; '.join(tests)}; two-sided{corrected}, adjusted p below {first.alpha:g})"
            f"{rest and f'; not compared: {rest}'}"
        )

    def __str__(self) -> str:
        """Return the table, the meaning of the marks, and a line for each comparison."""
        lines = [self.title, "", *plain(self.table(), left=True)]
        words, differs = self.judged
        lines += ["", *wrap(f"warning: {words}" if differs else words, WIDTH)] if words else []
        if self.comparisons:
            mark = "letters: a mean" if self.letters else f"{DAGGER}:"
            lines += ["", *wrap(f"{mark} {self.test}", WIDTH)]
            lines += [f"{confidence(self.comparisons[0])}; W/T/L: wins, ties, losses"]
            lines += ["d_z: mean difference / standard deviation of the differences; odds: wins / losses"]
        for measure in self.measures:
            found = [each for each in self.comparisons if each.measure == measure]
            lines += ["", *plain(comparisons_table(found))] if found else []
        return "\n".join(safe(line) for line in lines)

    def table(self, *, in_full: bool = False) -> Table:
        """The means, with the highest of each measure in bold and marks that the caption explains.

        With ``in_full``, the table also has 95% intervals, latency and LLM use, for a paper.
        """
        letters = self.letters
        words = [f"{self.title}.", *(["Bold: the highest mean."] if len(self.systems) > 1 else [])]
        if self.comparisons:
            words.append(f"{'A letter: the mean' if letters else f'{DAGGER}:'} {self.test}.")
        rows = means_rows(self.systems, self.marks, in_full=in_full)
        headings = full_headings(self.systems) if in_full else self.measures
        return Table(
            caption=" ".join(words),
            headings=(*([""] if letters else []), "system", *headings),
            rows=tuple((letters[name], name, *cells) if letters else (name, *cells) for name, *cells in rows),
            labels=2 if letters else 1,
        )


def full_headings(systems: Sequence[SystemResult]) -> tuple[str, ...]:
    """Return the headings of a table with intervals and costs, after the one of the system."""
    first = systems[0]
    return (*(heading for each in first.means for heading in (each, "95% interval")), *first.costs)


def means_rows(
    systems: Sequence[SystemResult], marks: Callable[[str, str], str], *, in_full: bool
) -> Iterator[tuple[str, *tuple[Cell, ...]]]:
    """Yield each system's name and means, with the highest mean of each column in bold.

    ``marks`` returns the marks of a system's mean in a column. With ``in_full``, each mean is followed by its
    interval, and the costs are the last cells.
    """
    best = {column: max(each.means[column].value for each in systems) for column in systems[0].means}
    for each in systems:
        cells: list[Cell] = []
        for column, mean in each.means.items():
            is_best = len(systems) > 1 and mean.value >= best[column]
            cells.append(Styled(f"{mean.value:.4f}", is_best, marks(each.name, column)))
            if in_full:
                known = mean.low is not None and mean.high is not None
                cells.append(f"{mean.low:.4f}–{mean.high:.4f}" if known else NOTHING)
        yield (each.name, *cells, *(each.costs.values() if in_full else ()))


def _costs(rows: Mapping[str, SummaryRow]) -> dict[str, dict[str, str]]:
    """Map each name to the cells about latency and LLM use that a report shows."""
    shown = [each for each in columns_of("report", list(rows.values())) if not each.meaning]
    return {name: {each.heading: each.text(row) for each in shown} for name, row in rows.items()}


def _mean(row: SummaryRow, measure: str, value: float, n: int) -> Estimate:
    """Return a mean with the interval that the summary has for it, if it is over the same questions."""
    found = row.estimates.get(measure)
    return found if found is not None and found.value == value else bounded(value, None, n)


def comparisons_table(comparisons: Sequence[Comparison]) -> Table:
    """Return a table of the comparisons on one measure."""
    baselines = {each.baseline for each in comparisons}
    against = f" vs {comparisons[0].baseline}" if len(baselines) == 1 else ""
    size = "odds" if any(each.odds_ratio is not None for each in comparisons) else "d_z"
    headings = (f"{comparisons[0].measure}{against}", "diff.", "interval", "W/T/L", size, "adj. p", "verdict")
    rows = tuple(
        (
            each.candidate if against else f"{each.candidate} vs {each.baseline}",
            _signed(each.difference),
            _interval(each),
            record(each),
            effect_size(each),
            p_value(each.p_adjusted).replace("below ", "<"),
            verdict_words(each),
        )
        for each in comparisons
    )
    return Table(caption="", headings=headings, rows=rows, labels=len(headings))


def results_table(
    title: str,
    scores: SystemScores,
    clusters: Mapping[str, str],
    pairs: Sequence[tuple[str, str]],
    options: CompareOptions,
) -> ResultsTable:
    """Return the table for systems that answered the same questions.

    ``clusters`` maps each question id to the question's cluster. On each measure, the systems in ``pairs``
    (baseline, candidate) are compared as one family.
    """
    _check_questions(clusters)
    measures = tuple(next(iter(scores.values())))
    values = {each: {name: of[each] for name, of in scores.items()} for each in measures}
    return ResultsTable(
        title=title,
        questions=len(clusters),
        measures=measures,
        systems=tuple(
            SystemResult(name=name, means={each: estimate(of[each], clusters) for each in of})
            for name, of in scores.items()
        ),
        comparisons=tuple(
            found
            for each in measures
            for found in compare_pairs(pairs, values[each], clusters, measure=each, options=options)
        ),
    )


def _check_questions(clusters: Mapping[str, str]) -> None:
    if not clusters:
        raise UsageError("there are no questions to compare on", remedy="give questions with gold")


def run_table(run: RunData, measures: Iterable[NamedMeasure] = ()) -> ResultsTable:
    """Return a run's table, with the declared comparisons on the primary measure.

    If ``measures`` is empty, the table contains the measures that were requested by name. If fewer than two
    measures were requested by name, the table contains the measures that the report shows. Raises
    :class:`UsageError` if the run has no answerable questions.
    """
    _check_questions(run.clusters)
    chosen = tuple(measures) or (run.extra if len(run.extra) > 1 else run.shown)
    graded = all(each.mode == "graded" for each in chosen)
    labels = {each.name: each.name.removeprefix(_GRADED) if graded else each.name for each in chosen}
    made, unit = run.record, "queries" if graded else "questions"
    split = [made.split] if made.split and not made.experiment.endswith(made.split) else []
    means = {
        name: {labels[each.name]: run.scores.estimate(name, each) for each in chosen}
        for name in run.predictors
    }
    costs = _costs({row.predictor: row for row in run.summary_rows})
    tested = next((labels[each.name] for each in chosen if each.same(run.primary)), "")
    return ResultsTable(
        title=", ".join([made.experiment, *split, f"{len(run.clusters)} {unit}"]),
        questions=len(run.clusters),
        measures=tuple(labels.values()),
        systems=tuple(SystemResult(name=name, means=of, costs=costs[name]) for name, of in means.items()),
        comparisons=tuple(replace(each, measure=tested) for each in run.judgment.comparisons if tested),
        judged=run.judged,
    )


def comparison_table(compared: RunComparison) -> ResultsTable:
    """Return the table for two compared runs, with significance tests on the first measure."""
    n, tested = compared.pairs[0].comparison.n, compared.pairs[0].comparison.measure
    means: dict[str, tuple[dict[str, float], SummaryRow]] = {}
    for pair in compared.pairs:
        each, others = pair.labeled, pair.others
        before = {tested: each.mean_a, **{found.measure: found.baseline for found in others}}
        after = {tested: each.mean_b, **{found.measure: found.candidate for found in others}}
        means |= {each.baseline: (before, pair.baseline), each.candidate: (after, pair.candidate)}
    costs = _costs({name: row for name, (_, row) in means.items()})
    return ResultsTable(
        title=f"{n} questions",
        questions=n,
        measures=tuple(next(iter(means.values()))[0]),
        systems=tuple(
            SystemResult(
                name=name,
                means={each: _mean(row, each, value, n) for each, value in of.items()},
                costs=costs[name],
            )
            for name, (of, row) in means.items()
        ),
        comparisons=tuple(pair.labeled for pair in compared.pairs if not pair.failed),
    )


def _signed(value: float | None) -> str:
    """Format a difference with its sign and four decimal places."""
    return NOTHING if value is None else f"{value:+.4f}".replace("-", MINUS)


def _interval(each: Comparison) -> str:
    if each.identical:
        return NOTHING
    return FEW_PAGES if each.ci_low is None else f"{_signed(each.ci_low)} to {_signed(each.ci_high)}"


def _letter(place: int) -> str:
    """Return the letter for the system with index ``place`` (a to z, then aa, ab, and so on)."""
    first, last = divmod(place, len(ascii_lowercase))
    return (_letter(first - 1) if first else "") + ascii_lowercase[last]


def _test_words(test: str) -> str:
    """Return a test's name in the form that papers use."""
    by = " by cluster" if test.startswith("cluster ") else ""
    return "exact McNemar test" if "McNemar" in test else f"paired sign-flip randomization test{by}"
