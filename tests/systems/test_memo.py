"""The memo: shared work is done once, and the memory of what is kept has a limit."""

from __future__ import annotations

import numpy as np
import pytest

from branchrank.ranking.lists import RankedList
from branchrank.systems.memo import Memo, QueryMemo, RecentMemo, held_bytes

KIB = np.zeros(1024, np.uint8)


def test_a_memo_of_thousands_of_questions_stays_within_its_bytes() -> None:
    memo = Memo(limit_bytes=100 * 1024)
    for question in range(1000):
        for predictor in range(3):
            kept = memo.get(("scores", f"question {question}"), lambda number=question: KIB + number % 7)
            assert kept[0] == question % 7, predictor
        assert memo.held_bytes <= 100 * 1024
    assert memo.computed == {"scores": 1000}
    assert memo.reused == {"scores": 2000}


def test_the_least_recently_used_entry_is_evicted_first() -> None:
    memo = Memo(limit_bytes=4 * 1024)
    for number in range(100):
        memo.get(("tree",), lambda: KIB)
        memo.get(("scores", number), lambda: KIB)
    assert memo.computed["tree"] == 1
    memo.get(("scores", 99), lambda: KIB)
    memo.get(("scores", 0), lambda: KIB)
    assert (memo.computed["scores"], memo.reused["scores"]) == (101, 1)


def test_a_result_larger_than_the_limit_is_kept_until_the_next() -> None:
    memo = Memo(limit_bytes=10)
    for _ in range(2):
        memo.get(("scores", 1), lambda: KIB)
    assert memo.computed == {"scores": 1}
    memo.get(("scores", 2), lambda: KIB)
    memo.get(("scores", 1), lambda: KIB)
    assert memo.computed == {"scores": 3}


def test_a_query_memo_is_cleared_and_a_recent_memo_is_limited_by_size() -> None:
    query = QueryMemo()
    query.get(("scores",), lambda: KIB)
    query.begin_query()
    assert query.held_bytes == 0
    recent = RecentMemo(limit=2)
    for number in (1, 2, 1, 3, 1, 2):
        recent.get(("scores", number), lambda: KIB)
    assert recent.computed == {"scores": 4}


@pytest.mark.parametrize("count", [10, 1000, 100_000])
def test_the_estimated_size_of_a_result_is_close_to_its_real_size(count: int) -> None:
    ids = [f"id {number}" for number in range(count)]
    scores = [number / 3 for number in range(count)]
    entries = dict(zip(ids, scores, strict=True))
    ranking = RankedList(tuple(ids), tuple(scores))
    assert held_bytes(np.zeros(count, np.float32)) == 4 * count
    assert 40 * count <= held_bytes(ranking) <= 40 * count + 500
    assert 32 * count <= held_bytes(entries) <= 140 * count + 500
    assert 24 * count <= held_bytes([scores[:], ()]) <= 40 * count + 500
