"""Choose the system that a report recommends, describe the evidence and the cost, and list the warnings.

1. The leader is the system with the highest mean for the primary measure. If the baseline shares the highest
   mean with other systems, the baseline is the leader. Systems that failed every query are left out. If
   several systems were compared and all of them scored 0, no system is recommended.
2. The leader's rivals are the systems with which the run compared the leader. A leader that is better than
   every rival, according to the verdicts, is recommended, unless longer hits explain a lead
   (:mod:`branchrank.reports.equal_reading`), or pages without a question could undo it.
3. If some of the rivals that the leader does not beat make no LLM calls, and the leader makes some, the one
   with the highest mean is recommended if a loss of delta or more is excluded. Otherwise, the result is
   inconclusive.
4. If no rival is cheaper in this way, the leader is recommended if it is equivalent to every rival that it
   does not beat, or has the same hits. If it is the baseline, it is enough to exclude that it is worse by
   delta or more. In all other cases, the result is inconclusive, and the text only names the leader.

The recommendation is a function of the rows: no latency changes it. A sentence of its own compares latencies
if the intervals of the two medians don't overlap.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from branchrank.core.io.table import Cell, Styled
from branchrank.core.records import NOT_REPORTED, Record
from branchrank.reports.blocks import Callout
from branchrank.reports.equal_reading import EqualReading, equal_reading
from branchrank.runs.run_data import RunData
from branchrank.runs.summary import SummaryRow
from branchrank.runs.warnings import Caution, failures, recorded, several_factors
from branchrank.runs.words import (
    MORE_PAGES,
    bounds,
    change,
    deciding,
    interval_words,
    margin,
    milliseconds,
    number,
    plural,
    score,
    size,
    unasked_words,
    way_on,
    why_open,
)
from branchrank.scoring.comparison import PILOT_BELOW, Comparison, Verdict

#: Matches the name of a split of questions that are not test questions, such as "tuning" or "dev".
_NOT_TEST = re.compile("tun|dev|train|valid", re.IGNORECASE)
#: The number of systems up to which a sentence names them instead of counting them.
_LISTED = 4


def is_pilot(run: RunData) -> bool:
    """Return whether the run has so few questions that only large differences can be confirmed."""
    return len(run.scores.answerable) < PILOT_BELOW


def cautions(run: RunData) -> list[Caution]:
    """Return all cautions about a run, starting with those that do not concern a single predictor."""
    found: list[Caution] = []
    if is_pilot(run):
        words = (
            f"This is a pilot: with under {PILOT_BELOW} questions, differences of ten points can be noise."
        )
        found.append(Caution(kind="pilot", words=words))
    if asked := maybe_tuned_on(run):
        words = f"{asked}: scores on questions used for tuning can be too high."
        found.append(Caution(kind="tuned", words=words))
    words = "tuned on these questions, so its scores can be too high"
    found += (Caution(kind="tuned", words=words, predictor=name) for name in run.record.tuned_here)
    found += (recorded(text, run.predictors) for text in run.record.warnings)
    found += (
        Caution(kind="unasked", words=unasked_words(each))
        for each in run.judgment.comparisons
        if each.is_significant and each.more_pages
    )
    words, differs = run.judged
    found += [Caution(kind="judged", words=words)] if differs else []
    records = {each.name: each for each in run.record.predictors}
    pairs = ((records[each.baseline], records[each.candidate]) for each in run.judgment.comparisons)
    found += several_factors(pairs)
    found += failures(run.rows, run.record.predictors)
    return sorted(found, key=lambda caution: bool(caution.predictor))


def maybe_tuned_on(run: RunData) -> str:
    """Return why the questions may have been used for tuning, or an empty string if nothing suggests it."""
    record = run.record
    if _NOT_TEST.search(record.split):
        return f"The questions are the split {record.split!r}"
    tuned = any(each.tuned_on for each in record.predictors)
    return "Systems were tuned, and no split was declared (--split)" if tuned and not record.split else ""


#: What a run recommends. ``unanswerable``, ``failed`` and ``zero`` recommend nothing, and ``alone`` has
#: nothing to compare with. ``better`` is a system that beats all its rivals: only on the pages asked for
#: ``unasked``, and only with longer hits for ``longer``. ``cheaper`` is a rival without LLM calls that loses
#: less than delta to the leader, ``dearer`` a leader with such a rival that may lose more. ``settled`` is a
#: leader for which it makes no difference which system is used, and ``open`` one that is not decided.
Kind = Literal[
    "unanswerable",
    "failed",
    "zero",
    "alone",
    "better",
    "unasked",
    "longer",
    "cheaper",
    "dearer",
    "settled",
    "open",
]


class Recommendation(Record, frozen=True, kw_only=True):
    """What a run recommends, and why. :func:`headline` puts it into words."""

    kind: Kind
    #: The system that is recommended, or that leads.
    system: str = ""
    #: The comparisons of the leader as the candidate, in ascending order of difference.
    rivals: tuple[Comparison, ...] = ()
    #: The comparison that the words are about.
    closest: Comparison | None = None
    #: The comparison of ``closest`` at equal reading, if the hits differ in length.
    reading: EqualReading | None = None

    @property
    def open(self) -> Comparison | None:
        """The comparison that is not decided."""
        return self.closest if self.kind in ("dearer", "open") else None


class Headline(Record, frozen=True, kw_only=True):
    """The verdict in three lines, which the terminal, the reports and notebooks show.

    ``use`` is what to use, followed by sentences about its cost, ``evidence`` are sentences, and ``next`` is
    the next step.
    """

    use: tuple[str, ...]
    evidence: tuple[str, ...]
    next: str

    @property
    def lines(self) -> tuple[tuple[Cell, ...], ...]:
        """The three lines, each of which starts in bold."""
        first, *more = self.use
        return ((Styled(first), *more), (Styled("Evidence:"), *self.evidence), (Styled("Next:"), self.next))


def recommendation(run: RunData) -> Callout:
    """Return the recommendation, together with all cautions about the run."""
    lines = headline(run, recommended(run)).lines
    return Callout(lines=lines, cautions=tuple(map(str, cautions(run))))


def recommendation_text(run: RunData) -> str:
    """Return the recommendation and its evidence as plain text, without cautions."""
    found = headline(run, recommended(run))
    return " ".join([*found.use, *found.evidence])


def recommended(run: RunData) -> Recommendation:
    """Return the recommendation with its system and the comparisons that it rests on."""
    if not run.scores.answerable:
        return Recommendation(kind="unanswerable")
    usable = [name for name in run.predictors if not run.scores.failed(name)]
    if not usable:
        return Recommendation(kind="failed")
    # If means are equal, prefer the baseline, since replacing the baseline would gain nothing.
    leader = max(
        usable, key=lambda name: (run.scores.average(name, run.primary), name == run.judgment.baseline)
    )
    rivals = _rivals(run, leader)
    if not rivals:
        return Recommendation(kind="alone", system=leader)
    if run.scores.average(leader, run.primary) == 0:
        return Recommendation(kind="zero", system=leader)
    unsettled = [rival for rival in rivals if rival.verdict != "better"]
    if not unsettled:
        return _leading(run, leader, rivals)
    cheaper = [rival for rival in unsettled if _is_cheaper(run, rival.baseline, leader)]
    if cheaper:
        # Prefer a rival whose possible loss is below delta, then the one with the highest mean.
        closest = min(cheaper, key=lambda rival: (not rival.excludes_gain, rival.difference))
        if closest.excludes_gain:
            return Recommendation(kind="cheaper", system=closest.baseline, rivals=rivals, closest=closest)
        return Recommendation(kind="dearer", system=leader, rivals=rivals, closest=closest)
    undecided = [rival for rival in unsettled if not _is_settled(run, rival)]
    if undecided:
        first = min(undecided, key=lambda rival: rival.reason != "failures")
        return Recommendation(kind="open", system=leader, rivals=rivals, closest=first)
    return Recommendation(kind="settled", system=leader, rivals=rivals, closest=unsettled[0])


def _leading(run: RunData, leader: str, rivals: tuple[Comparison, ...]) -> Recommendation:
    """Return the recommendation of a leader that is better than all its rivals."""
    readings = [(rival, equal_reading(run, rival)) for rival in rivals]
    for rival, read in readings:
        if read is not None and read.comparison.verdict != "better":
            return Recommendation(kind="longer", system=leader, rivals=rivals, closest=rival, reading=read)
    unasked = [rival for rival in rivals if rival.more_pages]
    closest, read = readings[0]
    kind: Kind = "unasked" if unasked else "better"
    return Recommendation(kind=kind, system=leader, rivals=rivals, closest=closest, reading=read)


def headline(run: RunData, made: Recommendation) -> Headline:
    """Put a recommendation into words."""
    if made.closest is not None:
        use, evidence = _SENTENCES[made.kind](run, made, made.closest)
    elif made.kind == "alone":
        use, evidence = _alone(run, made.system)
    else:
        why = {
            "unanswerable": "None of the questions has an answer in the corpus.",
            "failed": "Every query failed.",
        }
        zero = f"Every system scored 0 ({_found(run, made.system)})." if made.kind == "zero" else ""
        use, evidence = ["No recommendation."], [zero or why[made.kind]]
    first, *more = evidence
    return Headline(use=tuple(use), evidence=(first[:1].upper() + first[1:], *more), next=_next(run, made))


#: What to do next, by the kind of recommendation or the reason of an open comparison.
_NEXT = {
    "failures": "fix what failed, and run the benchmark again.",
    "unplaced texts": "find the texts that are not in the corpus, or index their pages.",
    "unanswerable": "add questions that the corpus answers, with branchrank questions add.",
    "failed": "fix the error with which every query failed.",
    "zero": "check the gold with branchrank questions check.",
    "alone": "compare it with a second system, such as --predictor {}.",
    "unasked": "write questions about the other pages, with branchrank questions add.",
    "longer": "compare hits of the same length, with --passage-lines.",
}


def _next(run: RunData, made: Recommendation) -> str:
    """Return what to do next, as a sentence that starts in lower case."""
    rival = made.open
    key = made.kind if rival is None else rival.reason
    if key in _NEXT:
        return _NEXT[key].format("local" if made.system == "bm25" else "bm25")
    if rival is not None:
        pair = sorted((rival.candidate, rival.baseline), key=run.judgment.baselines.__contains__)
        decides = deciding(rival)
        return f"{' vs '.join(pair)}: {f'{decides}; {way_on(rival)}' if decides else MORE_PAGES}."
    if is_pilot(run):
        more = f"{len(run.scores.answerable)} of {PILOT_BELOW}"
        return f"add questions with branchrank questions add; there are {more}."
    wrong = sum(value < 1 for value in run.scores.per_question(made.system, run.primary).values())
    asked = plural(wrong, "question") if wrong else ""
    return f"read the {asked} that it does not get right." if wrong else "write harder questions."


def decided(run: RunData) -> list[str]:
    """Return which systems are better and which are worse than the baseline, as sentences."""
    sentences, baseline = [], run.judgment.baseline
    for verdict in ("better", "worse"):
        of = [
            each for each in run.judgment.comparisons if (each.baseline, each.verdict) == (baseline, verdict)
        ]
        *first, last = [f"{each.candidate} ({change(each.difference, each.measure)})" for each in of] or [""]
        listed = " and ".join([*([", ".join(first)] if first else []), last])
        if of:
            who = listed if len(of) <= _LISTED else f"{len(of)} systems"
            sentences.append(f"{who} {'is' if len(of) == 1 else 'are'} {verdict} than {baseline}.")
    return sentences


def _rivals(run: RunData, name: str) -> tuple[Comparison, ...]:
    """Return the comparisons of name as the candidate, in ascending order of difference."""
    seen = [_seen_from(each, name) for each in run.judgment.comparisons]
    own = [each for each in seen if each.candidate == name]
    return tuple(sorted(own, key=lambda each: (each.difference, each.baseline)))


def _seen_from(each: Comparison, name: str) -> Comparison:
    """Return a comparison with name as the candidate, if name is the baseline."""
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
        mean_a=each.mean_b,
        mean_b=each.mean_a,
        corpus_low=None if each.corpus_high is None else -each.corpus_high,
        corpus_high=None if each.corpus_low is None else -each.corpus_low,
        wins=each.losses,
        losses=each.wins,
        failed_a=each.failed_b,
        failed_b=each.failed_a,
        verdict=turned.get(each.verdict, each.verdict),
    )


#: The sentences of the first line of a headline, and those of the second line.
_Lines = tuple[list[str], list[str]]


def _alone(run: RunData, name: str) -> _Lines:
    why = "It is the only system in this run, so nothing was compared."
    if len(run.predictors) > 1:
        why = "It was not compared, because every query of the systems to compare it with failed."
    row, measure = run.summary_row(name), run.primary.name
    estimate, likely = row.estimates[measure], ""
    if estimate is not None and estimate.low is not None:
        likely = f" (95% interval {bounds(estimate, measure)})"
    return [f"Only {name} was measured.", _cost(row)], [f"{_found(run, name)}{likely}.", why]


def _better(run: RunData, made: Recommendation, closest: Comparison) -> _Lines:
    name, others = made.system, len(made.rivals) - 1
    over = f"better than {closest.baseline} ({_difference(run, closest)})"
    if others:
        over += f" and {plural(others, 'other')}"
    lead = {
        "unasked": f"Better on the pages asked: {name}.",
        "longer": f"Better with longer hits: {name}.",
    }.get(made.kind, f"{_verb(run)} {name}.")
    more = [_reading_words(run, made.reading)] if made.reading else []
    compared = {name, *(rival.baseline for rival in made.rivals)}
    if rest := [each for each in run.predictors if each not in compared]:
        more.append(
            f"It was not compared with {', '.join(rest)}; --all-pairs compares every pair of systems."
        )
    costs = [_cost(run.summary_row(name)), *_faster(run, name, closest.baseline)]
    return [lead, *costs], [f"{_found(run, name)}, {over}.", *more]


def _reading_words(run: RunData, read: EqualReading) -> str:
    """Say how long both systems' hits are, and whether the lead holds at equal reading."""
    compared, depth = read.comparison, run.primary.measure.cutoff or 1
    hits = "first hits have" if depth == 1 else f"first {depth} hits together have"
    holds = "The lead holds" if compared.verdict == "better" else "The lead does not hold"
    return (
        f"Its {hits} {number(read.lines_b)} lines, those of {compared.baseline} {number(read.lines_a)}. "
        f"{holds} within the first {plural(read.lines, 'line')} of both ({_difference(run, compared)})."
    )


def _is_settled(run: RunData, each: Comparison) -> bool:
    """Return whether it makes no difference which of the two systems is used."""
    is_baseline = each.candidate == run.judgment.baseline
    return each.identical or each.verdict == "equivalent within delta" or (is_baseline and each.excludes_loss)


def _tie(run: RunData, made: Recommendation, closest: Comparison) -> _Lines:
    name = made.system
    more = _open(closest) if made.open else []
    if others := [each.baseline for each in made.rivals if each.verdict != "better" and each is not closest]:
        more.append(f"No clear win over {others[0] if len(others) == 1 else f'{len(others)} other systems'}.")
    more += decided(run)
    leads = "leads" if closest.difference else "shares the lead"
    lead = f"Inconclusive, {name} {leads}." if made.open else f"{_verb(run)} {name}."
    costs = (_cost(run.summary_row(name)), *_faster(run, name, closest.baseline))
    return [lead, *costs], [f"{_found(run, name)}, {_unclear(run, closest)}.", *more]


def _trade(run: RunData, made: Recommendation, rival: Comparison) -> _Lines:
    """Recommend the cheaper system if a loss of delta or more is excluded, and otherwise name it."""
    leader, name = rival.candidate, rival.baseline
    if made.open:
        most = "an unknown amount" if rival.ci_high is None else size(rival.ci_high, rival.measure)
        lead, text = "Inconclusive.", f"{name} costs less than {leader} and may lose up to {most}."
        more = [*_open(rival), *decided(run)]
    else:
        gain = "identical hits" if rival.identical else f"less than {margin(rival.delta, rival.measure)}"
        lead, more = f"{_verb(run)} {name}.", []
        text = f"{_found(run, name)}; {leader} costs an LLM for {gain}."
    scored = (
        f"{leader} scored {_score(run, leader)} ({_difference(run, rival)}), and {name} {_score(run, name)}."
    )
    costs = (_cost(run.summary_row(leader), leader), *_faster(run, name, leader))
    return [lead, *costs], [text, *more, scored]


_SENTENCES = {
    "better": _better,
    "unasked": _better,
    "longer": _better,
    "cheaper": _trade,
    "dearer": _trade,
    "settled": _tie,
    "open": _tie,
}


def _verb(run: RunData) -> str:
    return "For now, use" if is_pilot(run) else "Use"


def _is_cheaper(run: RunData, rival: str, leader: str) -> bool:
    cheap, dear = run.summary_row(rival), run.summary_row(leader)
    known = cheap.reports_llm and dear.reports_llm
    return known and not cheap.llm_calls_per_query and bool(dear.llm_calls_per_query)


def _found(run: RunData, name: str) -> str:
    """Describe a system's score, such as ``right passage first for 48 of 100 questions``."""
    asked = plural(len(run.scores.answerable), "question")
    if not run.primary.is_share:
        return f"{run.primary.name.replace('_', ' ')} {_score(run, name)} over {asked}"
    depth = run.primary.measure.cutoff or 1
    what = "right page" if run.primary.mode == "relaxed" else "right passage"
    where = "first" if depth == 1 else f"in the first {depth} hits"
    hits = run.scores.average(name, run.primary) * len(run.scores.answerable)
    found = str(round(hits)) if abs(hits - round(hits)) < 1e-6 else _score(run, name)
    return f"{what} {where} for {found} of {asked}"


def _score(run: RunData, name: str) -> str:
    return score(run.scores.average(name, run.primary), run.primary.name)


def _difference(run: RunData, rival: Comparison) -> str:
    """Return the difference as text, such as ``+1.9 points, adjusted 95% interval: −5.0 to +9.0``.

    Its direction is that of the run's tables, candidate minus baseline. If the leader is the baseline, the
    text starts with the name of the candidate.
    """
    if rival.identical:
        return "identical hits"
    named, pair = "", (rival.baseline, rival.candidate)
    if all((each.baseline, each.candidate) != pair for each in run.judgment.comparisons):
        rival = _seen_from(rival, rival.baseline)
        named = f"{rival.candidate}: " if rival.difference else ""
    adjusted = "adjusted " if rival.family > 1 and rival.ci_low is not None else ""
    return (
        f"{named}{change(rival.difference, rival.measure)}, {adjusted}{interval_words(rival, family=False)}"
    )


def _open(rival: Comparison) -> list[str]:
    """Say why a comparison is open in at most one sentence, if the headline's first line does not."""
    words = "; ".join(each for each in why_open(rival) if each not in ("inconclusive", deciding(rival)))
    return [f"{words[:1].upper()}{words[1:]}."] if words else []


def _unclear(run: RunData, rival: Comparison) -> str:
    if rival.identical:
        return f"with the same hits as {rival.baseline}"
    if rival.verdict == "equivalent within delta":
        within = margin(rival.delta, rival.measure)
        return f"as good as {rival.baseline} within {within} ({_difference(run, rival)})"
    return f"no clear difference from {rival.baseline} ({_difference(run, rival)})"


def _cost(row: SummaryRow, who: str = "It") -> str:
    """Describe a system's LLM use as a sentence."""
    if row.llm_calls_per_query is None or row.llm_tokens_per_query is None:
        return f"What {'it' if who == 'It' else who} spends on LLMs is {NOT_REPORTED}."
    if not row.llm_calls_per_query:
        return f"{who} uses no LLM."
    calls = number(row.llm_calls_per_query, 1).removesuffix(".0")
    plural_s = "" if calls == "1" else "s"
    return f"{who} makes {calls} LLM call{plural_s} ({row.llm_tokens_per_query:,.0f} tokens) a query."


def _faster(run: RunData, name: str, other: str) -> tuple[str, ...]:
    """Say which of two systems is faster, if the intervals of their median latencies don't overlap."""
    rows = [run.summary_row(name), run.summary_row(other)]
    bounds = [(row.latency_p50_low_ms, row.latency_p50_high_ms) for row in rows]
    (low, high), (other_low, other_high) = bounds
    if low is None or high is None or other_low is None or other_high is None:
        return ()
    if low <= other_high and other_low <= high:
        return ()
    ours, theirs = (milliseconds(row.latency_p50_ms) for row in rows)
    word = "faster" if high < other_low else "slower"
    return (f"It is {word} than {other} (median {ours} ms, {theirs} ms).",)
