"""The report sections about lost gold, slices, unanswerable questions and failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from branchrank.core.io.table import Cell, Table
from branchrank.core.records import SHOWN
from branchrank.reports import line_plots
from branchrank.reports.blocks import Block, Points, ReportSection
from branchrank.reports.result import over
from branchrank.runs.attribution import DEPTH, LOSSES, lost_in, lost_words, waterfall
from branchrank.runs.estimates import RiskCoverage, risk_coverage
from branchrank.runs.rows import Row
from branchrank.runs.run_data import RunData
from branchrank.runs.scores import Scores
from branchrank.runs.slices import slices
from branchrank.runs.words import counted, number, percent, score
from branchrank.scoring.measures import mean, named_measure

FAILURES_SHOWN = 20
_COVERAGES = tuple(percentage / 100 for percentage in range(1, 101))


_FATES = (f"in the first {DEPTH}", *map(lost_words, LOSSES), "failed")


def _fate(row: Row) -> str:
    if row.status == "failed":
        return "failed"
    stage = lost_in(row)
    return lost_words(stage) if stage else f"in the first {DEPTH}"


def lost(run: RunData) -> ReportSection:
    """Return the section that shows, for each stage, how many answers lost the gold at that stage."""
    scores = run.scores
    answers = {name: scores.answerable_rows(name) for name in scores.predictors}
    traced = {name: rows for name, rows in answers.items() if any(row.stages for row in rows)}
    title = "Stages at which the gold was lost"
    if not traced:
        return ReportSection(title, ("No predictor in this run recorded the stages of its queries.",))
    counts = {name: Counter(map(_fate, rows)) for name, rows in traced.items()}
    fates = [fate for fate in _FATES if any(count[fate] for count in counts.values())]
    by_fate = Table(
        caption=f"Answers to {over(run)}, by the stage at which the gold was lost",
        headings=("predictor", "answers", *fates),
        rows=tuple(
            (name, str(len(rows)), *(str(counts[name][fate]) for fate in fates))
            for name, rows in traced.items()
        ),
    )
    reach = tuple(
        (name, stage, str(len(rows)), percent(listed), percent(first))
        for name, rows in traced.items()
        for stage, listed, first in waterfall(rows)
    )
    caption = "How often a stage's list contains the gold, as a share of the predictor's answers"
    headings = ("predictor", "stage", "answers", "gold in its list", f"gold in its first {DEPTH}")
    reached = Table(caption=caption, headings=headings, rows=reach, labels=2)
    plot = line_plots.losses([(name, fate, counts[name][fate]) for name in traced for fate in fates])
    words = (
        'Gold is lost at "retrieval" if no branch found it; at "mapping" if no node of the tree overlaps the '
        'chunk that was found; at "fusion" if fusion ranked it below the first five hits; at "cap" if it '
        'ranked too low to be a candidate; at "group" if another chunk represents its document; at "rerank" '
        'if the reranker moved it out of the first five hits; at "passage" if a different passage of its '
        'section was returned; and at "passage order" if other passages came first (in systems '
        "that sort the passages of all candidates together, such as hybrid)."
    )
    if SHOWN in {stage for _, stage, *_ in reach}:
        words += (
            ' An agent loses gold at "tools" if no tool showed a line of it; at "citation" if it did not '
            'cite it; and at "citation order" if it cited it below the first five hits. The list of stage '
            f'"{SHOWN}" has the passages that tools showed, in the order of their first appearance.'
        )
    return ReportSection(title, (by_fate, plot, reached, *_unseen(run, traced), words))


def _unseen(run: RunData, traced: Mapping[str, Sequence[Row]]) -> Iterator[Table]:
    """Yield a table with the groups of evidence that no tool showed, if questions of agents have groups."""
    asked = run.scores.questions
    of = {
        name: [row for row in rows if row.agent and asked[row.question_id].needs]
        for name, rows in traced.items()
    }
    most = max((len(asked[row.question_id].needs) for rows in of.values() for row in rows), default=0)
    if most:
        yield Table(
            caption="Answers in which no tool showed the agent a line of a group of evidence that is needed "
            "together, by the number of the group",
            headings=("predictor", "answers", *(f"need {number}" for number in range(1, most + 1))),
            rows=tuple(
                (
                    name,
                    str(len(rows)),
                    *(
                        str(sum(number in (row.unseen or ()) for row in rows))
                        for number in range(1, most + 1)
                    ),
                )
                for name, rows in of.items()
                if rows
            ),
        )


def sliced(run: RunData) -> ReportSection:
    """Return the section that shows the primary measure and hit@5 for every slice."""
    scores, primary = run.scores, run.primary
    found = slices(run.asked, run.facts)
    if not found:
        return ReportSection(
            "Slices", ("The questions have no slices, such as question kinds or difficulty levels.",)
        )
    wider = named_measure(f"{primary.mode}_hit@5")
    measures = [primary] if wider.same(primary) else [primary, wider]
    values = {
        (name, measure.name): scores.per_question(name, measure)
        for measure in measures
        for name in scores.predictors
    }
    tables = [
        Table(
            caption=f"By {slice_name}, with the number of questions in each slice",
            headings=("predictor", "measure", *(f"{value} ({len(ids)})" for value, ids in by_value.items())),
            rows=tuple(
                (
                    name,
                    measure.replace("_", " "),
                    *(score(mean([of[key] for key in ids]), measure) for ids in by_value.values()),
                )
                for (name, measure), of in values.items()
            ),
            labels=2,
        )
        for slice_name, by_value in found.items()
    ]
    words = "Slices are exploratory: with 10 questions, a single question changes a rate by 10 points."
    return ReportSection("Slices", (*tables, words))


def unanswerable(run: RunData) -> ReportSection | None:
    """Return the section about unanswerable questions, or ``None`` if all questions are answerable."""
    scores = run.scores
    asked = sum(not question.gold_state for question in scores.questions.values())
    without = asked - len(scores.answerable)
    if not without:
        return None
    rows: list[tuple[Cell, ...]] = []
    drawn = []
    for name in scores.predictors:
        curves, offered = _curves(scores, name)
        answered = [curve.points[-1][0] if curve.points else 0.0 for curve in curves]
        # A curve ends at the share of questions that the predictor answered.
        end = min(answered)
        places = [*(coverage for coverage in _COVERAGES if coverage < end - 1e-9), *([end] if end else [])]
        points = [(coverage, _risk_at(curves, coverage)) for coverage in places]
        drawn.append((name, [(coverage, risk) for coverage, risk in points if risk is not None]))
        rows.append(
            (
                name,
                number(offered, 0 if len(curves) == 1 else 1),
                percent(mean(answered)),
                number(_mean_of([curve.aurc for curve in curves]), 3),
                number(_mean_of([curve.excess for curve in curves]), 3),
                *(percent(_risk_at(curves, coverage)) for coverage in line_plots.SHOWN_COVERAGES),
            )
        )
    risks = (f"risk at {100 * coverage:.0f}% coverage" for coverage in line_plots.SHOWN_COVERAGES)
    table = Table(
        caption=f"{counted(without, asked, 'question', 'has', 'have')} no answer in the corpus; "
        f'"answered", "AURC" and "risk" are computed over all {asked}',
        headings=("predictor", "unanswerable with hits", "answered", "AURC", "excess", *risks),
        rows=tuple(rows),
    )
    words = (
        "Coverage and risk assume that a predictor answers a question only if the score of the first hit is "
        "above a threshold. Coverage is the share of questions that are answered, and risk is the share of "
        "these answers whose first hit is wrong, as every answer to an unanswerable question is. "
        '"Answered" is the share of questions with a hit. AURC is the mean risk over all coverages. "Excess" '
        "is the AURC minus the lowest AURC of the same answers in any order. Figures are means over repeats."
    )
    return ReportSection("Unanswerable questions", (table, line_plots.risks(drawn), words))


def _curves(scores: Scores, predictor: str) -> tuple[list[RiskCoverage], float]:
    """Return one risk-coverage curve per repeat, and the mean number of unanswerable questions with hits."""
    first, answerable = named_measure("strict_hit@1"), set(scores.answerable)
    answers: dict[int, list[tuple[float | None, bool]]] = {}
    offered = 0
    for row in scores.rows(predictor):
        if scores.questions[row.question_id].gold_state:
            continue
        known = row.question_id in answerable
        right = known and scores.value(row, first) == 1.0
        answers.setdefault(row.repeat, []).append((row.hits[0].score if row.hits else None, right))
        offered += bool(row.hits) and not known
    return list(map(risk_coverage, answers.values())), offered / len(answers)


def _mean_of(areas: Sequence[float | None]) -> float | None:
    """Return the mean of the areas under the curves, or ``None`` if any of the areas is undefined."""
    defined = [area for area in areas if area is not None]
    return mean(defined) if len(defined) == len(areas) else None


def _risk_at(curves: Sequence[RiskCoverage], coverage: float) -> float | None:
    """Return the mean risk of the curves at ``coverage``, or ``None`` if a curve ends at a lower coverage."""
    risks = []
    for curve in curves:
        reached = next((risk for covered, risk in curve.points if covered >= coverage - 1e-9), None)
        if reached is None:
            return None
        risks.append(reached)
    return mean(risks)


def failures(run: RunData) -> ReportSection:
    """Return the section about failed queries and fallbacks."""
    rows = run.rows
    failed = [row for row in rows if row.status == "failed"]
    reasons = Counter((row.predictor, fallback) for row in rows for fallback in row.fallbacks)
    blocks: list[Block] = [f"None of {len(rows)} queries failed."]
    if failed:
        shown = [f"{row.predictor}, {row.question_id}: {row.error}" for row in failed[:FAILURES_SHOWN]]
        more = len(failed) - len(shown)
        shown += [f"and {more} more, in questions.csv"] if more else []
        points = Points(items=tuple((text,) for text in shown))
        blocks = [f"{len(failed)} of {len(rows)} queries failed; each counts as a miss.", points]
    ordered = sorted(reasons.items(), key=lambda each: (-each[1], each[0]))
    counts = tuple((predictor, reason, str(times)) for (predictor, reason), times in ordered)
    headings = ("predictor", "stage and reason", "times")
    fallbacks = Table(caption="Fallbacks used", headings=headings, rows=counts, labels=2)
    return ReportSection(
        "Failures and fallbacks", (*blocks, fallbacks if reasons else "No stage used a fallback.")
    )


def misses(run: RunData, best: str, count: int = 3) -> list[str]:
    """Return the ids of the misses of a system that are most worth reading.

    First come the questions that the system misses in its first five hits and most other systems find, then
    those on which the first hit of most other systems is right, and then its other misses.
    """
    if not best:
        return []
    depths = [named_measure(f"{run.primary.mode}_hit@{depth}") for depth in (DEPTH, 1)]
    values = {name: [run.scores.per_question(name, each) for each in depths] for name in run.predictors}
    own = values.pop(best)

    def worth(key: str) -> list[float]:
        leads = [sum(of[place][key] - own[place][key] for of in values.values()) for place in range(2)]
        return [*(-lead for lead in leads), *(each[key] for each in own)]

    return sorted((key for key in run.scores.answerable if own[1][key] < 1), key=worth)[:count]
