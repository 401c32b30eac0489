"""``make bench`` and ``make bench-check``: how a ratio is made, and when one counts as worse."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.commands import ROOT, program

from benchmarks.against import __main__ as against
from benchmarks.against.page import PAGE, page
from benchmarks.against.pairs import Pair, measure, median_interval
from benchmarks.against.table import Table, read_table

ROW: dict[str, Any] = {
    "group": "lexical query",
    "what": "BM25, first 40",
    "against": "bm25s 0.3.16",
    "unit": "question",
    "ours_ms": 1.0,
    "theirs_ms": 2.0,
    "ratio": 2.0,
    "low": 1.9,
    "high": 2.1,
    "rounds": 31,
    "answers": "the same scores",
}
TABLE: dict[str, Any] = {
    "machine": {"cpu": "a CPU", "cores": 2, "python": "3.11.2", "load_before": 0.1, "load_after": 1.0},
    "corpus": {"name": "docs", "digest": "d1", "chunks": 100, "questions": 10},
    "seconds": 60.0,
    "rows": [ROW, ROW | {"what": "exact search, 40 nearest vectors", "against": "numpy 2.4.6", "ratio": 0.5}],
    "starts": [{"command": "retrieve.py --help", "cpu_s": 0.08, "bound_s": 0.15}],
    "rates": [{"system": "local", "questions": 10, "rates": {"strict_hit@1": 0.5}}],
    "skipped": [{"group": "lexical query", "against": "PyTerrier", "reason": "there is no jar"}],
}


@pytest.fixture
def checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Runs ``check`` with the first row of the new table changed; its exit code and its output."""

    def check(table: dict[str, Any] | None = None, **changes: Any) -> tuple[int, str]:
        now = table if table is not None else TABLE | {"rows": [ROW | changes, TABLE["rows"][1]]}
        for name, content in (("before", TABLE), ("now", now)):
            (tmp_path / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
        words = ["check", "--table", tmp_path / "before.json", "--measured", tmp_path / "now.json"]
        monkeypatch.setattr(sys, "argv", ["against", *map(str, words)])
        code = against.main()
        return code, "".join(capsys.readouterr())

    return check


def test_a_table_passes_the_check_against_itself(checked: Callable[..., tuple[int, str]]) -> None:
    code, output = checked()
    assert (code, "worse:" in output) == (0, False)


@pytest.mark.parametrize(
    ("ratio", "low", "high", "worse"),
    [
        (1.5, 1.4, 1.59, True),  # the whole interval is more than 20% below 2.0
        (1.5, 1.2, 1.7, False),  # noise could be the reason
        (1.7, 1.69, 1.71, False),  # 15% worse
        (4.0, 3.9, 4.1, False),
    ],
)
def test_a_ratio_fails_if_its_whole_interval_is_more_than_20_percent_worse(
    checked: Callable[..., tuple[int, str]], ratio: float, low: float, high: float, worse: bool
) -> None:
    code, output = checked(ratio=ratio, low=low, high=high)
    assert code == int(worse)
    assert ("worse: BM25, first 40 against bm25s: 1.50 [1.40, 1.59] now, 2.00 before" in output) == worse


def test_another_version_of_the_other_program_is_the_same_row(
    checked: Callable[..., tuple[int, str]],
) -> None:
    assert checked(against="bm25s 0.4.0")[0] == 0
    code, output = checked(against="tantivy 0.27.0")
    assert code == 1
    assert "against bm25s: not measured now" in output


@pytest.mark.parametrize("change", [{"digest": "d2"}, {"questions": 11}])
def test_tables_over_different_corpora_are_not_compared(
    checked: Callable[..., tuple[int, str]], change: dict[str, Any]
) -> None:
    code, output = checked(TABLE | {"corpus": TABLE["corpus"] | change})
    assert code == 2
    assert "fix: make bench WRITE=--write" in output


def test_an_unreadable_table_is_an_error_with_a_fix() -> None:
    done = program("-m", "benchmarks.against", "check", "--measured", "nowhere.json", cwd=ROOT)
    assert done.returncode == 2
    assert "fix: make bench" in done.stderr
    assert "Traceback" not in done.stderr


def test_both_sides_are_timed_alternately_and_the_ratio_is_the_median_of_rounds() -> None:
    order: list[str] = []
    seconds = {"ours": iter([1.0, 1.0, 9.0, 1.0, 1.0]), "theirs": iter([2.0, 2.0, 2.0, 2.0, 90.0])}

    def clock(call: Callable[[], object]) -> float:
        name = str(call())
        order.append(name)
        return next(seconds[name])

    row = measure(Pair("g", "w", "x", lambda: "ours", lambda: "theirs", 10, "text", "-", clock, budget=0.0))
    assert order == ["ours", "theirs", "theirs", "ours"] * 2 + ["ours", "theirs"]
    assert (row.ratio, row.ours_ms, row.theirs_ms, row.rounds) == (2.0, 100.0, 200.0, 5)
    assert (row.low, row.high) == (round(2 / 9, 3), 90.0)


def test_the_interval_holds_the_median_in_at_least_95_of_100_runs() -> None:
    draw = random.Random(3)
    for n in (6, 15, 31):
        held = 0
        for _ in range(1000):
            low, high = median_interval([draw.gauss(0, 1) for _ in range(n)])
            held += low <= 0 <= high
        assert held >= 940, n  # 950 expected at least; sampling error 7


def test_the_page_is_made_from_the_table() -> None:
    committed = against.TABLE
    assert PAGE.read_text(encoding="utf-8") == page(read_table(committed)), (
        "run: python -m benchmarks.against page"
    )
    made = page(msgspec.convert(TABLE, Table))
    for part in ("bm25s 0.3.16", "**2.00**", "1.90 to 2.10", "there is no jar", "| 0.08 | 0.15 |", "50%"):
        assert part in made
