"""A run as it lies on the disk, with its questions."""

from __future__ import annotations

from pathlib import Path

from branchrank.artifacts import read_jsonl
from branchrank.errors import RunError
from branchrank.questions.question_files import load_questions, questions_digest
from branchrank.records import Question, Record
from branchrank.runs import directory as names
from branchrank.runs.directory import read_run
from branchrank.runs.outcome import Outcome
from branchrank.runs.rows import read_rows
from branchrank.runs.scores import Scores, standard_measures
from branchrank.runs.slices import GoldFacts
from branchrank.runs.summary import summarise
from branchrank.runs.timings import read_timings


class LoadedRun(Record, frozen=True, kw_only=True):
    """A run and the questions that it asked, in its order."""

    outcome: Outcome
    questions: tuple[Question, ...]

    @property
    def scores(self) -> Scores:
        """The scores of every row."""
        return Scores(self.outcome.rows, self.questions)


def load_run(directory: Path) -> LoadedRun:
    """Read a run. Its questions come from the copy in its directory.

    Raises :class:`RunError` when it is not finished, a file is missing or damaged, or the questions are not
    those it asked.
    """
    run = read_run(directory)
    rows = read_rows(directory / names.ROWS)
    if run.status == "running":
        wanted = len(run.question_ids) * sum(predictor.repeats for predictor in run.predictors)
        raise RunError(
            f"{directory} is not finished: it has {len(rows)} of {wanted} rows",
            remedy=f"branchrank resume {directory}",
        )
    asked = {question.id: question for question in load_questions(directory / names.QUESTIONS)}
    missing = [key for key in run.question_ids if key not in asked]
    if missing:
        raise RunError(f"{directory / names.QUESTIONS} lacks the question {missing[0]!r}")
    questions = tuple(asked[key] for key in run.question_ids)
    if questions_digest(questions) != run.questions_digest:
        raise RunError(f"{directory / names.QUESTIONS} is not what the run asked: its digest differs")
    timings = read_timings(directory / names.TIMINGS_CSV)
    scores = Scores(rows, questions)
    return LoadedRun(
        outcome=Outcome(
            directory=directory,
            run=run,
            rows=tuple(rows),
            timings=tuple(timings),
            summary=tuple(summarise(scores, timings, standard_measures(run.mode))),
            gold_facts=tuple(_gold_facts(directory / names.GOLD)),
        ),
        questions=questions,
    )


def _gold_facts(path: Path) -> list[GoldFacts]:
    return read_jsonl(path, GoldFacts, error=RunError) if path.exists() else []
