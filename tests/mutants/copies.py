"""Copies of the working tree in which defects are made: the checkout itself is never edited."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from support import draw

ROOT = Path(__file__).parents[2]


def copy_working_tree(target: Path) -> Path:
    """Copy the tracked files and those that git doesn't ignore, as they are now."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)
    where = [sys.executable, "-c", "import branchrank; print(branchrank.__file__)"]
    found = subprocess.run(
        where, cwd=target.parent, env=variables(target), capture_output=True, text=True, check=True
    )
    assert Path(found.stdout.strip()).is_relative_to(target), "the tests would import another copy"
    return target


def variables(tree: Path) -> dict[str, str]:
    """The environment in which tests import the copy, and never its compiled modules of a moment ago."""
    path = os.pathsep.join([str(tree), str(tree / "tests")])
    own = {name: value for name, value in os.environ.items() if name != draw.VARIABLE}
    return {**own, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"}


def pytest_words(tests: list[str], processes: int = 0) -> list[str]:
    """A command that runs tests, the long ones too, up to the first failure."""
    chosen = ("-m", "campaign or full or not full")
    return [sys.executable, "-m", "pytest", "-x", "-n", str(processes), *chosen, *tests]
