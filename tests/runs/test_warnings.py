"""A threshold that empties a branch is said, and so is an LLM that does not answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from branchrank.core.records import StageTrace
from branchrank.core.spec import Branch, Rescore, System
from branchrank.runs.directory import PredictorRecord
from branchrank.runs.rows import Row
from branchrank.runs.warnings import avoidable_latency, failures, lost_branches, shallow
from branchrank.runs.words import plural
from branchrank.scoring.matching import JudgedHit

PREDICTOR = PredictorRecord(
    name="grep",
    llm="none",
    system=System(name="grep", branches=(Branch(kind="grep"), Branch(kind="dense", threshold=0.5))),
)


def row(number: int, *keys: str) -> Row:
    stage = StageTrace(stage="dense(chunks)", unit="chunk", keys=keys, scores=(1.0,) * len(keys))
    return Row(question_id=str(number), predictor="grep", llm="none", trace=(stage,))


def test_a_branch_that_is_empty_for_most_questions_gives_a_warning() -> None:
    (warning,) = lost_branches([row(1), row(2), row(3, "a.md@1")], [PREDICTOR], [])
    assert "0.5 leaves 2 of 3 questions" in warning
    assert "calibrate" in warning
    assert list(lost_branches([row(1), row(2), row(3, "a.md@1"), row(4, "a.md@1")], [PREDICTOR], [])) == []
    half = [row(number, *["a.md@1"] * (number > 4)) for number in range(1, 9)]
    assert list(lost_branches(half, [PREDICTOR], [])) == []
    failed = [msgspec.structs.replace(row(number), status="failed", error="gone") for number in (2, 3)]
    assert list(lost_branches([row(1, "a.md@1"), *failed], [PREDICTOR], [])) == []


def test_fewer_hits_than_the_standard_measures_need_give_a_warning() -> None:
    assert [len(list(shallow(top_k))) for top_k in (4, 5, 6, 1000)] == [1, 0, 0, 0]


ASKING = PredictorRecord(name="hybrid", llm="ghost")


def answered(number: int, *fallbacks: str) -> Row:
    hit = JudgedHit(id="a", source="a.md", line_start=1, line_end=1, characters=1, score=1.0, gain=0)
    return Row(question_id=str(number), predictor="hybrid", llm="ghost", fallbacks=fallbacks, hits=(hit,))


def test_an_llm_that_falls_back_in_most_answers_gives_a_warning_with_the_reason() -> None:
    rows = [
        answered(1, "rerank: timeout"),
        answered(2, "rerank: http 404"),
        answered(3, "rerank: http 404"),
        answered(4),
    ]
    (warning,) = failures(rows, [ASKING, PREDICTOR])
    words = "3 of 4 answers fell back (most often: rerank: http 404); the rates say little about ghost"
    assert (warning.kind, warning.predictor, warning.words) == ("failures", "hybrid", words)
    (alike,) = failures(rows[1:3], [ASKING])
    assert "2 of 2 answers fell back (rerank: http 404)" in alike.words


def test_a_predictor_without_any_answer_is_not_compared() -> None:
    failed = Row(question_id="1", predictor="hybrid", llm="ghost", status="failed", error="gone")
    for count in (1, 2):
        (none,) = failures([failed] * count, [ASKING])
        assert ("so it is not compared" in none.words, none.kind) == (True, "failed")
        assert f"all {plural(count, 'query')} failed, most often with 'gone'" in none.words
        (some,) = failures([*[failed] * count, answered(2)], [ASKING])
        assert ("each counts as a miss" in some.words, some.kind) == (True, "failures")
        assert f"{count} of {count + 1} queries failed" in some.words
    assert list(failures([], [ASKING])) == []


def test_replaced_texts_are_counted_and_the_first_is_named() -> None:
    rows = [msgspec.structs.replace(answered(number), altered=number) for number in (2, 3)]
    (told,) = failures([answered(1), *rows], [ASKING])
    assert "the text of 5 hits is not the text of the lines, and was replaced" in told.words
    assert "explain RUN 2`" in told.words


def test_texts_without_a_place_give_a_warning_and_a_doubt_if_they_are_many() -> None:
    placed = [answered(number) for number in range(38)]
    lost = msgspec.structs.replace(answered(39), missing=1, ambiguous=1)
    (many,) = failures([*placed, lost], [ASKING])
    assert (
        "2 of 39 hits have no place in the corpus, and each is a miss, so its rates can be too low"
        in many.words
    )
    for more in (1, 2):
        (few,) = failures([*placed, *[answered(40)] * more, lost], [ASKING])
        assert f"2 of {39 + more} hits have no place in the corpus, and each is a miss" in few.words
        assert "too low" not in few.words
    (two,) = failures([lost, msgspec.structs.replace(lost, question_id="40")], [ASKING])
    assert "explain RUN 39`" in two.words


@pytest.mark.parametrize(
    ("method", "stored", "said"),
    [("maxsim", "none", 1), ("maxsim", "int8", 0), ("none", "none", 0)],
)
def test_token_vectors_that_an_index_lacks_give_a_warning(method: Any, stored: str, said: int) -> None:
    system = System(name="late", branches=(Branch(kind="dense"),), rescore=Rescore(method=method))
    run: Any = SimpleNamespace(
        predictors=(PredictorRecord(name="late", llm="none", system=system, index="main"),),
        indexes=(SimpleNamespace(name="main", token_vectors=stored),),
        data_dir="data",
    )
    assert len(list(avoidable_latency(run))) == said
