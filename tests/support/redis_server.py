"""A real Redis on a loopback port."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from pathlib import Path

from support.needs import need
from support.ports import free_port


class RedisServer:
    """A redis-server of our own on a loopback port."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
        self.process = subprocess.Popen(
            [need("redis-server"), *options, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for _ in range(500):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.01)
        raise AssertionError("redis-server did not start")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()
