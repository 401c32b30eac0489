"""How many lines a reader reads before the gold is found, and whether a lead holds at equal reading.

Longer hits contain the gold more often. If the mean numbers of lines in the first k hits (k is the cutoff of
the primary measure, or 1) of two systems differ by more than a quarter, the systems are also compared by
whether the gold is in the first lines of their hits, as many as the system with shorter hits returns on
average. A lead that this comparison doesn't confirm, with the same test, may come from longer hits.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from branchrank.core.io.table import Table
from branchrank.core.records import Question, Record
from branchrank.reports.blocks import ReportSection
from branchrank.runs.run_data import RunData
from branchrank.runs.words import number, percent
from branchrank.scoring.comparison import Comparison
from branchrank.scoring.matching import JudgedHit, is_file_level, resolve_source, without_excluded
from branchrank.scoring.measures import mean

#: The numbers of returned lines within which gold is looked for.
BUDGETS = (25, 50, 100, 200)
#: Hits count as equally long up to this ratio of their lines.
_SIMILAR = 1.25


class EqualReading(Record, frozen=True, kw_only=True):
    """The comparison of two systems by the gold in their first ``lines`` lines."""

    #: The mean lines of the first k hits of the baseline and the candidate.
    lines_a: float
    lines_b: float
    lines: int
    comparison: Comparison


def equal_reading(run: RunData, compared: Comparison) -> EqualReading | None:
    """Compare a pair at equal reading, or return ``None`` if their hits are about equally long."""
    old, new = compared.baseline, compared.candidate
    lines_a, lines_b = _mean_lines(run, old), _mean_lines(run, new)
    short, long = sorted((lines_a, lines_b))
    if long <= _SIMILAR * short:
        return None
    from branchrank.scoring.verdicts import compare_pairs

    lines = max(1, round(short))
    scores = {name: _found(run, name, lines) for name in (old, new)}
    (comparison,) = compare_pairs(
        [(old, new)],
        scores,
        run.clusters,
        measure="strict_hit@1",  # a share of the questions, and formatted like one
        merged=run.scores.merged,
        options=run.options,
    )
    return EqualReading(lines_a=lines_a, lines_b=lines_b, lines=lines, comparison=comparison)


def reading(run: RunData) -> ReportSection | None:
    """Return the section with the share of questions whose gold is in the first lines of the hits."""
    if not run.scores.answerable:
        return None
    rows = tuple(
        (
            name,
            number(
                mean([sum(hit.span.lines for hit in row.hits) for row in run.scores.answerable_rows(name)])
            ),
            *(percent(mean(_found(run, name, lines).values())) for lines in BUDGETS),
        )
        for name in run.predictors
    )
    caption = "Questions whose gold is in the first lines that a system returned"
    headings = ("predictor", "lines returned", *(f"in {lines} lines" for lines in BUDGETS))
    words = (
        "The lines are read from the best hit on, and the last hit is cut. Hits of different systems have "
        "different lengths, so these shares are a fairer comparison than hit rates. A row has at most "
        f"{run.record.top_k} hits."
    )
    return ReportSection("Reading", (Table(caption=caption, headings=headings, rows=rows, labels=1), words))


def _mean_lines(run: RunData, predictor: str) -> float:
    """Return the mean number of lines in the first k hits of an answer."""
    depth = run.primary.measure.cutoff or 1
    rows = run.scores.answerable_rows(predictor)
    return mean([sum(hit.span.lines for hit in row.hits[:depth]) for row in rows])


def _found(run: RunData, predictor: str, lines: int) -> dict[str, float]:
    """Return the share of each question's repeats whose first ``lines`` lines contain gold."""
    scores = run.scores
    return {
        key: mean(
            [
                float(found_within(row.hits, scores.questions[key], lines))
                for row in scores.rows_of(predictor, key)
            ]
        )
        for key in scores.answerable
    }


def found_within(hits: Sequence[JudgedHit], question: Question, lines: int) -> bool:
    """Return whether the first ``lines`` lines of the hits, read from the best hit on, contain gold.

    A hit that exceeds the number of lines is cut. A cut hit counts only if its remaining lines overlap the
    gold lines, or if the gold is its whole file.
    """
    left = lines
    for hit in without_excluded(hits, question):
        if left <= 0:
            return False
        cut = msgspec.structs.replace(
            hit.span,
            source=resolve_source(hit.source, question),
            line_end=min(hit.line_end, hit.line_start + left - 1),
        )
        if (hit.gold is not None and hit.span.lines <= left) or any(
            cut.source == item.source_file
            and (is_file_level(item, question) or (item.span is not None and cut.overlap(item.span)))
            for item in question.gold
        ):
            return True
        left -= hit.span.lines
    return False
