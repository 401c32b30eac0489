"""The table for a power analysis, which shows the smallest differences that n questions can detect."""

from __future__ import annotations

from collections.abc import Sequence

from branchrank.core.errors import UsageError
from branchrank.core.io.printable import safe
from branchrank.core.io.table import Table, plain, table_of
from branchrank.core.records import Record
from branchrank.runs.estimates import Pilot
from branchrank.runs.words import MORE_PAGES, p_value
from branchrank.scoring import power

#: Assumptions for a power analysis without a pilot. In our runs, score differences of questions on the same
#: page had correlations from 0 to 0.13.
ASSUMED = Pilot(rate=0.7, disagreement=0.2, icc=0.1, candidates=1, page_sizes=())


class PowerAnalysis(Record, frozen=True, kw_only=True):
    """The results of a power analysis, with one plan for each number of questions.

    ``icc`` is the assumed correlation between the score differences of questions on the same page, or
    ``None`` if no two questions share a page, and ``pages`` is the number of pages, or ``None`` if every
    question has its own page. ``pairs`` lists the disagreement of each pair of predictors in
    the pilot. ``pairs`` is "" if the pilot has fewer than two pairs, or if the disagreement was given instead
    of being taken from the pilot. ``deciding`` says how many questions would decide the pilot's open
    comparisons. ``str()`` returns the table that ``branchrank power`` prints.
    """

    plans: tuple[power.PowerEstimate, ...]
    icc: float | None = None
    pages: int | None = None
    pairs: str = ""
    deciding: tuple[str, ...] = ()

    def __str__(self) -> str:
        first = self.plans[0]
        candidates = "one predictor" if first.family == 1 else f"{first.family} predictors"
        pages = "one question per page"
        if self.icc is not None:
            pages = f"correlation {self.icc:.2f} between questions on one page"
        lines = [
            f"Assumed: hit rate {first.rate:.2f}, different results on {first.disagreement:.0%} of the "
            f"questions, {pages}.",
            *([self.pairs] if self.pairs else []),
            *plain(self.table),
            f"With {candidates} against the baseline, an adjusted p below {first.alpha:g} needs at least "
            f"{first.unanimous} differing questions, if all favor the same system.",
        ]
        if self.plans[-1].detectable is None:
            lines.append('"none": no difference is detectable. Try more questions (--questions).')
            if self.pages is not None:
                wider = f"more pages than {self.pages} (--sources)"
                lines[-1] = f"{lines[-1][:-1]}, {wider}, and the usual correlation (--icc {ASSUMED.icc:g})."
        lines += map(safe, self.deciding)
        if first.difference is not None:
            most = f"{power.MOST_QUESTIONS:,}"
            where = "as many pages" if self.pages is None else f"{self.pages:,} pages"
            needed = f"more than {most}" if first.questions_needed is None else f"{first.questions_needed:,}"
            confirmed = f"Confirming a difference of {first.difference:g} needs {needed} questions on {where}"
            if first.questions_needed is None and self.pages is not None:
                confirmed = f"{where} can't confirm a difference of {first.difference:g}: {MORE_PAGES}"
            lines.append(f"{confirmed} (80% power).")
            if self.pages is not None:
                alone = power.questions_for_hit_difference(
                    first.disagreement, first.difference, first.alpha / first.family
                )
                each = f"more than {most}" if alone is None else f"{alone:,}"
                lines.append(f"On a page each, it needs {each} questions.")
        return "\n".join(lines)

    @property
    def table(self) -> Table:
        """The table with one row for each number of questions."""
        powered = {"power": lambda each: f"{each.power:.0%}"} if self.plans[0].power is not None else {}
        return table_of(
            "",
            self.plans,
            {
                "questions": lambda each: str(each.n),
                "worth": lambda each: f"{each.effective:.0f}",
                "95% interval": lambda each: f"{each.interval.low:.2f} to {each.interval.high:.2f}",
                "detectable": lambda each: "none" if each.detectable is None else f"{each.detectable:.3f}",
                "differing": lambda each: str(each.differing),
                "p-floor": lambda each: p_value(each.p_floor),
                **powered,
            },
            labels=0,
        )


def power_analysis(
    questions: Sequence[int], given: power.Assumptions, pilot: Pilot | None = None
) -> PowerAnalysis:
    """Return a power analysis for hit rates, with one plan for each number in ``questions``.

    Assumptions that are ``None`` are taken from the pilot, or from ``ASSUMED`` if there is no pilot. Raises
    :class:`UsageError` if ``icc`` is given without ``sources`` or a pilot.
    """
    measured = pilot or ASSUMED
    within = measured.icc if given.icc is None else given.icc
    if given.sources is not None:
        pages = power.SharedPages(
            page_size=power.pages_alone(given.sources, given.page_variation), icc=within
        )
    elif pilot is not None:
        pages = power.SharedPages(page_size=power.pages_as_in(pilot.page_sizes), icc=within)
    elif given.icc is None:
        pages = power.NO_SHARED_PAGES
    else:
        raise UsageError(
            "a correlation within pages was given, but not the number of pages",
            remedy="give the number of pages with --sources, or a run with --run",
        )
    plans = tuple(
        power.plan(
            n,
            rate_expected=measured.rate if given.rate is None else given.rate,
            disagreement=measured.disagreement if given.disagreement is None else given.disagreement,
            difference=given.difference,
            family=measured.candidates if given.candidates is None else given.candidates,
            alpha=given.alpha,
            pages=pages,
        )
        for n in questions
    )
    return PowerAnalysis(
        plans=plans,
        icc=None if pages is power.NO_SHARED_PAGES else pages.icc,
        pages=given.sources or (len(pilot.page_sizes) if pilot else None),
        pairs=_pairs(measured) if given.disagreement is None else "",
        deciding=measured.deciding,
    )


def _pairs(pilot: Pilot) -> str:
    """Describe the disagreement of each pair of predictors in the pilot ("" for fewer than two pairs)."""
    if len(pilot.pairs) < 2:
        return ""
    each = ", ".join(f"{name} {share:.1%}" for name, share in pilot.pairs)
    return (
        f"The assumed share is the mean of {len(pilot.pairs)} candidates against {safe(pilot.baseline)}: "
        f"{safe(each)}. To plan for one candidate, pass that candidate's share with --disagreement."
    )
