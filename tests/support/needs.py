"""What some tests need of the machine beside Python, and how to install it.

What starts such a program asks :func:`need` for it. Without it, a test that gets there is skipped, or fails
if ``CI`` is set. The end of the run names what to install (:func:`missing`).
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterable

import pytest

#: How to install each, on Debian.
INSTALL = {
    "axe-core": "make axe (downloads it with npm)",
    "bash": "apt-get install bash",
    "cc": "apt-get install gcc libc6-dev",
    "chromium": "apt-get install chromium",
    "fonts-liberation": "apt-get install fontconfig fonts-liberation",
    "git": "apt-get install git",
    "make": "apt-get install make",
    "redis-server": "apt-get install redis-server",
}
_REASON = "needs "


def need(name: str, *commands: str, found: bool = False) -> str:
    """Return the path of the program, whose commands may have other names; skip the test if there is none.

    ``found`` is true if something that is not a program was found.
    """
    path = next(filter(None, map(shutil.which, commands or (name,))), None)
    if path is None and not found:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(_REASON + name)
    return path or name


def missing(skipped: Iterable[pytest.TestReport]) -> list[str]:
    """One line for each thing that tests were skipped for: how many tests, and how to install it."""
    reasons = (report.longrepr[2] for report in skipped if isinstance(report.longrepr, tuple | list))
    names = Counter(reason.removeprefix("Skipped: ").removeprefix(_REASON) for reason in reasons)
    return [f"{name}: {names[name]} skipped; {how}" for name, how in INSTALL.items() if names[name]]
