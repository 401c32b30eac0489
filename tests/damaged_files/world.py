"""A world made by the commands people use: documents, a workspace, runs, a cassette, a folder to adopt."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from support import scripted_llm
from support.artifacts import paragraphs, write_objects
from support.commands import QUESTIONS, invoke, write_lines
from support.scripted_llm import ScriptedLLM
from support.worlds import PAGES, write_pages

CANARY = "canary-77e0"
FAKE = ("--embedder", "fake:16", "--vector-store", "exact", "--quiet")
DATA = ("--data-dir", "data")
RUN = ("--questions", "asked.jsonl", "--quiet", "--latency-sample", 2, "--trace-depth", 3)
#: ``hybrid`` reads its LLM's replies from the cassette.
REPLAY = (
    *("--llm-replay", "calls.sqlite"),
    *("--hybrid-base-url", "http://127.0.0.1:9/v1", "--hybrid-model", "m"),
)


@dataclass(frozen=True)
class Artifact:
    """Files below ``folder`` (or one file) and the commands that read them.

    ``protected`` says that the files' digests are stored beside them, so that a command that answers must
    answer as if nothing had happened.
    """

    name: str
    folder: str
    commands: tuple[tuple[object, ...], ...]
    protected: bool = False


SEARCH = ("retrieve", *DATA, "--json", "--quiet", "remove stains")
ARTIFACTS = (
    Artifact(
        "index",
        "data/indexes",
        (
            SEARCH,
            ("search", *DATA, "--json", "--quiet", "--mode", "keyword", "remove stains"),
            ("pageindex", "check", *DATA),
        ),
        protected=True,
    ),
    Artifact("workspace", "data", (SEARCH, ("questions", "check", *DATA), ("index", *DATA, "--quiet"))),
    Artifact(
        "run",
        "reports/finished",
        (
            ("verify", "reports/finished"),
            ("show", "reports/finished"),
            ("compare", "reports/other", "reports/finished"),
            ("compare", "reports/finished"),
            ("report", "reports/finished"),
            ("explain", "reports/finished", "temperature"),
            ("export-trec", "reports/finished", "--output", "trec"),
            ("list", "--reports", "reports"),
        ),
    ),
    Artifact(
        "compact run",
        "reports/compact/rows.jsonl.zst",
        (
            ("verify", "reports/compact"),
            ("compare", "reports/other", "reports/compact"),
            ("report", "reports/compact"),
            ("explain", "reports/compact", "temperature"),
            ("export-trec", "reports/compact", "--output", "trec"),
        ),
    ),
    Artifact("unfinished run", "reports/unfinished", (("resume", "reports/unfinished", "--quiet"),)),
    Artifact(
        "cassette",
        "calls.sqlite",
        (("benchmark", *DATA, *RUN, "--reports", "again", "--predictor", "hybrid", *REPLAY),),
    ),
    Artifact(
        "folder to adopt",
        "theirs",
        (("adopt", "theirs", "--data-dir", "mine", "--corpus", "docs", "--embedder", "fake:16", "--quiet"),),
    ),
)


def make_world(folder: Path) -> None:
    """Make everything below ``folder``, which must be the working directory."""
    write_pages(folder / "docs")
    write_lines(folder / "asked.jsonl", QUESTIONS)
    _outside(folder)
    _done("index", "docs", *DATA, *FAKE)
    write_lines(folder / "data" / "benchmark" / "questions.jsonl", QUESTIONS)
    with ScriptedLLM(scripted_llm.first_shown, models=("m",)) as server:
        url = ("--hybrid-base-url", server.base_url, "--hybrid-model", "m")
        words = ("--predictor", "local", "--predictor", "hybrid", *url)
        _done("benchmark", *DATA, *RUN, "--reports", "made", *words, "--llm-record", "calls.sqlite")
    [made] = Path("made").iterdir()
    (folder / "reports").mkdir()
    made.rename(folder / "reports" / "finished")
    for name, rows in (("other", "plain"), ("compact", "compact")):
        words = ("--predictor", "local", "--predictor", "sqlite", "--rows", rows)
        _done("benchmark", *DATA, *RUN, "--reports", "made", *words)
        [made] = Path("made").iterdir()
        made.rename(folder / "reports" / name)
    Path("made").rmdir()
    _unfinished(folder / "reports" / "other", folder / "reports" / "unfinished")
    _theirs(folder)
    for command in ("search", "retrieve"):
        _done(command, *DATA, "--quiet", "tea")


def _done(*words: object) -> None:
    result = invoke(*words)
    assert result.exit_code == 0, result.output


def _outside(folder: Path) -> None:
    outside = folder.parent / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text(f"{CANARY}\n", encoding="utf-8")


def _unfinished(finished: Path, target: Path) -> None:
    """What a run that was killed after three rows leaves."""
    target.mkdir()
    for name in ("questions.jsonl", "rows.jsonl"):
        lines = (finished / name).read_bytes().splitlines(keepends=True)
        (target / name).write_bytes(b"".join(lines[:3] if name == "rows.jsonl" else lines))
    record = json.loads((finished / "run.json").read_bytes())
    record |= {"status": "running", "digests": {}}
    (target / "run.json").write_text(json.dumps(record), encoding="utf-8")


def _theirs(folder: Path) -> None:
    """Chunks and nodes of another program."""
    chunks = [
        {**each, "line_start": each["lines"][0], "line_end": each["lines"][1], "metadata": {"page": 1}}
        for each in paragraphs(PAGES)
    ]
    write_objects(folder / "theirs" / "chunks.jsonl", chunks)
    (folder / "theirs" / "pageindex").mkdir()
    shutil.copyfile(
        folder / "data" / "pageindex" / "nodes.jsonl", folder / "theirs" / "pageindex" / "nodes.jsonl"
    )


def files_of(artifact: Artifact, folder: Path) -> list[Path]:
    """The regular files of an artifact, relative to the world; those of the index only as the index's."""
    root = folder / artifact.folder
    found = [root] if root.is_file() else sorted(path for path in root.rglob("*") if _is_file(path))
    names = [path.relative_to(folder) for path in found]
    if artifact.name == "workspace":
        names = [name for name in names if name.parts[1] != "indexes"]
    return names


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()
