"""What the returned passages cost a reader, and how much of them is the answer.

These stand beside every strict rate: whoever returns whole files overlaps every gold span, and pays
for it here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from branchrank.measures.matching import is_file_level, resolve_source, without_excluded
from branchrank.records import Hit, Question, Record


class PassageSize(Record, frozen=True, kw_only=True):
    """Sizes of one question's hits.

    ``gold_lines`` counts distinct gold lines among the returned ones; ``span_precision`` is that over
    ``lines`` (a line returned twice earns once and costs twice), 0 for no hits; ``gold_coverage`` the
    returned share of the best covered gold item, since any of them answers. Both are ``None`` when no
    gold item has lines (file-level gold, unanswerable questions).
    """

    hits: int
    lines: int
    characters: int
    tokens: int | None
    gold_lines: int
    span_precision: float | None
    gold_coverage: float | None


def passage_size(
    hits: Sequence[Hit],
    question: Question,
    *,
    cutoff: int | None = None,
    count_tokens: Callable[[str], int] | None = None,
) -> PassageSize:
    """Measure the first ``cutoff`` hits of one question, counted after :func:`without_excluded`."""
    kept = without_excluded(hits, question)[:cutoff]
    lines = sum(hit.span.lines for hit in kept)
    returned: dict[str, set[int]] = {}
    for hit in kept:
        source = resolve_source(hit.source, question)
        returned.setdefault(source, set()).update(range(hit.line_start, hit.line_end + 1))
    spans = [item.span for item in question.gold if not is_file_level(item, question) and item.span]
    gold = [(span.source, set(range(span.line_start, span.line_end + 1))) for span in spans]
    found = [lines_of & returned.get(source, set()) for source, lines_of in gold]
    distinct = {(source, line) for (source, _), common in zip(gold, found, strict=True) for line in common}
    coverage = [len(common) / len(lines_of) for (_, lines_of), common in zip(gold, found, strict=True)]
    return PassageSize(
        hits=len(kept),
        lines=lines,
        characters=sum(len(hit.text) for hit in kept),
        tokens=sum(count_tokens(hit.text) for hit in kept) if count_tokens else None,
        gold_lines=len(distinct),
        span_precision=(len(distinct) / lines if lines else 0.0) if gold else None,
        gold_coverage=max(coverage, default=None),
    )


class PassageSummary(Record, frozen=True, kw_only=True):
    """Sizes over all questions of a predictor; ``None`` where nothing was returned or measurable.

    ``*_per_hit`` are totals over totals (every hit weighs the same); ``span_precision`` and
    ``gold_coverage`` are means over the questions whose gold has lines.
    """

    lines_per_hit: float | None
    characters_per_hit: float | None
    tokens_per_hit: float | None
    span_precision: float | None
    gold_coverage: float | None


def summarise_passages(sizes: Sequence[PassageSize]) -> PassageSummary:
    """Sum up the questions of one predictor."""
    hits = sum(size.hits for size in sizes)
    counted = [size.tokens for size in sizes if size.tokens is not None]
    return PassageSummary(
        lines_per_hit=sum(size.lines for size in sizes) / hits if hits else None,
        characters_per_hit=sum(size.characters for size in sizes) / hits if hits else None,
        tokens_per_hit=sum(counted) / hits if hits and len(counted) == len(sizes) else None,
        span_precision=_mean([s.span_precision for s in sizes if s.span_precision is not None]),
        gold_coverage=_mean([s.gold_coverage for s in sizes if s.gold_coverage is not None]),
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
