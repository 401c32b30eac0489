"""A real Chroma server on a loopback port."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from support.ports import free_port, wait_for_server


@contextlib.contextmanager
def chroma_server(directory: Path) -> Iterator[str]:
    port = free_port()
    command = [str(Path(sys.executable).with_name("chroma")), "run", "--path", str(directory)]
    process = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "ANONYMIZED_TELEMETRY": "False"},
        start_new_session=True,
    )
    try:
        wait_for_server(port, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
