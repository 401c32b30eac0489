"""Servers that answer garbage, slowly or without end, and closed streams: an error, never a traceback."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands import invoke, make_project
from support.loopback import RawServer, says

from branchrank.core.errors import BranchRankError
from branchrank.core.records import Question
from branchrank.runs.bench.predictors import ApiPredictor

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

#: What is answered for every change.
HERE = ("no HTTP", "a broken chunk")
#: A shell's words that close every standard stream.
EVERY = "0<&- 1>&- 2>&-"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("garbage"))


@pytest.fixture(
    params=[
        pytest.param(answer, id=name, marks=() if name in HERE else pytest.mark.full)
        for name, answer in GARBAGE.items()
    ]
)
def garbage(request: pytest.FixtureRequest) -> Iterator[str]:
    server = RawServer(says(request.param))
    yield f"http://{server.address}"
    server.close()


def test_a_server_that_answers_garbage_is_an_error(
    project: Path, tmp_path: Path, garbage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``invoke`` fails where a command ends with a traceback."""
    monkeypatch.setattr("branchrank.index.embedders.endpoint_embedder.RETRY_WAITS", (0.0,))
    monkeypatch.setenv("BRANCHRANK_LLM_RETRIES", "0")
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

    def endless(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        server.drip(connection, b" ")

    server = RawServer(endless)
    try:
        predictor = ApiPredictor(server.url, timeout_s=0.5)
        with pytest.raises(BranchRankError, match="timed out"):
            predictor.predict(Question(id="q", question="tea"), 5)
    finally:
        server.close()


@pytest.mark.parametrize(
    ("words", "stream"),
    [
        ("retrieve --data-dir data", EVERY),
        *(
            pytest.param("retrieve --data-dir data", stream, marks=pytest.mark.full)
            for stream in ("0<&-", "1>&-", "2>&-")
        ),
        *(
            pytest.param(words, EVERY, marks=pytest.mark.full)
            for words in ("mcp --data-dir data", "tui --data-dir data", "list", "show nowhere")
        ),
    ],
)
def test_a_closed_stream_gives_no_traceback(project: Path, words: str, stream: str) -> None:
    command = f"exec {sys.executable} -m branchrank.frontends.cli.main {words} {stream}"
    done = subprocess.run(
        ["sh", "-c", command], cwd=project, capture_output=True, text=True, timeout=120, check=False
    )
    assert "Traceback" not in done.stdout + done.stderr
    assert done.returncode in (0, 2, 3, 4, 5), done
