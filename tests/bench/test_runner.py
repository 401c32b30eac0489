"""The quality pass: every question counts, failures are misses, finished rows are not asked again."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.gold import gold
from support.made_runs import opened_plan
from support.predictors import Scripted, passage

from branchrank.bench.answering import FATAL, answer, quality_pass
from branchrank.errors import ReplayError, StorageError, UsageError
from branchrank.execution.executors import InProcess
from branchrank.io.progress import no_progress
from branchrank.llm.request import BudgetError
from branchrank.measures.measures import named_measure
from branchrank.records import Question, Retrieval
from branchrank.runs.directory import PredictorRecord
from branchrank.runs.rows import Row, RowLog, read_rows
from branchrank.runs.scores import Scores, standard_measures
from branchrank.runs.summary import summarize
from branchrank.settings import BenchmarkSettings


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


def test_a_failed_query_is_a_row_and_a_miss_in_every_rate(tmp_path: Path) -> None:
    failing = Scripted("failing", {"q0": RIGHT, "q1": RuntimeError("one\ntwo"), "q2": RIGHT, "q3": WRONG})
    rows = run(tmp_path, (failing, 1))
    assert [row.status for row in rows] == ["ok", "failed", "ok", "ok"]
    assert (rows[1].error, rows[1].hits) == ("RuntimeError: one", ())
    scores = Scores(rows, QUESTIONS)
    for measure in standard_measures("both"):
        assert len(scores.per_question("failing", measure)) == 4
        # Two of the five gold lines are returned: less than half.
        assert scores.average("failing", measure) == (0.5 if measure.mode in ("strict", "relaxed") else 0)
        assert scores.per_question("failing", measure)["q1"] == 0
    [summary] = summarize(scores, (), standard_measures("both"))
    assert (summary.questions, summary.failures) == (4, 1)


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


def test_unanswerable_questions_are_excluded_from_the_rates() -> None:
    questions = [QUESTIONS[0], Question(id="none", question="?", answerable=False)]
    predictor = Scripted("a", {"q0": RIGHT, "none": WRONG})
    scores = Scores([answer(predictor, question, 3) for question in questions], questions)
    assert scores.average("a", named_measure("strict_hit@1")) == 1
    [summary] = summarize(scores, (), standard_measures("both"))
    assert summary.questions == 2


def test_repeats_are_averaged_per_question_first() -> None:
    class Fickle(Scripted):
        def predict(self, question: Question, k: int, repeat: int = 0) -> Retrieval:
            return Retrieval(hits=RIGHT if repeat < 1 else WRONG)

    rows = [answer(Fickle("a", {}), QUESTIONS[0], 3, repeat) for repeat in range(4)]
    rows += [answer(Scripted("a", {"q1": RIGHT}), QUESTIONS[1], 3)]
    scores = Scores(rows, QUESTIONS[:2])
    strict = named_measure("strict_hit@1")
    assert scores.per_question("a", strict) == {"q0": 0.25, "q1": 1.0}
    assert scores.average("a", strict) == 0.625
