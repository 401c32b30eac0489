"""What a stranger does: ``pip install`` of the wheel into an empty environment, then the first commands."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from support.commands import ROOT, table
from support.needs import need

pytestmark = pytest.mark.full
Ran = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("wheel")


@pytest.fixture(scope="module")
def wheel(folder: Path) -> Path:
    """Built from a copy of what git tracks, so that no file of the checkout gets into it by chance."""
    source = folder / "source"
    subprocess.run([need("git"), "clone", "--quiet", ROOT, source], check=True)
    words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, source]
    subprocess.run(words, check=True)
    (made,) = folder.glob("branchrank-*.whl")
    return made


@pytest.fixture(scope="module")
def branchrank(folder: Path, wheel: Path) -> Callable[..., Ran]:
    """The installed command in ``folder/here``, with a home of its own."""
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    words = ["-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel]
    subprocess.run([python, *words], check=True)
    (folder / "here").mkdir()
    own = ("PYTHONPATH", "PYTHONWARNINGS", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if name not in own}
    environment |= {"HOME": str(folder / "home"), "HF_HUB_OFFLINE": "1", "PYTHONNOUSERSITE": "1"}

    def run(*words: object) -> Ran:
        return subprocess.run(
            [folder / "venv" / "bin" / "branchrank", *map(str, words)],
            cwd=folder / "here",
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_the_wheel_has_the_sample_and_nothing_of_the_tests(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        [metadata] = [name for name in names if name.endswith(".dist-info/METADATA")]
        description = archive.read(metadata).decode().partition("\n\n")[2]
    sample = {
        f"branchrank/sample/{path.relative_to(ROOT / 'data/sample').as_posix()}"
        for path in (ROOT / "data" / "sample").rglob("*")
        if path.is_file()
    }
    assert sample <= names
    assert "branchrank/corpus/named.toml" in names
    assert not [name for name in names if name.startswith(("tests/", "docs/", "reports/"))]
    assert "branchrank init docs" in description
    assert re.findall(r"\]\((?!https?:)|<(?:img|a) ", description) == [], "no relative links"


def test_the_demo_of_the_installed_wheel(folder: Path, branchrank: Callable[..., Ran]) -> None:
    done = branchrank("demo", "--quiet")
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr, "the weights came with the package"
    report = re.search(r"(?m)^report: (\S+)$", done.stdout)
    assert report is not None
    made = (folder / "here" / report[1]).parent
    assert (made / "report.html").is_file()
    rows = {row["predictor"]: row for row in table(made / "summary.csv")}
    ours = "local local-score pageindex hybrid hybrid-score late-interaction bm25 dense"
    assert list(rows) == ours.split()
    assert rows["local"]["questions"] == "430"
    assert float(rows["local"]["strict_hit@5"]) > 0.6, "vectors of the model, not of a stand-in"
    again = branchrank("demo", "--quiet")
    assert again.stdout == done.stdout


def test_a_benchmark_of_own_documents_with_the_installed_wheel(
    folder: Path, branchrank: Callable[..., Ran]
) -> None:
    shutil.copytree(ROOT / "docs", folder / "here" / "docs")
    started = branchrank("init")
    assert started.returncode == 0, started.stderr
    done = branchrank("run", "experiment.toml", "--quiet")
    assert done.returncode == 0, done.stderr
    (made,) = (folder / "here" / "reports").iterdir()
    assert [row["predictor"] for row in table(made / "summary.csv")] == [
        "local",
        "hybrid",
        "late-interaction",
    ]
    assert branchrank("verify", made).returncode == 0
