"""Commands as a user gives them: in this process where that is enough, as a program where it is not."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from io import StringIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import click
from click.testing import CliRunner, Result
from support.forked import can_fork, run_forked
from support.worlds import PAGES, make_index

from branchrank.frontends.cli.main import main

ROOT = Path(__file__).parents[2]
NO_LLM = ("--hybrid-no-llm", "--pageindex-no-llm")

#: Questions over the pages of ``support.worlds``; one of each kind of gold, and one without.
QUESTIONS: tuple[dict[str, Any], ...] = (
    {
        "id": "temperature",
        "question": "which temperature for green tea",
        "source_file": "guide/brewing.md",
        "answer_line_start": 7,
        "answer_line_end": 8,
        "kind": "how-to",
    },
    {
        "id": "coffee",
        "question": "=what does 418 mean",
        "source_file": "guide/brewing.md",
        "answer_line_start": 20,
        "answer_line_end": 20,
        "kind": "error",
    },
    {
        "id": "upgrade",
        "question": "how do I upgrade the daemon",
        "source_file": "install.rst",
        "answer_line_start": 14,
        "answer_line_end": 15,
        "reviewed_by": "somebody",
    },
    {
        "id": "stains",
        "question": "remove stains",
        "source_file": "guide/cleaning.md",
        "answer_line_start": 7,
        "answer_line_end": 7,
    },
    {
        "id": "herbal",
        "question": "how long does herbal tea take",
        "source_file": "guide/brewing.md",
        "answer_quote": "steeps for ten minutes",
    },
    {"id": "api", "question": "HTTP API", "source_file": "reference/api.md", "gold_level": "file"},
    {"id": "espresso", "question": "does it make espresso", "answerable": False},
    {
        "id": "memory",
        "question": "memory and socket needed",
        "source_file": "index.rst",
        "answer_line_start": 4,
        "answer_line_end": 4,
        "alternates": [{"source_file": "install.rst", "answer_line_start": 9, "answer_line_end": 9}],
    },
)


def write_lines(path: Path, lines: tuple[dict[str, Any], ...] | list[dict[str, Any]] = QUESTIONS) -> Path:
    """Write a question file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def make_project(folder: Path, pages: dict[str, str] = PAGES) -> Path:
    """``folder`` with ``docs/`` and an indexed workspace ``data/`` that has questions."""
    index, _ = make_index(folder, pages)
    index.close()
    write_lines(folder / "data" / "benchmark" / "questions.jsonl")
    return folder


def every_command(
    command: click.Command = main, words: tuple[str, ...] = ()
) -> dict[tuple[str, ...], click.Command]:
    """All groups and commands by their words; ``branchrank`` itself has none."""
    found = {words: command}
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            found |= every_command(below, (*words, name))
    return found


def invoke(*words: object, typed: str | None = None) -> Result:
    """``branchrank WORDS`` in this process; an exception that is no exit is a traceback, and fails."""
    result = CliRunner().invoke(main, [str(word) for word in words], input=typed)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def program(
    *words: object,
    cwd: Path,
    environment: Mapping[str, str] | None = None,
    typed: str = "",
    fresh: bool = False,
    timeout: float = 120,
    during: Callable[[int], object] = lambda process: None,
) -> subprocess.CompletedProcess[str]:
    """Run ``python WORDS`` in ``cwd`` to its end; in a fork, unless a ``fresh`` process is asked for.

    ``during`` is called with the process id while it runs, and may wait and send signals.
    """
    given, added = [str(word) for word in words], dict(environment or {})
    whole = {**os.environ, "PYTHONWARNINGS": "error", **added}
    with TemporaryFile() as stdin, TemporaryFile() as stdout, TemporaryFile() as stderr:
        stdin.write(typed.encode())
        stdin.seek(0)
        files = (stdin, stdout, stderr)
        if fresh or not can_fork(given, added):
            streams = dict(zip(("stdin", "stdout", "stderr"), files, strict=True))
            with subprocess.Popen([sys.executable, *given], **streams, cwd=cwd, env=whole) as process:
                try:
                    during(process.pid)
                    code = process.wait(timeout)
                finally:
                    process.kill()
        else:
            code = run_forked(given, cwd, whole, [file.fileno() for file in files], timeout, during)
        printed = []
        for file in (stdout, stderr):
            file.seek(0)
            printed.append(file.read().decode())
        return subprocess.CompletedProcess([sys.executable, *given], code, *printed)


def benchmark(project: Path, *words: object, **options: Any) -> Path:
    """Run a benchmark over a project, quickly unless asked otherwise; returns the run's directory."""
    reports = options.get("reports", project / "reports")
    before = set(reports.glob("*")) if reports.exists() else set()
    if "--latency-sample" not in words:
        words = (*words, "--latency-sample", 0)
    result = invoke("benchmark", "--data-dir", project / "data", "--reports", reports, "--quiet", *words)
    assert result.exit_code == 0, result.output
    [made] = set(reports.glob("*")) - before
    return made


def table(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    return list(csv.DictReader(StringIO(path.read_text(encoding="utf-8-sig"))))


def json_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
