"""A run as pandas tables, for notebooks and for questions that no report answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from branchrank.runs import directory as names
from branchrank.runs.directory import read_run

if TYPE_CHECKING:
    import pandas as pd


#: Columns that hold text, also where every cell of one is empty.
TEXT = frozenset(
    [
        "predictor",
        "llm",
        "question_id",
        "kind",
        "difficulty",
        "status",
        "outcome",
        "lost",
        "gold_ranks",
        "first_hit",
        "fallbacks",
        "error",
        "stage",
        "phase",
        "model",
        "served_by",
    ]
)


class Frames(NamedTuple):
    """The tables of one run: a row per predictor, per question and predictor, per LLM call, per timing."""

    summary: pd.DataFrame
    questions: pd.DataFrame
    calls: pd.DataFrame
    timings: pd.DataFrame


def load_frames(directory: Path) -> Frames:
    """Read the CSV files of a run; empty cells of numbers are NaN, those of text are empty.

    Raises :class:`~branchrank.errors.RunError` when the directory holds no run.
    """
    import pandas as pd

    read_run(directory)

    def read(name: str) -> pd.DataFrame:
        frame = pd.read_csv(
            directory / name, dtype=dict.fromkeys(TEXT, str), keep_default_na=False, na_values=[""]
        )
        return frame.fillna(dict.fromkeys(TEXT & set(frame.columns), ""))

    return Frames(
        summary=read(names.SUMMARY_CSV),
        questions=read(names.QUESTIONS_CSV),
        calls=read(names.CALLS_CSV),
        timings=read(names.TIMINGS_CSV),
    )
