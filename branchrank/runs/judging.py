"""Judge the hits in a run's rows, and convert rows into the judgments from which measures are computed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from branchrank.corpus.chunking import token_counter
from branchrank.measures.matching import (
    Judged,
    JudgedHit,
    gold_gains,
    gold_pages,
    judge,
    with_depths,
    without_excluded,
)
from branchrank.records import Hit, Question
from branchrank.runs.rows import Row, RowHit


def judged_hits(hits: Sequence[Hit], question: Question) -> tuple[RowHit, ...]:
    """Judge the hits for one question, and return them without their text."""
    kept = without_excluded(hits, question)
    return tuple(
        RowHit(
            id=hit.id,
            source=hit.source,
            line_start=hit.line_start,
            line_end=hit.line_end,
            characters=len(hit.text),
            tokens=_tokens(hit.text),
            score=hit.score,
            gain=judgment.gain,
            gold=judgment.gold,
            page=judgment.page,
            node_id=hit.node_id,
            distance=hit.distance,
            branches=hit.branches,
            fallback=hit.fallback,
        )
        for hit, judgment in zip(kept, judge(kept, question).hits, strict=True)
    )


@lru_cache(maxsize=4096)
def _tokens(text: str) -> int:
    """Count the tokens in a passage (cached, because predictors often return the same passages)."""
    return token_counter()(text)


def judged_row(row: Row, question: Question, *, depths: bool = False) -> Judged:
    """Return a row's judgments.

    If ``depths`` is true, each hit is also judged under the criteria ``half`` and ``full``.
    """
    pages, weak_pages = gold_pages(question)
    hits = [JudgedHit(gain=hit.gain, gold=hit.gold, page=hit.page) for hit in row.hits]
    return Judged(
        hits=with_depths(hits, hits_of(row), question) if depths else tuple(hits),
        gold_gains=gold_gains(question),
        pages=pages,
        weak_pages=weak_pages,
    )


def hits_of(row: Row) -> tuple[Hit, ...]:
    """Return a row's hits as records with spans, scores and ids, but without text."""
    return tuple(
        Hit(
            id=hit.id,
            source=hit.source,
            line_start=hit.line_start,
            line_end=hit.line_end,
            text="",
            score=hit.score,
            node_id=hit.node_id,
        )
        for hit in row.hits
    )
