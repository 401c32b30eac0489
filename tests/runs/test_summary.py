"""``summary.csv``, ``questions.csv`` and ``llm_calls.csv``: computed from rows and timings alone."""

from __future__ import annotations

import csv
import math
from io import StringIO
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.gold import gold
from support.made_runs import Planned, make_questions, make_run, run_of
from support.predictors import Scripted, passage

from branchrank.core.io.table import table_csv, text_of
from branchrank.core.records import LLMCall, Question, Retrieval
from branchrank.run import Run
from branchrank.runs.bench.answering import answer
from branchrank.runs.scores import STANDARD
from branchrank.runs.tables import questions_sheet, summary_sheet
from branchrank.runs.timings import TOTAL, Timing

#: The columns that ``summary.csv`` begins with, in their order.
PROMISED = [
    "predictor",
    "llm",
    "questions",
    "strict_hit@1",
    "strict_hit@5",
    "relaxed_hit@1",
    "relaxed_hit@5",
    "lines_per_hit",
    "latency_p50_ms",
    "latency_p95_ms",
    "llm_calls_per_query",
    "llm_tokens_per_query",
]

QUESTIONS = [Question(id=f"q{n}", question="?", gold=(gold("a.md", 10, 19),)) for n in range(4)]
RIGHT, NEAR, WRONG = passage("a.md", 10, 13), passage("a.md", 30, 33), passage("b.md", 1, 6)


def call(**changes: object) -> LLMCall:
    made = LLMCall(
        predictor="p",
        question_id="q0",
        stage="rerank",
        attempt=1,
        repeat=0,
        model="m",
        prompt_tokens=100,
        completion_tokens=20,
        cached_tokens=0,
        reported=True,
        latency_ms=5.0,
        served_by="server",
        outcome="ok",
    )
    return msgspec.structs.replace(made, **changes)


def answered(
    answers: dict[str, object],
    timings: tuple[Timing, ...] = (),
    *,
    llm: str = "none",
    name: str = "p",
    **settings: object,
) -> Run:
    predictor = Scripted(name, answers, llm)
    rows = [answer(predictor, question, 10) for question in QUESTIONS]
    return run_of(rows, QUESTIONS, timings, **settings)


def summary_of(run: Run) -> dict[str, str]:
    [row] = csv.DictReader(StringIO(summary_sheet(run).csv))
    return row


def test_the_documented_columns_come_first_in_order() -> None:
    columns = list(summary_of(answered({})))
    assert columns[: len(PROMISED)] == PROMISED
    more = [
        "strict_MRR@5",
        "strict_nDCG@5",
        "relaxed_MRR@5",
        "half_hit@1",
        "full_hit@1",
        "half_hit@5",
        "full_hit@5",
    ]
    more += ["llm_cached_calls_per_query", "llm_failed_calls_per_query", "span_precision", "gold_coverage"]
    assert columns[len(PROMISED) :][: len(more)] == more
    assert {"failures", "fallbacks"} <= set(columns)
    bounds = [f"{name}_{end}" for name in STANDARD for end in ("low", "high")]
    assert columns[-len(bounds) - 1 :] == ["gold", *bounds]


def test_every_number_matches_a_manual_calculation() -> None:
    row = summary_of(
        answered(
            {
                "q0": [RIGHT, WRONG],  # strict at rank 1
                "q1": [NEAR, RIGHT],  # relaxed at 1, strict at 2
                "q2": [WRONG, WRONG, WRONG, WRONG, WRONG, RIGHT],  # too late
            }
        )
    )
    assert [row[name] for name in PROMISED[2:7]] == ["4", "0.25", "0.5", "0.5", "0.5"]
    assert float(row["strict_MRR@5"]) == (1 + 0.5) / 4
    assert float(row["strict_nDCG@5"]) == pytest.approx((1 + 1 / math.log2(3)) / 4, abs=1e-6)
    # Over the first five hits: 4 + 6, 4 + 4, and 5 * 6 lines, of 9 hits.
    assert float(row["lines_per_hit"]) == pytest.approx((4 + 6 + 4 + 4 + 5 * 6) / 9, rel=1e-5)


def test_sizes_weigh_every_hit_and_shares_of_lines_every_question_the_same() -> None:
    row = summary_of(
        answered({"q0": [passage("a.md", 1, 10), passage("a.md", 11, 20)], "q1": [passage("a.md", 12, 12)]})
    )
    assert [float(row[name]) for name in ("lines_per_hit", "repeated_pages")] == pytest.approx([7, 1 / 3])
    shares = [(10 / 20 + 1 + 0 + 0) / 4, (1 + 0.1 + 0 + 0) / 4]
    assert [float(row[name]) for name in ("span_precision", "gold_coverage")] == pytest.approx(shares)
    row = summary_of(answered({}))
    assert [row[name] for name in ("lines_per_hit", "span_precision", "gold_coverage")] == ["", "0", "0"]


def test_rates_are_over_the_questions_with_an_answer(tmp_path: Path) -> None:
    made = make_run(tmp_path, (Planned("local", 0.5),), make_questions(8, unanswerable=2), latency_sample=0)
    [row] = csv.DictReader(StringIO(summary_sheet(made).csv))
    assert (row["questions"], row["answerable_questions"]) == ("10", "8")
    lines = list(csv.DictReader(StringIO(questions_sheet(made).csv)))
    values = [float(line["strict_hit@1"]) for line in lines if line["strict_hit@1"]]
    assert len(values) == 8
    assert float(row["strict_hit@1"]) == pytest.approx(sum(values) / 8)
    assert [line["outcome"] for line in lines if not line["strict_hit@1"]] == ["unanswerable"] * 2


def test_a_plain_name_is_scored_on_the_strict_gold() -> None:
    row = summary_of(answered({"q0": [NEAR]}, measures="Success@1,relaxed_Success@1"))
    assert (row["Success@1"], row["relaxed_Success@1"], row["relaxed_hit@1"]) == ("0", "0.25", "0.25")


def test_llm_cost_is_the_sum_of_the_ledger_per_query() -> None:
    retrievals = {
        "q0": Retrieval(
            hits=(RIGHT,),
            calls=(call(cached_tokens=60), call(attempt=2, outcome="timeout", completion_tokens=0)),
        ),
        "q1": Retrieval(hits=(), calls=(call(served_by="cache"),), fallbacks=("rerank: timeout",)),
    }
    row = summary_of(answered(retrievals, llm="m"))
    assert row["llm"] == "m"
    assert float(row["llm_calls_per_query"]) == 3 / 4
    assert float(row["llm_tokens_per_query"]) == (120 + 100 + 120) / 4
    assert float(row["llm_cached_calls_per_query"]) == 1 / 4
    assert float(row["llm_failed_calls_per_query"]) == 1 / 4
    assert row["fallbacks"] == "1"
    assert summary_of(answered({}))["llm_calls_per_query"] == "0"


def test_latency_is_that_of_the_warm_queries_of_the_predictor() -> None:
    def timed(number: int, ms: float, predictor: str = "p", phase: str = "warm") -> Timing:
        return Timing(predictor=predictor, question_id=f"q{number}", phase=phase, stage=TOTAL, ms=ms)

    timings = (
        *(timed(n, float(n)) for n in range(1, 21)),
        timed(0, 900.0, "other"),
        timed(0, 700.0, phase="first"),
    )
    row = summary_of(answered({}, timings))
    assert (row["latency_p50_ms"], row["latency_p95_ms"], row["first_query_ms"]) == ("10", "19", "700")
    assert row["timed_queries"] == "20"


def test_questions_csv_has_gold_ranks_and_failures() -> None:
    run = answered({"q0": [NEAR, RIGHT], "q1": ValueError("down"), "q2": [WRONG], "q3": [RIGHT]})
    rows = {row["question_id"]: row for row in csv.DictReader(StringIO(questions_sheet(run).csv))}
    assert (rows["q0"]["strict_rank"], rows["q0"]["relaxed_rank"], rows["q0"]["outcome"]) == (
        "2",
        "1",
        "in top 5",
    )
    assert (rows["q1"]["status"], rows["q1"]["error"]) == ("failed", "ValueError: down")
    assert [rows[key]["outcome"] for key in ("q1", "q2", "q3")] == ["failed", "miss", "hit"]
    assert rows["q3"]["first_hit"] == "a.md:10-13"


FORMULAS = (
    "=1+1",
    "+1",
    "-1+2",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    '=HYPERLINK("http://x")',
    "＝1+1",
    "\n=1",
    " =1",
)


@pytest.mark.parametrize("text", FORMULAS)
def test_no_csv_cell_is_a_spreadsheet_formula(text: str) -> None:
    run = answered({"q0": RuntimeError(text), "q1": [passage(text, 1, 2)]}, llm=text, name=text)
    for content in (questions_sheet(run).csv, summary_sheet(run).csv):
        for row in csv.reader(StringIO(content)):
            for value in row:
                assert value.lstrip()[:1] not in tuple("=+-@＝＋－＠"), value


@given(value=st.text(max_size=12))
def test_a_cell_is_read_back_unchanged_except_for_line_breaks(value: str) -> None:
    [header, [read, last]] = csv.reader(StringIO(table_csv(["a", "b"], [[value, "x"]]), newline=""))
    assert (header, last) == (["a", "b"], "x")
    plain = value.replace("\r\n", "\n").replace("\r", "\n")
    assert read in (plain, f"'{plain}")
    assert text_of(read) == plain or value.startswith("'")


def test_the_hard_set_has_the_questions_that_no_predictor_solves_first() -> None:
    answers: dict[str, dict[str, object]] = {
        "a": {"q0": [RIGHT], "q1": [NEAR, RIGHT]},
        "b": {"q1": [WRONG], "q2": [RIGHT, WRONG]},
    }
    rows = [
        answer(Scripted(name, of, "none"), each, 10) for name, of in answers.items() for each in QUESTIONS
    ]
    assert [each.id for each in run_of(rows, QUESTIONS).hard_set] == ["q1", "q3"]
