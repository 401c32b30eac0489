"""Compare the predictors of one run with each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from branchrank.errors import UsageError, suggestion
from branchrank.io.printable import safe
from branchrank.measures.verdicts import Comparison, compare_pairs
from branchrank.records import Record
from branchrank.runs.comparisons import baselines_of, compare_scored, pairs_of
from branchrank.runs.words import effect, opening, sentence

if TYPE_CHECKING:
    import pandas as pd

    from branchrank.runs.run import RunData


class PredictorComparisons(Record, frozen=True, kw_only=True):
    """The comparisons of a run's predictors on one measure, adjusted together with Holm's correction.

    ``str()`` returns the text that ``branchrank compare`` prints.
    """

    comparisons: tuple[Comparison, ...]

    def __str__(self) -> str:
        lines = (
            f"{opening(each)} {sentence(each)} Effect size: {effect(each)}." for each in self.comparisons
        )
        return "\n".join(map(safe, lines))

    @property
    def frame(self) -> pd.DataFrame:
        """A table with one row per comparison and the columns of ``comparisons.csv``."""
        from branchrank.runs.frames import comparisons_frame

        return comparisons_frame(self.comparisons)


def compare_all(
    run: RunData,
    baseline: str | Sequence[str] = "",
    *,
    measure: str = "",
    delta: float | None = None,
) -> PredictorComparisons:
    """Compare every predictor in a run with one or more baselines.

    If ``baseline`` is ``all-pairs``, every pair of predictors is compared. The defaults of ``baseline``,
    ``measure`` and ``delta`` are the values that the run declared. Holm's correction adjusts the p-values of
    all comparisons together. Raises :class:`UsageError` if a predictor or the measure is unknown, or if there
    is nothing to compare.
    """
    chosen = run.measure(measure)
    baselines = baselines_of(baseline or run.settings.baseline, run.predictors)
    found = compare_scored(
        run.scores,
        chosen,
        pairs_of(baselines, run.predictors),
        delta=_delta(run, delta),
        alpha=run.settings.alpha,
        seed=run.record.seed,
    )
    if not found:
        raise UsageError(
            f"{run.directory} has nothing to compare: it has only one predictor, or no answerable questions",
            remedy="choose a run with two predictors",
        )
    return PredictorComparisons(comparisons=found)


def compare_within(
    run: RunData, candidate: str, baseline: str = "", *, measure: str = "", delta: float | None = None
) -> Comparison:
    """Compare two predictors in a run.

    The defaults of ``baseline``, ``measure`` and ``delta`` are the values that the run declared. If the run
    declared this comparison, the result is the same as in the report, with a p-value adjusted for all
    declared comparisons. The p-value of an undeclared comparison is not adjusted. Raises :class:`UsageError`
    if a predictor or the measure is unknown, if a predictor is compared with itself, or if the run has no
    answerable questions.
    """
    baseline = baseline or run.judgment.baseline
    for name in (candidate, baseline):
        if name not in run.predictors:
            raise unknown_predictor(str(run.directory), name, run.predictors)
    if candidate == baseline:
        raise UsageError(f"{candidate!r} can't be compared with itself", remedy="choose another baseline")
    chosen = run.measure(measure)
    if chosen.same(run.primary) and delta in (None, run.settings.delta):
        for declared in run.judgment.comparisons:
            if (declared.candidate, declared.baseline) == (candidate, baseline):
                return declared
    [found] = compare_pairs(
        [
            (
                (baseline, run.scores.per_question(baseline, chosen)),
                (candidate, run.scores.per_question(candidate, chosen)),
            )
        ],
        run.clusters,
        measure=chosen.name,
        delta=_delta(run, delta),
        alpha=run.settings.alpha,
        seed=run.record.seed,
    )
    return found


def _delta(run: RunData, delta: float | None) -> float:
    return run.settings.delta if delta is None else delta


def unknown_predictor(where: str, name: str, known: Sequence[str]) -> UsageError:
    """Return the error for a predictor that is not in a run."""
    return UsageError(
        f"{where} has no predictor {name!r}",
        remedy=suggestion(name, known) or f"choose one of {', '.join(known)}",
    )
