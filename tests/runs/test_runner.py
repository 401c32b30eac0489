"""The quality pass: every question counts, and finished rows are not asked again."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.gold import gold
from support.made_runs import opened_plan
from support.predictors import Scripted, passage

from branchrank.core.errors import ReplayError, StorageError, UsageError
from branchrank.core.execution.executors import InProcess
from branchrank.core.io.progress import no_progress
from branchrank.core.records import Question, Retrieval
from branchrank.core.settings import BenchmarkSettings
from branchrank.runs.bench.answering import FATAL, answer, quality_pass
from branchrank.runs.directory import PredictorRecord
from branchrank.runs.rows import Row, RowLog, read_rows
from branchrank.search.llm.request import BudgetError


def asked(key: str, **fields: object) -> Question:
    return Question(id=key, question=key, gold=(gold("a.md", 1, 5),), **fields)


QUESTIONS = [asked(f"q{number}") for number in range(4)]
RIGHT, WRONG = (passage("a.md", 2, 3),), (passage("b.md", 1, 9),)


def run(
    tmp_path: Path, *predictors: tuple[Scripted, int], questions: list[Question] = QUESTIONS
) -> list[Row]:
    with RowLog(tmp_path / "rows.jsonl") as log:
        records = tuple(PredictorRecord(name=p.name, llm=p.llm, repeats=repeats) for p, repeats in predictors)
        settings = BenchmarkSettings(top_k=3, trace_depth=2)
        opened = opened_plan([each for each, _ in predictors], records, settings)
        return quality_pass(opened, questions, log, InProcess(), no_progress)[0]


def test_all_predictors_answer_a_question_before_the_next_question(tmp_path: Path) -> None:
    order: list[tuple[str, str, int]] = []

    class Recorded(Scripted):
        def predict(self, question: Question, k: int, repeat: int = 0) -> Retrieval:
            order.append((question.id, self.name, repeat))
            return super().predict(question, k, repeat)

    rows = run(tmp_path, (Recorded("a", {}), 1), (Recorded("b", {}, llm="m"), 2), questions=QUESTIONS[:2])
    assert order == [(q, name, r) for q in ("q0", "q1") for name, r in (("a", 0), ("b", 0), ("b", 1))]
    assert [row.key for row in rows] == order
    assert [row.llm for row in rows[:2]] == ["none", "m"]


def test_finished_rows_are_kept_and_only_missing_rows_are_computed(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", (Scripted("a", {"q0": RIGHT}), 1), (Scripted("b", {}), 1))
    with RowLog(tmp_path / "rows.jsonl") as log:
        for row in (whole[3], whole[0]):  # written in another order
            log.append(row)
    a, b = Scripted("a", {"q0": WRONG}), Scripted("b", {})
    assert run(tmp_path, (a, 1), (b, 1)) == whole
    assert [key for key, _ in a.asked] == ["q1", "q2", "q3"]
    assert [key for key, _ in b.asked] == ["q0", "q2", "q3"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), BudgetError("spent"), SystemExit(143)])
def test_an_error_that_ends_the_run_keeps_the_earlier_rows(tmp_path: Path, error: BaseException) -> None:
    ending = Scripted("a", {"q2": error})
    with pytest.raises(type(error)):
        run(tmp_path, (ending, 1))
    assert [row.question_id for row in read_rows(tmp_path / "rows.jsonl")] == ["q0", "q1"]


def test_errors_that_concern_the_whole_run_end_it() -> None:
    assert set(FATAL) == {BudgetError, ReplayError, StorageError, UsageError}
    for error in (ReplayError("gone"), StorageError("full"), UsageError("wrong")):
        with pytest.raises(type(error)):
            answer(Scripted("a", {"q0": error}), QUESTIONS[0], 3)
