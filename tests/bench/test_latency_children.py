"""CPU time of a query counts what its child processes used."""

import resource
import subprocess
import sys

from branchrank.bench.latency_pass import latency_pass
from branchrank.records import Question, Retrieval
from branchrank.runs.timings import CPU
from branchrank.settings import BenchmarkSettings


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
