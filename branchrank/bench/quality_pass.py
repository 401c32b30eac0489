"""The quality pass: every predictor answers every question, and every answer becomes a row.

1. Rows that an interrupted run left are kept; their questions are not asked again.
2. The questions go to the executor in shards (:mod:`branchrank.bench.answering`). A question goes through all
   predictors before the next one, so that they share memoised work.
3. A query that fails becomes a row with the reason, and counts as a miss in every rate.
4. Ctrl-C and SIGTERM end the pass between rows; nothing finished is lost. With several workers the shards
   that are under way are lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from branchrank.bench.answering import AnsweringTask, Wanted, shards_of
from branchrank.execution import Executor
from branchrank.progress import Progress
from branchrank.records import Question
from branchrank.runs.rows import Row, RowLog


class Work:
    """Counts of stage results that were computed and reused in the quality pass, by their names."""

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
    """Ask every question of every predictor, given by its name and number of repeats, in the task's order.

    Returns the rows, and the work that the executor did for them. Rows are sorted by question, then in the
    order of ``predictors``, then by repeat, whatever the order in which an interrupted run wrote them.
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
