"""The runs of the local page: a list with scores and verdicts, a trend per experiment, and two side by side.

1. The list is made from ``run.json``, ``summary.csv`` and ``comparisons.csv`` alone. A run is read again only
   after one of these files has changed.
2. A run that can't be read is listed with the reason. A run without tables (interrupted or in progress) is
   listed without scores.
3. A trend is a system's primary measure, with its interval, over the finished runs of one experiment. A point
   belongs to the same stretch as the point before it if the runs have the same questions and measure.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from io import StringIO
from pathlib import Path
from threading import Lock

import msgspec

from branchrank.core.errors import BranchRankError, RunError, first_line
from branchrank.core.io.files import read_beneath
from branchrank.core.io.printable import safe
from branchrank.core.io.table import text_of
from branchrank.core.records import Record
from branchrank.core.settings import BenchmarkSettings
from branchrank.runs import directory as names
from branchrank.runs.comparisons import primary_measure
from branchrank.runs.directory import ListedRun, list_run, read_run
from branchrank.runs.rows import UntracedRow
from branchrank.runs.run_comparison import Pair, changed_settings, tested_pairs
from branchrank.runs.run_data import RunData
from branchrank.runs.scores import Estimate
from branchrank.runs.words import gap_with_interval, interval, milliseconds, score, sentence, verdict_words
from branchrank.scoring.comparison import CompareOptions, Comparison

#: The files that contain a run's report, with their media types. The first one that exists is linked.
REPORTS = {names.REPORT_HTML: "text/html", names.REPORT_MD: "text/plain"}


class SystemScore(Record, frozen=True, kw_only=True):
    """A system's primary measure in one run. ``text`` is the value with its interval."""

    system: str
    value: float | None
    low: float | None
    high: float | None
    text: str


class Verdict(Record, frozen=True, kw_only=True):
    """The verdict on a pair of systems. ``gap`` is the difference with its interval."""

    candidate: str
    baseline: str
    verdict: str
    words: str
    gap: str


class RunSummary(Record, frozen=True, kw_only=True):
    """A run in the list. ``key`` identifies the run in the page's requests.

    ``report`` is the file name of the run's report. If the run can't be read, ``problem`` is the reason, and
    only ``key`` and ``folder`` are set besides.
    """

    key: str
    folder: str
    problem: str = ""
    status: str = ""
    created: str = ""
    experiment: str = ""
    name: str = ""
    split: str = ""
    questions: int = 0
    digest: str = ""
    corpus: str = ""
    report: str = ""
    measure: str = ""
    systems: tuple[str, ...] = ()
    scores: tuple[SystemScore, ...] = ()
    verdicts: tuple[Verdict, ...] = ()


class TrendPoint(Record, frozen=True, kw_only=True):
    """A system's score in one run. ``stretch`` changes with the questions and the measure."""

    key: str
    created: str
    stretch: int
    score: SystemScore


class Trend(Record, frozen=True, kw_only=True):
    """The scores of each system over the runs of one experiment, oldest first."""

    experiment: str
    measure: str
    runs: int
    systems: dict[str, tuple[TrendPoint, ...]]


class RunList:
    """The runs below some folders of reports."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = folders
        self._lock = Lock()
        self._known: dict[Path, tuple[object, RunSummary]] = {}

    def directories(self) -> dict[str, Path]:
        """Map the key of each run to its directory. A folder may also be a run's own directory."""
        found: dict[str, Path] = {}
        for folder in self.folders:
            own = [folder / names.RUN_JSON] if (folder / names.RUN_JSON).exists() else []
            for path in own or sorted(folder.glob(f"*/{names.RUN_JSON}")):
                name = path.parent.name
                found[name if name not in found else str(path.parent)] = path.parent
        return found

    def directory(self, key: str) -> Path:
        """Return the directory of a listed run. Raises :class:`RunError` for any other key."""
        found = self.directories().get(key)
        if found is None:
            raise RunError(f"there is no run {key!r} in the list", remedy="reload the list of runs")
        return found

    def summaries(self) -> list[RunSummary]:
        """Return all runs, newest first."""
        with self._lock:
            found = [self._summary(key, directory) for key, directory in self.directories().items()]
        return sorted(found, key=lambda run: (run.created, run.key), reverse=True)

    def _summary(self, key: str, directory: Path) -> RunSummary:
        listed = (names.RUN_JSON, names.SUMMARY_CSV, names.COMPARISONS_CSV, *REPORTS)
        stamp = (key, *stamps(directory, listed))
        before, summary = self._known.get(directory, (None, None))
        if summary is None or before != stamp or summary.status not in ("finished", ""):
            summary = summarize_run(key, directory)
            self._known[directory] = (stamp, summary)
        return summary


def stamps(directory: Path, listed: Iterable[str]) -> tuple[tuple[int, ...], ...]:
    """Return values that change when one of a run's files changes."""
    return tuple(_stamp(directory / name) for name in listed)


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def summarize_run(key: str, directory: Path) -> RunSummary:
    """Return one run's entry in the list, with its problem if it can't be read."""
    folder = safe(str(directory))
    try:
        listed: ListedRun = list_run(directory)
        if listed.problem:
            raise RunError(listed.problem)
        record = read_run(directory)
        settings = msgspec.convert(record.settings.get(BenchmarkSettings.section, {}), BenchmarkSettings)
        measure = primary_measure(settings).name
        scores = tuple(_scores(_table(directory, names.SUMMARY_CSV), measure))
        verdicts = tuple(_verdicts(_table(directory, names.COMPARISONS_CSV), measure))
    except Exception as error:  # whatever one run contains, the others are listed
        problem = error.message if isinstance(error, BranchRankError) else first_line(error)
        return RunSummary(key=key, folder=folder, problem=safe(problem))
    return RunSummary(
        key=key,
        folder=folder,
        status=listed.status,
        report=next((name for name in REPORTS if (directory / name).is_file()), ""),
        measure=measure,
        scores=scores,
        verdicts=verdicts,
        created=safe(record.created),
        experiment=safe(record.experiment),
        name=safe(record.name),
        split=safe(record.split),
        questions=len(record.question_ids),
        digest=record.questions_digest[:16],
        corpus=safe(record.corpus),
        systems=tuple(safe(each.name) for each in record.predictors),
    )


def _table(directory: Path, name: str) -> list[dict[str, str]]:
    """Return the lines of one of a run's CSV files, or an empty list if the run does not have the file."""
    try:
        text = read_beneath(directory, name, names.MOST_BYTES).decode()
    except FileNotFoundError:
        return []
    return [{key: text_of(cell) for key, cell in line.items()} for line in csv.DictReader(StringIO(text))]


def _scores(lines: Iterable[dict[str, str]], measure: str) -> Iterator[SystemScore]:
    for line in lines:
        value, low, high = (
            float(cell) if (cell := line.get(f"{measure}{end}")) else None for end in ("", "_low", "_high")
        )
        found = None if value is None else Estimate(value=value, low=low, high=high, n=0)
        yield SystemScore(
            system=safe(line.get("predictor") or ""),
            value=value,
            low=low,
            high=high,
            text=interval(found, measure),
        )


def _verdicts(lines: Iterable[dict[str, str]], measure: str) -> Iterator[Verdict]:
    for line in lines:
        # The strings are converted to the numbers of the record, and an empty cell is a missing number.
        found = msgspec.convert({name: cell or None for name, cell in line.items()}, Comparison, strict=False)
        if found.measure == measure:
            yield Verdict(
                candidate=safe(found.candidate),
                baseline=safe(found.baseline),
                verdict=found.verdict,
                words=verdict_words(found),
                gap=gap_with_interval(found, measure),
            )


def trends(runs: Iterable[RunSummary]) -> list[Trend]:
    """Return the trend of each experiment that has at least two finished runs, sorted by name."""
    by_experiment: dict[str, list[RunSummary]] = {}
    for run in sorted(runs, key=lambda run: (run.created, run.key)):
        if run.status == "finished" and run.scores:
            by_experiment.setdefault(run.experiment, []).append(run)
    return [_trend(name, found) for name, found in sorted(by_experiment.items()) if len(found) > 1]


def _trend(experiment: str, runs: Sequence[RunSummary]) -> Trend:
    systems: dict[str, list[TrendPoint]] = {}
    stretch = 0
    for place, run in enumerate(runs):
        before = runs[max(place - 1, 0)]
        stretch += (run.digest, run.measure) != (before.digest, before.measure)
        for each in run.scores:
            point = TrendPoint(key=run.key, created=run.created, stretch=stretch, score=each)
            systems.setdefault(each.system, []).append(point)
    measures = ", ".join(dict.fromkeys(run.measure for run in runs))
    shown = {name: tuple(points) for name, points in systems.items()}
    return Trend(experiment=experiment, measure=measures, runs=len(runs), systems=shown)


class ComparedSystem(Record, frozen=True, kw_only=True):
    """A system and its baseline: means, latencies, the verdict, and the ids of the questions won and lost."""

    system: str
    baseline: str
    values: tuple[str, str]
    p50_ms: tuple[str, str]
    gap: str
    verdict: str
    words: str
    sentence: str
    won: tuple[str, ...]
    lost: tuple[str, ...]


class ComparedRuns(Record, frozen=True, kw_only=True):
    """Two runs side by side. ``problem`` is the reason why there are no verdicts."""

    measure: str = ""
    changes: tuple[str, ...] = ()
    systems: tuple[ComparedSystem, ...] = ()
    problem: str = ""


def compared(candidate: Path, baseline: Path, system: str = "", other: str = "") -> ComparedRuns:
    """Compare each system of a run with the system of the same name in a baseline run.

    With ``system``, only this system is compared, with the system ``other`` of the baseline run. The last
    results stay in memory until a file of the runs changes.
    """
    listed = (names.RUN_JSON, names.ROWS, names.COMPACT_ROWS, *names.MEASURED)
    options = CompareOptions(predictor=system, baseline=other)
    return _compared_now(candidate, baseline, options, stamps(candidate, listed), stamps(baseline, listed))


@lru_cache(maxsize=16)
def _compared_now(candidate: Path, baseline: Path, options: CompareOptions, *_stamps: object) -> ComparedRuns:
    try:
        run, before = (RunData.load(directory, UntracedRow) for directory in (candidate, baseline))
        pairs = tested_pairs(run, before, options)
    except BranchRankError as error:
        return ComparedRuns(problem=safe(error.message))
    return ComparedRuns(
        measure=pairs[0].comparison.measure,
        changes=tuple(map(safe, changed_settings(run, before))),
        systems=tuple(_compared(pair) for pair in pairs),
    )


def _compared(pair: Pair) -> ComparedSystem:
    found = pair.comparison
    failed = "no verdict, because every query of one failed"
    return ComparedSystem(
        system=safe(found.candidate),
        baseline=safe(found.baseline),
        values=(score(found.mean_b, found.measure), score(found.mean_a, found.measure)),
        p50_ms=(milliseconds(pair.candidate.latency_p50_ms), milliseconds(pair.baseline.latency_p50_ms)),
        gap=gap_with_interval(found, found.measure),
        verdict="" if pair.failed else found.verdict,
        words=failed if pair.failed else verdict_words(found),
        sentence="" if pair.failed else safe(sentence(found)),
        won=pair.won,
        lost=pair.lost,
    )
