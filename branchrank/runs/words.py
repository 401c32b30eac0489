"""Format scores, times and verdicts as text for reports and the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from math import isinf

from branchrank.runs.scores import Estimate
from branchrank.scoring.comparison import MOST_FAILURES, Comparison
from branchrank.scoring.measures import named_measure
from branchrank.scoring.power import MOST_QUESTIONS

NOTHING = "–"
MINUS = "−"
#: Printed in place of an interval that can't be computed.
FEW_PAGES = "few pages"
#: Printed in place of the number of questions that would decide.
MORE_PAGES = "more pages are needed"


def percent(value: float | None) -> str:
    """Format a share as a percentage."""
    return NOTHING if value is None else f"{100 * value:.1f}%"


def is_share(measure: str) -> bool:
    """Return whether the measure with this name is a share of the questions.

    >>> is_share("strict_hit@1"), is_share("relaxed_MRR@5"), is_share("nDCG@10")
    (True, False, False)
    """
    return named_measure(measure).is_share


def score(value: float | None, measure: str) -> str:
    """Format the mean of a measure, in percent for hit rates and as a decimal for other measures."""
    return percent(value) if is_share(measure) else number(value, 3)


def interval(found: Estimate | None, measure: str) -> str:
    """Format the mean of a measure with its interval."""
    return NOTHING if found is None else f"{score(found.value, measure)} ({bounds(found, measure)})"


def bounds(found: Estimate, measure: str) -> str:
    """Format the interval of a mean."""
    if found.low is None or found.high is None:
        return FEW_PAGES
    return "–".join(score(bound, measure).removesuffix("%") for bound in (found.low, found.high))


def gap(value: float, measure: str) -> str:
    """Format a difference with its sign, in percentage points for hit rates and as a decimal for others.

    >>> gap(0.139, "strict_hit@1"), gap(0.0003, "strict_hit@1"), gap(-0.0, "strict_hit@1")
    ('+13.9', '+0.03', '+0.0')
    """
    scaled, digits = (100 * value, 1) if is_share(measure) else (value, 3)
    shown = f"{scaled:+.{digits}f}"
    if float(shown) == 0:  # a bound next to zero is not shown as zero, and zero has a plus
        shown = f"{scaled:+.1g}" if abs(scaled) > 1e-6 else f"{0:+.{digits}f}"
    return shown.replace("-", MINUS)


def change(value: float, measure: str) -> str:
    """Format a difference with its sign and unit, such as ``+13.9 points`` or ``+0.042``."""
    return gap(value, measure) + (" points" if is_share(measure) else "")


def gap_between(low: float | None, high: float | None, measure: str) -> str:
    """Format the interval of a difference."""
    if low is None or high is None:
        return FEW_PAGES
    return f"{gap(low, measure)} to {gap(high, measure)}"


def gap_with_interval(found: Estimate | Comparison, measure: str) -> str:
    """Format a difference, followed by its interval in parentheses."""
    if isinstance(found, Estimate):
        return f"{gap(found.value, measure)} ({gap_between(found.low, found.high, measure)})"
    if found.identical:
        return f"{gap(0, measure)} (identical)"
    return f"{gap(found.difference, measure)} ({gap_between(found.ci_low, found.ci_high, measure)})"


def size(value: float, measure: str) -> str:
    """Format the size of a difference with its unit, such as ``13.9 points`` or ``0.042``."""
    return f"{100 * value:.1f} points" if is_share(measure) else f"{value:.3f}"


def margin(delta: float, measure: str) -> str:
    """Format a delta with its unit and without trailing zeros, such as ``2 points`` or ``0.02``."""
    return f"{100 * delta:g} points" if is_share(measure) else f"{delta:g}"


def milliseconds(value: float | None) -> str:
    """Format a time in ms with about three digits."""
    if value is None:
        return NOTHING
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def number(value: float | None, digits: int = 1, missing: str = NOTHING) -> str:
    """Format a number with a fixed number of decimal places."""
    return missing if value is None else f"{value:.{digits}f}"


def p_value(p: float) -> str:
    """Format a p-value with two significant digits."""
    return "below 0.0001" if p < 0.0001 else f"{p:.2g}"


def plural(count: int, noun: str) -> str:
    """Format a count with its noun."""
    if count == 1:
        return f"{count} {noun}"
    return f"{count} {noun[:-1]}ies" if noun.endswith("y") else f"{count} {noun}s"


def counted(count: int, total: int, noun: str, *verbs: str) -> str:
    """Format a part of a total with the singular or the plural verb, such as ``1 of 24 questions has``."""
    return f"{count} of {plural(total, noun)} {verbs[count != 1]}"


def record(comparison: Comparison) -> str:
    """Format the counts of a comparison as wins/ties/losses."""
    return f"{comparison.wins}/{comparison.ties}/{comparison.losses}"


def verdict_words(comparison: Comparison) -> str:
    """Return the verdict as text, with the value of delta in ``equivalent within delta``."""
    if comparison.identical:
        return "identical hits"
    if comparison.verdict == "equivalent within delta":
        return f"equivalent within {margin(comparison.delta, comparison.measure)}"
    return str(comparison.verdict)


def opening(comparison: Comparison) -> str:
    """Return the first sentence of a comparison, with the names of both systems and the verdict."""
    return f"{comparison.candidate} vs {comparison.baseline}: {verdict_words(comparison)}."


def sentence(comparison: Comparison) -> str:
    """Return sentences with the means, the difference, its interval and the p-value behind a verdict."""
    measure = comparison.measure
    if comparison.identical:
        both = f"{measure} {score(comparison.mean_a, measure)} for both over"
        return f"{both} {plural(comparison.n, 'question')}; every answer has the same hits."
    parts = [
        f"{measure} {score(comparison.mean_b, measure)} vs {score(comparison.mean_a, measure)} over "
        f"{plural(comparison.n, 'question')}, {change(comparison.difference, measure)} "
        f"({interval_words(comparison)}).",
        f"{plural(comparison.wins, 'win')}, {plural(comparison.ties, 'tie')}, "
        f"{comparison.losses} loss{'' if comparison.losses == 1 else 'es'}; "
        f"adjusted p {p_value(comparison.p_adjusted)}.",
    ]
    if comparison.verdict in ("inconclusive", "too few questions to tell"):
        parts.append(_what_would_settle(comparison))
    return " ".join(parts)


def confidence(comparison: Comparison, *, family: bool = True) -> str:
    """Return the name of a comparison's interval, with the number of comparisons that it is adjusted for."""
    name = f"{100 * (1 - comparison.alpha):g}% interval"
    adjusted = family and comparison.family > 1
    return f"{name} adjusted for {comparison.family} comparisons" if adjusted else name


def effect_size(comparison: Comparison) -> str:
    """Format the value of the effect size, which is the odds ratio for hits and d_z for other measures."""
    if comparison.d_z is not None:
        return f"{comparison.d_z:.2f}".replace("-", MINUS)
    return NOTHING if comparison.odds_ratio is None else _ratio(comparison.odds_ratio)


def effect(comparison: Comparison) -> str:
    """Format the effect size with its name: the odds ratio for hits, and d_z for other measures."""
    value = effect_size(comparison)
    if comparison.d_z is not None:
        return f"d_z {value}"
    return value if comparison.odds_ratio is None else f"odds ratio {value}"


def _ratio(value: float) -> str:
    return "∞" if isinf(value) else f"{value:.2g}" if value < 10 else f"{value:.0f}"


def interval_words(comparison: Comparison, *, family: bool = True) -> str:
    """Format the interval of a difference, with its confidence level."""
    if comparison.ci_low is None:
        return f"no interval: {FEW_PAGES}"
    name = confidence(comparison, family=family)
    return f"{name}: {gap_between(comparison.ci_low, comparison.ci_high, comparison.measure)}"


#: Shares of judged hits with a smaller difference are the same.
_SAME_SHARE = 0.01


def judged_words(measure: str, shares: Mapping[str, float]) -> tuple[str, bool]:
    """Describe the share of judged hits for each system, and return whether the shares differ.

    The text is empty if all hits of all systems are judged, or if there are no systems.
    """
    if all(share >= 1 for share in shares.values()):
        return "", False
    text = f"{measure}: {', '.join(f'{name} {share:.4f}' for name, share in shares.items())}"
    if max(shares.values()) - min(shares.values()) < _SAME_SHARE:
        return text, False
    return f"{text}; unjudged hits count as wrong, against the systems that have more of them", True


def why_open(comparison: Comparison) -> list[str]:
    """Say why a comparison without a clear verdict is open, and how many questions would decide."""
    if comparison.reason == "failures":
        return ["inconclusive", failed_words(comparison)]
    if comparison.reason == "unplaced texts":
        within = size(comparison.unplaced, comparison.measure)
        return ["inconclusive", f"placing the texts without a place could raise a mean by {within}"]
    why = str(comparison.verdict)
    if comparison.reason == "few pages":
        why += " from so few pages"
    elif comparison.reason == "pages":
        why += f": even a unanimous result on all {comparison.documents:,} pages would not be significant"
    return list(filter(None, (why, deciding(comparison))))


def failed_words(comparison: Comparison) -> str:
    """Say which share of the queries failed, of the systems with too many failures for a verdict."""
    shares = {comparison.baseline: comparison.failed_a, comparison.candidate: comparison.failed_b}
    return " and ".join(
        f"{percent(share)} of the queries of {name} failed"
        for name, share in shares.items()
        if share > MOST_FAILURES
    )


def unasked_words(comparison: Comparison) -> str:
    """Say what the pages without a question could change, and how many more questions would exclude it."""
    better, other = comparison.candidate, comparison.baseline
    if comparison.difference < 0:
        better, other = other, better
    return (
        f"{better} is better than {other} on the pages asked, but pages without a question could undo it; "
        f"questions on {comparison.more_pages:,} more of the corpus's {comparison.documents:,} pages, drawn "
        "at random, would exclude this"
    )


def deciding(comparison: Comparison) -> str:
    """Say how many questions would decide a comparison, or return "" if that is unknown.

    If the corpus has too few pages for so many questions, say that instead.
    """
    if beyond_corpus(comparison):
        return f"the corpus has too few pages ({comparison.documents:,}) to decide"
    needed = enough_words(comparison)
    if not needed:
        return ""
    shows = "would decide"
    if not comparison.differing:
        within = margin(comparison.delta, comparison.measure)
        shows = f"without a difference would show equivalence within {within}"
    return f"{needed} {shows}"


def enough_words(comparison: Comparison) -> str:
    """Say how many questions and pages would decide a comparison, or return "" if that is unknown."""
    if comparison.enough is None:
        return ""
    questions, pages = comparison.enough
    return f"about {questions:,} questions on {pages:,} pages"


def beyond_corpus(comparison: Comparison) -> bool:
    """Whether more pages than the corpus has are needed to decide a comparison."""
    if comparison.enough:
        pages = comparison.enough[1]
    else:
        questions = comparison.n if comparison.ci_low is None else MOST_QUESTIONS
        pages = questions * comparison.clusters // comparison.n + 1
    return 0 < comparison.documents < pages and not comparison.unplaced


def way_on(comparison: Comparison) -> str:
    """Say how to get the questions that would decide a comparison, or how to choose without them."""
    if beyond_corpus(comparison):
        most = 2 * comparison.clusters >= comparison.documents
        others = "" if most else "; questions on its other pages narrow the interval"
        return f"choose by cost{others}"
    return "write them with branchrank questions add, or try branchrank questions mine"


def _what_would_settle(comparison: Comparison) -> str:
    n = comparison.n
    if comparison.unplaced:
        most = size(comparison.unplaced, comparison.measure)
        return (
            f"Texts without a place in the corpus count as misses; placing them could raise a mean by {most}."
        )
    if comparison.ci_low is None:
        found = f"The {n:,} questions are on too few pages to tell"
    elif comparison.mde is None:
        differing = f"{comparison.differing or 'none'} of the {n:,} questions"
        found = f"The two systems differ on {differing}, too few to detect any gap"
    else:
        found = f"{n:,} questions can detect a gap of {size(comparison.mde, comparison.measure)} or more"
    needed = deciding(comparison)
    return f"{found}; {needed}." if needed else f"{found}."
