"""What is done while the disk fails: commands, and what they must have made once they are repeated."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from support.commands import QUESTIONS, write_lines
from support.small_corpus import PAGES
from support.worlds import PAGES as WORLD_PAGES

Outcome = Mapping[str, str]
INDEX = ("--data-dir", "data", "--embedder", "fake:16", "--quiet")
#: The files of a run that hold no time.
REPEATED = ("rows.jsonl", "questions.csv", "questions.jsonl", "gold.jsonl", "hard.jsonl")
#: The files of an index generation that differ from build to build.
TIMED = ("build.json", "manifest.json", "stamps.json")


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A command in a folder that ``before`` commands made; ``outcome`` reads what it must have made.

    After a fault the same command is given again; ``resume`` instead, where the fault left a run to resume.
    ``{run}`` in the words is the folder of the last run. Where each place is tried once, only those are that
    match ``places``: other scenarios try the rest. ``server`` says that ``{server}`` in the words is the
    URL of a scripted LLM. ``typed`` makes the standard input. ``trials`` is the
    number of trials of the long form.
    """

    name: str
    words: tuple[str, ...]
    outcome: Callable[[Path], Outcome]
    before: tuple[tuple[str, ...], ...] = ()
    resume: tuple[str, ...] = ()
    server: bool = False
    typed: Callable[[Path], str] = lambda folder: ""
    places: str = ""
    trials: int = 400


def last_run(folder: Path) -> Path | None:
    """The folder of the last run below ``folder``, if a run was begun."""
    runs = sorted(path.parent for path in (folder / "reports").glob("*/run.json"))
    return runs[-1] if runs else None


def placed(words: Sequence[str], folder: Path) -> list[str]:
    """The words with the last run's folder for ``{run}``."""
    run = last_run(folder)
    return [word.replace("{run}", str(run.relative_to(folder) if run else "")) for word in words]


def make_folder(folder: Path) -> None:
    """The documents and questions that every scenario starts from."""
    for source, text in WORLD_PAGES.items():
        path = folder / "docs" / source
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for source, text in PAGES.items():
        path = folder / "more" / source
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    write_lines(folder / "asked.jsonl", QUESTIONS)


def digests(folder: Path, names: Callable[[str], bool]) -> Outcome:
    """The SHA-256 of the files below ``folder`` whose relative names are asked for."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and names(name):
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def index_outcome(folder: Path) -> Outcome:
    """The files of the index that is in force, its settings, and what is left lying about."""
    (index,) = (folder / "data" / "indexes").iterdir()
    current = (index / "current").resolve()
    found = dict(digests(current, lambda name: name not in TIMED and not name.startswith("chroma/")))
    config = (folder / "data" / "branchrank.toml").read_text(encoding="utf-8")
    links = {
        name: str(Path(folder, "data", name).resolve().relative_to(current))
        for name in ("chunks.jsonl", "pageindex/nodes.jsonl")
    }
    return found | links | {"branchrank.toml": config} | left_over(folder)


def run_outcome(folder: Path) -> Outcome:
    """The files of the last run that hold no time, and what is left lying about.

    A folder without ``run.json`` is where a run was about to begin; no command takes it for a run.
    """
    runs = sorted(path.parent for path in (folder / "reports").glob("*/run.json"))
    records = [json.loads((run / "run.json").read_bytes()) for run in runs]
    whole = [run for run, record in zip(runs, records, strict=True) if record["status"] == "finished"]
    names = {" ".join(sorted(path.name for path in run.iterdir())) for run in whole}
    found = dict(digests(runs[-1], lambda name: name in REPEATED))
    about = {"status": records[-1]["status"], "files of finished runs": " / ".join(sorted(names))}
    return found | about | left_over(folder)


def llm_outcome(folder: Path) -> Outcome:
    """As :func:`run_outcome`, without how long the server took, and the calls of the cassette."""
    run = last_run(folder)
    assert run is not None
    told = re.sub(rb'"latency_ms":[0-9.e-]+', b"", (run / "rows.jsonl").read_bytes())
    with contextlib.closing(sqlite3.connect(folder / "calls.sqlite")) as cassette:
        calls = {
            f"call {key[:12]}": re.sub(r'"latency_ms":[0-9.e-]+', "", f"{request}\n{recorded}")
            for key, request, recorded in cassette.execute("SELECT key, request, recorded FROM calls")
        }
    return {**run_outcome(folder), "rows.jsonl": hashlib.sha256(told).hexdigest(), **calls}


def report_outcome(folder: Path) -> Outcome:
    """Every file of the run."""
    return digests(folder / "reports", lambda name: True) | left_over(folder)


def left_over(folder: Path) -> Outcome:
    """Temporary files in a workspace or in a run that nobody will remove.

    One beside ``branchrank.toml`` may stay: no command removes it.
    """
    found = {}
    for path in (*folder.glob("data/**/*.tmp"), *folder.glob("reports/**/*.tmp")):
        begun = path.parent.parent.name != "reports" or (path.parent / "run.json").exists()
        if begun and not path.name.startswith(".branchrank.toml."):
            found[f"left over: {path.relative_to(folder)}"] = ""
    return found


def answers(folder: Path) -> str:
    """The answers to the passages that have no label yet."""
    file = folder / "data" / "gold.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    done = sum(len(json.loads(line).get("labels", ())) for line in lines)
    return "".join(f"{'ynp'[number * number % 3]}\n" for number in range(done, 99))


def file_outcome(*names: str) -> Callable[[Path], Outcome]:
    """The digests of some files."""
    return lambda folder: digests(folder, lambda name: name in names) | left_over(folder)


def _index(*words: str) -> tuple[str, ...]:
    return ("index", "docs", *INDEX, *words)


_EXACT = _index("--vector-store", "exact")
_RUN = ("benchmark", "--data-dir", "data", "--questions", "asked.jsonl", "--reports", "reports", "--quiet")
_SMALL = ("--latency-sample", "1", "--trace-depth", "2")
_LLM = (
    "--hybrid-base-url",
    "{server}",
    "--hybrid-model",
    "m",
    "--llm-retries",
    "0",
    "--llm-concurrency",
    "1",
)

SCENARIOS = (
    Scenario(name="first index", words=_EXACT, outcome=index_outcome, trials=1000),
    Scenario(
        name="index of changed documents",
        before=(("index", "more", *INDEX, "--vector-store", "exact"),),
        words=_EXACT,
        outcome=index_outcome,
        places=r"current|cache|toml|rename|unlink|rmdir",
        trials=1000,
    ),
    Scenario(
        name="token vectors",
        before=(_EXACT,),
        words=_index("--vector-store", "exact", "--token-vectors", "int8"),
        outcome=index_outcome,
        places=r"/tokens|current|manifest",
        trials=800,
    ),
    Scenario(
        name="benchmark",
        before=(_EXACT,),
        words=(*_RUN, "--predictor", "local", "--predictor", "sqlite", *_SMALL),
        outcome=run_outcome,
        # The first index and the report try the others.
        places=r"^(?!.*(stamps|embeddings|comparisons|questions\.csv|llm_calls|hard))",
    ),
    Scenario(
        name="benchmark with an LLM",
        before=(_EXACT,),
        words=(*_RUN, "--predictor", "hybrid", *_LLM, "--llm-record", "calls.sqlite", *_SMALL),
        outcome=llm_outcome,
        server=True,
        places=r"calls\.sqlite|decisions\.sqlite",
        trials=500,
    ),
    Scenario(
        name="resumed benchmark",
        before=(_EXACT,),
        words=(*_RUN, "--predictor", "local", "--predictor", "pageindex", "--pageindex-no-llm", *_SMALL),
        resume=("resume", "{run}", "--quiet"),
        outcome=run_outcome,
        places=r"rows|timings|run\.json",
    ),
    Scenario(
        name="report",
        before=(_EXACT, (*_RUN, "--predictor", "local", "--predictor", "sqlite", *_SMALL)),
        words=("report", "{run}"),
        outcome=report_outcome,
        trials=400,
    ),
    Scenario(
        name="init",
        words=("init", "docs", "--data-dir", "data"),
        outcome=file_outcome("data/branchrank.toml", "experiment.toml", "questions.jsonl"),
    ),
    Scenario(
        name="labels",
        before=(_EXACT, (*_RUN, "--predictor", "local", "--predictor", "sqlite", *_SMALL)),
        words=("questions", "label", "{run}", "--output", "data/gold.jsonl", "--annotator", "ada"),
        typed=answers,
        outcome=file_outcome("data/gold.jsonl"),
        trials=100,
    ),
)
