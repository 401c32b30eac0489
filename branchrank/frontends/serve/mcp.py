"""A server that offers the search tools through the Model Context Protocol (MCP).

The transport is stdio or streamable HTTP. The tools read only the workspace's corpus, and write nothing. Each
result is returned with its path and lines, as text for a model and as structured data. Searches run in a
small thread pool. The server does not pass on a client's credentials. The details of internal errors are
written only to the log. Importing this module raises :class:`MissingDependencyError` if the MCP SDK is not
installed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from branchrank import __version__
from branchrank.core.errors import BranchRankError, MissingDependencyError
from branchrank.core.io.printable import safe
from branchrank.core.records import Hit
from branchrank.frontends.serve.access import Access
from branchrank.frontends.serve.service import QueueFullError, RequestRefused, Service, Workers, check_filters
from branchrank.search.files.grep_search import Ranking
from branchrank.search.files.read_file import FileRefused
from branchrank.search.systems.search_tools import ToolAnswer

try:
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.server.transport_security import TransportSecuritySettings
    from mcp_types import CallToolResult, TextContent, ToolAnnotations
    from pydantic import BaseModel, Field
    from starlette.routing import Route
except ImportError:
    raise MissingDependencyError("mcp", extra="mcp", purpose="branchrank mcp") from None
from branchrank.frontends.serve.loopback_server import BODY_LIMIT, Guard

PATH = "/mcp"
QUERY_CHARACTERS = 10_240
PATH_CHARACTERS = 4_096
LIMIT = 50
INSTRUCTIONS = (
    "Search the documentation of this workspace. Cite a result by its path and lines. Use grep_search for "
    "identifiers and exact words, vector_search for meaning, hybrid_search for both, read_file for a whole "
    "file."
)
PREDICTOR_SEARCH = (
    "Return the passages found by one of the workspace's retrieval systems (the same systems that the "
    "benchmark measures). Systems: {}."
)

T = TypeVar("T")
_log = logging.getLogger(__name__)

Text = Annotated[str, Field(min_length=1, max_length=QUERY_CHARACTERS)]
Limit = Annotated[int, Field(ge=1, le=LIMIT, description="maximum number of results")]
Name = Annotated[
    str, Field(max_length=100, description="name of a retrieval system (default: the first system)")
]

FilterTexts = Annotated[
    tuple[Annotated[str, Field(max_length=1_000)], ...],
    Field(
        max_length=20,
        description="search only documents that match every filter of the form file_path=VALUE, "
        "where VALUE is a path or a glob",
    ),
]


class Result(BaseModel):
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
    matched_lines: list[int]
    breadcrumb: str
    distance: float | None


class SearchReply(BaseModel):
    """The results of a search, best first, and the status of the search."""

    results: list[Result]
    status: str


SearchAnswer = Annotated[CallToolResult, SearchReply]


class _Tools:
    """The tools of a server, whose names, signatures and docstrings are visible to MCP clients."""

    def __init__(self, service: Service, workers: Workers) -> None:
        self._service = service
        self._tools = service.workspace.tools
        self._workers = workers

    async def grep_search(
        self, query: Text, ranking: Ranking | None = None, limit: Limit = 10, filters: FilterTexts = ()
    ) -> SearchAnswer:
        """Return passages that contain the query's words, quoted strings or identifiers.

        Matched lines are marked. With ranking "order", passages are in BM25 order. With "bm25", the 25% of
        passages with the lowest BM25 scores are also dropped. With "raw", passages are ordered by file and
        line.
        """
        return await self._searched(
            lambda: self._tools.grep_search(query, ranking=ranking, limit=limit, filters=filters), filters
        )

    async def vector_search(self, query: Text, limit: Limit = 10, filters: FilterTexts = ()) -> SearchAnswer:
        """Return the passages that are nearest to the query in meaning and within the distance threshold."""
        return await self._searched(
            lambda: self._tools.vector_search(query, limit=limit, filters=filters), filters
        )

    async def hybrid_search(
        self,
        semantic_query: Text,
        exact_keywords: Annotated[str, Field(max_length=QUERY_CHARACTERS)] = "",
        ranking: Ranking | None = None,
        limit: Limit = 10,
        filters: FilterTexts = (),
    ) -> SearchAnswer:
        """Search with grep for exact_keywords and with vectors for semantic_query.

        The results of grep and vector search are combined with reciprocal rank fusion. Without
        exact_keywords, grep searches for the identifiers, quoted strings and content words of semantic_query.
        """
        return await self._searched(
            lambda: self._tools.hybrid_search(
                semantic_query, exact_keywords, ranking=ranking, limit=limit, filters=filters
            ),
            filters,
        )

    async def predictor_search(
        self, query: Text, predictor: Name = "", limit: Limit = 10, filters: FilterTexts = ()
    ) -> SearchAnswer:
        return await self._searched(
            lambda: self._service.tool_search(query, predictor, limit, filters), filters
        )

    async def read_file(self, path: Annotated[str, Field(max_length=PATH_CHARACTERS)]) -> CallToolResult:
        """Return the text of an indexed file. Pass the file's path from a search result."""
        try:
            text = await _run(self._workers, lambda: self._tools.file_text(path))
        except FileRefused as refusal:
            return CallToolResult(content=[TextContent(text=str(refusal))], is_error=True)
        return CallToolResult(content=[TextContent(text=text)])

    async def _searched(self, search: Callable[[], ToolAnswer], filters: Sequence[str]) -> CallToolResult:
        def checked() -> ToolAnswer:
            check_filters(filters)
            return search()

        answer = await _run(self._workers, checked)
        data = SearchReply(
            results=[_result(found.hit) for found in answer.results], status=answer.status.message
        )
        return CallToolResult(
            content=[TextContent(text=answer.text)], structured_content=data.model_dump(mode="json")
        )


def mcp_server(service: Service, workers: Workers) -> MCPServer:
    """Return an MCP server whose tools search a workspace, run its predictors and read its files."""
    server = MCPServer(
        "branchrank", version=__version__, instructions=INSTRUCTIONS, log_level="ERROR", subscriptions=False
    )
    reads = ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    tools = _Tools(service, workers)
    predictors = PREDICTOR_SEARCH.format(", ".join(service.predictors))
    server.tool(title="Grep search", annotations=reads)(tools.grep_search)
    server.tool(title="Vector search", annotations=reads)(tools.vector_search)
    server.tool(title="Hybrid search", annotations=reads)(tools.hybrid_search)
    server.tool(title="Predictor search", annotations=reads, description=predictors)(tools.predictor_search)
    server.tool(title="Read file", annotations=reads, structured_output=False)(tools.read_file)
    return server


def mcp_application(server: MCPServer, access: Access) -> Guard:
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
    return Guard(application, access)


async def _run(workers: Workers, work: Callable[[], T]) -> T:
    """Run ``work`` in a thread, and convert errors to :class:`ToolError` without internal details."""
    try:
        return await workers.run(work)
    except QueueFullError:
        raise ToolError("busy: too many searches are waiting; try again") from None
    except FileRefused:
        raise
    except RequestRefused as refusal:
        raise ToolError(str(refusal)) from None
    except BranchRankError as error:
        _log.error("%s", safe(error.message))
        raise ToolError("the search failed; the reason is in the server's log") from None


def _result(hit: Hit) -> Result:
    same = {name: getattr(hit, name) for name in Result.model_fields if name in Hit.__struct_fields__}
    return Result(path=hit.source, matched_lines=list(hit.matched), **same)
