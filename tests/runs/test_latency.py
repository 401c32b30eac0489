"""The latency pass: one query at a time, arms interleaved by the seed, nothing spent twice."""

from __future__ import annotations

import itertools
import resource
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from support.commands import QUESTIONS as SAMPLE
from support.commands import make_project
from support.predictors import Scripted

from branchrank import Workspace
from branchrank.core.errors import UsageError
from branchrank.core.records import Hit, LLMCall, Question, Retrieval
from branchrank.core.settings import BenchmarkSettings
from branchrank.runs.bench.running import latency_pass
from branchrank.runs.rows import Row
from branchrank.runs.summary import Warm
from branchrank.runs.timings import COMPUTE, CPU, LLM_WAIT, TOTAL
from branchrank.search.systems import sources

QUESTIONS = [Question(id=f"q{number}", question="?", answerable=False) for number in range(12)]
NAMES = ("a", "b", "c")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("latency"))


def order(seed: int) -> list[tuple[str, str]]:
    """The order in which a pass asks."""
    seen: list[tuple[str, str]] = []

    class Recorded(Scripted):
        def predict(self, question: Question, k: int, repeat: int = 0) -> Retrieval:
            seen.append((self.name, question.id))
            return Retrieval(hits=())

    latency_pass([Recorded(name, {}) for name in NAMES], QUESTIONS, BenchmarkSettings(sample_seed=seed))
    return seen


def test_every_predictor_warms_up_once_and_then_answers_every_question_once() -> None:
    seen = order(1)
    assert seen[:3] == [(name, "q0") for name in NAMES]
    assert Counter(seen[3:]) == {(name, question.id): 1 for name in NAMES for question in QUESTIONS}


def test_each_query_is_timed_repeatedly_and_the_median_is_stored() -> None:
    waits = {"q0": [5.0, 1.0, 3.0], "q1": [2.0, 9.0, 4.0]}
    seen: list[str] = []

    class Waiting(Scripted):
        def predict(self, question: Question, k: int, repeat: int = 0) -> Retrieval:
            seen.append(question.id)
            turn = seen.count(question.id) - 1
            first = question.id == "q0"
            wait = 1000 * waits[question.id][turn - first] if turn or not first else 50_000
            return Retrieval(hits=(), calls=(call(wait, "cache"),), stage_ms={"walk": wait})

    found = latency_pass([Waiting("a", {})], QUESTIONS[:2], BenchmarkSettings(latency_repeats=3))
    assert Counter(seen) == {"q0": 4, "q1": 3}
    warm = Warm(found, "a")
    assert {key: round(ms / 1000) for key, ms in warm.by_stage[TOTAL].items()} == {"q0": 3, "q1": 4}
    assert warm.by_stage["walk"] == {"q0": 3000.0, "q1": 4000.0}


def test_the_seed_interleaves_the_predictors() -> None:
    assert order(1) == order(1)
    assert order(1) != order(2)
    arms = [name for name, _ in order(1)[3:]]
    changes = sum(before != after for before, after in itertools.pairwise(arms))
    assert changes > len(arms) / 3, "arms one after the other would change twice"


def timings_of(*predictors: Scripted, questions: list[Question] = QUESTIONS):
    return latency_pass(predictors, questions, BenchmarkSettings())


def test_the_first_query_is_timed_separately() -> None:
    class Slow(Scripted):
        def predict(self, question: Question, k: int, repeat: int = 0) -> Retrieval:
            time.sleep(0.02 if not self.asked else 0.0)
            return super().predict(question, k, repeat)

    timings = timings_of(Slow("a", {}))
    assert Counter(timing.phase for timing in timings if timing.stage == TOTAL) == {"first": 1, "warm": 12}
    warm = Warm(timings, "a")
    assert warm.first is not None
    assert warm.first >= 20
    assert len(warm.by_stage[TOTAL]) == 12
    assert warm.first not in warm.by_stage[TOTAL].values()


FAILED_ROW = Row(question_id="q5", predictor="a", llm="none", status="failed", error="no")


def test_failures_have_no_time_and_a_fatal_error_ends_the_pass() -> None:
    failing = Scripted("a", {"q0": ValueError("no"), "q3": ValueError("no")})
    warm = Warm(latency_pass([failing], QUESTIONS, BenchmarkSettings(), rows={("a", "q5"): FAILED_ROW}), "a")
    assert (warm.first, len(warm.by_stage[TOTAL]), warm.failed) == (None, 9, 3)
    assert "q5" not in [question for question, _ in failing.asked]
    with pytest.raises(UsageError):
        timings_of(Scripted("a", {"q3": UsageError("no")}))


def call(latency_ms: float, served_by: str, *, replayed: bool = False) -> LLMCall:
    return LLMCall(
        predictor="a",
        question_id="q0",
        stage="rerank",
        attempt=1,
        repeat=0,
        model="m",
        prompt_tokens=1,
        completion_tokens=1,
        cached_tokens=0,
        reported=True,
        latency_ms=latency_ms,
        served_by=served_by,
        outcome="ok",
        replayed=replayed,
    )


def test_llm_wait_is_separate_from_compute_and_cached_calls_keep_their_latency() -> None:
    answers = {
        "q0": Retrieval(hits=(), calls=(call(5000.0, "cache"),), stage_ms={"rerank": 3.0}),
        "q1": Retrieval(hits=(), calls=(call(2.0, "server"),)),
        "q2": Retrieval(hits=(), calls=(call(700.0, "server", replayed=True),)),
    }

    class Slow(Scripted):
        def predict(self, question: Question, k: int, repeat: int = 0) -> Retrieval:
            time.sleep(0.004)
            return super().predict(question, k, repeat)

    warm = Warm(timings_of(Slow("a", answers), questions=QUESTIONS[:3]), "a").by_stage
    assert warm[LLM_WAIT] == {"q0": 5000.0, "q1": 2.0, "q2": 700.0}
    assert warm["rerank"] == {"q0": 3.0}
    for question in ("q0", "q1", "q2"):
        assert warm[COMPUTE][question] == pytest.approx(
            warm[TOTAL][question] - warm[LLM_WAIT][question], abs=0.001
        )
    assert warm[TOTAL]["q0"] >= 5004
    assert warm[TOTAL]["q2"] >= 704


class Starting:
    """A predictor that lets a child process do the work, and remembers what that took."""

    name = "starting"

    def __init__(self) -> None:
        self.spent_ms: list[float] = []

    def predict(self, question: Question, k: int, repeat: int = 0) -> Retrieval:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-S", "-c", "sum(range(500_000))"], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        self.spent_ms.append(1000 * spent)
        return Retrieval(hits=())


def test_the_cpu_time_of_children_counts() -> None:
    predictor = Starting()
    question = Question(id="q", question="?", answerable=False)
    timings = latency_pass([predictor], [question], BenchmarkSettings())
    measured = {timing.phase: timing.ms for timing in timings if timing.stage == CPU}
    first, warm = predictor.spent_ms
    assert first > 0
    assert measured["first"] >= first - 0.001
    assert measured["warm"] >= warm - 0.001


class Instant:
    """Fails on half of the questions at once, and answers the others slowly."""

    def retrieve(self, query: str, k: int) -> list[Hit]:
        if len(query) % 2:
            raise ValueError("no")
        time.sleep(0.01)
        return []


def test_a_class_is_not_faster_because_its_queries_fail(project: Path, tmp_path: Path) -> None:
    with Workspace.open(project / "data") as workspace:
        run = workspace.benchmark([Instant()], latency_sample=8, reports=tmp_path)
    failing = sum(len(question["question"]) % 2 for question in SAMPLE)
    [row] = run.summary.to_dict("records")
    assert (row["timed_queries"], row["untimed_failures"]) == (8 - failing, failing)
    assert row["latency_p50_ms"] >= 10
    assert "untimed: failed queries" in (run.directory / "report.md").read_text(encoding="utf-8")


def test_a_class_that_searches_a_workspace_is_timed_without_its_caches(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Workspace.open(project / "data") as workspace:
        monkeypatch.setattr(sources, "cached_query", lambda embedder, cache, text: spied(cache, text))
        embedded: list[tuple[str, bool]] = []

        def spied(cache: object, text: str):
            embedded.append((text, cache is None))
            return workspace.index.embedder.embed_query(text)

        def own(query: str, k: int) -> list[Hit]:
            return workspace.search(query, "local", k)

        workspace.benchmark([own], latency_sample=4, reports=tmp_path)
        workspace.search(embedded[-1][0], "local")
    assert Counter(without for _, without in embedded) == {False: 8, True: 5}
