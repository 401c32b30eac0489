"""Servers that answer garbage, slowly or without end, and closed streams: an error, never a traceback."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands import invoke, make_project

from branchrank.bench.predictors import ApiPredictor
from branchrank.errors import BranchRankError
from branchrank.records import Question

GARBAGE = {
    "no HTTP": b"SSH-2.0-OpenSSH_9.6\r\n",
    "no status": b"HTTP/1.1\r\n\r\n",
    "a status in words": b"HTTP/1.1 OK fine\r\n\r\n",
    "a huge status": b"HTTP/1.1 99999 OK\r\n\r\n",
    "a negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n{}",
    "a length in words": b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n{}",
    "a broken chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}",
    "a header without a name": b"HTTP/1.1 200 OK\r\n: value\r\n\r\n{}",
    "a NUL": b"HTTP/1.1 200 \0\r\nA: \0\r\n\r\n\0",
    "another encoding": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
    "nothing": b"",
}

#: A shell's words that close every standard stream.
EVERY = "0<&- 1>&- 2>&-"


class Server:
    """Answers every connection with the same bytes; with ``drip`` it then repeats one byte without end."""

    def __init__(self, answer: bytes, drip: bytes = b"") -> None:
        self._answer = answer
        self._drip = drip
        self._closing = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._serve)]
        self._threads[0].start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while not self._closing.is_set():
                connection, _ = self._listener.accept()
                self._threads.append(threading.Thread(target=self._one, args=(connection,)))
                self._threads[-1].start()

    def _one(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.recv(65_536)
            connection.sendall(self._answer)
            while self._drip and not self._closing.wait(0.02):
                connection.sendall(self._drip)

    def close(self) -> None:
        self._closing.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("garbage"))


@pytest.fixture(params=GARBAGE.values(), ids=GARBAGE)
def garbage(request: pytest.FixtureRequest) -> Iterator[str]:
    server = Server(request.param)
    yield server.url
    server.close()


def test_a_server_that_answers_garbage_is_an_error(project: Path, tmp_path: Path, garbage: str) -> None:
    """``invoke`` fails where a command ends with a traceback."""
    data = ("--data-dir", project / "data")
    bench = ("benchmark", *data, "--reports", tmp_path / "reports", "--latency-sample", 0, "--quiet")
    index = ("index", project / "docs", "--data-dir")
    for words in (
        (*bench, "--predictor", "api", "--api-endpoint", f"{garbage}/retrieve"),
        (*bench, "--predictor", "hybrid", "--hybrid-base-url", f"{garbage}/v1", "--hybrid-model", "m"),
        (*bench, "--predictor", "qdrant", "--qdrant-url", garbage),
        (*index, tmp_path / "a", "--embedder", "openai:m", "--embedding-url", garbage),
        (*index, tmp_path / "b", "--embedder", "ollama:m", "--embedding-url", garbage),
        (*index, tmp_path / "c", "--embedder", "fake:8", "--chroma-url", garbage),
    ):
        result = invoke(*words)
        assert result.exit_code not in (0, 1), (words, result.output)
        assert "fix:" in result.output, (words, result.output)


def test_the_predictor_api_has_one_deadline_for_the_whole_answer() -> None:
    """Each byte arrives well within any time between two reads; the whole answer would take five hours."""
    server = Server(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", drip=b" ")
    try:
        predictor = ApiPredictor(f"{server.url}/retrieve", timeout_s=0.5)
        with pytest.raises(BranchRankError, match="timed out"):
            predictor.predict(Question(id="q", question="tea"), 5)
    finally:
        server.close()


@pytest.mark.parametrize(
    ("words", "stream"),
    [
        *(("retrieve --data-dir data", stream) for stream in ("0<&-", "1>&-", "2>&-", EVERY)),
        *((words, EVERY) for words in ("tui --data-dir data", "mcp --data-dir data", "list", "show nowhere")),
    ],
)
def test_a_closed_stream_gives_no_traceback(project: Path, words: str, stream: str) -> None:
    command = f"exec {sys.executable} -m branchrank.cli.main {words} {stream}"
    done = subprocess.run(
        ["sh", "-c", command], cwd=project, capture_output=True, text=True, timeout=120, check=False
    )
    assert "Traceback" not in done.stdout + done.stderr
    assert done.returncode in (0, 2, 3, 4, 5), done
