"""A program on a real pseudo-terminal, as a person sits in front of it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from pathlib import Path


class Terminal:
    """A process on a pseudo-terminal."""

    def __init__(
        self, command: list[str], cwd: Path | None = None, size: tuple[int, int] = (130, 40)
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.output = b""
        environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=environment, cwd=cwd
        )

    def read_until(self, done: Callable[[], bool]) -> bool:
        """Read what is printed until ``done()``, at most half a minute; says whether it came to that."""
        deadline = time.monotonic() + 30
        while not done() and time.monotonic() < deadline:
            if select.select([self._master], [], [], 0.05)[0]:
                with contextlib.suppress(OSError):  # the process is gone
                    self.output += os.read(self._master, 65_536)
        return done()

    def send(self, keys: bytes) -> None:
        """Type."""
        os.write(self._master, keys)

    def close(self) -> None:
        """End the process and the terminal."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait(30)
        os.close(self._master)
        os.close(self.slave)
