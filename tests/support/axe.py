"""axe-core, the accessibility checker that runs in the page: which version, and where it is kept.

``make axe`` fetches it from npm into ``build/``; the package is not part of the project.
"""

from __future__ import annotations

import base64
import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from support.chromium import Chromium
from support.needs import need

VERSION = "4.14.1"
#: SHA-512 of the package's archive, as npm writes it.
INTEGRITY = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
SCRIPT = Path(__file__).parents[2] / "build" / f"axe-core-{VERSION}.min.js"

_RUN = """axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations.map(
  ({ id, help, nodes }) =>
    `${id}: ${help}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 200)).join(' | ')}`))"""


def violations(browser: Chromium) -> list[str]:
    """What axe-core finds wrong with the page that is open, all rules that are on by default.

    Without axe-core in ``build/`` the test is skipped.
    """
    need("axe-core", found=SCRIPT.is_file())
    browser.run(SCRIPT.read_text(encoding="utf-8") + "; 0")
    found: Any = browser.run(_RUN)
    return list(found)


def fetch() -> None:
    """Download the pinned version with npm, unless it is there, and check it."""
    if SCRIPT.is_file():
        return
    if shutil.which("npm") is None:
        sys.exit(f"npm, which downloads axe-core {VERSION}, is not installed")
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", f"axe-core@{VERSION}"]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        archive = (Path(folder) / f"axe-core-{VERSION}.tgz").read_bytes()
    digest = base64.b64encode(hashlib.sha512(archive).digest()).decode()
    if digest != INTEGRITY:
        sys.exit(f"axe-core {VERSION} has the SHA-512 {digest}, not {INTEGRITY}")
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        script = files.extractfile("package/axe.min.js")
        assert script is not None
        SCRIPT.parent.mkdir(exist_ok=True)
        SCRIPT.write_bytes(script.read())


if __name__ == "__main__":
    fetch()
