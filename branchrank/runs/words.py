"""Figures and verdicts in words."""

from __future__ import annotations

from branchrank.measures.verdicts import Comparison
from branchrank.runs.estimates import Estimate

NOTHING = "–"
MINUS = "−"


def percent(value: float | None) -> str:
    """A share in percent."""
    return NOTHING if value is None else f"{100 * value:.1f}%"


def interval(found: Estimate | None) -> str:
    """A rate in percent with its interval."""
    if found is None:
        return NOTHING
    return f"{percent(found.value)} ({100 * found.low:.1f}–{100 * found.high:.1f})"


def points(value: float) -> str:
    """A difference in percentage points, with its sign."""
    return f"{100 * value:+.1f}".replace("-", MINUS)


def milliseconds(value: float | None) -> str:
    """A time to three or so digits."""
    if value is None:
        return NOTHING
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def number(value: float | None, digits: int = 1) -> str:
    """A figure with fixed digits."""
    return NOTHING if value is None else f"{value:.{digits}f}"


def p_value(p: float) -> str:
    """A p-value to two significant digits."""
    return "below 0.0001" if p < 0.0001 else f"{p:.2g}"


def plural(count: int, noun: str) -> str:
    """A count with its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def record(comparison: Comparison) -> str:
    """Wins/ties/losses."""
    return f"{comparison.wins}/{comparison.ties}/{comparison.losses}"


def opening(comparison: Comparison) -> str:
    """Who against whom, and the verdict."""
    verdict = comparison.verdict
    if verdict == "equivalent within delta":
        verdict_words = f"equivalent within delta ({100 * comparison.delta:g} points)"
    else:
        verdict_words = str(verdict)
    return f"{comparison.candidate} against {comparison.baseline}: {verdict_words}."


def sentence(comparison: Comparison) -> str:
    """The figures behind a verdict."""
    parts = [
        f"{comparison.measure} {percent(comparison.mean_b)} against {percent(comparison.mean_a)}, "
        f"{points(comparison.difference)} points "
        f"(95% interval {points(comparison.ci_low)} to {points(comparison.ci_high)}).",
        f"{plural(comparison.wins, 'win')}, {plural(comparison.ties, 'tie')}, "
        f"{comparison.losses} loss{'' if comparison.losses == 1 else 'es'}; "
        f"adjusted p {p_value(comparison.p_adjusted)}.",
    ]
    if comparison.verdict in ("unresolved", "unresolvable at this n"):
        parts.append(_what_would_settle(comparison))
    return " ".join(parts)


def _what_would_settle(comparison: Comparison) -> str:
    if comparison.mde is None:
        detectable = (
            f"So few of {comparison.n} questions are answered differently that no difference would show with "
            "80% power"
        )
    else:
        detectable = f"{comparison.n} questions show differences from {100 * comparison.mde:.1f} points on"
    if comparison.questions_needed is None:
        return f"{detectable}."
    return f"{detectable}; about {comparison.questions_needed:,} would show the observed one."
