"""Ports for the servers of the tests."""

from __future__ import annotations

import contextlib
import random
import socket
import subprocess
import time
from typing import Any

#: Below the ports that systems give to clients, so that no connection takes one before its server has it.
FIRST, LAST = 15_000, 32_000
_given: set[int] = set()


def free_port() -> int:
    """A free loopback port that this process did not get before, since replies are cached by address."""
    while True:
        port = random.SystemRandom().randint(FIRST, LAST)
        if port in _given:
            continue
        _given.add(port)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def wait_for_server(port: int, process: subprocess.Popen[Any], seconds: float = 60.0) -> None:
    """Wait until a program that was started listens on its port."""
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        said = process.stderr.read() if process.poll() is not None and process.stderr else ""
        assert process.returncode is None, f"the server ended with {process.returncode}: {said}"
        assert time.monotonic() < end, "the server did not start"
        time.sleep(0.02)
