"""The tools of one question as a private MCP server, for an agent that is a program of the user.

The server listens on a free port of the loopback interface while its question is answered. Each server has a
token of its own, and answers only requests with this token. Importing this module raises
:class:`MissingDependencyError` if the MCP SDK is not installed.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import anyio

from branchrank.core.errors import MissingDependencyError
from branchrank.core.io import VERSION
from branchrank.core.io.keys import Access
from branchrank.search.agent.tool_session import RecordedTools

try:
    from mcp.server.lowlevel import Server
    from mcp.server.transport_security import TransportSecuritySettings
    from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool
    from starlette.routing import Route
except ImportError:
    raise MissingDependencyError("mcp", extra="mcp", purpose="the command of an agent") from None
from branchrank.core.io.loopback_server import BODY_LIMIT, Guard, http_server, listen, url_of

PATH = "/mcp"
_HOST = "127.0.0.1"
#: Carries out the call of a tool, which has a name and arguments.
Call = Callable[[str, dict[str, Any]], Awaitable[CallToolResult]]


@contextmanager
def serving(tools: RecordedTools) -> Iterator[tuple[str, str]]:
    """Serve the tools of one question during a ``with`` block, at the URL and with the token it yields."""
    token = secrets.token_urlsafe(32)
    listening = listen(_HOST, 0)
    server = http_server(mcp_application(_server(tools), Access(token=token), flags=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        while not server.started and thread.is_alive():  # a server that is not started yet can't be stopped
            time.sleep(0.005)
        yield url_of(_HOST, listening) + PATH, token
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def mcp_application(server: Server[Any], access: Access, *, flags: bool = True) -> Guard:
    """Return an application that serves MCP over streamable HTTP at ``/mcp``, without sessions."""
    application = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=BODY_LIMIT,
        # The guard checks the headers ``Host`` and ``Origin``.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    for route in application.routes:
        if isinstance(route, Route):  # no event stream for GET, which would only delay a shutdown
            route.methods = {"POST"}
    return Guard(application, access, flags=flags)


def tool_server(offered: list[Tool], call: Call, instructions: str | None = None) -> Server[Any]:
    """Return an MCP server that offers these tools, and carries out each call of one."""

    async def list_tools(_context: Any, _params: Any) -> ListToolsResult:
        return ListToolsResult(tools=offered)

    async def call_tool(_context: Any, params: Any) -> CallToolResult:
        return await call(params.name, params.arguments or {})

    return Server(
        "branchrank",
        version=VERSION,
        instructions=instructions,
        get_tool_input_schema={tool.name: tool.input_schema for tool in offered}.get,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _server(tools: RecordedTools) -> Server[Any]:
    async def call(name: str, arguments: dict[str, Any]) -> CallToolResult:
        try:
            reply = await anyio.to_thread.run_sync(partial(tools.call, name, arguments))
            text, failed = reply.text, bool(reply.error)
        except Exception as error:  # the agent can go on without this call
            text, failed = f"{name} failed: {type(error).__name__}", True
        return CallToolResult(content=[TextContent(text=text)], is_error=failed)

    offered = [
        Tool(name=each.name, description=each.description, input_schema=each.parameters)
        for each in tools.definitions
    ]
    return tool_server(offered, call)
