"""The size of the returned passages, and the share of them that is the answer.

They are shown beside every strict rate: returning whole files inflates strict hits, and these figures show
the cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum

import msgspec

from branchrank.measures.matching import is_file_level, resolve_source, without_excluded
from branchrank.records import Hit, Question, Record, Span


class PassageSize(Record, frozen=True, kw_only=True):
    """Sizes of one question's hits.

    ``gold_lines`` counts distinct gold lines among the returned ones; ``span_precision`` is that over
    ``lines`` (a line returned twice counts once as gold and twice as returned), 0 for no hits;
    ``gold_coverage`` is the returned share of the best covered gold item, since one item is enough to answer.
    Both are ``None`` when no gold item has lines (file-level gold, unanswerable questions).
    ``repeated_pages`` counts hits from the same page as a hit above.
    """

    hits: int
    repeated_pages: int
    lines: int
    gold_lines: int
    span_precision: float | None
    gold_coverage: float | None


def passage_size(hits: Sequence[Hit], question: Question) -> PassageSize:
    """Measure the hits of one question; those in excluded spans don't count."""
    kept = without_excluded(hits, question)
    lines = sum(hit.span.lines for hit in kept)
    returned = _disjoint(
        msgspec.structs.replace(hit.span, source=resolve_source(hit.source, question)) for hit in kept
    )
    gold = [item.span for item in question.gold if not is_file_level(item, question) and item.span]
    gold_lines = _common_lines(returned, _disjoint(gold))
    return PassageSize(
        hits=len(kept),
        repeated_pages=len(kept) - len({resolve_source(hit.source, question) for hit in kept}),
        lines=lines,
        gold_lines=gold_lines,
        span_precision=(gold_lines / lines if lines else 0.0) if gold else None,
        gold_coverage=max((_common_lines(returned, [span]) / span.lines for span in gold), default=None),
    )


def _disjoint(spans: Iterable[Span]) -> list[Span]:
    """Merge spans into disjoint ones that hold the same lines."""
    found: list[Span] = []
    for span in sorted(spans):
        last = found[-1] if found else None
        if last and last.source == span.source and span.line_start <= last.line_end:
            end = max(last.line_end, span.line_end)
            found[-1] = msgspec.structs.replace(last, line_end=end)
        else:
            found.append(span)
    return found


def _common_lines(some: Sequence[Span], others: Sequence[Span]) -> int:
    """Count the lines that are in both lists of disjoint spans."""
    return sum(span.overlap(other) for span in some for other in others)


class PassageSummary(Record, frozen=True, kw_only=True):
    """Sizes over all questions of a predictor; ``None`` where nothing was returned or measurable.

    ``lines_per_hit`` and ``repeated_pages`` (a share of the hits) are totals over a total: every hit weighs
    the same. ``span_precision`` and ``gold_coverage`` are means over the questions whose gold has lines.
    """

    lines_per_hit: float | None
    repeated_pages: float | None
    span_precision: float | None
    gold_coverage: float | None


def summarise_passages(sizes: Sequence[PassageSize]) -> PassageSummary:
    """Sum up the questions of one predictor."""
    hits = sum(size.hits for size in sizes)
    return PassageSummary(
        lines_per_hit=sum(size.lines for size in sizes) / hits if hits else None,
        repeated_pages=sum(size.repeated_pages for size in sizes) / hits if hits else None,
        span_precision=_mean([s.span_precision for s in sizes if s.span_precision is not None]),
        gold_coverage=_mean([s.gold_coverage for s in sizes if s.gold_coverage is not None]),
    )


def _mean(values: Sequence[float]) -> float | None:
    return fsum(values) / len(values) if values else None
