"""``branchrank serve`` as a process, and what the commands say without their extras."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from click.testing import CliRunner
from support.scripted_llm import Action, Chat, ScriptedLLM, fail, first_shown
from support.small_index import small_workspace

from branchrank.frontends.cli.main import main
from branchrank.index.index_build import build_index

TOKEN = "correct-horse-battery"


#: pageindex cannot run: nothing answers at its endpoint.
UNREACHABLE = ("--pageindex-base-url", "http://127.0.0.1:9/v1")


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    workspace = small_workspace(tmp_path_factory.mktemp("serving"))
    build_index(workspace).close()
    return workspace.data_dir


def start(
    data_dir: Path, *arguments: str, verb: str = "serve", **environment: str
) -> tuple[subprocess.Popen[str], str, list[str]]:
    """A server, its address, and the lines that it said before."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "branchrank.frontends.cli.main",
            verb,
            "--data-dir",
            str(data_dir),
            *arguments,
        ],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if line.startswith("serving"):
            return process, line.split()[-1], said
    raise AssertionError("".join(said))


@pytest.mark.parametrize(
    ("number", "code"), [pytest.param(signal.SIGTERM, 143, marks=pytest.mark.full), (signal.SIGINT, 130)]
)
def test_a_signal_shuts_down_the_server_cleanly(data_dir: Path, number: int, code: int) -> None:
    process, url, said = start(data_dir, "--port", "0")
    answer = httpx2.post(f"{url}/retrieve", json={"query": "cache", "top_k": 1})
    assert answer.json()["predictor"] == "local"
    assert url.startswith("http://127.0.0.1:")
    assert any("pageindex" in line and "hybrid" in line for line in said), "both without an LLM"
    process.send_signal(number)
    _, rest = process.communicate(timeout=30)
    assert process.returncode == code
    assert "Traceback" not in rest


@pytest.mark.parametrize(
    ("verb", "path"), [("serve", "/retrieve"), pytest.param("mcp", "/mcp", marks=pytest.mark.full)]
)
def test_aborted_and_invalid_requests_are_not_logged(data_dir: Path, verb: str, path: str) -> None:
    words = ("--transport", "http") if verb == "mcp" else ()
    process, url, _ = start(data_dir, "--port", "0", "--predictor", "sqlite", *words, verb=verb)
    address = (urlsplit(url).hostname, urlsplit(url).port)

    def request(method: str, *lines: str, body: str = "", host: str = "localhost") -> bytes:
        accept = "Accept: application/json, text/event-stream\r\nContent-Type: application/json"
        return "\r\n".join((f"{method} {path} HTTP/1.1", f"Host: {host}", accept, *lines, "", body)).encode()

    length, chunked = "Content-Length: 50", "Transfer-Encoding: chunked"
    requests = [
        request("POST", length)[:40],
        request("POST", length, body='{"query": '),
        request("POST", length, body='{"query": ', host="elsewhere"),
        request("GET"),
        *(request(method, chunked, body="5\r\nab") for method in ("POST", "GET")),
        *(request(method, chunked, body="3\r\nabc\r\nzz\r\n") for method in ("POST", "HEAD", "GET")),
        request("HEAD", chunked, body="zz\r\n", host="elsewhere"),
        request("POST", chunked, "Expect: 100-continue", body="zz\r\n", host="elsewhere"),
    ]
    for raw in requests * 4:
        for is_reset in (False, True):
            with socket.create_connection(address) as connection:
                connection.sendall(raw)
                if is_reset:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    try:
        with httpx2.stream("GET", f"{url.removesuffix(path)}{path}", timeout=5) as answer:
            assert answer.status_code == 405, "no stream that would hold up the shutdown"
            process.terminate()
    finally:
        _, said = process.communicate(timeout=20)
    assert said == ""


def test_a_token_is_required_and_failures_of_an_llm_leak_nothing(data_dir: Path) -> None:
    key = "sk-canary-0123456789abcdef"
    named = {"Authorization": f"Bearer {TOKEN}"}
    broken = False

    def script(chat: Chat, number: int) -> Action:
        return fail(500, f"bad key {key} at /home/someone") if broken else first_shown(chat, number)

    with ScriptedLLM(script) as llm:
        flags = ("--hybrid-base-url", llm.base_url, "--hybrid-model", "scripted", "--llm-retries", "0")
        keys = {"BRANCHRANK_LLM_KEY": key, "BRANCHRANK_TOKEN": TOKEN}
        process, url, said = start(data_dir, "--port", "0", "--predictor", "hybrid", *flags, **keys)
        try:
            assert httpx2.get(f"{url}/health").status_code == 401
            allowed = httpx2.get(f"{url}/health", headers=named)
            assert allowed.json()["predictors"] == ["hybrid"]
            assert TOKEN not in "".join(said) + allowed.text
            asked = {"query": "clear the cache"}
            answer = httpx2.post(f"{url}/retrieve", json=asked, headers=named).json()
            assert answer["fallbacks"] == []
            assert llm.requests[0].headers["authorization"] == f"Bearer {key}"
            assert answer["hits"]
            broken = True
            answer = httpx2.post(f"{url}/retrieve", json={"query": "retry a request"}, headers=named)
            assert answer.json()["fallbacks"] == ["rerank: http 500"]
            assert answer.json()["hits"]
            for secret in (key, TOKEN, "someone", llm.base_url):
                assert secret not in answer.text
        finally:
            process.terminate()
            _, rest = process.communicate(timeout=30)
        assert key not in rest
        assert TOKEN not in rest


def refusal(*arguments: object, **environment: str) -> tuple[int, str]:
    result = CliRunner(env={"BRANCHRANK_TOKEN": None, **environment}).invoke(
        main, [str(argument) for argument in arguments]
    )
    return result.exit_code, result.stderr


def test_other_addresses_need_a_token(data_dir: Path) -> None:
    for verb in (("serve",), ("mcp", "--transport", "http")):
        code, said = refusal(*verb, "--data-dir", data_dir, "--host", "0.0.0.0")
        assert code == 2
        assert "BRANCHRANK_TOKEN" in said


def test_a_taken_port_is_named(data_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = refusal("serve", "--data-dir", data_dir, "--port", port)
    assert code == 2
    assert f"port {port}" in said


def test_when_no_predictor_can_be_served_the_server_does_not_start(data_dir: Path) -> None:
    words = ("--predictor", "pageindex", *UNREACHABLE)
    code, said = refusal("serve", "--data-dir", data_dir, *words)
    assert code == 2
    assert "no predictor" in said
    code, said = refusal("serve", "--data-dir", data_dir, "--predictor", "nonsense")
    assert code == 2
    assert "nonsense" in said
