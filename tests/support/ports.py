"""Ports for the servers of the tests."""

from __future__ import annotations

import contextlib
import random
import socket

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
