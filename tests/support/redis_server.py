"""A real Redis on a loopback port."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from support.needs import need
from support.ports import free_port, wait_for_server


class RedisServer:
    """A redis-server of our own on a loopback port."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
        self.process = subprocess.Popen(
            [need("redis-server"), *options, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_for_server(self.port, self.process)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()
