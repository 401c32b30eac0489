"""Read and write ``timings.csv``, which has the time in ms of each stage in each timed query."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from branchrank.errors import RunError
from branchrank.io.files import write_text
from branchrank.io.table import table_csv, text_of
from branchrank.records import Record

TOTAL = "total"
CPU = "cpu"
LLM_WAIT = "llm wait"
COMPUTE = "compute"

#: The phases of the latency pass. A predictor's first query is ``first``, and its other queries are ``warm``.
FIRST, WARM = "first", "warm"


class Timing(Record, frozen=True, kw_only=True):
    """The time of one stage in one query, in the phase ``first`` or ``warm``."""

    predictor: str
    question_id: str
    phase: str
    stage: str
    ms: float


def write_timings(path: Path, timings: Sequence[Timing]) -> None:
    """Write ``timings.csv`` with one row per query and stage."""
    write_text(path, timings_csv(timings))


def timings_csv(timings: Sequence[Timing]) -> str:
    """Return the text of ``timings.csv``."""
    lines = (
        (timing.predictor, timing.question_id, timing.phase, timing.stage, f"{timing.ms:.4f}")
        for timing in timings
    )
    return table_csv(Timing.__struct_fields__, lines)


def read_timings(path: Path) -> list[Timing]:
    """Return the timings in ``timings.csv``, or an empty list for a run without a latency pass."""
    if not path.exists():
        return []
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            return [_timing(row) for row in csv.DictReader(stream)]
    except (TypeError, ValueError, KeyError, AttributeError, csv.Error) as error:
        raise RunError(f"{path} is damaged: {error}", remedy="run the latency pass again") from None


def _timing(row: dict[str, str]) -> Timing:
    milliseconds = float(row["ms"])
    if not 0 <= milliseconds < 1e12:
        raise ValueError(f"{row['ms']} is not a time in milliseconds")
    if row["phase"] not in (FIRST, WARM):
        raise ValueError(f"the phase is {row['phase']!r}, but must be {FIRST!r} or {WARM!r}")
    return Timing(
        predictor=text_of(row["predictor"]),
        question_id=text_of(row["question_id"]),
        phase=row["phase"],
        stage=text_of(row["stage"]),
        ms=milliseconds,
    )
