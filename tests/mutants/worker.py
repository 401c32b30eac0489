"""A copy of the working tree in which mutants are applied and tests run."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mutants.mutant import ROOT, Mutant

#: The plugins that tests need; loading every installed one takes longer than most mutants' tests.
_PLUGINS = ("pytest_asyncio.plugin", "_hypothesis_pytestplugin", "mutants.no_shrinking")
#: A run of a mutant's tests that takes longer, in seconds, is stopped and counts as broken.
TIME_LIMIT = 600
TIMED_OUT = -1
_OUTCOME = re.compile(r"^(tests/\S+?\.py::.*?) (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class TestRun:
    """What pytest reported: its exit code, the outcome of each test id, and its output."""

    __test__ = False

    code: int
    outcomes: Mapping[str, str]
    output: str

    def failed(self) -> list[str]:
        """The ids of the tests that failed, in the order in which they ran."""
        return [test for test, outcome in self.outcomes.items() if outcome in ("FAILED", "ERROR")]


class Worker:
    """A copy of the tracked and the new files of the working tree, below ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tree = folder / "tree"
        # pycache files are matched by modification time and size; every write gets a time of its own.
        self._times = itertools.count(1_000_000_000)
        copy_working_tree(self._tree)

    def check_isolation(self) -> None:
        """Make sure that tests import the copy. Raises ``RuntimeError`` when they import another tree."""
        command = [sys.executable, "-c", "import branchrank; print(branchrank.__file__)"]
        found = subprocess.run(
            command, cwd=self._folder, env=self._environment(), capture_output=True, text=True, check=True
        ).stdout.strip()
        if not Path(found).is_relative_to(self._tree):
            raise RuntimeError(f"the tests would import {found}, not the copy in {self._tree}")

    @contextmanager
    def broken_by(self, mutant: Mutant) -> Iterator[None]:
        """Apply the mutant for the length of a ``with`` block."""
        file = self._tree / mutant.path
        original = file.read_text(encoding="utf-8")
        self._write(file, mutant.mutated(self._tree))
        try:
            yield
        finally:
            self._write(file, original)

    def run(self, tests: Sequence[str], *, stop_at_first: bool = True) -> TestRun:
        """Run these tests in the copy. Tests that don't end in time give the code :data:`TIMED_OUT`."""
        words = ["-vv", "--tb=short", f"--basetemp={self._folder / 'tmp'}", "-p", "no:cacheprovider"]
        for plugin in _PLUGINS:
            words += ["-p", plugin]
        try:
            done = subprocess.run(
                [sys.executable, "-m", "pytest", *words, *(["-x"] if stop_at_first else []), *tests],
                cwd=self._tree,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=TIME_LIMIT,
            )
        except subprocess.TimeoutExpired:
            return TestRun(TIMED_OUT, {}, f"not done in {TIME_LIMIT} seconds")
        return TestRun(done.returncode, dict(_OUTCOME.findall(done.stdout)), done.stdout)

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(self._tree), str(self._tree / "tests")]),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "COLUMNS": "200",
        }

    def _write(self, file: Path, text: str | None) -> None:
        if text is None:
            file.unlink()
            return
        file.write_text(text, encoding="utf-8")
        moment = next(self._times)
        os.utime(file, (moment, moment))


def copy_working_tree(target: Path) -> None:
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
