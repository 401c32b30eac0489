"""What ``benchmark`` and ``run`` ask for, checked."""

from __future__ import annotations

from pathlib import Path

from branchrank.records import Record
from branchrank.settings import Resolved
from branchrank.systems.spec import System


class Lineup(Record, frozen=True, kw_only=True):
    """Systems that run on one index, and the settings of that index."""

    index: str
    settings: Resolved
    systems: tuple[System, ...]


class Job(Record, frozen=True, kw_only=True):
    """One benchmark to run. ``settings`` are those of the run; a lineup may have another index."""

    data_dir: Path
    questions_file: Path | None
    reports: Path
    experiment: str
    split: str
    command: str
    settings: Resolved
    lineups: tuple[Lineup, ...]
    classes: tuple[str, ...] = ()
    endpoint: str = ""
    endpoint_predictor: str = ""
    repeats: int = 1
    fresh: bool = False
    take_up: Path | None = None
    dry_run: bool = False
    quiet: bool = False
