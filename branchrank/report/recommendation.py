"""Choose the system that a report recommends, describe the evidence and the cost, and list the warnings.

1. The leader is the system with the highest mean for the primary measure. If the baseline shares the highest
   mean with other systems, the baseline is the leader. Systems that failed every query are left out. If
   several systems were compared and all of them scored 0, no system is recommended.
2. The leader's rivals are the systems with which the run compared the leader. A leader that is better than
   every rival, according to the verdicts, is recommended.
3. If some of the rivals that the leader does not beat are cheaper than the leader, the one with the highest
   mean is recommended if a loss of delta or more is excluded. Otherwise, the result is inconclusive. A rival
   without an LLM always counts as cheaper than a leader that uses an LLM, and never the reverse. If both
   systems use an LLM, or neither does, the rival counts as cheaper if its median latency is less than half
   the leader's and at least 50 ms lower.
4. If no rival is cheaper, the leader is recommended if it is equivalent to every rival that it does not beat.
   If it is the baseline, it is enough to exclude that it is worse by delta or more. In all other cases, the
   result is inconclusive, and the text only names the leader.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from branchrank.io.table import Cell, Styled
from branchrank.measures.verdicts import PILOT_BELOW, Comparison, Verdict
from branchrank.records import NOT_REPORTED
from branchrank.report.blocks import Callout
from branchrank.runs.estimates import choice, standings
from branchrank.runs.run import RunData
from branchrank.runs.summary import SummaryRow
from branchrank.runs.warnings import failures
from branchrank.runs.words import (
    change,
    interval,
    interval_words,
    is_share,
    margin,
    milliseconds,
    number,
    open_question,
    plural,
    score,
    size,
)

#: Matches the name of a split of questions that are not test questions, such as "tuning" or "dev".
_NOT_TEST = re.compile("tun|dev|train|valid", re.IGNORECASE)
#: The smallest reduction in latency, in ms, that a user would notice.
_NOTICED_MS = 50.0


def is_pilot(run: RunData) -> bool:
    """Return whether the run has so few questions that only large differences can be confirmed."""
    return len(run.scores.answerable) < PILOT_BELOW


def cautions(run: RunData) -> list[str]:
    """Return all warnings about a run, starting with those that do not concern a single predictor."""
    found = []
    if is_pilot(run):
        found.append(
            f"This is a pilot: with under {PILOT_BELOW} questions, differences of ten points can be noise."
        )
    if not run.record.split:
        found.append(
            "No split was declared (flag --split, or key 'split' in the experiment file). "
            "Scores on questions used for tuning can overstate a system's quality."
        )
    elif _NOT_TEST.search(run.record.split):
        found.append(
            f"The questions are the split {run.record.split!r}. "
            "Scores on questions used for tuning can overstate a system's quality."
        )
    found += (
        f"{name}: tuned on these questions, so its scores can overstate its quality"
        for name in run.record.tuned_here
    )
    found += run.record.warnings
    found += (failure.text for failure in failures(run.rows, run.record.predictors))
    return sorted(found, key=lambda text: _concerns(text, run.predictors))


def _concerns(caution: str, predictors: Sequence[str]) -> bool:
    return caution.startswith(tuple(f"{name}: " for name in predictors))


def about(run: RunData, *predictors: str) -> list[str]:
    """Return the warnings about these predictors, without warnings about the whole run."""
    return [text for text in cautions(run) if _concerns(text, predictors)]


def recommendation(run: RunData) -> Callout:
    """Return the recommendation, together with all cautions about the run."""
    return Callout(text=_sentence(run), cautions=tuple(cautions(run)))


def recommendation_text(run: RunData) -> str:
    """Return the recommendation as plain text, without cautions."""
    return " ".join(cell.text if isinstance(cell, Styled) else cell for cell in _sentence(run))


def _sentence(run: RunData) -> tuple[Cell, ...]:
    if not run.scores.answerable:
        return (Styled("No recommendation:"), "none of the questions has an answer in the corpus.")
    usable = [name for name in run.predictors if not run.scores.failed(name)]
    if not usable:
        return (Styled("No recommendation:"), "every query failed.")
    # If means are equal, prefer the baseline, since replacing the baseline would gain nothing.
    leader = max(
        usable, key=lambda name: (run.scores.average(name, run.primary), name == run.judgment.baseline)
    )
    rivals = _rivals(run, leader)
    if not rivals:
        return _single(run, leader)
    if run.scores.average(leader, run.primary) == 0:
        return (Styled("No recommendation:"), f"every system scored 0 ({_found(run, leader)}).")
    unsettled = [each for each in rivals if each.verdict != "better"]
    if not unsettled:
        return _winner(run, leader, rivals)
    cheaper = [each for each in unsettled if _is_cheaper(run, each.baseline, leader)]
    if cheaper:
        # Prefer a rival whose possible loss is below delta, then the one with the highest mean.
        return _cheaper(run, leader, min(cheaper, key=lambda each: (not each.excludes_gain, each.difference)))
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
        rare_losses=each.rare_wins,
        rare_wins=each.rare_losses,
        verdict=turned.get(each.verdict, each.verdict),
    )


def _single(run: RunData, name: str) -> tuple[Cell, ...]:
    why = "It is the only system in this run, so nothing was compared."
    if len(run.predictors) > 1:
        why = "It was not compared, because every query of the systems to compare it with failed."
    row = run.summary_row(name)
    estimate = row.estimates[run.primary.name]
    likely = ""
    if estimate is not None and estimate.low is not None:
        likely = f" (95% interval {interval(estimate, run.primary.name).partition('(')[2]}"
    text = f"{_found(run, name)}{likely}, {_cost(row)}. {why}"
    return (Styled(f"{name}:"), text)


def _winner(run: RunData, name: str, rivals: list[Comparison]) -> tuple[Cell, ...]:
    closest, others = rivals[0], len(rivals) - 1
    over = f"better than {closest.baseline} ({_difference(closest)})"
    if others:
        over += f" and than the {others} other{'s' if others > 1 else ''} compared with it"
    cost = _cost(run.summary_row(name), against=run.summary_row(closest.baseline))
    more = (*_not_inferior(run, name), *_uncompared(run, name, rivals))
    return (Styled(f"{_verb(run)} {name}:"), f"{_found(run, name)}, {over}, {cost}.", *more)


def _uncompared(run: RunData, name: str, rivals: list[Comparison]) -> tuple[Cell, ...]:
    """Return a sentence that lists the systems with which the winner was not compared."""
    compared = {name, *(each.baseline for each in rivals)}
    others = [each for each in run.predictors if each not in compared]
    if not others:
        return ()
    return (f"It was not compared with {', '.join(others)}; --all-pairs compares every pair of systems.",)


def _tie(run: RunData, name: str, rivals: list[Comparison]) -> tuple[Cell, ...]:
    unsettled = [each for each in rivals if each.verdict != "better"]
    beaten = [each.baseline for each in rivals if each.verdict == "better"]
    closest = unsettled[0]
    text = f"{_found(run, name)}, {_unclear(closest)}"
    if others := [each.baseline for each in unsettled[1:]]:
        text += f", and no clear win over {others[0] if len(others) == 1 else f'{len(others)} other systems'}"
    if beaten:
        text += f", and better than {beaten[0] if len(beaten) == 1 else f'{len(beaten)} systems'}"
    text += f", {_cost(run.summary_row(name), against=run.summary_row(closest.baseline))}."
    settled = all(
        each.verdict == "equivalent within delta" or (name == run.judgment.baseline and each.excludes_loss)
        for each in unsettled
    )
    return (Styled(f"{_verb(run)} {name}:" if settled else f"Inconclusive, {name} leads:"), text)


def _cheaper(run: RunData, leader: str, rival: Comparison) -> tuple[Cell, ...]:
    """Recommend the cheaper system if a loss of delta or more is excluded."""
    cheap, dear = run.summary_row(rival.baseline), run.summary_row(leader)
    scored = f"{leader} scored {_score(run, leader)}"
    if rival.excludes_gain:
        price = "an LLM" if dear.llm_calls_per_query and not cheap.llm_calls_per_query else "a longer wait"
        within = margin(rival.delta, rival.measure)
        text = (
            f"{_found(run, rival.baseline)}, {_cost(cheap)}. {scored} ({_difference(rival)}) {_cost(dear)}: "
            f"{price} for less than {within}."
        )
        return (Styled(f"{_verb(run)} {rival.baseline}:"), text)
    most = "an unknown amount" if rival.ci_high is None else size(rival.ci_high, rival.measure)
    text = (
        f"{rival.baseline} costs less and may lose up to {most}; {open_question(rival)}. {scored} "
        f"({_difference(rival)}) {_cost(dear)}; "
        f"{rival.baseline} {_score(run, rival.baseline)} {_cost(cheap)}."
    )
    return (Styled("Inconclusive:"), text)


def _verb(run: RunData) -> str:
    return "For now, use" if is_pilot(run) else "Use"


def _is_cheaper(run: RunData, rival: str, leader: str) -> bool:
    cheap, dear = run.summary_row(rival), run.summary_row(leader)
    if not (cheap.reports_llm and dear.reports_llm):
        return False
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
    """Return the difference as text, such as ``difference +1.9 points, 95% interval: −5.0 to +9.0``."""
    return f"difference {change(rival.difference, rival.measure)}, {interval_words(rival)}"


def _unclear(rival: Comparison) -> str:
    if rival.verdict == "equivalent within delta":
        within = margin(rival.delta, rival.measure)
        return f"as good as {rival.baseline} within {within} ({_difference(rival)})"
    return f"no clear difference from {rival.baseline} ({_difference(rival)}, {open_question(rival)})"


def _cost(row: SummaryRow, against: SummaryRow | None = None) -> str:
    """Describe a system's latency and LLM use, with the latency of a much faster rival."""
    if row.latency_p50_ms is None:
        time = "latency not measured"
    else:
        time = f"at {milliseconds(row.latency_p50_ms)} ms a query"
        other = None if against is None else against.latency_p50_ms
        if against is not None and other is not None and row.latency_p50_ms > 2 * other:
            time += f" ({against.predictor}: {milliseconds(other)} ms)"
    if row.llm_calls_per_query is None or row.llm_tokens_per_query is None:
        return f"{time}, its LLM use {NOT_REPORTED}"
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
    by = margin(run.settings.delta, run.primary.name)
    return (f"{cheap} is less than {by} worse, {_cost(run.summary_row(cheap))}.",)
