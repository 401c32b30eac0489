"""The local page over runs and a workspace of a test."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from starlette.types import ASGIApp
from support.http_server import Running, running_at

from branchrank.core.io.keys import Access
from branchrank.frontends.serve.view import View, view_application
from branchrank.frontends.serve.view_runs import RunList
from branchrank.index.workspace_folder import WorkspaceFolder

TOKEN = "the-token-of-this-start"
READY = "document.getElementById('view').getAttribute('aria-busy') === 'false'"


@contextlib.contextmanager
def page_of(folder: Path) -> Iterator[Running]:
    """Serve the page for the runs and the workspace in a folder."""
    view = View(RunList([folder / "reports"]), WorkspaceFolder.open(folder / "data"), "ada")
    with contextlib.closing(view), running_at(lambda url: app_of(view, url)) as started:
        yield started


def app_of(view: View, url: str) -> ASGIApp:
    return view_application(view, Access(hosts=(url.partition("//")[2],), origins=(url,), token=TOKEN))
