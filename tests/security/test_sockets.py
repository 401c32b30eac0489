"""Every command with sockets denied: it reaches nothing but what its flags name."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support import draw, harness
from support.faults.scenarios import make_folder
from support.needs import need
from support.pseudo_terminal import Terminal
from support.sockets.every_command import WORDS, commands

SOURCE = Path(__file__).parents[1] / "support" / "sockets" / "deny_sockets.c"
#: What some commands try by their own words.
NAMED = {
    # It fetches from the index of pip. urllib3 binds to the loopback interface to see whether there is IPv6.
    "corpus add": r"getaddrinfo [\w.-]+|bind ::1:0",
    "serve": r"bind 127\.0\.0\.1:8765",
    "view": r"bind 127\.0\.0\.1:8766",
}
#: Commands of the short form, besides those that prepare the folder: index and benchmark.
OFTEN = ("retrieve", "view")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="LD_PRELOAD is Linux's")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("sockets") / "deny_sockets.so"
    subprocess.run([need("cc"), "-shared", "-fPIC", "-O1", "-o", built, SOURCE, "-ldl"], check=True)
    return built


def tried(library: Path, folder: Path, *names: str) -> list[dict[str, Any]]:
    """What each command tried."""
    done = subprocess.run(
        [sys.executable, "-m", "support.sockets.every_command", *names],
        env=os.environ
        | {"LD_PRELOAD": str(library), "DENIED_SOCKETS": str(folder / "denied.txt")}
        # A corpus that this user has fetched before would need no network.
        | {"PYTHONPATH": str(SOURCE.parents[2]), "XDG_DATA_HOME": str(folder / "fetched")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def reached(told: dict[str, Any]) -> list[str]:
    """The attempts that the command's words do not name."""
    named = re.compile(NAMED.get(told["command"], "-"))
    return [attempt for attempt in told["attempts"] if not named.fullmatch(attempt)]


def wrong_ends(told: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Commands that did not end as they should: such a command may have tried nothing."""
    return [each for each in told if each["command"] in WORDS and each["code"] != WORDS[each["command"]][1]]


def test_every_command_is_tested() -> None:
    assert {name.partition(" (")[0] for name in WORDS} == set(commands())


@pytest.mark.full
def test_common_commands_open_no_network_connection(library: Path, tmp_path: Path) -> None:
    told = tried(library, tmp_path, *OFTEN)
    assert wrong_ends(told) == []
    assert {each["command"]: reached(each) for each in told if reached(each)} == {}
    assert {each["command"] for each in told if each["attempts"]} == {"view"}


@pytest.mark.campaign
def test_no_command_opens_a_network_connection(library: Path, tmp_path: Path) -> None:
    started = time.monotonic()
    names = draw.some(WORDS)
    told = tried(library, tmp_path, *names)
    leaks = {each["command"]: reached(each) for each in told if reached(each)}
    harness.record(
        "sockets",
        harness.Part(
            part="sockets",
            trials=len(told),
            leaked=len(leaks),
            wrong=len(wrong_ends(told)),
            seconds=round(time.monotonic() - started, 1),
        ),
    )
    assert wrong_ends(told) == []
    assert leaks == {}
    assert {each["command"] for each in told if each["attempts"]} == {*NAMED} & {*names}


@pytest.mark.full
def test_the_terminal_ui_opens_no_network_connection(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_folder(tmp_path)
    denied = tmp_path / "denied.txt"
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("DENIED_SOCKETS", str(denied))
    verb = [sys.executable, "-m", "branchrank.frontends.cli.main"]
    index = [*verb, "index", "docs", "--embedder", "fake:16", "--vector-store", "chroma", "--quiet"]
    subprocess.run(index, cwd=tmp_path, check=True)
    terminal = Terminal([*verb, "tui", "--mode", "vector", "--quiet"], cwd=tmp_path)
    try:
        assert terminal.read_until(lambda: b"Status" in terminal.output)
        terminal.send(b"green tea\r")
        assert terminal.read_until(lambda: b"vector_search:" in terminal.output)
        terminal.send(b"\x11")
        assert terminal.read_until(lambda: terminal.process.poll() is not None)
    finally:
        terminal.close()
    assert terminal.process.returncode == 0
    assert not denied.exists(), denied.read_text()
