"""The HTTP application with ``POST /retrieve``, ``GET /health``, an OpenAPI description and a search page.

The record classes in this module define the requests and responses, and the OpenAPI description contains the
JSON schemas of these classes. Retrievals run in a small thread pool. If the pool's queue is full, the server
responds with status 503.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from msgspec import Meta
from starlette.exceptions import HTTPException

from branchrank import __version__
from branchrank.core.errors import BranchRankError
from branchrank.core.io.keys import Access
from branchrank.core.io.loopback_server import ErrorAnswer, Guard, Refusal, busy
from branchrank.core.io.printable import safe
from branchrank.core.records import Hit, Record
from branchrank.frontends.serve.service import QueueFullError, RequestRefused, Service, Workers
from branchrank.frontends.serve.shared_page import PUBLIC, QUERY_CHARACTERS, page_routes, query_of, searched
from branchrank.search.systems.query import FILTER_KEYS

TOP_K = 100
#: The default number of hits, which equals the default of ``--top-k`` in the retrieval commands.
DEFAULT_TOP_K = 5
FILTERS = 20
#: A filter whose pattern appears only in the OpenAPI description, because the library checks filters itself.
Condition = Annotated[
    str,
    Meta(max_length=1_000, extra_json_schema={"pattern": f"^({'|'.join(FILTER_KEYS)})=[\\s\\S]+$"}),
]
MESSAGE_CHARACTERS = 300

T = TypeVar("T")

_log = logging.getLogger(__name__)


class RetrieveRequest(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A query. If ``predictor`` is empty, the first predictor of the server is used.

    ``top_k`` is an integer in the sense of JSON Schema, so 5.0 is valid. Each filter has the form
    ``KEY=VALUE``, as in ``--filter``, and only documents that match all filters are searched.
    """

    query: Annotated[str, Meta(min_length=1, max_length=QUERY_CHARACTERS)]
    top_k: Annotated[int, Meta(ge=1, le=TOP_K)] = DEFAULT_TOP_K
    predictor: Annotated[str, Meta(max_length=100)] = ""
    filters: Annotated[tuple[Condition, ...], Meta(max_length=FILTERS)] = ()


class RetrieveAnswer(Record, frozen=True, kw_only=True):
    """The hits for a query, best first. Each entry of ``fallbacks`` is a failed stage with the reason."""

    predictor: str
    hits: tuple[Hit, ...]
    fallbacks: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


class Health(Record, frozen=True, kw_only=True):
    """The response to ``GET /health``. ``refused`` maps each predictor that can't run to the reason."""

    status: str
    version: str
    predictors: tuple[str, ...]
    refused: dict[str, str]
    embedder: str
    corpus_digest: str
    chunks: int


def application(service: Service, workers: Workers, access: Access) -> Guard:
    """Return the HTTP application, wrapped in the guard that checks requests."""
    # The pages /docs and /redoc of FastAPI are disabled, because they load scripts from other hosts.
    app = FastAPI(title="BranchRank", version=__version__, docs_url=None, redoc_url=None, responses=_ERRORS)

    @app.get("/health", **_described(Health))
    async def health() -> Response:
        """Return the state of the server, its predictors and its index."""
        manifest = service.workspace.index.manifest
        model = manifest.embedder.model
        answer = Health(
            status="ok",
            version=__version__,
            predictors=service.predictors,
            refused=service.refused,
            embedder=Path(model).name if Path(model).is_absolute() else model,
            corpus_digest=manifest.corpus_digest,
            chunks=manifest.chunks,
        )
        return _json(answer)

    body = {"required": True, "content": _content(RetrieveRequest)}

    @app.post("/retrieve", **_described(RetrieveAnswer), openapi_extra={"requestBody": body})
    async def retrieve(request: Request) -> Response:
        """Return the best passages for a query, best first."""
        return _json(await _retrieved(service, workers, request))

    @app.get("/api/search", include_in_schema=False)
    async def search(request: Request) -> Response:
        """Return the hits that the page shows."""
        asked = query_of(request)
        return _json(await _answered(workers, lambda: searched(service, *asked)))

    app.router.routes.extend(page_routes(["/"], only="search"))

    @app.exception_handler(Refusal)
    async def refused(_request: Request, refusal: Refusal) -> Response:
        return refusal.response

    @app.exception_handler(HTTPException)
    async def wrong_route(_request: Request, error: HTTPException) -> Response:
        return Refusal(error.status_code, "wrong_route", str(error.detail), **(error.headers or {})).response

    @app.exception_handler(Exception)
    async def fault(_request: Request, _error: Exception) -> Response:
        return _failed().response

    schema = _openapi(app, service, bool(access.token))
    app.openapi = lambda: schema  # type: ignore[method-assign]
    return Guard(app, access, public=PUBLIC)


async def _retrieved(service: Service, workers: Workers, request: Request) -> RetrieveAnswer:
    """Parse one request, check it and answer it."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise Refusal(415, "not_json", "the Content-Type of the request must be application/json")
    try:
        body = msgspec.json.decode(await request.body())
        if isinstance(body, dict) and isinstance(k := body.get("top_k"), float) and k.is_integer():
            body["top_k"] = int(k)
        asked = msgspec.convert(body, RetrieveRequest)
    except msgspec.ValidationError as error:
        raise Refusal(422, "invalid", safe(str(error))[:MESSAGE_CHARACTERS]) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Refusal(400, "malformed", "the body is not JSON in UTF-8") from None
    name, found = await _answered(
        workers, lambda: service.retrieve(asked.query, asked.top_k, asked.predictor, asked.filters)
    )
    return RetrieveAnswer(predictor=name, hits=found.hits, fallbacks=found.fallbacks, notices=found.remarks)


async def _answered(workers: Workers, work: Callable[[], T]) -> T:
    """Run ``work`` in a thread, and return its result. Raises :class:`Refusal` if it can't be run."""
    try:
        return await workers.run(work)
    except RequestRefused as refusal:
        raise Refusal(422, refusal.code, safe(str(refusal))[:MESSAGE_CHARACTERS]) from None
    except QueueFullError:
        raise busy("too many requests are waiting") from None
    except BranchRankError as error:
        # The message may contain paths and hosts, which clients must not see.
        _log.error("%s", safe(error.message))
        raise _failed() from None


def _failed() -> Refusal:
    return Refusal(500, "failed", "the retrieval failed; the reason is in the server's log")


def _json(answer: Record) -> Response:
    return Response(msgspec.json.encode(answer), media_type="application/json")


_REF = "#/components/schemas/{name}"


def _content(record: type[Record]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REF.format(name=record.__name__)}}}


_CODES = {
    400: "not JSON",
    401: "token missing or invalid",
    403: "Origin not allowed",
    413: "body too large",
    415: "not application/json",
    421: "Host not allowed",
    422: "a value is out of range",
    500: "the retrieval failed",
    503: "too many requests are waiting",
}
_ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"description": text, "content": _content(ErrorAnswer)} for code, text in _CODES.items()
}


def _described(answer: type[Record]) -> dict[str, Any]:
    """Return the FastAPI arguments that document a route's answer in the OpenAPI schema."""
    found = {"description": "success", "content": _content(answer)}
    return {"response_model": None, "responses": {200: found}}


def _openapi(app: FastAPI, service: Service, token: bool) -> dict[str, Any]:
    """Return the OpenAPI description, with the names of the predictors that can run."""
    schema = get_openapi(title=app.title, version=app.version, routes=app.routes)
    _, components = msgspec.json.schema_components(
        (RetrieveRequest, RetrieveAnswer, Health, ErrorAnswer), ref_template=_REF
    )
    components["RetrieveRequest"]["properties"] |= {
        "predictor": {
            "type": "string",
            "enum": [*service.predictors],
            "default": service.predictors[0],
        },
    }
    schema["components"] = {"schemas": components}
    if token:
        schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        schema["security"] = [{"token": []}]
    return schema
