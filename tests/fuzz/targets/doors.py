"""HTTP and MCP: any body, header and path is answered, by the real applications in this process."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
from functools import cache
from typing import Any

import msgspec

from branchrank.core.io.keys import Access
from branchrank.core.io.loopback_server import ErrorAnswer
from branchrank.frontends.serve.http_api import RetrieveAnswer, application
from branchrank.frontends.serve.mcp import mcp_server
from branchrank.frontends.serve.service import Service, Workers
from branchrank.search.agent.tool_server import mcp_application
from fuzz.target import Target, require, seeds
from fuzz.targets.queries import in_their_lines
from fuzz.world import CANARY, workspace

Headers = list[tuple[bytes, bytes]]
JSON: Headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
MCP: Headers = [*JSON, (b"accept", b"application/json, text/event-stream")]
STATUSES = frozenset({200, 202, 204, 400, 401, 403, 404, 405, 406, 408, 413, 415, 421, 422})


class Answer:
    """Status, headers and body that an application sent."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.body = b""

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = dict(message["headers"])
        elif message["type"] == "http.response.body":
            self.body += message.get("body", b"")


class Served:
    """Both applications over one workspace, in a loop of their own."""

    def __init__(self) -> None:
        logging.getLogger("mcp").setLevel(logging.CRITICAL)
        self._runner = asyncio.Runner()
        self._workers = Workers(1, 8)
        service = Service(workspace(), ("local", "bm25", "grep", "sqlite"))
        service.warm_up()
        self.http = application(service, self._workers, Access())
        self.mcp = mcp_application(mcp_server(service, self._workers), Access())
        self._open = self._runner.run(self._enter())
        atexit.register(self.close)

    async def _enter(self) -> contextlib.AsyncExitStack:
        """Start what the MCP application needs, as a server does at its start."""
        stack = contextlib.AsyncExitStack()
        inner: Any = self.mcp.application.app
        await stack.enter_async_context(inner.router.lifespan_context(inner))
        return stack

    def ask(self, app: Any, method: str, path: bytes, query: bytes, headers: Headers, body: bytes) -> Answer:
        answer = Answer()

        async def receive() -> Any:
            return {"type": "http.request", "body": body, "more_body": False}

        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path.decode("utf-8", "replace"),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": headers,
            "server": ("127.0.0.1", 80),
            "client": ("127.0.0.1", 5000),
        }
        self._runner.run(app(scope, receive, answer.send))
        return answer

    def close(self) -> None:
        with contextlib.suppress(BaseException):
            self._runner.run(self._open.aclose())
        self._runner.close()


@cache
def served() -> Served:
    """The applications, once."""
    return Served()


def http_body(content: bytes) -> None:
    """``POST /retrieve``: an answer or an error in its documented form; hits are lines of their files."""
    answer = served().ask(served().http, "POST", b"/retrieve", b"", JSON, content)
    _documented(answer)
    if answer.status == 200:
        in_their_lines(msgspec.json.decode(answer.body, type=RetrieveAnswer).hits)


def http_request(content: bytes) -> None:
    """A request line and headers, as a parser of HTTP would hand them over."""
    head, _, body = content.partition(b"\n\n")
    first, *rest = head.split(b"\n")
    method, _, target = first.partition(b" ")
    path, _, query = target.partition(b"?")
    headers: Headers = []
    for line in rest:
        name, _, value = line.partition(b":")
        # What a parser of HTTP refuses before an application sees it.
        if name.strip().isalnum() or name.strip().replace(b"-", b"").isalnum():
            headers.append((name.strip().lower(), bytes(each for each in value.strip() if each >= 32)))
    headers = [(name, value) for name, value in headers if name != b"content-length" or value.isdigit()]
    letters = method.decode("ascii", "replace").strip()
    _documented(served().ask(served().http, letters or "GET", path or b"/", query, headers, body))


def _documented(answer: Answer) -> None:
    require(answer.status in STATUSES, f"status {answer.status}: {answer.body[:200]!r}")
    require(CANARY.encode() not in answer.body, "the secret was sent")
    if answer.status >= 400:
        msgspec.json.decode(answer.body, type=ErrorAnswer)


def mcp_body(content: bytes) -> None:
    """``POST /mcp``: JSON-RPC with any content; an error is an error of the protocol or of a tool."""
    answer = served().ask(served().mcp, "POST", b"/mcp", b"", MCP, content)
    require(answer.status in STATUSES, f"status {answer.status}: {answer.body[:200]!r}")
    require(CANARY.encode() not in answer.body, "the secret was sent")
    require(b"Traceback" not in answer.body, "a traceback was sent")
    if answer.status == 200 and answer.headers.get(b"content-type", b"").startswith(b"application/json"):
        value = msgspec.json.decode(answer.body)
        require(isinstance(value, dict | list), f"{value!r:.100}")
        code = value.get("error", {}).get("code") if isinstance(value, dict) else None
        require(code != -32603, f"an internal error: {answer.body[:300]!r}")


def _call(tool: str, **arguments: Any) -> bytes:
    return msgspec.json.encode(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    )


INITIALIZE = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
    b'"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}'
)
REQUESTS = (
    b'POST /retrieve\nHost: localhost\nContent-Type: application/json\n\n{"query": "cache"}',
    b"GET /health?x=1\nHost: localhost:80\nOrigin: http://localhost:3000\n\n",
    b"OPTIONS /retrieve\nHost: localhost\nOrigin: http://localhost\nAccess-Control-Request-Method: POST\n"
    b"Access-Control-Request-Headers: content-type\n\n",
    b"GET /openapi.json\nHost: 127.0.0.1\nAuthorization: Bearer x\nContent-Length: 3\n\nabc",
)

TARGETS = (
    Target(
        "http-body",
        http_body,
        seeds(
            b'{"query": "how do I clear the cache", "top_k": 5, "predictor": "local"}',
            b'{"query": "timeout", "top_k": 2.0, "predictor": "sqlite", "filters": ["file_path=http/*"]}',
            b'{"query": "rollback", "predictor": "grep", "filters": []}',
        ),
    ),
    Target("http-request", http_request, seeds(*REQUESTS)),
    Target(
        "mcp-body",
        mcp_body,
        seeds(
            INITIALIZE,
            b'{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}',
            b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
            _call("grep_search", query="cache", ranking="bm25", limit=3, filters=["source=*.rst"]),
            _call("vector_search", query="timeout", limit=2),
            _call("hybrid_search", semantic_query="retry", exact_keywords="max_retries", limit=2),
            _call("predictor_search", query="pools", predictor="local"),
            _call("read_file", path="cache.rst", line_start=2, lines=3),
        ),
    ),
)
