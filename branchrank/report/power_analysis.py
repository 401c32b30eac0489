"""Power analysis as a table: what a benchmark of n questions can detect."""

from __future__ import annotations

from collections.abc import Sequence

from branchrank.measures import power
from branchrank.records import Record
from branchrank.runs.words import NOTHING, p_value


class PowerAnalysis(Record, frozen=True, kw_only=True):
    """One plan per number of questions. ``str()`` is the table that ``branchrank power`` prints."""

    plans: tuple[power.Plan, ...]

    def __str__(self) -> str:
        first = self.plans[0]
        candidates = "one predictor" if first.family == 1 else f"{first.family} predictors"
        lines = [
            *self._table(),
            f"With {candidates} against the baseline, at least {first.unanimous} questions must differ, "
            f"all one way, for an adjusted p below {first.alpha:g}.",
        ]
        if first.difference is not None:
            needed = NOTHING if first.questions_needed is None else first.questions_needed
            lines.append(f"A difference of {first.difference:g} takes {needed} questions for 80% power.")
        return "\n".join(lines)

    def _table(self) -> list[str]:
        headings = ["questions", "95% interval", "detectable", "differing", "p-floor"]
        wanted = self.plans[0].difference is not None
        lines = [[*headings, "power"] if wanted else headings]
        for each in self.plans:
            cells = [
                str(each.n),
                f"{each.interval.low:.2f} to {each.interval.high:.2f}",
                "none" if each.detectable is None else f"{each.detectable:.3f}",
                str(each.differing),
                p_value(each.p_floor),
            ]
            lines.append([*cells, f"{each.power:.0%}"] if each.power is not None else cells)
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return [
            "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
        ]


def power_analysis(
    questions: Sequence[int],
    *,
    rate: float,
    disagreement: float,
    difference: float | None,
    candidates: int,
    alpha: float,
) -> PowerAnalysis:
    """Plan a comparison of hit rates for each number of questions."""
    return PowerAnalysis(
        plans=tuple(
            power.plan(
                n,
                rate_expected=rate,
                disagreement=disagreement,
                difference=difference,
                family=candidates,
                alpha=alpha,
            )
            for n in questions
        )
    )
