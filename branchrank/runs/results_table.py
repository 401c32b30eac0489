"""A results table for publication, with systems, measures and marks for significant differences.

1. The table shows each system's mean for each measure. All means are over the same questions (queries).
2. On each measure, all systems are compared either with one baseline or with each other. P-values (with
   Holm's correction) and intervals are adjusted for all comparisons on the same measure
   (:mod:`branchrank.measures.verdicts`).
3. A mean that differs significantly from another system's mean is marked in the table. If there is one
   baseline, means that differ significantly from the baseline's mean are marked with a dagger. If there are
   several baselines, each system is identified by a letter, and a mean is marked with the letters of the
   systems whose means are significantly different.

Runs of the same systems over several datasets:

1. The table has a row for each system that is in every run, and a column for each dataset. The last column is
   the macro average, which is the mean of the datasets' means.
2. Every cell shows the mean of the same measure, with a confidence interval. Every system is compared with
   the baseline over all datasets together (:mod:`branchrank.measures.verdicts`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from string import ascii_lowercase
from textwrap import wrap

import msgspec

from branchrank.errors import RunError, UsageError, suggestion
from branchrank.io.printable import safe
from branchrank.io.table import DAGGER, Styled, Table, plain
from branchrank.measures.measures import NamedMeasure
from branchrank.measures.verdicts import (
    CompareOptions,
    Comparison,
    Stratum,
    compare_pairs,
    compare_strata,
    macro_average,
)
from branchrank.records import Record
from branchrank.runs.comparisons import baselines_of, pairs_of
from branchrank.runs.run import RunData
from branchrank.runs.run_comparison import RunComparison
from branchrank.runs.scores import Estimate, bounded, estimate
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

#: The width of text lines, in columns.
WIDTH = 79
#: Maps a system, a measure and a question id to a score in 0..1.
SystemScores = Mapping[str, Mapping[str, Mapping[str, float]]]
_GRADED = "graded_"


class SystemResult(Record, frozen=True, kw_only=True):
    """One row of the table, with a system's mean and 95% interval for each measure."""

    name: str
    means: dict[str, Estimate]


class ResultsTable(Record, frozen=True, kw_only=True):
    """The mean scores of systems over ``questions`` questions, and the comparisons on each measure.

    ``title`` describes the questions. ``str()`` returns the table as text, with a line for each comparison.
    """

    title: str
    questions: int
    measures: tuple[str, ...]
    systems: tuple[SystemResult, ...]
    comparisons: tuple[Comparison, ...]

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
        found = [
            each
            for each in self.comparisons
            if each.measure == measure and each.verdict in ("better", "worse")
        ]
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
        by_test: dict[str, list[str]] = {}
        for each in self.comparisons:
            by_test.setdefault(_test_words(each.test), []).append(each.measure)
        tests = [
            name if len(by_test) == 1 else f"{name} for {', '.join(dict.fromkeys(of))}"
            for name, of in by_test.items()
        ]
        corrected = (
            "" if first.family == 1 else f", Holm-corrected for {first.family} comparisons per measure"
        )
        who = "the system with that letter" if self.letters else self.baselines[0]
        tested = dict.fromkeys(each.measure for each in self.comparisons)
        if len(tested) < len(self.measures):
            who += f" on {', '.join(tested)}, the only tested measure"
        return (
            f"differs from {who} ({'; '.join(tests)}; two-sided{corrected}, adjusted p below {first.alpha:g})"
        )

    def __str__(self) -> str:
        """Return the table, the meaning of the marks, and a line for each comparison."""
        lines = [self.title, "", *plain(self.table, left=True)]
        if self.comparisons:
            mark = "letters: a mean" if self.letters else f"{DAGGER}:"
            lines += ["", *wrap(f"{mark} {self.test}", WIDTH)]
            lines += [f"{confidence(self.comparisons[0])}; W/T/L: wins, ties, losses"]
            lines += ["d_z: mean difference / standard deviation of the differences; odds: wins / losses"]
        for measure in self.measures:
            found = [each for each in self.comparisons if each.measure == measure]
            lines += ["", *plain(comparisons_table(found))] if found else []
        return "\n".join(safe(line) for line in lines)

    @property
    def table(self) -> Table:
        """The means, with the highest of each measure in bold and marks that the caption explains."""
        letters, many = self.letters, len(self.systems) > 1
        best = {name: max(each.means[name].value for each in self.systems) for name in self.measures}
        words = [f"{self.title}.", *(["Bold: the highest mean."] if many else [])]
        if self.comparisons:
            words.append(f"{'A letter: the mean' if letters else f'{DAGGER}:'} {self.test}.")
        return Table(
            caption=" ".join(words),
            headings=(*([""] if letters else []), "system", *self.measures),
            rows=tuple(
                (
                    *([letters[each.name]] if letters else []),
                    each.name,
                    *(
                        Styled(
                            f"{each.means[measure].value:.4f}",
                            bold=many and each.means[measure].value >= best[measure],
                            marks=self.marks(each.name, measure),
                        )
                        for measure in self.measures
                    ),
                )
                for each in self.systems
            ),
            labels=2 if letters else 1,
        )


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
            FEW_PAGES if each.ci_low is None else f"{_signed(each.ci_low)} to {_signed(each.ci_high)}",
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
    if not clusters:
        raise UsageError("there are no questions to compare on", remedy="give questions with gold")
    measures = tuple(next(iter(scores.values())))
    return ResultsTable(
        title=title,
        questions=len(clusters),
        measures=measures,
        systems=tuple(
            SystemResult(name=name, means={each: estimate(of[each], clusters) for each in measures})
            for name, of in scores.items()
        ),
        comparisons=tuple(
            found
            for each in measures
            for found in compare_pairs(
                pairs,
                {name: of[each] for name, of in scores.items()},
                clusters,
                measure=each,
                options=options,
            )
        ),
    )


def run_table(run: RunData, measures: Iterable[NamedMeasure] = ()) -> ResultsTable:
    """Return a run's table, with the declared comparisons on each of ``measures``.

    If ``measures`` is empty, the table contains the measures that were requested by name. If fewer than two
    measures were requested by name, the table contains the measures that the report shows. Raises
    :class:`UsageError` if the run has no answerable questions.
    """
    chosen = tuple(measures) or (run.extra if len(run.extra) > 1 else run.shown)
    graded = all(each.mode == "graded" for each in chosen)
    labels = {each.name: each.name.removeprefix(_GRADED) if graded else each.name for each in chosen}
    made, unit = run.record, "queries" if graded else "questions"
    split = [made.split] if made.split and not made.experiment.endswith(made.split) else []
    return results_table(
        ", ".join([made.experiment, *split, f"{len(run.clusters)} {unit}"]),
        {
            name: {labels[each.name]: run.scores.per_question(name, each) for each in chosen}
            for name in run.predictors
        },
        run.clusters,
        pairs_of(baselines_of(run.settings.baseline, run.predictors), run.predictors),
        run.options,
    )


def comparison_table(compared: RunComparison) -> ResultsTable:
    """Return the table for two compared runs, with significance tests on the first measure."""
    comparisons = tuple(pair.comparison for pair in compared.pairs)
    n, tested = comparisons[0].n, comparisons[0].measure
    means: dict[str, dict[str, float]] = {}
    for pair in compared.pairs:
        each, others = pair.comparison, pair.others
        means[each.baseline] = {tested: each.mean_a, **{found.measure: found.baseline for found in others}}
        means[each.candidate] = {tested: each.mean_b, **{found.measure: found.candidate for found in others}}
    return ResultsTable(
        title=f"{n} questions",
        questions=n,
        measures=tuple(next(iter(means.values()))),
        systems=tuple(
            SystemResult(name=name, means={each: bounded(value, None, n) for each, value in of.items()})
            for name, of in means.items()
        ),
        comparisons=comparisons,
    )


def _signed(value: float | None) -> str:
    """Format a difference with its sign and four decimal places."""
    return NOTHING if value is None else f"{value:+.4f}".replace("-", MINUS)


def _letter(place: int) -> str:
    """Return the letter for the system with index ``place`` (a to z, then aa, ab, and so on)."""
    first, last = divmod(place, len(ascii_lowercase))
    return (_letter(first - 1) if first else "") + ascii_lowercase[last]


def _test_words(test: str) -> str:
    """Return a test's name in the form that papers use."""
    by = " by cluster" if test.startswith("cluster ") else ""
    return "exact McNemar test" if "McNemar" in test else f"paired sign-flip randomization test{by}"


#: The name of the average of the datasets' means, which have equal weights.
MACRO = "macro average"


class DatasetComparison(Record, frozen=True, kw_only=True):
    """The comparison of systems over several datasets on one measure.

    The ``means`` of a system have the datasets' names as keys, followed by ``macro average``.

    ``questions`` contains each dataset's number of answerable questions. ``pages`` contains each dataset's
    number of pages with gold. ``notes`` contains sentences about systems that were left out, datasets with
    the same corpus, and systems whose settings differ between runs.
    """

    measure: str
    baseline: str
    datasets: tuple[str, ...]
    questions: tuple[int, ...]
    pages: tuple[int, ...]
    systems: tuple[SystemResult, ...]
    comparisons: tuple[Comparison, ...]
    notes: tuple[str, ...] = ()


def compare_datasets(
    runs: Mapping[str, RunData], *, measure: str = "", baseline: str = "", delta: float | None = None
) -> DatasetComparison:
    """Compare the systems that are in every run, over all datasets.

    ``runs`` maps dataset names to runs. The defaults of ``measure``, ``baseline`` and ``delta`` are the
    values that the first run declared. If the runs declare different measures, ``measure`` is required.

    Raises :class:`UsageError` if there are fewer than two runs, if no system is in every run, or if the
    baseline is unknown. Raises :class:`RunError` if a run has no answerable questions, or if two runs have
    the same questions.
    """
    if len(runs) < 2:
        raise UsageError(
            "a comparison needs two datasets or more", remedy="give the runs of two or more datasets"
        )
    _check_apart(runs)
    first = next(iter(runs.values()))
    if not measure and len({run.primary.name for run in runs.values()}) > 1:
        declared = ", ".join(f"{run.primary.name} ({name})" for name, run in runs.items())
        raise UsageError(
            f"the runs declare different measures: {declared}", remedy="choose one with --primary"
        )
    chosen = first.measure(measure)
    systems = [name for name in first.predictors if all(name in run.predictors for run in runs.values())]
    if not systems:
        raise UsageError(
            "the runs have no predictor in common: "
            + "; ".join(f"{name}: {', '.join(run.predictors)}" for name, run in runs.items()),
            remedy="run the same predictors over every dataset",
        )
    baseline = baseline or (first.judgment.baseline if first.judgment.baseline in systems else systems[0])
    if baseline not in systems:
        raise UsageError(
            f"the baseline {baseline!r} is not in every run",
            remedy=suggestion(baseline, systems) or f"choose one of {', '.join(systems)}",
        )
    strata = [
        Stratum(
            scores={system: run.scores.per_question(system, chosen) for system in systems},
            pages=run.clusters,
        )
        for run in runs.values()
    ]
    return DatasetComparison(
        measure=chosen.name,
        baseline=baseline,
        datasets=tuple(runs),
        questions=tuple(len(stratum.pages) for stratum in strata),
        pages=tuple(len(set(stratum.pages.values())) for stratum in strata),
        systems=tuple(_system(dict(zip(runs, strata, strict=True)), system) for system in systems),
        comparisons=compare_strata(
            strata,
            measure=chosen.name,
            baseline=baseline,
            options=first.options if delta is None else msgspec.structs.replace(first.options, delta=delta),
        ),
        notes=tuple(_notes(runs, systems)),
    )


def _check_apart(runs: Mapping[str, RunData]) -> None:
    """Raise :class:`RunError` if a run has no answerable questions, or two runs share all questions."""
    seen: dict[str, str] = {}
    for name, run in runs.items():
        if not run.clusters:
            raise RunError(f"{name}: {run.directory} has no answerable questions")
        before = seen.setdefault(run.record.questions_digest, name)
        if before != name:
            raise RunError(
                f"{before} and {name} have the same questions, which would count twice",
                remedy=f"give only one of them, or use `branchrank compare` to compare {before} with {name}",
            )


def _system(strata: Mapping[str, Stratum], system: str) -> SystemResult:
    mean, interval = macro_average([*strata.values()], system)
    means = {name: estimate(stratum.scores[system], stratum.pages) for name, stratum in strata.items()}
    macro = bounded(mean, interval, sum(len(stratum.pages) for stratum in strata.values()))
    return SystemResult(name=system, means={**means, MACRO: macro})


def _notes(runs: Mapping[str, RunData], systems: Sequence[str]) -> Iterator[str]:
    counted = Counter(name for run in runs.values() for name in run.predictors)
    if missing := [name for name in counted if name not in systems]:
        yield f"left out, because they are not in every run: {', '.join(missing)}"
    corpora: dict[str, list[str]] = {}
    for name, run in runs.items():
        corpora.setdefault(run.record.corpus_digest, []).append(name)
    for digest, names in corpora.items():
        if digest and len(names) > 1:
            yield (
                f"{' and '.join(names)} use the same corpus. The macro interval and the macro test treat the "
                "datasets as independent, which is too optimistic if they have gold on the same pages"
            )
    for system in systems:
        records = [each for run in runs.values() for each in run.record.predictors if each.name == system]
        if any((each.system, each.llm) != (records[0].system, records[0].llm) for each in records):
            yield f"{system} does not have the same settings and the same model in all runs"
