"""Damage to the files of an embedded Chroma collection.

Each trial runs as a program of its own: Chroma keeps databases open in a process, and its compiled code could
end the process.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random

from support.commands import invoke, program

from damaged_files.changes import Change, changes_of
from damaged_files.trials import REFUSALS

#: More chunks than a query asks Chroma for, so that its graph is searched.
PAGES, SECTIONS = 30, 10
WORDS = (
    "tea",
    "kettle",
    "steam",
    "valve",
    "filter",
    "pump",
    "cup",
    "scale",
    "sensor",
    "heater",
    "timer",
    "lid",
)
SEARCH = ("retrieve", "--data-dir", "data", "--json", "--quiet", "which valve lets steam out")


class ChromaWorld:
    """A workspace whose vectors are in Chroma, and its unchanged copy."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._whole, self.outside = folder / "world", folder / "whole", folder / "outside"
        self.outside.mkdir(parents=True)
        (self.outside / "secret.txt").write_text("canary\n", encoding="utf-8")
        docs = self.folder / "docs"
        docs.mkdir(parents=True)
        random = Random(0)
        for page in range(PAGES):
            sections = (
                f"## {random.choice(WORDS)} {page}.{number}\n\n{' '.join(random.choices(WORDS, k=60))}\n"
                for number in range(SECTIONS)
            )
            (docs / f"page{page}.md").write_text(f"# Page {page}\n\n" + "\n".join(sections), encoding="utf-8")
        words = ("--embedder", "fake:16", "--vector-store", "chroma", "--quiet")
        made = invoke("index", docs, "--data-dir", self.folder / "data", *words)
        assert made.exit_code == 0, made.output
        shutil.copytree(self.folder, self._whole, symlinks=True)
        self.expected = self._hits(self._search())

    def trials(self) -> Iterator[tuple[Path, Change]]:
        """Every change of every file in Chroma's folder."""
        for path in sorted(self._whole.rglob("chroma/**/*")):
            if path.is_file() and "indexes" in path.parts:
                for change in changes_of(path, self.outside):
                    yield path.relative_to(self._whole), change

    def judge(self, file: Path, change: Change) -> tuple[str, str] | None:
        """Change the file and search; return the fault and what happened, ``None`` without one."""
        try:
            change.apply(self.folder / file)
            done = self._search()
        except subprocess.TimeoutExpired:
            return "hung", ""
        finally:
            shutil.rmtree(self.folder)
            shutil.copytree(self._whole, self.folder, symlinks=True)
        said = done.stdout + done.stderr
        if done.returncode < 0 or "Traceback" in said:
            return "crashed", f"exit code {done.returncode}: {said[-2_000:]}"
        if "canary" in said:
            return "leaked", said[-500:]
        if done.returncode in REFUSALS:
            return None if done.stderr.strip() else ("wrong", f"exit code {done.returncode} without a word")
        if done.returncode != 0 or self._hits(done) != self.expected:
            return "wrong", f"exit code {done.returncode}: {said[-500:]}"
        return None

    def _search(self) -> subprocess.CompletedProcess[str]:
        found: subprocess.CompletedProcess[str] = program("-m", "branchrank", *SEARCH, cwd=self.folder)
        return found

    @staticmethod
    def _hits(done: subprocess.CompletedProcess[str]) -> list[object]:
        hits: list[object] = json.loads(done.stdout)["hits"]
        return hits
