"""The local page over runs and a workspace of a test."""

from __future__ import annotations

import contextlib
from pathlib import Path

from starlette.types import ASGIApp
from support.http_server import Running, running_at

from branchrank.core.io.access import Access
from branchrank.frontends.serve.view import View, view_application
from branchrank.frontends.serve.view_runs import RunList
from branchrank.index.workspace_folder import WorkspaceFolder

TOKEN = "the-token-of-this-start"
READY = "document.getElementById('view').getAttribute('aria-busy') === 'false'"


def page_of(folder: Path) -> contextlib.AbstractContextManager[Running]:
    """Serve the page for the runs and the workspace in a folder."""
    return running_at(lambda url: view_of(folder, url))


def view_of(folder: Path, url: str) -> ASGIApp:
    access = Access(hosts=(url.partition("//")[2],), origins=(url,), token=TOKEN)
    return view_application(
        View(RunList([folder / "reports"]), WorkspaceFolder.open(folder / "data"), "ada"), access
    )
