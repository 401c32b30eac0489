"""A server that offers the search tools through the Model Context Protocol (MCP).

The transport is stdio or streamable HTTP. The tools read only the workspace's corpus, and write nothing. Each
result is returned with its path and lines, as text for a model and as structured data. Searches run in a
small thread pool. The server does not pass on a client's credentials. The details of internal errors are
written only to the log. Importing this module raises :class:`MissingDependencyError` if the MCP SDK is not
installed.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import anyio
import msgspec
from msgspec import Meta

from branchrank.core.errors import BranchRankError, MissingDependencyError
from branchrank.core.io.printable import safe
from branchrank.core.records import Hit, Record
from branchrank.frontends.serve.service import QueueFullError, RequestRefused, Service, Workers
from branchrank.search.files.read_file import FileRefused
from branchrank.search.systems.search_tools import ToolAnswer
from branchrank.search.systems.toolbox import (
    TOOLS,
    CallRefused,
    SearchArguments,
    ToolArguments,
    definition,
    json_schema,
    read_arguments,
)

try:
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server
    from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations
except ImportError:
    raise MissingDependencyError("mcp", extra="mcp", purpose="branchrank mcp") from None
from branchrank.search.agent.tool_server import tool_server

INSTRUCTIONS = (
    "Search the documentation of this workspace. Cite a result by its path and lines. Use grep_search for "
    "identifiers and exact words, vector_search for meaning, hybrid_search for both, read_file for the lines "
    "of a file."
)

_log = logging.getLogger(__name__)


class PredictorArguments(SearchArguments, frozen=True, kw_only=True):
    """Return the passages found by one of the workspace's retrieval systems.

    They are the same systems that the benchmark measures.
    """

    method = "tool_search"
    predictor: Annotated[
        str, Meta(max_length=100, description="name of a retrieval system (default: the first system)")
    ] = ""


class Result(Record, frozen=True, kw_only=True):
    """A passage that consists of the lines ``line_start..line_end`` of the file ``path``.

    ``plain`` is the text without markup. ``distance`` is the squared L2 distance to the query, from 0 to 4.
    ``id`` is the id of the chunk, section or span, as in the library and the HTTP API.
    """

    id: str
    path: str
    line_start: int
    line_end: int
    text: str
    plain: str
    score: float
    matched_lines: Sequence[int]
    breadcrumb: str
    distance: float | None


class SearchReply(Record, frozen=True, kw_only=True):
    """The results of a search, best first, and the status of the search."""

    results: list[Result]
    status: str


def mcp_server(service: Service, workers: Workers) -> Server[Any]:
    """Return an MCP server whose tools search a workspace, run its predictors and read its files."""
    logging.basicConfig(level="ERROR", format="%(message)s")
    *searches, read = TOOLS
    order = (*searches, "predictor_search", read)
    kinds = {name: TOOLS.get(name, PredictorArguments) for name in order}
    offered = [_offered(name, kinds[name]) for name in order]
    predictors = f"Systems: {', '.join(service.predictors)}."
    offered[-2].description = f"{offered[-2].description}\n\n{predictors}"

    def run(asked: ToolArguments) -> CallToolResult:
        own = isinstance(asked, PredictorArguments)
        return _result(asked.run(service if own else service.workspace.tools))

    async def call_tool(name: str, arguments: dict[str, Any]) -> CallToolResult:
        failed = f"Error executing tool {name}: "
        try:
            asked = read_arguments(kinds, name, arguments)
            return await workers.run(lambda: run(asked))
        except (CallRefused, FileRefused) as refusal:
            return _failure(str(refusal))
        except RequestRefused as refusal:
            return _failure(f"{failed}{refusal}")
        except QueueFullError:
            return _failure(f"{failed}busy: too many searches are waiting; try again")
        except Exception as error:  # a client never sees the details
            known = isinstance(error, BranchRankError)
            _log.error("%s", safe(str(error) if known else traceback.format_exc()))
            return _failure(f"{failed}the search failed; the reason is in the server's log")

    return tool_server(offered, call_tool, INSTRUCTIONS)


def serve_stdio(server: Server[Any]) -> None:
    """Serve MCP over standard input and output until the client closes them."""

    async def serve() -> None:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    anyio.run(serve)


def _offered(name: str, kind: type[ToolArguments]) -> Tool:
    made = definition(name, kind)
    return Tool(
        name=name,
        title=name.replace("_", " ").capitalize(),
        description=made.description,
        input_schema=made.parameters,
        output_schema=json_schema(SearchReply),
        annotations=ToolAnnotations(
            read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        ),
    )


def _failure(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)], is_error=True)


def _result(answer: ToolAnswer) -> CallToolResult:
    results = [_passage(found.hit) for found in answer.results]
    reply = SearchReply(results=results, status=answer.status.message)
    data = msgspec.json.decode(msgspec.json.encode(reply))
    return CallToolResult(content=[TextContent(text=answer.text)], structured_content=data)


def _passage(hit: Hit) -> Result:
    same = {name: getattr(hit, name) for name in Result.__struct_fields__ if name in Hit.__struct_fields__}
    return Result(path=hit.source, matched_lines=hit.matched, **same)
