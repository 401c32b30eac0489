"""Advice from finished runs: which system to use within limits on latency and cost, and what to measure next.

1. Runs over the same questions are merged, and each set of questions has its own advice.
2. Systems above the limits are left out. The recommendation of the report
   (:mod:`branchrank.reports.recommendation`) is made from the remaining systems.
3. The cheapest system is the one with the lowest cost, then the lowest p95, among the systems for which a
   loss of delta or more against the best one is excluded (:mod:`branchrank.runs.estimates`).
4. A system is open if neither a loss of delta is excluded nor a loss is shown. The next experiment compares
   the best system with the open system whose answer is worth most per question: one that is cheaper than the
   best, if there is any, and the one that needs the fewest questions among these.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from branchrank.core.errors import UsageError
from branchrank.core.records import Record
from branchrank.reports.recommendation import cautions, maybe_tuned_on, recommendation_text, recommended
from branchrank.runs.estimates import Choice, Standing, choice, cost_per_query, standings
from branchrank.runs.run_data import RunData
from branchrank.runs.words import (
    MORE_PAGES,
    beyond_corpus,
    deciding,
    enough_words,
    margin,
    milliseconds,
    size,
    way_on,
    why_open,
)
from branchrank.scoring.comparison import Comparison


class Advice(Record, frozen=True, kw_only=True):
    """The advice for one set of questions. ``str()`` returns the text that ``branchrank advise`` prints.

    ``recommendation`` is the report's sentence, for the systems within the limits, and ``system`` the system
    that it recommends, or "" if it is inconclusive. ``cheapest`` is the
    cheapest system that is shown to be less than delta worse than ``best``; both are empty if no latency was
    measured. ``left_out`` maps the other systems to the reason. ``open`` contains one sentence for each
    system that may still be within delta of ``best``, ``doubts`` the cautions of the report, and ``next`` the
    experiment that would decide most.
    """

    runs: tuple[Path, ...]
    recommendation: str
    system: str = ""
    best: str = ""
    cheapest: str = ""
    delta: str
    left_out: dict[str, str]
    open: tuple[str, ...]
    doubts: tuple[str, ...]
    next: str

    def __str__(self) -> str:
        lines = [", ".join(map(str, self.runs)), self.recommendation]
        if self.cheapest:
            lines.append(f"cheapest less than {self.delta} worse than {self.best}: {self.cheapest}")
        lines += [f"left out: {name} ({why})" for name, why in self.left_out.items()]
        lines += [f"open: {each}" for each in self.open]
        lines += [f"not certain: {each}" for each in self.doubts]
        return "\n  ".join([*lines, f"next: {self.next}"])


class Limits(Record, frozen=True, kw_only=True):
    """The largest acceptable p95 latency in ms, and LLM cost per query in the price table's currency."""

    p95_ms: float | None = None
    cost: float | None = None


NO_LIMITS = Limits()


def advise(
    runs: Sequence[RunData], limits: Limits = NO_LIMITS, delta: float | None = None
) -> tuple[Advice, ...]:
    """Return the advice for each set of questions, in the order of the runs.

    ``delta`` replaces the runs' own delta. Raises :class:`UsageError` if two runs over the same questions
    have different measures, or different hits of a system with the same name.
    """
    groups: dict[str, list[RunData]] = {}
    for run in runs:
        groups.setdefault(run.record.questions_digest, []).append(run)
    return tuple(_advice(group, limits, delta) for group in groups.values())


def _advice(runs: Sequence[RunData], limits: Limits, delta: float | None) -> Advice:
    run = _merged(runs)
    if delta is not None:
        run = run.with_benchmark(delta=delta)
    left_out = {name: why for name in run.predictors if (why := _excess(run, name, limits))}
    kept = [name for name in run.predictors if name not in left_out]
    run = run.only(kept) if kept else run
    found = standings(run) if kept and run.scores.answerable else []
    chosen = choice(run, found)[1] if found else None
    undecided = _open(run, found, chosen) if chosen else []
    made = recommended(run) if kept else None
    return Advice(
        runs=tuple(dict.fromkeys(each.directory for each in runs)),
        recommendation=recommendation_text(run) if kept else _none_within(run, limits),
        system=made.system if made and made.kind != "zero" and not made.open else "",
        best=chosen.best if chosen else "",
        cheapest=chosen.cheapest.name if chosen else "",
        delta=margin(run.settings.delta, run.primary.name),
        left_out=left_out,
        open=tuple(_possible(each) for each in undecided),
        doubts=tuple(map(str, cautions(run))),
        next=_next(run, undecided, measured=len(found) == len(kept) > 0),
    )


def _merged(runs: Sequence[RunData]) -> RunData:
    """Return one run with the systems of all runs, which have the same questions."""
    merged = runs[0]
    for run in runs[1:]:
        if run.primary.name != merged.primary.name:
            raise UsageError(
                f"{run.directory} declares {run.primary.name}, and {merged.directory} {merged.primary.name}",
                remedy="give runs with the same primary measure",
            )
        for name in set(run.predictors) & set(merged.predictors):
            if run.scores.hits(name) != merged.scores.hits(name):
                raise UsageError(
                    f"{name} has different hits in {run.directory} and {merged.directory}",
                    remedy="leave out one of the runs, or give the systems different names",
                )
        merged = merged.joined(run.only([name for name in run.predictors if name not in merged.predictors]))
    return merged


def _excess(run: RunData, name: str, limits: Limits) -> str:
    """Return why a system is outside the limits, or an empty string."""
    p95 = run.summary_row(name).latency_p95_ms
    if limits.p95_ms is not None and (p95 is None or p95 > limits.p95_ms):
        return "its latency was not measured" if p95 is None else f"p95 {milliseconds(p95)} ms"
    if limits.cost is not None and run.summary_row(name).llm_calls_per_query != 0:
        cost = cost_per_query(run, name)
        if cost is None or cost > limits.cost:
            return "its cost is unknown" if cost is None else f"cost {cost:.4g} a query"
    return ""


def _none_within(run: RunData, limits: Limits) -> str:
    """Say that no system is within the limits, and name the fastest if even this one is too slow."""
    timed = [
        (row.latency_p95_ms, row.predictor) for row in run.summary_rows if row.latency_p95_ms is not None
    ]
    p95, fastest = min(timed, default=(0.0, ""))
    if limits.p95_ms is None or p95 <= limits.p95_ms:
        return "No recommendation: no system is in the limits."
    return (
        f"No recommendation: no system is that fast. The fastest is {fastest}, with a p95 of "
        f"{milliseconds(p95)} ms."
    )


def _open(run: RunData, found: Sequence[Standing], chosen: Choice) -> list[Comparison]:
    """Return the undecided comparisons with the best system, the most valuable first.

    A system with the same hits as the best system loses nothing.
    """
    price = {each.name: (each.cost, each.p95_ms) for each in found}
    hits = run.scores.hits(chosen.best)
    undecided = [
        each
        for each in chosen.compared
        if not each.excludes_loss and each.verdict != "worse" and run.scores.hits(each.candidate) != hits
    ]

    def worth(each: Comparison) -> tuple[bool, float, str]:
        needed = each.enough[0] if each.enough else float("inf")
        return price[each.candidate] >= price[chosen.best], needed, each.candidate

    return sorted(undecided, key=worth)


def _possible(each: Comparison) -> str:
    loss = "an unknown amount" if each.ci_low is None else size(-each.ci_low, each.measure)
    return f"{each.candidate} may lose up to {loss} against {each.baseline}: {'; '.join(why_open(each))}"


def _next(run: RunData, undecided: Sequence[Comparison], *, measured: bool) -> str:
    """Return the next experiment."""
    silent = [row.predictor for row in run.summary_rows if not row.reports_llm]
    if silent and not measured:
        return f"write what {', '.join(silent)} uses as `llm` in its class or table, or report its LLM calls"
    if not measured and all(row.latency_p95_ms is not None for row in run.summary_rows):
        return "choose other limits, or measure other systems"
    if not measured:
        return "measure the latency of every system (--latency-sample), or choose other limits"
    first = min(undecided, key=lambda each: (beyond_corpus(each), not each.enough), default=None)
    if first is not None and beyond_corpus(first):
        return f"{first.candidate} vs {first.baseline}: {deciding(first)}; {way_on(first)}"
    if first is not None and first.enough:
        return (
            f"compare {first.candidate} with {first.baseline} on {enough_words(first)}: "
            f"branchrank benchmark --data-dir {run.record.data_dir} "
            f"--predictor {first.baseline} --predictor {first.candidate} --questions FILE"
        )
    if undecided:
        return f"{MORE_PAGES}; on these pages, no number of questions decides the open comparisons"
    if maybe_tuned_on(run) or run.record.tuned_here:
        return "repeat the run on questions that nothing was tuned on, with --split test"
    return "nothing; no system within the limits is open"
