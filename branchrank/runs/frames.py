"""A run as pandas data frames, with the content of the run's CSV files.

Empty numeric cells are NaN, and empty text cells are empty strings. The apostrophe that the CSV files have
before text that looks like a formula (:mod:`branchrank.io.table`) is removed in the data frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO
from typing import TYPE_CHECKING

from branchrank.io.table import text_of
from branchrank.measures.matching import GOLD_LEVELS
from branchrank.runs.tables import calls_csv, comparisons_csv, questions_csv, summary_csv
from branchrank.runs.timings import timings_csv

if TYPE_CHECKING:
    import pandas as pd

    from branchrank.measures.verdicts import Comparison
    from branchrank.runs.run import RunData

#: The columns that contain text. Without this list, pandas would read a column of empty cells as numbers.
TEXT = frozenset(
    [
        "predictor",
        "baseline",
        "candidate",
        "measure",
        "test",
        "verdict",
        "llm",
        "question_id",
        "kind",
        "difficulty",
        "gold",
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


#: Columns of whole numbers; all other numbers are floats.
COUNTS = frozenset(
    [
        *("n", "clusters", "wins", "ties", "losses", "family"),
        *("questions", "answerable_questions", "span_questions", "timed_queries", "failures", "fallbacks"),
        *(f"answerable_questions_{level}" for level in GOLD_LEVELS),
        *("repeat", "attempt", "prompt_tokens", "completion_tokens", "cached_tokens", "reported"),
    ]
)


def summary_frame(run: RunData) -> pd.DataFrame:
    """Return the table in ``summary.csv``, with one row per predictor."""
    return _frame(summary_csv(run))


def comparisons_frame(comparisons: Sequence[Comparison]) -> pd.DataFrame:
    """Return the table in ``comparisons.csv``, with one row per comparison of two predictors."""
    return _frame(comparisons_csv(comparisons))


def questions_frame(run: RunData) -> pd.DataFrame:
    """Return the table in ``questions.csv``, with one row per question, predictor and repeat."""
    return _frame(questions_csv(run))


def calls_frame(run: RunData) -> pd.DataFrame:
    """Return the table in ``llm_calls.csv``, with one row per LLM call (including its retries)."""
    return _frame(calls_csv(run))


def timings_frame(run: RunData) -> pd.DataFrame:
    """Return the table in ``timings.csv``, with the time in ms of each stage in each timed query."""
    return _frame(timings_csv(run.timed))


def _frame(text: str) -> pd.DataFrame:
    import pandas as pd

    frame = pd.read_csv(StringIO(text), dtype=dict.fromkeys(TEXT, str), keep_default_na=False, na_values=[""])
    texts = [name for name in frame.columns if name in TEXT]
    frame[texts] = frame[texts].fillna("").map(text_of)
    # Without this conversion, pandas would use integers for a column in which every score is 0 or 1.
    numbers = [name for name in frame.columns if name not in TEXT | COUNTS]
    return frame.astype(dict.fromkeys(numbers, float))
