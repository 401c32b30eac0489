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


@pytest.mark.parametrize(
    ("stop", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.full)]
)
def test_the_browser_opens_a_private_file_that_contains_the_address(
    made: Path, tmp_path: Path, stop: signal.Signals, code: int
) -> None:
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
        url, _, token = address.partition("/#token=")
        assert len(token) > 40
        # Other users can read the browser's command line.
        assert token not in seen.read_text()
        forward = Path(seen.read_text().removeprefix("file://"))
        assert address in forward.read_text()
        assert forward.parent.stat().st_mode & 0o077 == 0
        assert token not in CLIENT.get(url).text, "only the address contains the token"
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.2", int(url.rpartition(":")[2])), timeout=5)
        for host in ("127.0.0.1:1", "127.0.0.1", "localhost", url.replace("http://127.0.0.1", "localhost")):
            assert CLIENT.get(url, headers={"Host": host}).status_code == 421
        process.send_signal(stop)
        process.stderr.read()
    assert process.returncode == code
    assert not forward.parent.exists()


def test_a_port_in_use_is_an_error(made: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = invoke("view", made / "reports", "--port", port, "--no-open")
    assert done.exit_code == 2
    assert "--port" in done.stderr
