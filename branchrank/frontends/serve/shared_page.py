"""What the pages of ``view`` and ``serve`` share: their files, and the search.

1. The page is plain HTML, CSS and JavaScript from the folder ``page``, and the style sheet of the report. The
   content security policy allows only these files, and no other origin may read or frame them.
2. The page of ``serve`` has only the view *Search*, and writes nothing.
3. A request for a search must have a header that other websites can't send, because a search can call an LLM.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from importlib.resources import files

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from branchrank.core.io.loopback_server import Refusal
from branchrank.core.io.printable import safe
from branchrank.core.records import Hit, Record
from branchrank.core.settings import Bm25Settings
from branchrank.frontends.serve.service import Service
from branchrank.index.stores.analyzer import Analyze, analyzer, marked_parts
from branchrank.workspace import Workspace

#: The number of hits that the page shows.
SHOWN_HITS = 10
QUERY_CHARACTERS = 10_240
#: The header that the page's own requests have.
OWN_HEADER = "x-branchrank"
_OWN = "branchrank.frontends.serve"
#: The page's files, with their packages.
_FILES = {
    "report.css": ("branchrank.reports", "page.css"),
    "answers.js": ("branchrank.reports", "answers.js"),
    **{
        name: (_OWN, name)
        for name in ("view.css", "view.js", "search.js", "runs.js", "questions.js", "compare.js", "labels.js")
    },
}
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
#: The paths that need no token, because they are the same for everybody.
PUBLIC = frozenset({"/", *(f"/page/{name}" for name in _FILES)})
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


class FoundPassage(Record, frozen=True, kw_only=True):
    """A hit on the page. ``section`` contains the first and the last line of the hit's section.

    Each line consists of parts, of which every second one is a word of the query.
    """

    source: str
    first: int
    last: int
    heading: str
    section: tuple[int, int]
    lines: tuple[tuple[str, ...], ...]


class SearchAnswer(Record, frozen=True, kw_only=True):
    """The hits of a predictor, the predictors to choose from, and the reason why each other one can't run."""

    predictor: str
    predictors: tuple[str, ...]
    refused: dict[str, str]
    hits: tuple[FoundPassage, ...] = ()
    notices: tuple[str, ...] = ()


def page_routes(paths: Iterable[str], only: str = "") -> Iterator[Route]:
    """Yield the routes of the page at ``paths`` and of its files. ``only`` is its only view, if any."""
    html = files(_OWN).joinpath("page", "view.html").read_bytes()
    html = html.replace(b"<body>", f'<body data-only="{only}">'.encode() if only else b"<body>")
    yield from (Route(path, lambda _request: _response("view.html", html)) for path in paths)
    yield Route("/page/{name}", _file)


def _file(request: Request) -> Response:
    found = _FILES.get(request.path_params["name"])
    if found is None:
        raise Refusal(404, "no_file", "the page has no such file")
    return _response(found[1], files(found[0]).joinpath("page", found[1]).read_bytes())


def _response(name: str, content: bytes) -> Response:
    return Response(content, headers=HEADERS, media_type=_TYPES[name.rpartition(".")[2]])


def query_of(request: Request) -> tuple[str, str]:
    """Return the query and the predictor of a search. Raises :class:`Refusal` if another site may ask."""
    if OWN_HEADER not in request.headers:
        raise Refusal(403, "wrong_origin", f"a search needs the header {OWN_HEADER}, which the page sends")
    query, predictor = (request.query_params.get(name, "") for name in ("query", "predictor"))
    if len(query) > QUERY_CHARACTERS:
        raise Refusal(422, "invalid", f"the query has more than {QUERY_CHARACTERS} characters")
    return query, predictor


def searched(service: Service, query: str, predictor: str) -> SearchAnswer:
    """Return the hits for a query, or none for an empty query.

    Raises the errors of :meth:`Service.retrieve`.
    """
    known = SearchAnswer(
        predictors=service.predictors, refused=service.refused, predictor=service.predictors[0]
    )
    if not query.strip():
        return known
    name, found = service.retrieve(query, SHOWN_HITS, predictor)
    analyze = analyzer(service.workspace.settings.part(Bm25Settings))
    words = frozenset(analyze(query))
    return replace(
        known,
        predictor=name,
        hits=tuple(_shown(hit, service.workspace, words, analyze) for hit in found.hits),
        notices=tuple(map(safe, (*found.fallbacks, *found.remarks))),
    )


def _shown(hit: Hit, workspace: Workspace, words: Collection[str], analyze: Analyze) -> FoundPassage:
    node = workspace.tree.nodes.get(hit.node_id or "")
    section = (node.line_start, node.own_line_end) if node is not None else (None, None)
    return FoundPassage(
        source=safe(hit.source),
        first=hit.line_start,
        last=hit.line_end,
        heading=safe(hit.breadcrumb),
        section=(section[0] or hit.line_start, section[1] or hit.line_end),
        lines=tuple(marked_parts(safe(line), words, analyze) for line in hit.text.split("\n")),
    )
