"""The warnings in a report, each with the name of the predictor concerned."""

from __future__ import annotations

from collections import Counter

from branchrank.measures.verdicts import PILOT_BELOW
from branchrank.records import Record
from branchrank.runs.run import RunData


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
            parts.append(f"{row.failures} of {plural_queries(len(rows))} failed and {miss}{often}")
        if row.fallbacks:
            reasons = Counter(reason for each in rows for reason in each.fallbacks)
            often = "".join(f" ({reason})" for reason, _ in reasons.most_common(1))
            parts.append(f"{row.fallbacks} of {len(rows)} answers fell back{often}")
        found.append(Caution(text=f"{row.predictor}: {'; '.join(parts)}", predictor=row.predictor))
    return found


def plural_queries(count: int) -> str:
    """Return ``count`` with its noun, such as ``1 query`` or ``3 queries``."""
    return "1 query" if count == 1 else f"{count} queries"


def about(run: RunData, *predictors: str) -> list[str]:
    """Return the texts of the cautions about these predictors, without cautions about the whole run."""
    return [each.text for each in cautions(run) if each.predictor in predictors]
