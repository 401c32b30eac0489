"""In the quality pass, every predictor answers every question, and every answer becomes a row.

1. Rows of an interrupted run are kept, and their questions are not answered again.
2. The questions are sent to the executor in shards (:mod:`branchrank.bench.answering`). All predictors answer
   a question before the next question is asked, so that the predictors share memoized results.
3. A failed query becomes a row with the error message, and counts as a miss in every hit rate.
4. Ctrl-C and SIGTERM end the pass between rows, and finished rows are kept. If a pass with several workers is
   interrupted, the answers of unfinished shards are lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from branchrank.bench.answering import AnsweringTask, Wanted, shards_of
from branchrank.execution import Executor
from branchrank.io.progress import Progress
from branchrank.records import Question
from branchrank.runs.rows import Row, RowLog


class Work:
    """The numbers of computed and reused results in the quality pass, by stage."""

    def __init__(self) -> None:
        self.computed: Counter[str] = Counter()
        self.reused: Counter[str] = Counter()


def quality_pass(
    predictors: Sequence[tuple[str, int]],
    questions: Sequence[Question],
    log: RowLog,
    *,
    executor: Executor,
    task: AnsweringTask,
    progress: Progress,
    on_row: Callable[[Row], None] = lambda row: None,
) -> tuple[list[Row], Work]:
    """Answer every question with every predictor. ``predictors`` are pairs (name, repeats).

    Returns the rows, and the numbers of computed and reused results. Rows are sorted by question, predictor
    and repeat, even in a resumed run.
    """
    pairs = [(number, repeat) for number, (_, repeats) in enumerate(predictors) for repeat in range(repeats)]
    wanted = [
        Wanted(
            question=question,
            answers=tuple(
                (number, repeat)
                for number, repeat in pairs
                if (question.id, predictors[number][0], repeat) not in log.rows
            ),
        )
        for question in questions
    ]
    total = len(questions) * len(pairs)
    done = total - sum(len(each.answers) for each in wanted)
    work = Work()
    progress("questions", done, total)
    for answered in executor.map(task, shards_of(wanted)):
        log.append(answered.row)
        on_row(answered.row)
        work.computed.update(answered.computed)
        work.reused.update(answered.reused)
        done += 1
        progress("questions", done, total)
    rows = [
        log.rows[question.id, predictors[number][0], repeat]
        for question in questions
        for number, repeat in pairs
    ]
    return rows, work
