"""A run directory is data: resuming it reaches only what the command itself names.

Every test doctors the ``run.json`` of an interrupted run, resumes it, and looks at what was reached.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.commands import benchmark, invoke, make_project

from branchrank.runs import directory as names

KEYS = ("BRANCHRANK_LLM_KEY", "OPENAI_API_KEY", "BRANCHRANK_API_TOKEN", "BRANCHRANK_QDRANT_KEY")
CANARY = "sk-canary-0123456789"
Doctored = dict[str, Any]


class Listener:
    """Accepts connections on the loopback interface, keeps what was sent, and answers nothing."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self.thread = threading.Thread(target=self._accept)
        self.thread.start()

    def _accept(self) -> None:
        while True:
            connection, _ = self.socket.accept()
            with connection:
                connection.settimeout(0.5)
                try:
                    content = connection.recv(65536)
                except OSError:
                    content = b""
            if content == b"end":
                return
            self.received.append(content)

    def close(self) -> None:
        with socket.create_connection(self.socket.getsockname()) as connection:
            connection.sendall(b"end")
        self.thread.join()
        self.socket.close()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("untrusted"))


@pytest.fixture(scope="module")
def finished(project: Path) -> Path:
    return benchmark(project, "--predictor", "local")


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    for name in KEYS:
        monkeypatch.setenv(name, CANARY)
    made = Listener()
    yield made
    made.close()


@pytest.fixture
def doctored(
    finished: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[Doctored], None]], Path]:
    """Makes an interrupted run in the project's ``reports`` whose ``run.json`` was changed."""
    monkeypatch.chdir(project)

    def make(change: Callable[[Doctored], None]) -> Path:
        directory = tmp_path / "reports" / "20260101T000000Z-benchmark-42"
        directory.mkdir(parents=True)
        for name in (names.QUESTIONS, names.ROWS):
            lines = (finished / name).read_bytes().splitlines(keepends=True)
            (directory / name).write_bytes(b"".join(lines[:1] if name == names.ROWS else lines))
        run = json.loads((finished / names.RUN_JSON).read_bytes())
        run |= {"status": "running", "digests": {}}
        change(run)
        (directory / names.RUN_JSON).write_text(json.dumps(run))
        return directory

    return make


def predictors(run: Doctored) -> list[Doctored]:
    """The entries of a run's predictors."""
    found: list[Doctored] = run["predictors" if "predictors" in run else "arms"]
    return found


def test_an_untouched_run_is_resumed(doctored: Any, finished: Path) -> None:
    directory = doctored(lambda run: None)
    resumed = invoke("resume", directory)
    assert resumed.exit_code == 0, resumed.output
    assert (directory / names.ROWS).read_bytes() == (finished / names.ROWS).read_bytes()
    assert invoke("verify", directory).exit_code == 0


def test_no_class_is_imported_that_the_command_does_not_name(doctored: Any, project: Path) -> None:
    canary = project / "imported"
    (project / "planted.py").write_text(
        f"open({str(canary)!r}, 'w').close()\n"
        "class Planted:\n    def retrieve(self, query, k):\n        return []\n"
    )

    def change(run: Doctored) -> None:
        predictors(run).append(
            {"name": "planted:Planted", "llm": "none", "index": "", "origin": "planted:Planted"}
        )
        run["command"] = "branchrank benchmark --predictor planted:Planted --latency-sample 0"

    directory = doctored(change)
    resumed = invoke("resume", directory)
    assert not canary.exists()
    assert resumed.exit_code == 3, resumed.output
    assert f"branchrank resume {directory} --predictor planted:Planted" in resumed.stderr


def test_no_llm_endpoint_is_asked_that_the_command_does_not_name(doctored: Any, listener: Listener) -> None:
    url = f"http://{listener.address}/v1"

    def change(run: Doctored) -> None:
        system = predictors(run)[0]["system"]
        system |= {"rerank": {"method": "llm"}, "llm": {"base_url": url, "model": "m"}}
        predictors(run)[0]["llm"] = "m"
        run["settings"]["hybrid"] |= {"base_url": url, "model": "m"}
        run["origins"] |= {"hybrid.base_url": "flag --hybrid-base-url", "local.base_url": "flag --x"}
        run["command"] = (
            f"branchrank benchmark --predictor hybrid --hybrid-base-url {url} --hybrid-model m "
            "--latency-sample 0"
        )

    directory = doctored(change)
    resumed = invoke("resume", directory)
    assert listener.received == []
    assert resumed.exit_code == 3, resumed.output
    assert f"--hybrid-base-url {url}" in resumed.stderr
