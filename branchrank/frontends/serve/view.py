"""The local page for finished runs: an HTTP application with static files and JSON.

1. The page's files and its search are those of :mod:`branchrank.frontends.serve.shared_page`. The workspace
   is opened for the first search.
2. Each request must have this server's address in its ``Host`` header
   (:mod:`branchrank.core.io.keys`).
3. A request that writes must also have this address in its ``Origin`` header, and the token of this start in
   its ``Authorization`` header. The page gets the token from the part of the URL after ``#``, which browsers
   never send.
4. A client names runs and documents. The server opens them only if they are in its own lists.
"""

from __future__ import annotations

import shlex
import webbrowser
from collections.abc import Callable, Coroutine
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock, Thread
from typing import Any, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from branchrank.core.errors import BranchRankError, UsageError
from branchrank.core.io.files import NOT_JSON, read_beneath
from branchrank.core.io.keys import Access
from branchrank.core.io.loopback_server import Guard, Refusal, http_server, listen, url_of
from branchrank.core.io.printable import safe
from branchrank.frontends.serve.service import RequestRefused, Service
from branchrank.frontends.serve.shared_page import HEADERS, page_routes, query_of, searched
from branchrank.frontends.serve.view_documents import Documents, GivenEdit
from branchrank.frontends.serve.view_labels import GivenLabel, LabelDesk
from branchrank.frontends.serve.view_questions import Filters, QuestionLists
from branchrank.frontends.serve.view_runs import REPORTS, RunList, compared, trends
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.questions.question_files import ChangedFileError
from branchrank.reports.writing import script_source
from branchrank.runs.directory import MOST_BYTES
from branchrank.search.systems.builtin import BUILTIN
from branchrank.workspace import Workspace

HOST = "127.0.0.1"
#: A report is a page of its own, in whose sandbox only BranchRank's own script runs.
_REPORT_HEADERS = {
    **HEADERS,
    "content-security-policy": "sandbox allow-scripts; default-src 'none'; "
    f"script-src {script_source()}; "
    "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "unsafe-none",  # the HTML standard requires this with a sandbox
}
#: The paths of the page's views, which all have the same HTML.
_VIEWS = ("/", "/search", "/questions", "/compare", "/label")
#: The prefix of the parameters that select a slice.
_SLICE = "slice:"

T = TypeVar("T")


class View:
    """The page's data: the runs and, if there is a workspace, its documents and question file."""

    def __init__(self, runs: RunList, folder: WorkspaceFolder, annotator: str) -> None:
        self.runs = runs
        self.documents = Documents(folder)
        self.questions = QuestionLists(runs, self.documents)
        self.labels = LabelDesk(self.questions, self.documents, annotator)
        self._lock = Lock()
        self._service: Service | None = None

    def close(self) -> None:
        """Close the workspace that a search has opened. The next search opens it again."""
        with self._lock:
            if self._service is not None:
                self._service.workspace.close()
            self._service = None

    def search_json(self, request: Request) -> object:
        """Return the hits for a query with any predictor of the workspace that can run."""
        query, predictor = query_of(request)
        try:
            with self._lock:
                if self._service is None:
                    workspace = Workspace.open(self.documents.folder.data_dir)
                    names = workspace.default_predictors(*BUILTIN)
                    self._service = Service(workspace, names)
                service = self._service
            return searched(service, query, predictor)
        except BranchRankError:
            self.close()  # once the index is built, another is opened
            raise

    def runs_json(self, _request: Request) -> object:
        """Return the runs, newest first, and the trend of each experiment."""
        found = self.runs.summaries()
        return {"runs": found, "trends": trends(found), "steps": [] if found else self._steps()}

    def _steps(self) -> list[tuple[str, str, bool]]:
        """Return the steps to the first run, each with its commands, and whether it is done."""
        known, folder = self.documents.root is not None, self.documents.folder
        place = f"--data-dir {shlex.quote(str(folder.data_dir))}"
        init = "" if known else f"branchrank init PATH/TO/YOUR/DOCS {place}\n"
        file = shlex.quote(str(folder.questions_path)) if known else "questions.jsonl"
        run = f"branchrank benchmark {place} --reports {shlex.quote(str(self.runs.folders[0]))} --name first"
        asked = known and bool(self.labels.file.known())
        return [
            ("Index your documents", f"{init}branchrank index {place}", known and bool(folder.index_names)),
            ("Write questions, here or with the command", f"branchrank questions add {file} {place}", asked),
            ("Compare systems on your questions", run, False),
        ]

    def questions_json(self, request: Request) -> object:
        """Return one page of a run's questions that pass the filters, or of the workspace's questions."""
        asked = request.query_params
        page = asked.get("page", "")
        number = int(page) if page.isdecimal() and len(page) < 10 else 0
        if not asked.get("run"):
            return self.labels.file.listed(asked.get("words", ""), number)
        filters = Filters(
            **{
                name: asked.get(name, "")
                for name in ("predictor", "outcome", "lost", "change", "other", "words")
            },
            slices={
                name.removeprefix(_SLICE): value
                for name, value in asked.items()
                if name.startswith(_SLICE) and value
            },
        )
        return self.questions.listed(_run_keys(request), filters, number)

    def question_json(self, request: Request) -> object:
        """Return one question with its answers and the text of its passages."""
        return self.questions.opened(_run_keys(request), request.query_params.get("id", ""))

    def comparison_json(self, request: Request) -> object:
        """Return the comparison of two runs as text, and a table with a row per system."""
        run, against = map(self.runs.directory, _run_keys(request, 2))
        return compared(run, against, *(request.query_params.get(name, "") for name in ("system", "other")))

    def documents_json(self, _request: Request) -> object:
        """Return the names of the workspace's documents, and the newest run of its questions."""
        return {"sources": self.documents.sources, "newest": self.labels.newest()}

    def report(self, request: Request) -> Response:
        """Return the report in a run's folder, whose scripts reach neither the page nor another host."""
        name, directory = request.path_params["name"], self.runs.directory(_run_keys(request)[0])
        try:
            content = read_beneath(directory, name if name in REPORTS else "", MOST_BYTES)
        except OSError:
            raise Refusal(404, "no_file", "the run has no such report") from None
        return Response(content, headers=_REPORT_HEADERS, media_type=REPORTS[name])


def _run_keys(request: Request, least: int = 1) -> list[str]:
    """Return the run, and the run that it is compared with if there is one.

    Raises :class:`UsageError` for fewer than ``least`` runs.
    """
    keys = [key for name in ("run", "against") if (key := request.query_params.get(name, ""))]
    if len(keys) < least:
        raise UsageError("the request does not name its runs")
    return keys


def view_application(view: View, access: Access) -> Guard:
    """Return the page's application, wrapped in the guard that checks requests.

    ``access`` contains the page's only origin. Its token is needed only for writing.
    """
    routes = [
        *page_routes(_VIEWS),
        Route("/report/{name}", view.report),
        Route("/api/search", _answer(view.search_json)),
        Route("/api/runs", _answer(view.runs_json)),
        Route("/api/questions", _answer(view.questions_json)),
        Route("/api/question", _answer(view.question_json)),
        Route("/api/document", _answer(view.documents.shown, "source")),
        Route("/api/compare", _answer(view.comparison_json)),
        Route("/api/documents", _answer(view.documents_json)),
        Route("/api/places", _answer(view.documents.places, "words")),
        Route("/api/label", _answer(view.labels.page, "run", "question")),
        Route("/api/labels", _writing(GivenLabel, view.labels.add, access), methods=["POST"]),
        Route("/api/edits", _writing(GivenEdit, view.labels.file.edit, access), methods=["POST"]),
    ]
    handlers = {Refusal: _refused, RequestRefused: _refused, BranchRankError: _refused, Exception: _fault}
    app = Starlette(routes=routes, exception_handlers=handlers)
    return Guard(app, msgspec.structs.replace(access, token=""), flags=False)


def _answer(make: Callable[..., object], *names: str) -> Callable[[Request], Response]:
    """Return the endpoint that responds, as JSON, with what ``make`` returns.

    ``make`` gets the parameters with these ``names``, or the request if there are none.
    """
    return lambda request: _json(
        lambda: make(*(request.query_params.get(name, "") for name in names) if names else (request,))
    )


def _writing(
    body_type: type[T], write: Callable[[T], object], access: Access
) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    """Return the endpoint that passes a body to ``write``, if the page of this start has sent the request."""

    async def endpoint(request: Request) -> Response:
        if not access.answers_token(request.headers.getlist("authorization")):
            message = "this page has no valid token; open the address that the command printed"
            raise Refusal(401, "no_token", message)
        # The guard has refused other origins, but not a request without the header.
        own = request.headers.get("sec-fetch-site", "same-origin") == "same-origin"
        if not request.headers.getlist("origin") or not own:
            raise Refusal(403, "wrong_origin", "only the page itself may write")
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            raise Refusal(415, "not_json", "the Content-Type of the request must be application/json")
        try:
            given = msgspec.json.decode(await request.body(), type=body_type)
        except NOT_JSON as error:
            raise Refusal(422, "invalid", safe(str(error))) from None
        return await run_in_threadpool(_json, lambda: write(given))

    return endpoint


def _json(make: Callable[[], object]) -> Response:
    return Response(msgspec.json.encode(make()), headers=HEADERS, media_type="application/json")


async def _refused(_request: Request, error: Exception) -> Response:
    if isinstance(error, ChangedFileError):
        error = Refusal(409, "changed", safe(error.message))
    elif isinstance(error, BranchRankError | RequestRefused):
        error = Refusal(422, "refused", safe(str(error)))
    assert isinstance(error, Refusal)
    return error.response


async def _fault(_request: Request, _error: Exception) -> Response:
    return Refusal(500, "failed", "the page's server failed; its terminal shows the error").response


def serve_view(view: View, token: str, port: int, ready: Callable[[str], Any], *, browse: bool) -> None:
    """Serve the page until the process is stopped.

    ``ready`` is called with the page's URL, which contains the token. If ``browse`` is true, the browser
    opens a file that forwards it to this URL. The file exists until the server stops.
    """
    remedy = "choose another port with --port"
    with listen(HOST, port, remedy) as listening, TemporaryDirectory(prefix="branchrank-") as folder:
        url = url_of(HOST, listening).removesuffix(":80")  # browsers do not send this port
        app = view_application(view, Access(hosts=(url.partition("//")[2],), origins=(url,), token=token))
        address = f"{url}/#token={token}"
        ready(address)
        # The first comparison needs this module, which loads while the browser opens.
        Thread(target=import_module, args=("scipy.special",), daemon=True).start()
        if browse:
            # Other users of the machine can read the command line of a browser, but not this folder.
            forward = Path(folder) / "view.html"
            forward.write_text(f'<meta http-equiv="refresh" content="0; url={address}">', encoding="utf-8")
            # In a thread, because a browser in the terminal would keep the server from starting.
            Thread(target=webbrowser.open, args=(forward.as_uri(),), daemon=True).start()
        http_server(app).run(sockets=[listening])
