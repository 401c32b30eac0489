"""The size of the returned passages, and the share of gold lines among the returned lines.

Reports show the passage size beside every strict hit rate, because returning whole files inflates the strict
hit rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from branchrank.core.records import UNPLACED, Question, Record, Span
from branchrank.scoring.matching import Judged, JudgedHit, is_file_level, resolve_source, without_excluded


class PassageSize(Record, frozen=True, kw_only=True):
    """The number of lines in the hits for one question, and how many of these lines are gold.

    ``lines`` is the sum of the hits' lengths in lines, so a line in two hits counts twice. The other values
    count only lines with content. ``gold_lines`` counts the distinct gold lines that the hits contain.
    ``span_precision`` is ``gold_lines`` divided by the number of returned lines, or 0 without hits.
    ``gold_coverage`` is the largest share of a gold item's lines that the hits contain, because one gold item
    is enough to answer the question. ``span_precision`` and ``gold_coverage`` are ``None`` for file-level
    gold and for unanswerable questions. ``repeated_pages`` counts the hits that are on the same page as a
    higher-ranked hit.
    """

    hits: int
    repeated_pages: int
    lines: int
    gold_lines: int
    span_precision: float | None
    gold_coverage: float | None


def passage_size(judged: Judged) -> PassageSize:
    """Count the lines and gold lines in the hits for one question.

    Hits without a place in the corpus are ignored.
    """
    question = judged.question
    kept = [hit for hit in judged.hits if hit.source != UNPLACED]
    lines = sum(hit.span.lines for hit in kept)
    returned = disjoint(map(judged.resolved, kept))
    gold = [item.span for item in question.gold if not is_file_level(item, question) and item.span]
    gold_lines = sum(judged.gold_lines(span, returned) for span in disjoint(gold))
    # Gold that has only blank lines counts, although the lines of the hits don't.
    counted = max(gold_lines, lines - sum(hit.blank_lines or 0 for hit in kept))
    return PassageSize(
        hits=len(kept),
        repeated_pages=len(kept) - len({resolve_source(hit.source, question) for hit in kept}),
        lines=lines,
        gold_lines=gold_lines,
        span_precision=(gold_lines / counted if counted else 0.0) if gold else None,
        gold_coverage=max(
            (judged.gold_lines(span, returned) / judged.gold_lines(span, [span]) for span in gold),
            default=None,
        ),
    )


def disjoint(spans: Iterable[Span]) -> list[Span]:
    """Merge overlapping spans into disjoint spans that cover the same lines."""
    found: list[Span] = []
    for span in sorted(spans):
        last = found[-1] if found else None
        if last and last.source == span.source and span.line_start <= last.line_end:
            end = max(last.line_end, span.line_end)
            found[-1] = msgspec.structs.replace(last, line_end=end)
        else:
            found.append(span)
    return found


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
