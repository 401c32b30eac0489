"""List the runs in a folder of reports, including unreadable runs."""

from __future__ import annotations

from pathlib import Path

from branchrank.errors import RunError
from branchrank.io.printable import safe
from branchrank.records import Record
from branchrank.runs.directory import RUN_JSON, read_run
from branchrank.runs.rows import is_under_way


class ListedRun(Record, frozen=True, kw_only=True):
    """A run's directory, status, predictors and number of questions.

    The status is ``running``, ``interrupted`` (no process is writing the run) or ``finished``. If the run
    can't be read, ``problem`` is the reason and all fields except ``directory`` are empty.
    ``str()`` returns one line of text.
    """

    directory: Path
    status: str = ""
    questions: int = 0
    predictors: tuple[str, ...] = ()
    problem: str = ""

    def __str__(self) -> str:
        if self.problem:
            return safe(f"{self.directory}  unreadable: {self.problem}")
        names = ", ".join(self.predictors)
        return safe(f"{self.directory}  {self.status}  {self.questions} questions  {names}")


def list_runs(reports: Path) -> list[ListedRun]:
    """List the runs in ``reports``, oldest first."""
    return [_listed(path.parent) for path in sorted(reports.glob(f"*/{RUN_JSON}"))]


def _listed(directory: Path) -> ListedRun:
    try:
        run = read_run(directory)
    except RunError as error:
        return ListedRun(directory=directory, problem=error.message)
    try:
        rows = directory / run.rows_file
        stopped = run.status == "running" and not (rows.is_file() and is_under_way(rows))
    except OSError as error:
        return ListedRun(directory=directory, problem=str(error))
    return ListedRun(
        directory=directory,
        status="interrupted" if stopped else run.status,
        questions=len(run.question_ids),
        predictors=tuple(each.name for each in run.predictors),
    )
