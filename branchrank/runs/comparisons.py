"""The comparisons that a run declares before it starts.

1. Each question counts once in a test. If an LLM predictor answered a question several times, the test uses
   the mean of these answers' scores. Questions whose gold is in the same source file form a cluster.
2. Every predictor is compared with each declared baseline on the declared primary measure. If the run
   declares ``all-pairs``, every predictor is compared with every other predictor. No pair of predictors is
   compared twice. Holm's correction adjusts the p-values of all comparisons together.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from branchrank.core.errors import Remedy, UsageError, suggestion
from branchrank.core.records import Record
from branchrank.core.settings import BenchmarkSettings
from branchrank.runs.scores import Scores
from branchrank.scoring.comparison import MOST_FAILURES, CompareOptions, Comparison
from branchrank.scoring.matching import SHARES
from branchrank.scoring.measures import NamedMeasure, measure_names, named_measure, named_measures, named_once

#: The value of the baseline setting that requests a comparison of every pair of predictors.
ALL_PAIRS = "all-pairs"
#: Limits of a run, so that a run from a stranger cannot occupy the machine: measures by name, and baselines
#: times predictors.
MOST_MEASURES, MOST_COMPARISONS = 100, 5000


class Judgment(Record, frozen=True, kw_only=True):
    """A run's comparisons on one measure, and the winner if there is one.

    ``baselines`` contains the declared baselines, or every predictor if ``all_pairs`` is true. ``winner`` is
    the candidate with the highest mean if this candidate is significantly better than every baseline. If no
    candidate wins, but one baseline is significantly better than every other predictor, ``winner`` is this
    baseline. ``winner`` is ``None`` if no predictor wins.
    """

    measure: str
    baselines: tuple[str, ...]
    comparisons: tuple[Comparison, ...]
    winner: str | None
    all_pairs: bool = False

    @property
    def baseline(self) -> str:
        """The first baseline."""
        return self.baselines[0]


def baselines_of(declared: str | Sequence[str], predictors: Sequence[str]) -> tuple[str, ...]:
    """Return the declared baselines.

    The default baseline is the first predictor. If ``all-pairs`` is declared, every predictor is a baseline.

    Raises :class:`UsageError` if a baseline is not among the predictors, or is given twice.
    """
    names = (declared,) if isinstance(declared, str) else tuple(declared)
    if names == (ALL_PAIRS,):
        return tuple(predictors)
    names = tuple(name for name in names if name) or tuple(predictors[:1])
    for place, name in enumerate(names):
        if name not in predictors:
            raise UsageError(
                f"the baseline {name!r} is not among the predictors {', '.join(predictors)}",
                remedy=suggestion(name, predictors) or Remedy("choose one of them with {}", "--baseline"),
            )
        if name in names[:place]:
            raise UsageError(f"the baseline {name!r} is given twice", remedy="give it once")
    return names


def pairs_of(baselines: Sequence[str], predictors: Sequence[str]) -> list[tuple[str, str]]:
    """Pair each baseline with every other predictor, and return each pair (baseline, candidate) once.

    >>> pairs_of(("a", "b"), ("a", "b", "c"))
    [('a', 'b'), ('a', 'c'), ('b', 'c')]
    """
    return [
        (baseline, name)
        for place, baseline in enumerate(baselines)
        for name in predictors
        if name != baseline and name not in baselines[:place]
    ]


def primary_measure(settings: BenchmarkSettings) -> NamedMeasure:
    """Return the declared primary measure in the variant (strict or relaxed) that ``--mode`` selects."""
    measure = named_measure(settings.primary)
    if settings.mode == "both" or measure.mode in (settings.mode, "graded"):
        return measure
    if settings.mode == "strict" and measure.mode in SHARES:
        return measure
    return named_measure(f"{settings.mode}_{settings.primary.removeprefix(f'{measure.mode}_')}")


def declared_measures(settings: BenchmarkSettings) -> tuple[NamedMeasure, ...]:
    """Return the primary measure and the other chosen measures, without duplicates.

    Raises :class:`UsageError` for an unknown measure.
    """
    return named_once(primary_measure(settings), *named_measures(measure_names(settings.measures)))


def check_size(settings: BenchmarkSettings, predictors: Sequence[str]) -> None:
    """Raise :class:`UsageError` for more measures or comparisons than allowed."""
    if (count := len(measure_names(settings.measures))) > MOST_MEASURES:
        raise UsageError(
            f"{count} measures were requested, and at most {MOST_MEASURES} are allowed",
            remedy=Remedy("request fewer measures with {}", "--measure"),
        )
    baselines = 1 if isinstance(settings.baseline, str) else len(settings.baseline)
    baselines = len(predictors) if settings.baseline == ALL_PAIRS else baselines
    if (count := baselines * len(predictors)) > MOST_COMPARISONS:
        raise UsageError(
            f"{baselines} baselines with {len(predictors)} predictors make {count} comparisons, and at most "
            f"{MOST_COMPARISONS} are allowed",
            remedy=(Remedy("choose one baseline with {}", "--baseline"), "fewer predictors"),
        )


def check_plan(settings: BenchmarkSettings, predictors: Sequence[str]) -> None:
    """Check the declared measures and baselines before the run starts.

    Raises :class:`UsageError` for an unknown measure or baseline, for a measure that needs more hits than the
    run stores, and for more measures or comparisons than allowed.
    """
    check_size(settings, predictors)
    for measure in declared_measures(settings):
        cutoff, kept = measure.measure.cutoff or 0, settings.top_k
        if cutoff > kept:
            raise UsageError(
                f"measure {measure.name!r} needs {cutoff} hits, but --top-k {kept} keeps fewer",
                remedy=(Remedy("{}", "--top-k", str(cutoff)), f"a cutoff of at most {kept}"),
            )
    baselines_of(settings.baseline, predictors)


def judge(
    scores: Scores, measure: NamedMeasure, declared: str | Sequence[str], options: CompareOptions
) -> Judgment:
    """Compute the comparisons with the baselines that a run declared."""
    baselines = baselines_of(declared, scores.predictors)
    comparisons = compare_scored(scores, measure, pairs_of(baselines, scores.predictors), options)
    return Judgment(
        measure=measure.name,
        baselines=baselines,
        comparisons=comparisons,
        winner=winner_of(comparisons, baselines),
        all_pairs=declared == ALL_PAIRS,
    )


def compare_scored(
    scores: Scores, measure: NamedMeasure, pairs: Sequence[tuple[str, str]], options: CompareOptions
) -> tuple[Comparison, ...]:
    """Compare pairs (baseline, candidate) of predictors, and apply Holm's correction over all pairs.

    Pairs with a predictor whose queries all failed are left out.
    """
    pairs = scores.comparable(pairs)
    if not scores.clusters or not pairs:
        return ()
    from branchrank.scoring.verdicts import compare_pairs

    values = {name: scores.per_question(name, measure) for pair in pairs for name in pair}
    compared = compare_pairs(
        pairs, values, scores.clusters, measure=measure.name, merged=scores.merged, options=options
    )
    return tuple(seen_with(each, measure, scores, scores) for each in compared)


def seen_with(
    compared: Comparison, measure: NamedMeasure, baselines: Scores, candidates: Scores
) -> Comparison:
    """Return the comparison with what its rows show: identical hits, failures, texts without a place."""
    old, new = compared.baseline, compared.candidate
    if not compared.differing and baselines.hits(old) == candidates.hits(new):
        return replace(compared, identical=True)
    failed_a, failed_b = baselines.failed_share(old), candidates.failed_share(new)
    compared = replace(compared, failed_a=failed_a, failed_b=failed_b)
    if max(failed_a, failed_b) > MOST_FAILURES:
        return replace(compared, verdict="inconclusive", more_pages=0)
    if not compared.differing:
        return compared
    gains = baselines.unplaced_gain(old, measure), candidates.unplaced_gain(new, measure)
    return _with_unplaced(compared, *gains)


def _with_unplaced(found: Comparison, baseline: float, candidate: float) -> Comparison:
    """Withdraw a verdict that depends on texts without a place in the corpus, which count as misses.

    ``baseline`` and ``candidate`` are by how much each mean could rise if such texts were the gold.
    """
    low, high = found.difference - baseline, found.difference + candidate
    undone = (
        (found.verdict == "better" and low <= 0)
        or (found.verdict == "worse" and high >= 0)
        or (found.verdict == "equivalent within delta" and max(-low, high) >= found.delta)
    )
    most = max(baseline, candidate)
    if not undone and most < found.delta:
        return found
    return replace(found, verdict="inconclusive" if undone else found.verdict, unplaced=most)


def winner_of(comparisons: Sequence[Comparison], baselines: Sequence[str]) -> str | None:
    """Return the best candidate if it beats every baseline, or a baseline that beats all other systems."""
    beaten = {(each.candidate, each.baseline) for each in comparisons if each.verdict == "better"}
    beaten |= {(each.baseline, each.candidate) for each in comparisons if each.verdict == "worse"}
    means = {each.candidate: each.mean_b for each in comparisons if each.candidate not in baselines}
    best = max(means, key=means.__getitem__, default="")
    if best and all((best, baseline) in beaten for baseline in baselines):
        return best
    names = {*means, *baselines}
    for baseline in baselines:
        if comparisons and all((baseline, name) in beaten for name in names - {baseline}):
            return baseline
    return None
