"""What a stranger does: an installation of the wheel without extras, then each command that is printed."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from support.commands import ROOT, table
from support.extras import EXTRAS, declared, printed, write_documents
from support.needs import need
from support.pseudo_terminal import Terminal

pytestmark = pytest.mark.full
Ran = subprocess.CompletedProcess[str]
#: uv does in seconds what takes pip minutes. pip is not in an environment that uv made.
UV = shutil.which("uv", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("wheel")


@pytest.fixture(scope="module")
def python(folder: Path) -> Path:
    """The interpreter of a new environment, which has pip if there is no uv."""
    make = [UV, "venv", "--quiet", "--python", sys.executable] if UV else [sys.executable, "-m", "venv"]
    subprocess.run([*make, folder / "venv"], check=True)
    return folder / "venv" / "bin" / "python"


@pytest.fixture(scope="module")
def wheel(folder: Path, python: Path) -> Path:
    """Built from a copy of what git tracks, so that no file of the checkout gets into it by chance."""
    source = folder / "source"
    subprocess.run([need("git"), "clone", "--quiet", ROOT, source], check=True)
    with_pip = [python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, source]
    words = [UV, "build", "--quiet", "--wheel", "--out-dir", folder, source] if UV else with_pip
    subprocess.run(words, check=True)
    (made,) = folder.glob("branchrank-*.whl")
    return made


@pytest.fixture(scope="module")
def branchrank(folder: Path, wheel: Path, python: Path) -> Callable[..., Ran]:
    """The installed command in ``folder/here``, with a home of its own."""
    pip = [UV, "pip", "install", "--python", python] if UV else [python, "-m", "pip", "install"]
    subprocess.run([*pip, "--quiet", "-c", ROOT / "constraints.txt", wheel], check=True)
    (folder / "here").mkdir()
    own = ("PYTHONPATH", "PYTHONWARNINGS", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if name not in own}
    environment |= {"HOME": str(folder / "home"), "HF_HUB_OFFLINE": "1", "PYTHONNOUSERSITE": "1"}

    def run(*words: object, cwd: str = "here") -> Ran:
        return subprocess.run(
            [folder / "venv" / "bin" / "branchrank", *map(str, words)],
            cwd=folder / cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.fixture
def follow(
    folder: Path, branchrank: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], list[str]]:
    """Give every command that an output names as the next step, and return the commands."""
    monkeypatch.setenv("BROWSER", "true %s")
    for name in ("PYTHONPATH", "PYTHONWARNINGS"):
        monkeypatch.delenv(name, raising=False)

    def opens(words: list[str]) -> bool:
        """The page's address is printed, or the whole screen is taken."""
        command = [str(folder / "venv" / "bin" / "branchrank"), *words]
        terminal = Terminal(command, folder / "here")
        try:
            return terminal.read_until(
                lambda: b"page: " in terminal.output or b"\x1b[?1049h" in terminal.output
            )
        finally:
            terminal.close()

    def given(output: str) -> list[str]:
        commands = re.findall(r"(?m)^  branchrank (.+)$", output.replace("PATH/TO/YOUR/DOCS", "--help"))
        for command in commands:
            words = shlex.split(command)
            if words[0] == "view" or words[:2] == ["questions", "add"]:
                assert opens(words), command
            else:
                done = branchrank(*words)
                assert done.returncode == 0, (command, done.stderr)
        return commands

    return given


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
    assert "branchrank/documents/named.toml" in names
    top = {name.partition("/")[0] for name in names}
    assert top == {"branchrank", metadata.partition("/")[0]}, "no tests, no scripts of the clone"
    assert "branchrank init docs" in description
    assert re.findall(r"\]\((?!https?:)|<(?:img|a) ", description) == [], "no relative links"


def test_the_demo_of_the_installed_wheel(
    folder: Path, branchrank: Callable[..., Ran], follow: Callable[[str], list[str]]
) -> None:
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
    assert len(follow(done.stdout)) > 3


def test_a_benchmark_of_own_documents_with_the_installed_wheel(
    folder: Path, branchrank: Callable[..., Ran], follow: Callable[[str], list[str]]
) -> None:
    shutil.copytree(ROOT / "docs", folder / "here" / "docs")
    started = branchrank("init")
    assert started.returncode == 0, started.stderr
    assert "run experiment.toml" in follow(started.stdout)
    (made,) = (folder / "here" / "reports").iterdir()
    assert [row["predictor"] for row in table(made / "summary.csv")] == [
        "local",
        "hybrid",
        "late-interaction",
    ]
    assert branchrank("verify", made).returncode == 0
    assert branchrank("tui").returncode == 2, "there is no terminal"


@pytest.fixture(scope="module")
def documents(folder: Path, branchrank: Callable[..., Ran]) -> str:
    (folder / "extras").mkdir()
    write_documents(folder / "extras")
    words = ("index", "docs", "--embedder", "all-MiniLM-L6-v2", "--quiet")
    assert branchrank(*words, cwd="extras").returncode == 0
    return "extras"


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_command_without_its_extra_prints_the_command_that_installs_it(
    extra: str, branchrank: Callable[..., Ran], documents: str
) -> None:
    done = branchrank(*EXTRAS[extra][1].split(), cwd=documents)
    assert printed(done.stderr) == declared(extra)
    assert f"{'uv ' if UV else ''}pip install" in done.stderr
