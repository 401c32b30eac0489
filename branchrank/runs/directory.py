"""A run's directory, ``reports/<UTC time>-<experiment>-<seed>/``, and its record ``run.json``."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

import msgspec

from branchrank.core.errors import RunError, UsageError, nearest
from branchrank.core.io.files import (
    NOT_JSON,
    digest_file,
    digest_of,
    open_beneath,
    read_beneath,
    remove_temporary,
    storage_errors,
    write_bytes,
)
from branchrank.core.io.printable import safe
from branchrank.core.records import Count, Record
from branchrank.core.settings import DEFAULT_REPORTS, DEMO_FOLDER, BenchmarkSettings, Bm25Settings
from branchrank.core.spec import System
from branchrank.index.embedders.protocol import EmbedderIdentity
from branchrank.index.manifest import DistanceCalibration
from branchrank.runs.rows import MAX_REPEATS, is_under_way
from branchrank.search.llm.ledger import PriceTable
from branchrank.search.systems.query import read_filters

ROWS = "rows.jsonl"
COMPACT_ROWS = "rows.jsonl.zst"
QUESTIONS_CSV = "questions.csv"
SUMMARY_CSV = "summary.csv"
CALLS_CSV = "llm_calls.csv"
COMPARISONS_CSV = "comparisons.csv"
TIMINGS_CSV = "timings.csv"
REPORT_MD = "report.md"
REPORT_HTML = "report.html"
RUN_JSON = "run.json"
HARD_SET = "hard.jsonl"
QUESTIONS = "questions.jsonl"
GOLD = "gold.jsonl"
PLOTS = "plots"
#: The most bytes of ``run.json``, a table or a report that are read at once.
MOST_BYTES = 1 << 28

#: The folders in which a run is found by its name, and the word for the newest run.
RUN_FOLDERS = (DEFAULT_REPORTS, DEMO_FOLDER / DEFAULT_REPORTS)
LATEST = "latest"

#: Settings sections that can change a row and are not recorded with a predictor or an index.
ROW_SETTINGS = ("bm25", "grep", "qdrant", "retrieval", "embedding")

#: The measurement files other than the rows. All other files of a run are computed from the rows and these
#: files.
MEASURED = (TIMINGS_CSV, QUESTIONS, GOLD)


#: The prefixes of the origins of a TREC run file and of an agent's command.
TREC, COMMAND = "trec:", "command:"
DEFAULT_INDEX = "default"


class PredictorRecord(Record, frozen=True, kw_only=True):
    """The definition of a predictor, recorded in ``run.json`` so that the run can be repeated.

    ``system`` contains all settings of the predictor's system. For a class, an endpoint or a command,
    ``system`` is ``None``, ``origin`` is its name, and ``index`` is the index whose tools it gets, or empty.
    For a system whose settings ``branchrank tune`` chose, ``origin`` is ``tuned``, and ``tuned_on`` is the
    digest of all questions in the file that it was tuned on.
    """

    name: str
    llm: str
    system: System | None = None
    index: str = DEFAULT_INDEX
    repeats: Annotated[int, msgspec.Meta(ge=1, le=MAX_REPEATS)] = 1
    origin: str = ""
    #: The digest of the module of a class, of a program, or of a TREC run.
    source_digest: str = ""
    tuned_on: str = ""

    @property
    def is_timed(self) -> bool:
        """Whether the latency pass asks the predictor. A command would be paid twice."""
        return not self.origin.startswith((TREC, COMMAND))


class IndexFacts(Record, frozen=True, kw_only=True):
    """The index properties that a report shows.

    ``recall`` is the share (0 to 1) of the ``recall_depth`` nearest chunks that an approximate vector store
    found, averaged over the run's questions. Without an approximate vector search, ``recall`` is ``None`` and
    ``recall_depth`` is 0. If the recall could not be measured because of an error, ``recall`` is ``None`` but
    ``recall_depth`` is set. ``own_files`` is true if the user provided the chunks or the nodes of the index
    as a file. ``distance`` contains the distance threshold for branches with ``threshold = "calibrated"``.
    ``token_vectors`` is the number format of the index's token vectors, ``none`` if it has none, and empty in
    older runs. ``documents`` is 0 in older runs. ``chunk_tokens`` is the setting of this name, or what the
    embedder reads if that is less, and 0 in older runs. ``chunks_digest`` is the digest of the chunks, and
    empty in older runs. ``scripts`` and ``languages`` are those of the manifest, and empty in older runs.
    ``identity`` is ``None`` in older runs.
    """

    name: str
    generation: str
    digest: str
    embedder: str
    model_revision: str
    dimension: int
    vector_store: str
    chunks: int
    nodes: int
    build_seconds: float
    bytes: int
    recall: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    recall_depth: int = 0
    distance: DistanceCalibration = DistanceCalibration()
    own_files: bool = False
    token_vectors: str = ""
    documents: int = 0
    chunk_tokens: int = 0
    chunks_digest: str = ""
    scripts: dict[str, float] = msgspec.field(default_factory=dict)
    languages: tuple[str, ...] = ()
    identity: EmbedderIdentity | None = None


class Provenance(Record, frozen=True, kw_only=True):
    """The code and the machine that a run used."""

    branchrank: str
    git_commit: str
    git_dirty: bool | None
    python: str
    packages: dict[str, str]
    system: str
    machine: str
    processor: str
    cores: int
    memory_bytes: int


class SealRecord(Record, frozen=True, kw_only=True):
    """The path and the digest of the file with a run's sealed plan (:mod:`branchrank.runs.bench.record`)."""

    file: str
    digest: str


class RunRecord(Record, frozen=True, kw_only=True):
    """The content of ``run.json``: everything needed to repeat and describe a run.

    ``digests`` maps the names of the measurement files (:attr:`truth`) and ``run.json`` to digests. The
    digest of ``run.json`` covers all values in the file except for the digest itself.
    """

    schema_version: Literal[2] = 2
    experiment: str
    #: The name that the user gave to this run, which is text for people and never a path.
    name: str = ""
    status: Literal["running", "finished"] = "running"
    created: str
    command: str
    data_dir: str = "data"
    seed: Annotated[int, msgspec.Meta(ge=0)]
    split: str = ""
    filters: tuple[str, ...] = ()
    corpus: str
    corpus_digest: str
    corpus_exclude: tuple[str, ...] = ()
    questions_file: str
    questions_digest: str
    #: The digest of all questions in the file, if the run asked a sample of them or moved their gold.
    sampled_from: str = ""
    question_ids: tuple[str, ...]
    top_k: Annotated[int, msgspec.Meta(ge=1, le=100_000)]
    mode: Literal["strict", "relaxed", "both"]
    predictors: tuple[PredictorRecord, ...]
    indexes: tuple[IndexFacts, ...] = ()
    #: The ``[index]`` settings of each index, by the index's name.
    index_settings: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    settings: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    origins: dict[str, str] = msgspec.field(default_factory=dict)
    provenance: Provenance | None = None
    computed: dict[str, int] = msgspec.field(default_factory=dict)
    reused: dict[str, int] = msgspec.field(default_factory=dict)
    failures: int = 0
    fallbacks: int = 0
    warnings: tuple[str, ...] = ()
    #: What differs in the LLM calls from the settings: base URLs, and parameters that a server refuses.
    llm_notes: tuple[str, ...] = ()
    #: The members of a group of predictors that can't run on the index, with the reasons.
    left_out: tuple[str, ...] = ()
    prices: PriceTable | None = None
    seal: SealRecord | None = None
    #: The number of rows written before an interruption. ``computed`` and ``reused`` do not include the
    #: results of these rows.
    resumed_rows: Count = 0
    digests: dict[str, str] = msgspec.field(default_factory=dict)

    @property
    def tuned_here(self) -> tuple[str, ...]:
        """The names of the predictors that were tuned on the file of the run's questions."""
        files = {self.questions_digest, self.sampled_from}
        return tuple(each.name for each in self.predictors if each.tuned_on and each.tuned_on in files)

    @property
    def rows_file(self) -> str:
        """The name of the file that contains the rows, plain or compressed."""
        return COMPACT_ROWS if self.settings.get("benchmark", {}).get("rows") == "compact" else ROWS

    @property
    def truth(self) -> tuple[str, ...]:
        """The files from which all other files in the run's directory are computed."""
        return (self.rows_file, *MEASURED)

    @property
    def plan(self) -> dict[str, object]:
        """The values that must not change when a run is resumed.

        A change to a value in the plan could change a row, a timing or the run's description. The plan
        includes the cassette, because resuming a run with another cassette would split the run's LLM calls
        across two cassettes.
        """
        llm = self.settings.get("llm", {})
        benchmark = self.settings.get("benchmark", {})
        return {
            **self.sealed_plan,
            "--name": self.name,
            "--predictor-timeout": benchmark.get("predictor_timeout"),
            "--reanchor": benchmark.get("reanchor"),
            "the index": [(index.name, index.digest, index.vector_store) for index in self.indexes],
            "--llm-record": llm.get("record"),
            "--llm-replay": llm.get("replay"),
        }

    @property
    def sealed_plan(self) -> dict[str, object]:
        """The part of the plan that a seal contains, by the names that it stores and messages show.

        A seal has the settings of the indexes in place of their digests. It has no cassette, so that a
        recorded run and its replay match the same seal.
        """
        llm = self.settings.get("llm", {})
        benchmark = self.settings.get("benchmark", {})
        return {
            "--experiment": self.experiment,
            "--split": self.split,
            "--filter": self.filters,
            "the corpus": self.corpus_digest,
            "the questions": (self.questions_digest, self.question_ids),
            "--top-k": self.top_k,
            "the predictors": self.predictors,
            "--sample-seed": self.seed,
            **{f"the settings of {name}": self.settings.get(name) for name in ROW_SETTINGS},
            "--trace-depth": benchmark.get("trace_depth"),
            "--latency-sample": benchmark.get("latency_sample"),
            "--latency-repeats": benchmark.get("latency_repeats", 1),
            "--question-text": benchmark.get("question_text"),
            "--rows": self.rows_file,
            "--llm-completion-tokens": llm.get("completion_tokens"),
        }


def clear_temporary(directory: Path) -> None:
    """Remove temporary files that a killed command left in a run.

    Call this function only while no process is writing to the run.
    """
    for folder in (directory, directory / PLOTS):
        remove_temporary(folder)


def new_directory(reports: Path, experiment: str, seed: int) -> Path:
    """Create the directory of a new run, with a suffix such as ``-2`` if the name is already taken."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", experiment).strip("-.") or "run"
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    with storage_errors(reports):
        reports.mkdir(parents=True, exist_ok=True)
        for attempt in count(1):
            suffix = "" if attempt == 1 else f"-{attempt}"
            directory = reports / f"{stamp}-{name}-{seed}{suffix}"
            try:
                directory.mkdir()
                break
            except FileExistsError:
                continue
    return directory


def sealed(directory: Path, run: RunRecord, written: Mapping[str, str] = MappingProxyType({})) -> RunRecord:
    """Return a copy of the record that contains digests of the record and of the files in ``directory``.

    ``written`` contains the digests of the files that were just written.
    """
    digests = {
        name: written.get(name) or digest_file(directory / name)
        for name in run.truth
        if name in written or (directory / name).exists()
    }
    own = own_digest(msgspec.json.encode(msgspec.structs.replace(run, digests=digests)))
    return msgspec.structs.replace(run, digests={**digests, RUN_JSON: own})


def own_digest(content: bytes) -> str:
    """Return the digest of all values in a ``run.json``, except for the file's own stored digest."""
    document = msgspec.json.decode(content)
    document["digests"].pop(RUN_JSON, None)
    return digest_of(document)


def changed_files(directory: Path, run: RunRecord) -> Iterator[tuple[str, str]]:
    """Yield each file of a finished run that is missing or has another digest, and which of both."""
    changed = "has changed since the run: its digest differs from the recorded digest"
    if own_digest((directory / RUN_JSON).read_bytes()) != run.digests.get(RUN_JSON):
        yield RUN_JSON, changed
    for name in run.truth:
        if not (directory / name).exists():
            yield name, "is missing"
        elif digest_file(directory / name) != run.digests.get(name):
            yield name, changed


def write_run(directory: Path, run: RunRecord) -> None:
    """Write ``run.json`` atomically."""
    write_bytes(directory / RUN_JSON, msgspec.json.format(msgspec.json.encode(run), indent=2) + b"\n")


def find_run(run: Path, status: str = "finished") -> Path:
    """Return the directory of a run.

    ``run`` is its path, the start of its path or of its name in :data:`RUN_FOLDERS` that no other run has, or
    ``latest`` for the newest run with this status. Other paths are returned unchanged.

    Raises :class:`UsageError` if several runs start with ``run``.
    """
    if os.path.exists(run):
        return run
    found = _by_time(RUN_FOLDERS if run == Path(run.name) else [run.parent])
    if run == Path(LATEST):
        return next((path for path in reversed(found) if list_run(path).status == status), run)
    begun = [path for path in found if path.name.startswith(run.name)]
    if len(begun) > 1:
        names = ", ".join(path.name for path in begun[:5])
        raise UsageError(
            f"{len(begun)} runs start with {run.name!r}: {names}", remedy="give more of the name"
        )
    return begun[0] if begun else run


def read_run(directory: Path) -> RunRecord:
    """Read ``run.json``. Raises :class:`RunError` if the directory does not contain a readable run."""
    path = directory / RUN_JSON
    try:
        content = read_beneath(directory, RUN_JSON, MOST_BYTES)
        run = msgspec.json.decode(content, type=RunRecord)
        for part in (BenchmarkSettings, Bm25Settings):
            try:
                msgspec.convert(run.settings.get(part.section, {}), part)
            except msgspec.ValidationError as error:
                raise msgspec.ValidationError(f"settings.{part.section}: {error}") from None
        read_filters(run.filters)
        return run
    except UsageError as error:
        raise RunError(f"{path}: {error.message}", remedy="run the benchmark again") from None
    except OSError as error:
        near = nearest(directory.name, [path.parent.name for path in directory.parent.glob(f"*/{RUN_JSON}")])
        remedy = f"did you mean `{directory.parent / near}`?" if near else "`branchrank list`"
        if near == directory.name:
            remedy = f"restore {path}"
        raise RunError(f"no run in {directory}: {error.strerror}", remedy=remedy) from error
    except NOT_JSON as error:
        raise RunError(f"{path}: {error}", remedy="run the benchmark again") from None


def check_files(directory: Path) -> None:
    """Raise :class:`RunError` if a file in :attr:`RunRecord.truth` is a link, a folder or a pipe."""
    for name in (ROWS, COMPACT_ROWS, *MEASURED):
        try:
            open_beneath(directory, name).close()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise RunError(
                f"cannot read {directory / name}: {error.strerror}", remedy="restore the file"
            ) from None


def read_unfinished(directory: Path) -> RunRecord:
    """Read the record of an interrupted run.

    Raises :class:`RunError` if the run can't be read or is finished. A link or special file in the run's
    directory is also an error, since a resumed run could follow a link and write outside the directory.
    """
    foreign = foreign_entry(directory)
    if foreign is not None:
        raise RunError(f"{foreign} is not a regular file or folder", remedy=f"remove {foreign}")
    run = read_run(directory)
    if run.status == "finished":
        raise RunError(f"{directory} is finished", remedy=f"branchrank show {directory}")
    return run


def foreign_entry(directory: Path) -> Path | None:
    """Return the first entry in a run's directory that is not a regular file or folder, or ``None``."""
    for folder, folders, files in os.walk(directory):
        for name in sorted((*folders, *files)):
            mode = os.lstat(os.path.join(folder, name)).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                return Path(folder, name)
    return None


def check_resumable(directory: Path, plan: dict[str, object]) -> Path:
    """Return the directory of an interrupted run if it can be resumed with this plan.

    Raises :class:`RunError` if the run is finished, or if the plan has changed since the run started.
    """
    run = read_unfinished(directory)
    changed = [name for name, value in run.plan.items() if plan.get(name) != value]
    if changed:
        raise RunError(
            f"{directory} can't be resumed: {', '.join(changed)} changed since the run started",
            remedy="undo the change, or start a new run",
        )
    return directory


def latest_unfinished(reports: Path, plan: dict[str, object]) -> Path | None:
    """Return the newest interrupted run in ``reports`` with the given plan, or ``None``.

    Runs that another process is still writing are skipped.
    """
    for path in sorted(reports.glob(f"*/{RUN_JSON}"), reverse=True):
        try:
            run = read_run(path.parent)
        except RunError:
            continue
        if run.status != "running" or run.plan != plan or foreign_entry(path.parent) is not None:
            continue
        if not is_under_way(path.parent / run.rows_file):
            return path.parent
    return None


class ListedRun(Record, frozen=True, kw_only=True):
    """A run's directory, name, status, predictors and number of questions.

    The status is ``running``, ``interrupted`` (no process is writing the run) or ``finished``. If the run
    can't be read, ``problem`` is the reason and all fields except ``directory`` are empty.
    ``str()`` returns one line of text.
    """

    directory: Path
    name: str = ""
    status: str = ""
    questions: int = 0
    predictors: tuple[str, ...] = ()
    problem: str = ""

    def __str__(self) -> str:
        if self.problem:
            return safe(f"{self.directory}  unreadable: {self.problem}")
        names = ", ".join(self.predictors)
        name = f"  {self.name}" if self.name else ""
        return safe(f"{self.directory}{name}  {self.status}  {self.questions} questions  {names}")


def list_runs(reports: str | Path = "reports", *others: str | Path) -> list[ListedRun]:
    """List the runs in the folder ``reports`` and in ``others``, oldest first.

    A run that can't be read is listed with its error.

    >>> list_runs("no/such/folder")
    []
    """
    return [list_run(path) for path in _by_time(map(Path, (reports, *others)))]


def _by_time(folders: Iterable[Path]) -> list[Path]:
    """Return the directories of the runs in these folders, oldest first."""
    records = (path for each in folders for path in each.glob(f"*/{RUN_JSON}"))
    # The names of two runs in the same second don't tell which one is newer.
    by_time = sorted(records, key=lambda path: (path.parent.name[:16], path.stat().st_mtime_ns))
    return [path.parent for path in by_time]


def list_run(directory: Path) -> ListedRun:
    """Return the entry of one run, with its error if the run can't be read."""
    try:
        run = read_run(directory)
        rows = directory / run.rows_file
        stopped = run.status == "running" and not (rows.is_file() and is_under_way(rows))
    except (RunError, OSError) as error:
        return ListedRun(directory=directory, problem=getattr(error, "message", str(error)))
    return ListedRun(
        directory=directory,
        name=run.name,
        status="interrupted" if stopped else run.status,
        questions=len(run.question_ids),
        predictors=tuple(each.name for each in run.predictors),
    )
