"""Take the screenshots for the documentation from the folder of a finished demo (needs ``chromium``).

``python docs/transcript.py`` calls :func:`pictures` with the folder of its own demo.

1. Save the first page of the report as ``images/report.png``.
2. Save the labels of a question on the local page as ``images/view.png``.
3. Save a screenshot of the terminal UI, with a query on the bundled sample, as ``images/terminal.svg``.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

from branchrank import Workspace
from branchrank.frontends.cli.search import PREDICTORS
from branchrank.frontends.serve.service import Searches, Service
from branchrank.frontends.serve.tui import SearchApp

IMAGES = Path(__file__).parent / "images"
QUERY = "how do I compare two runs"
#: The question whose passages the picture of the local page shows.
LABELED = "br-010"


def report_picture(folder: Path) -> None:
    """Save a screenshot of the report in a browser window of 1,200 by 900 pixels."""
    [report] = folder.rglob("report.html")
    take(report.resolve().as_uri(), "report.png")


def view_picture(folder: Path) -> None:
    """Save a screenshot of a question's passages on the local page."""
    [run] = (folder / "reports").iterdir()
    words = ["view", f"{folder.name}/reports", "--data-dir", folder.name, "--annotator", "ada"]
    words += ["--no-open", "--port", "0"]
    command = [sys.executable, "-m", "branchrank", *words]
    with subprocess.Popen(command, cwd=folder.parent, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        url = server.stderr.readline().split()[-1].partition("/#")[0]
        take(f"{url}/label?run={run.name}&question={LABELED}", "view.png")
        server.terminate()


def take(url: str, name: str) -> None:
    """Save a screenshot of a page, five seconds of the page's time after it is opened."""
    flags = ["--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=1200,900"]
    flags += ["--virtual-time-budget=5000", f"--screenshot={IMAGES / name}"]
    browser = shutil.which("chromium") or "chromium"
    subprocess.run([browser, *flags, url], check=True, capture_output=True)


async def terminal_picture(data: Path) -> None:
    """Save a screenshot of the terminal UI at 110 columns by 32 rows."""
    with Workspace.open(data) as workspace:
        workspace.search(QUERY)  # loads the model; otherwise the picture shows its loading time
        app = SearchApp(Searches(Service(workspace, PREDICTORS)), query=QUERY)
        async with app.run_test(size=(110, 32)) as pilot:
            await pilot.pause()
            await app.workers.wait_for_complete()
            await pilot.pause()
            app.save_screenshot(filename="terminal.svg", path=str(IMAGES))


def pictures(folder: Path) -> None:
    """Save all pictures of the demo in ``folder``."""
    report_picture(folder)
    view_picture(folder)
    asyncio.run(terminal_picture(folder))
