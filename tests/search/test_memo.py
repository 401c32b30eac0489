"""The memo: shared work is done once, and the memory of what is kept has a limit."""

from __future__ import annotations

import numpy as np

from branchrank.search.systems.memo import Memo

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
