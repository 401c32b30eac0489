"""Many clients at once against `branchrank serve`: every answer right, no error, bounded memory.

1. A small workspace is made and its index built; what each query must get is asked of the engine directly.
2. `branchrank serve` runs in a process of its own on a free port of the loopback interface.
3. Each client keeps one connection and posts one query after the other until the time is up; every answer is
   compared with the direct one.
4. Printed are requests, errors and wrong answers, requests a second, latency, and the memory of the server
   after its first requests and at the end.

    python benchmarks/http_load.py [--clients 50] [--seconds 20]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from branchrank.index import build_index
from branchrank.index.workspace_folder import WorkspaceFolder, configure
from branchrank.workspace import Workspace

PREDICTORS = ("local", "hybrid", "sqlite")
PAGES = 120
QUERIES = 150
TOP_K = 10
WORDS = re.findall(
    r"\w+", "cache queue socket route token worker session query filter schema bundle lock mail proxy"
)


class Case(NamedTuple):
    """A request's body and the hits that it must get."""

    body: bytes
    hits: object


class Load(NamedTuple):
    """What came of it; ``latencies`` in ms, memory in MiB."""

    requests: int
    errors: tuple[str, ...]
    wrong: int
    seconds: float
    latencies: tuple[float, ...]
    memory_before: float
    memory_after: float


def make_workspace(folder: Path) -> WorkspaceFolder:
    """A workspace of generated pages with the bundled hash embedder."""
    for number in range(PAGES):
        sections = [
            f"## {WORDS[(number + part) % len(WORDS)].title()} {part}\n\nSet `{WORDS[number % len(WORDS)]}."
            f"{WORDS[(number * part) % len(WORDS)]}` to {number * part} before the {WORDS[part]} starts.\n"
            for part in range(1, 9)
        ]
        page = folder / "docs" / f"page{number}.md"
        page.parent.mkdir(exist_ok=True)
        page.write_text(f"# Page {number}\n\n" + "\n".join(sections), encoding="utf-8")
    data = folder / "data"
    configure(data, corpus=folder / "docs", settings={"index.embedder": "fake:64", "hybrid.no_llm": True})
    workspace = WorkspaceFolder.open(data, environment={})
    build_index(workspace).close()
    return workspace


def make_cases(workspace: WorkspaceFolder) -> list[Case]:
    """The queries and what the engine answers when it is asked directly."""
    cases = []
    with Workspace(workspace) as opened:
        for number in range(QUERIES):
            query = f"how to set {WORDS[number % len(WORDS)]} {WORDS[number * 7 % len(WORDS)]} {number}"
            predictor = PREDICTORS[number % len(PREDICTORS)]
            hits = opened.search(query, predictor, TOP_K)
            body = msgspec.json.encode({"query": query, "top_k": TOP_K, "predictor": predictor})
            cases.append(Case(body, json.loads(msgspec.json.encode(hits))))
    return cases


class Server:
    """`branchrank serve` on a free port; a context manager that ends it by SIGTERM."""

    def __init__(self, data_dir: Path) -> None:
        names = [argument for name in PREDICTORS for argument in ("--predictor", name)]
        command = [sys.executable, "-m", "branchrank.cli.main", "serve", "--port", "0", "--queue", "256"]
        self._process = subprocess.Popen(
            [*command, "--quiet", "--data-dir", str(data_dir), *names], stderr=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Server:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if line.startswith("serving"):
                self.port = int(line.rpartition(":")[2])
                return self
        raise RuntimeError(f"the server ended with {self._process.wait()}")

    def __exit__(self, *exception: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        self.exit_code = self._process.wait(60)
        assert self._process.stderr is not None
        self._process.stderr.close()

    def memory(self) -> float:
        """Resident memory in MiB."""
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii")
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> tuple[int, bytes]:
    """Post one query on a kept connection."""
    head = f"POST /retrieve HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    writer.write(head.encode() + b"Content-Type: application/json\r\n\r\n" + body)
    await writer.drain()
    answer = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    length = int(answer.partition("content-length: ")[2].split("\r\n")[0])
    return int(answer.split()[1]), await reader.readexactly(length)


async def drive(server: Server, cases: Sequence[Case], clients: int, seconds: float) -> Load:
    """Run all clients until the time is up."""
    latencies: list[float] = []
    errors: list[str] = []
    wrong = 0
    deadline = 0.0

    async def client(number: int) -> None:
        nonlocal wrong
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        turn = number
        while time.monotonic() < deadline:
            case = cases[turn % len(cases)]
            turn += 1
            start = time.perf_counter()
            try:
                status, body = await asyncio.wait_for(ask(reader, writer, case.body), 30)
            except (OSError, EOFError, TimeoutError) as error:
                errors.append(repr(error))
                break
            latencies.append((time.perf_counter() - start) * 1000)
            if status != 200:
                errors.append(f"{status}: {body[:200]!r}")
            elif json.loads(body)["hits"] != case.hits:
                wrong += 1
        writer.close()

    for turn in range(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        await ask(reader, writer, cases[turn % len(cases)].body)
        writer.close()
    before = server.memory()
    start = time.perf_counter()
    deadline = time.monotonic() + seconds
    await asyncio.gather(*(client(number) for number in range(clients)))
    spent = time.perf_counter() - start
    return Load(len(latencies), tuple(errors), wrong, spent, tuple(latencies), before, server.memory())


def run(clients: int, seconds: float) -> tuple[Load, int]:
    """The whole of it: what came of the load, and the server's exit code."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = make_workspace(Path(folder))
        cases = make_cases(workspace)
        with Server(workspace.data_dir) as server:
            load = asyncio.run(drive(server, cases, clients, seconds))
        return load, server.exit_code


def main() -> None:
    """Read the flags, run, print; exit 1 when anything went wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=20.0)
    flags = parser.parse_args()
    load, exit_code = run(min(flags.clients, 200), min(flags.seconds, 120.0))
    p50, p95 = np.percentile(load.latencies, [50, 95])
    print(f"{os.cpu_count()} CPUs, {flags.clients} clients, {load.seconds:.1f} s, {QUERIES} queries")
    print(f"{load.requests} requests, {len(load.errors)} errors, {load.wrong} wrong answers")
    print(f"{load.requests / load.seconds:.0f} requests/s; latency p50 {p50:.0f} ms, p95 {p95:.0f} ms")
    print(f"server memory {load.memory_before:.0f} MiB -> {load.memory_after:.0f} MiB, exit {exit_code}")
    for error in load.errors[:5]:
        print(f"  {error}")
    sys.exit(1 if load.errors or load.wrong else 0)


if __name__ == "__main__":
    main()
