"""The MCP server, asked by the official client: in process, over stdio, over HTTP."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult
from support.http_server import Running, post, running
from support.traversal import traversals

from branchrank.core.errors import ArtifactError
from branchrank.core.io.keys import Access, access_for
from branchrank.frontends.serve.mcp import mcp_server
from branchrank.frontends.serve.service import Service, Workers
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.search.agent.tool_server import mcp_application
from branchrank.search.systems.builtin import AGENTS, BUILTIN
from branchrank.search.systems.search_tools import SearchTools, ToolAnswer

CANARY = "canary-5f1d"
TOKEN = "correct-horse-battery"
INITIALIZE = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
    b'"capabilities":{},"clientInfo":{"name":"test","version":"1"}}}'
)
TOOLS = ["grep_search", "vector_search", "hybrid_search", "predictor_search", "read_file"]


@pytest.fixture(scope="module")
def tools(service: Service) -> SearchTools:
    return service.workspace.tools


@pytest.fixture(scope="module")
def workers() -> Workers:
    return Workers(1, 8)


@pytest.fixture
def server(service: Service, workers: Workers) -> Any:
    return mcp_server(service, workers)


def text(result: CallToolResult) -> str:
    (content,) = result.content
    return content.text


async def check_tools(client: Client, tools: SearchTools) -> None:
    """What every transport must do."""
    offered = (await client.list_tools()).tools
    assert [tool.name for tool in offered] == TOOLS
    for tool in offered:
        assert tool.annotations.read_only_hint is True
        assert tool.annotations.destructive_hint is False
        assert tool.annotations.open_world_hint is False
        assert tool.description
    for name, arguments, direct in (
        ("grep_search", {"query": "max_retries"}, tools.grep_search("max_retries")),
        (
            "vector_search",
            {"query": "clear the cache", "limit": 3},
            tools.vector_search("clear the cache", limit=3),
        ),
        ("hybrid_search", {"semantic_query": "retry"}, tools.hybrid_search("retry")),
    ):
        result = await client.call_tool(name, arguments)
        assert not result.is_error
        assert text(result) == direct.text
        data = result.structured_content
        assert data["status"] == direct.status.message
        fields = ("path", "line_start", "line_end", "score")
        assert [(*map(entry.get, fields), tuple(entry["matched_lines"])) for entry in data["results"]] == [
            (found.hit.source, found.hit.line_start, found.hit.line_end, found.hit.score, found.hit.matched)
            for found in direct.results
        ]
        assert f"[{direct.results[0].citation}]" in text(result)
    result = await client.call_tool("read_file", {"path": "cache.rst", "line_start": 2, "lines": 3})
    lines = tools.file_lines("cache.rst", 2, 3)
    assert text(result) == lines.text
    assert result.structured_content["status"] == lines.status.message
    (passage,) = result.structured_content["results"]
    assert [passage[name] for name in ("path", "line_start", "line_end")] == ["cache.rst", 2, 4]
    assert passage["text"] == tools.read_file("cache.rst", 2, 3)


async def test_tools_work_in_process(server: Any, tools: SearchTools) -> None:
    async with Client(server) as client:
        assert client.server_info.name == "branchrank"
        await check_tools(client, tools)


async def test_over_stdio_the_tools_work_and_every_predictor_that_can_run_is_offered(
    data_dir: Path, tools: SearchTools
) -> None:
    """The LLM of pageindex does not answer, and the package of qdrant is not installed."""
    start = "from branchrank.frontends.cli.main import main; main()"
    hidden = f"import sys; sys.modules['qdrant_edge'] = None; {start}"
    command = StdioServerParameters(
        command=sys.executable,
        args=["-c", hidden, "mcp", "--data-dir", str(data_dir)],
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    async with Client(command, read_timeout_seconds=30) as client:
        await check_tools(client, tools)
        [tool] = [each for each in (await client.list_tools()).tools if each.name == "predictor_search"]
        offered = re.search(r"Systems: (.+)\.", tool.description or "")
        assert offered is not None
        assert set(offered[1].split(", ")) == {*BUILTIN} - {"pageindex", "qdrant", *AGENTS}
        result = await client.call_tool("predictor_search", {"query": "cache", "predictor": "bm25"})
        assert not result.is_error
        refused = await client.call_tool("predictor_search", {"query": "cache", "predictor": "qdrant"})
        assert "pip install" in text(refused)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.full)]
)
def test_a_signal_ends_the_stdio_server(data_dir: Path, number: int, code: int) -> None:
    verb = ["-m", "branchrank.frontends.cli.main", "mcp", "--predictor", "sqlite"]
    command = [sys.executable, *verb, "--data-dir", str(data_dir)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as made:
        assert made.stdin is not None
        assert made.stdout is not None
        made.stdin.write(INITIALIZE + b"\n")
        made.stdin.flush()
        assert b"branchrank" in made.stdout.readline()
        made.send_signal(number)
        assert made.wait(20) == code
        assert made.stderr is not None
        assert b"Traceback" not in made.stderr.read()


async def test_tools_work_over_http_with_a_token(server: Any, tools: SearchTools) -> None:
    with running(mcp_application(server, Access(token=TOKEN))) as made:
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}) as http,
            Client(streamable_http_client(f"{made.url}/mcp", http_client=http)) as client,
        ):
            await check_tools(client, tools)
            result = await client.call_tool("grep_search", {"query": "cache"})
        assert TOKEN not in result.model_dump_json()
        for token in ("", "Bearer", f"Bearer {TOKEN}x", f"Basic {TOKEN}"):
            assert made.send(initialize(Authorization=token))[0] == 401


def initialize(**headers: str) -> bytes:
    accept = {"Accept": "application/json, text/event-stream"}
    return post(INITIALIZE, path="/mcp", **{**accept, **headers})


@pytest.fixture
def http(server: Any) -> Iterator[Running]:
    access = access_for(
        "127.0.0.1", allowed_hosts=("docs.example",), allowed_origins=("http://localhost:3000",)
    )
    with running(mcp_application(server, access)) as made:
        yield made


def test_hosts_origins_and_sizes_over_http(http: Running) -> None:
    for host, origin, status in (
        ("localhost", None, 200),
        ("127.0.0.1:8001", None, 200),
        ("docs.example", "http://localhost:3000", 200),
        ("evil.example", None, 421),
        ("localhost.evil.example", None, 421),
        ("localhost", "http://evil.example", 403),
        ("localhost", "null", 403),
    ):
        headers = {} if origin is None else {"Origin": origin}
        assert http.send(initialize(host=host, **headers))[0] == status, (host, origin)
    assert http.send(post(b"x" * (1024 * 1024 + 1), path="/mcp"))[0] == 413
    assert http.send(post(b"{", path="/mcp", Accept="application/json, text/event-stream"))[0] == 400
    assert http.send(post(b"{}", path="/../../etc/passwd"))[0] == 404


async def test_no_path_leaves_the_corpus(server: Any, workspace: WorkspaceFolder) -> None:
    root = workspace.corpus_root
    secret = root.parent / "secret.txt"
    sibling = root.with_name(root.name + "-secret")
    sibling.mkdir(exist_ok=True)
    for path in (secret, sibling / "secret.txt"):
        path.write_text(CANARY)
    made = {root / "linked": root.parent, root / "linked.txt": secret}
    for link, target in made.items():
        link.symlink_to(target)
    os.mkfifo(root / "fifo")
    payloads = traversals("secret.txt", f"{sibling.name}/secret.txt", str(secret))
    assert len(payloads) >= 500
    try:
        async with Client(server) as client:
            for payload in payloads:
                result = await client.call_tool("read_file", {"path": payload})
                assert result.is_error, payload
                answer = text(result)
                assert re.match(r"\[ERROR: (NOT_FOUND|ACCESS_DENIED|NOT_A_FILE)\]|Error executing", answer), (
                    answer
                )
                assert CANARY not in answer
                assert "root:x" not in answer
            for payload in payloads[::20]:
                result = await client.call_tool("grep_search", {"query": payload or " "})
                assert CANARY not in result.model_dump_json()
    finally:
        for link in made:
            link.unlink()
        (root / "fifo").unlink()


async def test_wrong_arguments_of_predictor_search_are_refused(server: Any) -> None:
    async with Client(server) as client:
        for wrong in (
            {"query": ""},
            {"predictor": "x" * 101},
            {"predictor": "none"},
            {"limit": 51},
            {"k": 3},
        ):
            result = await client.call_tool("predictor_search", {"query": "cache", **wrong})
            assert result.is_error, wrong
            assert next(iter(wrong)) in text(result)


async def test_a_full_queue_is_an_error(
    service: Service, tools: SearchTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, end = threading.Event(), threading.Event()
    search = tools.grep_search

    def wait(*arguments: Any, **options: Any) -> ToolAnswer:
        started.set()
        end.wait(20)
        return search(*arguments, **options)

    monkeypatch.setattr(tools, "grep_search", wait)
    async with Client(mcp_server(service, Workers(1, 0))) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(client.call_tool, "grep_search", {"query": "cache"})
        await anyio.to_thread.run_sync(started.wait)
        result = await client.call_tool("read_file", {"path": "cache.rst"})
        end.set()
    assert result.is_error
    assert "busy" in text(result)


async def test_a_failure_says_nothing_of_the_machine(
    server: Any, tools: SearchTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    for fault in (ArtifactError("/home/someone/secret is damaged"), RuntimeError("/home/someone/secret")):

        def fail(*_arguments: object, fault: Exception = fault, **_options: object) -> None:
            raise fault

        monkeypatch.setattr(tools, "grep_search", fail)
        async with Client(server) as client:
            result = await client.call_tool("grep_search", {"query": "cache"})
        assert result.is_error
        assert "someone" not in text(result)
