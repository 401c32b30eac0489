"""Choose the system that a report recommends, describe the evidence and the cost, and list the warnings.

1. The leader is the system with the highest mean for the primary measure. If the baseline shares the highest
   mean with other systems, the baseline is the leader. Systems that failed every query are left out. If
   several systems were compared and all of them scored 0, no system is recommended.
2. The leader's rivals are the systems with which the run compared the leader. A leader that is better than
   every rival, according to the verdicts, is recommended.
3. If some of the rivals that the leader does not beat are cheaper than the leader, the one with the highest
   mean is recommended. A rival without an LLM always counts as cheaper than a leader that uses an LLM, and
   never the reverse. If both systems use an LLM, or neither does, the rival counts as cheaper if its median
   latency is less than half the leader's and at least 50 ms lower.
4. If no rival is cheaper, the leader is recommended if it is the baseline, or if it is equivalent to every
   rival that it does not beat. In all other cases, there is no clear winner, and the recommendation only
   names the leader.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from branchrank.io.table import Cell, Styled
from branchrank.measures.verdicts import PILOT_BELOW, Comparison, Verdict
from branchrank.records import Record
from branchrank.report.blocks import Callout
from branchrank.runs.estimates import choice, standings
from branchrank.runs.run import RunData
from branchrank.runs.summary import SummaryRow
from branchrank.runs.words import (
    gap,
    gap_between,
    interval,
    is_share,
    margin,
    milliseconds,
    number,
    plural,
    score,
)

#: The smallest reduction in latency, in ms, that a user would notice.
_NOTICED_MS = 50.0


class Caution(Record, frozen=True, kw_only=True):
    """A warning about ``predictor``, or about the whole run if ``predictor`` is empty."""

    text: str
    predictor: str = ""


def is_pilot(run: RunData) -> bool:
    """Return whether the run has so few questions that only large differences can be confirmed."""
    return len(run.scores.answerable) < PILOT_BELOW


def cautions(run: RunData) -> list[Caution]:
    """Return all cautions for a run, starting with those about the whole run."""
    found = []
    if is_pilot(run):
        text = f"This is a pilot: with under {PILOT_BELOW} questions, differences of ten points can be noise."
        found.append(Caution(text=text))
    if not run.record.split:
        found.append(
            Caution(
                text="No split was declared (flag --split, or key 'split' in the experiment file). "
                "Scores on questions used for tuning can overstate a system's quality."
            )
        )
    longest_first = sorted(run.predictors, key=len, reverse=True)
    for warning in run.record.warnings:
        name = next((each for each in longest_first if warning.startswith(f"{each}: ")), "")
        found.append(Caution(text=warning, predictor=name))
    return sorted(found, key=lambda each: bool(each.predictor)) + _failures(run)


def _failures(run: RunData) -> list[Caution]:
    """Return a caution for each predictor with failed queries or fallbacks, with the most common reasons."""
    found = []
    for row in run.summary_rows:
        if not (row.failures or row.fallbacks):
            continue
        rows = run.scores.rows(row.predictor)
        parts = []
        if row.failures:
            errors = Counter(each.error for each in rows if each.error)
            often = "".join(f", most often with: {error}" for error, _ in errors.most_common(1))
            miss = "counts as a miss" if row.failures == 1 else "count as misses"
            parts.append(f"{row.failures} of {plural(len(rows), 'query')} failed and {miss}{often}")
        if row.fallbacks:
            reasons = Counter(reason for each in rows for reason in each.fallbacks)
            often = "".join(f" ({reason})" for reason, _ in reasons.most_common(1))
            parts.append(f"{row.fallbacks} of {len(rows)} answers fell back{often}")
        found.append(Caution(text=f"{row.predictor}: {'; '.join(parts)}", predictor=row.predictor))
    return found


def about(run: RunData, *predictors: str) -> list[str]:
    """Return the texts of the cautions about these predictors, without cautions about the whole run."""
    return [each.text for each in cautions(run) if each.predictor in predictors]


def recommendation(run: RunData) -> Callout:
    """Return the recommendation, together with all cautions about the run."""
    return Callout(text=_sentence(run), cautions=tuple(each.text for each in cautions(run)))


def recommendation_text(run: RunData) -> str:
    """Return the recommendation as plain text, without cautions."""
    return " ".join(cell.text if isinstance(cell, Styled) else cell for cell in _sentence(run))


def _sentence(run: RunData) -> tuple[Cell, ...]:
    if not run.scores.answerable:
        return (Styled("No recommendation:"), "none of the questions has an answer in the corpus.")
    failed = {
        row.predictor for row in run.summary_rows if row.failures == len(run.scores.rows(row.predictor))
    }
    usable = [row.predictor for row in run.summary_rows if row.predictor not in failed]
    if not usable:
        return (Styled("No recommendation:"), "every query failed.")
    # If means are equal, prefer the baseline, since replacing the baseline would gain nothing.
    leader = max(
        usable, key=lambda name: (run.scores.average(name, run.primary), name == run.judgment.baseline)
    )
    rivals = [each for each in _rivals(run, leader) if each.baseline not in failed]
    if not rivals:
        return _single(run, leader)
    if run.scores.average(leader, run.primary) == 0:
        return (Styled("No recommendation:"), f"every system scored 0 ({_found(run, leader)}).")
    unsettled = [each for each in rivals if each.verdict != "better"]
    if not unsettled:
        return _winner(run, leader, rivals)
    cheaper = [each for each in unsettled if _is_cheaper(run, each.baseline, leader)]
    if cheaper:
        return _cheaper(run, leader, min(cheaper, key=lambda each: each.difference))
    return _tie(run, leader, rivals)


def _rivals(run: RunData, name: str) -> list[Comparison]:
    """Return the comparisons of ``name`` as the candidate, in ascending order of difference."""
    found = [_seen_from(each, name) for each in run.judgment.comparisons]
    return sorted(
        (each for each in found if each.candidate == name), key=lambda each: (each.difference, each.baseline)
    )


def _seen_from(each: Comparison, name: str) -> Comparison:
    """Return a comparison with ``name`` as the candidate, if ``name`` is the baseline."""
    if each.baseline != name:
        return each
    turned: dict[str, Verdict] = {"better": "worse", "worse": "better"}
    return msgspec.structs.replace(
        each,
        baseline=each.candidate,
        candidate=name,
        difference=-each.difference,
        ci_low=None if each.ci_high is None else -each.ci_high,
        ci_high=None if each.ci_low is None else -each.ci_low,
        verdict=turned.get(each.verdict, each.verdict),
    )


def _single(run: RunData, name: str) -> tuple[Cell, ...]:
    why = "the only system" if len(run.predictors) == 1 else "the only system that answered"
    row = _row(run, name)
    estimate = row.estimates[run.primary.name]
    likely = ""
    if estimate is not None and estimate.low is not None:
        likely = f" (95% interval {interval(estimate, run.primary.name).partition('(')[2]}"
    text = f"{_found(run, name)}{likely}, {_cost(row)}. It is {why} in this run, so nothing was compared."
    return (Styled(f"{name}:"), text)


def _winner(run: RunData, name: str, rivals: list[Comparison]) -> tuple[Cell, ...]:
    closest = rivals[0]
    others = len(rivals) - 1
    over = f"better than {closest.baseline} ({_difference(closest)})"
    if others:
        over += f" and than {'the other system' if others == 1 else f'the {others} others'} compared with it"
    text = f"{_found(run, name)}, {over}, {_cost(_row(run, name), against=_row(run, closest.baseline))}."
    return (Styled(f"{_verb(run)} {name}:"), text, *_not_inferior(run, name), *_uncompared(run, name, rivals))


def _uncompared(run: RunData, name: str, rivals: list[Comparison]) -> tuple[Cell, ...]:
    """Return a sentence that lists the systems with which the winner was not compared."""
    compared = {name, *(each.baseline for each in rivals)}
    others = [each for each in run.predictors if each not in compared]
    if not others:
        return ()
    return (f"It was not compared with {', '.join(others)}; --all-pairs compares every pair of systems.",)


def _tie(run: RunData, name: str, rivals: list[Comparison]) -> tuple[Cell, ...]:
    unsettled = [each for each in rivals if each.verdict != "better"]
    closest, beaten = unsettled[0], len(rivals) - len(unsettled)
    text = f"{_found(run, name)}, {_unclear(closest)}"
    if others := len(unsettled) - 1:
        counted = unsettled[1].baseline if others == 1 else f"{others} other systems"
        tied = closest.verdict == "equivalent within delta"
        text += f", and no clear win over {counted}" if tied else f", nor from {counted}"
    if beaten:
        worse = [each.baseline for each in rivals if each.verdict == "better"]
        text += f", and better than {worse[0] if beaten == 1 else f'{beaten} systems'}"
    text += f", {_cost(_row(run, name), against=_row(run, closest.baseline))}."
    settled = all(each.verdict == "equivalent within delta" for each in unsettled)
    if settled or name == run.judgment.baseline:
        return (Styled(f"{_verb(run)} {name}:"), text)
    return (Styled(f"No clear winner{' yet' if is_pilot(run) else ''}, {name} leads:"), text)


def _cheaper(run: RunData, leader: str, rival: Comparison) -> tuple[Cell, ...]:
    """Recommend the cheaper system, because the leader is not significantly better."""
    cheap, dear = _row(run, rival.baseline), _row(run, leader)
    price = "an LLM" if dear.llm_calls_per_query and not cheap.llm_calls_per_query else "a longer wait"
    text = (
        f"{_found(run, rival.baseline)}, {_cost(cheap)}. {leader} scored {_score(run, leader)} "
        f"({_difference(rival)}, {_why(rival)}) {_cost(dear)}: {price} for "
        "a difference that may be due to chance."
    )
    return (Styled(f"{_verb(run)} {rival.baseline}:"), text)


def _verb(run: RunData) -> str:
    return "For now, use" if is_pilot(run) else "Use"


def _row(run: RunData, name: str) -> SummaryRow:
    return next(row for row in run.summary_rows if row.predictor == name)


def _is_cheaper(run: RunData, rival: str, leader: str) -> bool:
    cheap, dear = _row(run, rival), _row(run, leader)
    if bool(cheap.llm_calls_per_query) != bool(dear.llm_calls_per_query):
        return not cheap.llm_calls_per_query
    if cheap.latency_p50_ms is None or dear.latency_p50_ms is None:
        return False
    saved = dear.latency_p50_ms - cheap.latency_p50_ms
    return saved >= _NOTICED_MS and dear.latency_p50_ms > 2 * cheap.latency_p50_ms


def _found(run: RunData, name: str) -> str:
    """Describe a system's score, such as ``right passage first for 48 of 100 questions``."""
    apart = {level: part for level, part in run.by_gold.items() if part is not run}
    if apart:
        gold = {"span": "whose gold is lines", "file": "whose gold is a whole file"}
        return ", ".join(f"{_found(part, name)} {gold[level]}" for level, part in apart.items())
    asked = plural(len(run.scores.answerable), "question")
    if not is_share(run.primary.name):
        return f"{run.primary.name.replace('_', ' ')} {_score(run, name)} over {asked}"
    depth = run.primary.measure.cutoff or 1
    what = "right page" if run.primary.mode == "relaxed" else "right passage"
    where = "first" if depth == 1 else f"in the first {depth} hits"
    hits = run.scores.average(name, run.primary) * len(run.scores.answerable)
    found = str(round(hits)) if abs(hits - round(hits)) < 1e-6 else _score(run, name)
    return f"{what} {where} for {found} of {asked}"


def _score(run: RunData, name: str) -> str:
    return score(run.scores.average(name, run.primary), run.primary.name)


def _difference(rival: Comparison) -> str:
    """Return the difference as text, such as ``difference +1.9 points, 95% interval −5.0 to +9.0``."""
    measure = rival.measure
    unit = " points" if is_share(measure) else ""
    found = f"difference {gap(rival.difference, measure)}{unit}"
    if rival.ci_low is None:
        return f"{found}, no interval: too few pages"
    level = f"{100 * (1 - rival.alpha):g}%"
    family = rival.family
    adjusted = "" if family == 1 else f", adjusted for {family} comparisons"
    return f"{found}, {level} interval {gap_between(rival.ci_low, rival.ci_high, measure)}{adjusted}"


def _unclear(rival: Comparison) -> str:
    if rival.verdict == "equivalent within delta":
        within = margin(rival.delta, rival.measure)
        return f"as good as {rival.baseline} within {within} ({_difference(rival)})"
    return f"no clear difference from {rival.baseline} ({_difference(rival)}, {_why(rival)})"


def _why(rival: Comparison) -> str:
    """Explain why a difference is not clear."""
    if rival.verdict == "equivalent within delta":
        return "too small to matter"
    needed = rival.questions_needed
    if rival.verdict == "inconclusive" and needed is not None and needed > rival.n:
        return f"too few questions to tell, about {needed:,} are needed"
    return "too few questions to tell"


def _cost(row: SummaryRow, against: SummaryRow | None = None) -> str:
    """Describe a system's latency and LLM use, with the latency of a much faster rival."""
    if row.latency_p50_ms is None:
        time = "latency not measured"
    else:
        time = f"at {milliseconds(row.latency_p50_ms)} ms a query"
        other = None if against is None else against.latency_p50_ms
        if against is not None and other is not None and row.latency_p50_ms > 2 * other:
            time += f" ({against.predictor}: {milliseconds(other)} ms)"
    if not row.llm_calls_per_query:
        return f"{time} and no LLM"
    calls = number(row.llm_calls_per_query, 1).removesuffix(".0")
    return (
        f"{time} and {calls} LLM call{'' if calls == '1' else 's'} "
        f"({row.llm_tokens_per_query:,.0f} tokens) a query"
    )


def _not_inferior(run: RunData, name: str) -> tuple[Cell, ...]:
    """Describe the cheapest system that is shown to be less than delta worse than the winner, if any."""
    found = standings(run)
    if name not in {each.name for each in found}:
        return ()
    chosen = choice(run, found)[1]
    if chosen.best != name or chosen.cheapest.name == name:
        return ()
    cheap = chosen.cheapest.name
    by = margin(chosen.delta, run.primary.name)
    return (f"{cheap} is less than {by} worse, {_cost(_row(run, cheap))}.",)
