"""``branchrank view`` as a command: its address, the browser that it opens, and its errors."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import invoke
from support.http_server import CLIENT, eventually


def test_the_browser_opens_the_loopback_address_with_the_token(made: Path, tmp_path: Path) -> None:
    seen, browser = tmp_path / "seen", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {seen}.tmp && mv {seen}.tmp {seen}\n')
    browser.chmod(0o755)
    options = f"--data-dir {made / 'data'} --port 0".split()
    words = [sys.executable, "-m", "branchrank", "view", str(made / "reports"), *options]
    environment = {**os.environ, "BROWSER": f"{browser} %s"}
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        address = process.stderr.readline().removeprefix("page: ").strip()
        assert eventually(seen.exists)
        assert seen.read_text() == address
        url, _, token = address.partition("/#token=")
        assert len(token) > 40
        assert token not in CLIENT.get(url).text, "only the address contains the token"
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.2", int(url.rpartition(":")[2])), timeout=5)
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == "view stopped\n"
    assert process.returncode == 130


def test_a_port_in_use_and_a_folder_without_runs_are_errors(made: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = invoke("view", made / "reports", "--port", port, "--no-open")
    assert done.exit_code == 2
    assert "--port" in done.stderr
    empty = invoke("view", tmp_path, "--no-open")
    assert empty.exit_code == 3
    assert f"no runs in {tmp_path}" in empty.stderr
