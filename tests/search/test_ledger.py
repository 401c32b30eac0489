"""Totals are sums of rows; cost comes from a dated table; a budget ends a run."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from branchrank.core.errors import UsageError
from branchrank.core.records import LLMCall
from branchrank.core.settings import LLMSettings
from branchrank.search.llm.ledger import (
    Budget,
    Ledger,
    LLMMeter,
    ModelPrice,
    PriceTable,
    read_prices,
    totals,
    totals_by,
)
from branchrank.search.llm.request import BudgetError


def call(**fields: object) -> LLMCall:
    values = {
        "predictor": "hybrid",
        "question_id": "q1",
        "stage": "rerank",
        "attempt": 1,
        "repeat": 0,
        "model": "m",
        "prompt_tokens": 1000,
        "completion_tokens": 100,
        "cached_tokens": 400,
        "reported": True,
        "latency_ms": 12.5,
        "served_by": "server",
        "outcome": "ok",
    }
    return msgspec.convert(values | fields, LLMCall)


ROWS = [
    call(),
    call(served_by="cache", question_id="q2"),
    call(outcome="timeout", reported=False, completion_tokens=0, cached_tokens=0),
    call(predictor="pageindex", stage="tree final", prompt_tokens=10, cached_tokens=0),
]

TABLE = """
date = 2026-02-01
currency = "EUR"
[models.m]
prompt = 2.0
completion = 10.0
cached = 0.5
"""


def test_totals_are_sums_of_rows() -> None:
    whole = totals(ROWS)
    assert (whole.calls, whole.cached_calls, whole.failed_calls, whole.estimated_calls) == (4, 1, 1, 1)
    assert (whole.prompt_tokens, whole.completion_tokens, whole.cached_tokens) == (3010, 300, 800)
    assert (whole.tokens, whole.latency_ms, whole.cost) == (3310, 50.0, None)
    parts = totals_by(ROWS, lambda row: row.predictor)
    assert list(parts) == ["hybrid", "pageindex"]
    for name in ("calls", "cached_calls", "prompt_tokens", "completion_tokens", "latency_ms"):
        assert sum(getattr(part, name) for part in parts.values()) == getattr(whole, name)
    assert list(totals_by(ROWS, lambda row: row.stage)) == ["rerank", "tree final"]


def test_cost_is_per_million_tokens_with_a_separate_price_for_cached_tokens(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(TABLE)
    prices = read_prices(path)
    assert (prices.date, prices.currency) == ("2026-02-01", "EUR")
    assert prices.cost(ROWS[0]) == pytest.approx((600 * 2 + 400 * 0.5 + 100 * 10) / 1e6)
    assert totals(ROWS[:2], prices).cost == pytest.approx(2 * 0.0024)
    assert totals([call(model="other")], prices).cost is None
    assert totals([], prices).cost == 0
    one_token = PriceTable(date="2026-02-01", models={"m": ModelPrice(prompt=0.001, completion=0)})
    few = {"completion_tokens": 0, "cached_tokens": 0}
    assert totals([call(prompt_tokens=1, **few)], one_token).cost == 1e-9  # told to a billionth
    assert totals([call(prompt_tokens=1, **few)] * 3, one_token).cost == 3e-9
    assert totals([call(latency_ms=0.0004), call(latency_ms=0.0004)]).latency_ms == 0.001


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "date"),
        ('date = "soon"', "date"),
        ('date = "2026-01-01"\n[models.m]\nprompt = -1\ncompletion = 0', "prompt"),
        ('date = "2026-01-01"\n[models.m]\nprompt = 1', "completion"),
        ('date = "2026-01-01"\nsurprise = 1', "surprise"),
        ("not toml", "line 1"),
    ],
)
def test_a_wrong_table_is_named(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=fault) as caught:
        read_prices(path)
    assert str(path) in str(caught.value)


def test_a_budget_can_be_used_to_its_last_call_token_and_retry() -> None:
    budget = Budget(LLMSettings(max_calls=3, max_tokens=100, retry_budget=2))
    budget.reserve(60)
    budget.settle(60, 40)
    budget.reserve(60)
    assert (budget.calls, budget.tokens) == (2, 100)
    with pytest.raises(BudgetError, match=r"100 of 100 LLM tokens.* 1 tokens"):
        budget.reserve(1)
    budget.reserve(0)
    with pytest.raises(BudgetError, match="all 3 LLM calls"):
        budget.reserve(0)
    assert (budget.calls, budget.tokens) == (3, 100)
    assert [budget.take_retry() for _ in range(3)] == [True, True, False]
    unlimited = Budget(LLMSettings(max_calls=0, max_tokens=0))
    for _ in range(3):
        unlimited.reserve(10**9)
    assert unlimited.calls == 3


def test_cached_tokens_have_the_price_of_others_if_no_other_is_given() -> None:
    prices = {
        "free": ModelPrice(prompt=2, completion=10, cached=0),
        "plain": ModelPrice(prompt=2, completion=10),
    }
    table = PriceTable(date="2026-02-01", models=prices)
    assert table.currency == "USD"
    asked = {"prompt": 1_000_000, "completion": 500_000}
    assert [table.cost_of("plain", **asked, cached=cached) for cached in (0, 400_000)] == [7, 7]
    assert table.cost_of("plain", **asked) == 7
    assert table.cost_of("free", **asked, cached=400_000) == pytest.approx(6.2)


def test_a_ledger_keeps_all_calls_and_a_meter_none() -> None:
    told: list[str] = []
    ledger, meter = Ledger(), LLMMeter(told.append)
    for row in ROWS:
        ledger.add(row)
        meter.add(row)
    assert (ledger.rows, meter.rows, meter.calls, len(told)) == (tuple(ROWS), (), len(ROWS), len(ROWS))
