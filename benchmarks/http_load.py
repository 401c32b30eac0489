"""Measure the throughput, latency and memory of `branchrank serve` with many concurrent clients.

1. A small workspace is indexed, and the expected hits for each query are computed with the engine.
2. For each load test, `branchrank serve` runs in a separate process on a free port on the loopback interface.
3. Each client reuses one connection and posts one query after another until the test ends.
4. Every response with status 200 is compared with the expected hits. A response with status 503 and the
   header `Retry-After` counts as refused. Any other response counts as an error.
5. After a refused request, a client waits only 20 ms instead of the time given in `Retry-After`, so that the
   overload continues.
6. The first fifth of a test's duration is a warm-up and is not measured.
7. After the warm-up, 20 requests are sent one at a time. The recovery time is the time from the end of the
   load until a single request takes at most twice the median latency of the 20 requests that were sent after
   the warm-up.

    python -m benchmarks.http_load [--seconds 60] [--write]

The load tests use 8, 60 and 200 clients with the default settings, and 50
clients with a queue of 10 queries.
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

from branchrank.index.index_build import build_index
from branchrank.index.workspace_folder import WorkspaceFolder, configure
from branchrank.workspace import Workspace

PREDICTORS = ("local", "hybrid", "sqlite")
PAGES = 120
QUERIES = 150
TOP_K = 10
LONE = 20
#: Seconds that a client waits after a refused or failed request before it posts the next query.
PAUSE_S = 0.02
QUEUE = 256
LOADS = ((8, QUEUE), (60, QUEUE), (200, QUEUE), (50, 10))
PAGE = Path(__file__).parents[1] / "docs" / "serving.md"
BEGIN, END = "<!-- load: begin -->\n", "<!-- load: end -->\n"
WORDS = re.findall(
    r"\w+", "cache queue socket route token worker session query filter schema bundle lock mail proxy"
)


class Case(NamedTuple):
    """The body of a request and its expected hits."""

    body: bytes
    hits: object


class Load(NamedTuple):
    """The results of one load test.

    Latencies are in ms, memory is in MiB, and the recovery time is in seconds. ``refused`` counts the
    responses with status 503, a ``Retry-After`` header and the code ``busy``. ``afterwards`` counts the
    correct answers to the ``LONE`` requests that are sent one at a time after the load ends.
    """

    clients: int
    queue: int
    answered: int
    refused: int
    errors: tuple[str, ...]
    wrong: int
    seconds: float
    latencies: tuple[float, ...]
    memory_before: float
    memory_after: float
    recovery: float
    afterwards: int


def make_workspace(folder: Path) -> WorkspaceFolder:
    """Create a workspace of generated pages with the bundled hash embedder."""
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
    """Return the requests and their expected hits, which are computed with the engine."""
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
    """Runs `branchrank serve` on a free port, and stops it with SIGTERM at the end of a ``with`` block."""

    def __init__(self, data_dir: Path, queue: int = QUEUE) -> None:
        names = [argument for name in PREDICTORS for argument in ("--predictor", name)]
        command = [
            sys.executable,
            "-m",
            "branchrank.frontends.cli.main",
            "serve",
            "--port",
            "0",
            "--queue",
            str(queue),
        ]
        self._process = subprocess.Popen(
            [*command, "--quiet", "--data-dir", str(data_dir), *names], stderr=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Server:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if line.startswith("serving"):
                self.port = int(line.rpartition(":")[2])
                return self
        raise RuntimeError(f"the server exited with code {self._process.wait()}")

    def __exit__(self, *exception: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        self.exit_code = self._process.wait(60)
        assert self._process.stderr is not None
        self._process.stderr.close()

    def memory(self) -> float:
        """Return the resident memory of the server's process in MiB."""
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii")
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024


class Client:
    """A client that reuses its connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        """Post one query, and return the status, headers and body of the response."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        head = f"POST /retrieve HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        writer.write(head.encode() + b"Content-Type: application/json\r\n\r\n" + body)
        await writer.drain()
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().splitlines()
        headers = dict(line.split(": ", 1) for line in lines if line)
        answer = await reader.readexactly(int(headers["content-length"]))
        if headers.get("connection") == "close":
            self.close()
        return int(first.split()[1]), headers, answer

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


class Counter:
    """Counts correct, wrong, refused and failed responses."""

    def __init__(self) -> None:
        self.latencies: list[float] = []
        self.refused = 0
        self.wrong = 0
        self.errors: list[str] = []

    async def ask(self, client: Client, case: Case) -> bool:
        """Post a query, update the counts, and return whether the response has status 200."""
        start = time.perf_counter()
        try:
            status, headers, body = await asyncio.wait_for(client.ask(case.body), 30)
        except (OSError, EOFError, TimeoutError) as error:
            self.errors.append(repr(error))
            client.close()
            return False
        if status == 503 and headers.get("retry-after", "").isdecimal() and b'"busy"' in body:
            self.refused += 1
            return False
        if status != 200:
            self.errors.append(f"{status} {headers}: {body[:200]!r}")
            return False
        self.latencies.append((time.perf_counter() - start) * 1000)
        self.wrong += json.loads(body)["hits"] != case.hits
        return True


async def ask_all(port: int, cases: Sequence[Case], clients: int, seconds: float) -> Counter:
    """Run ``clients`` clients, each of which posts one query after another for ``seconds`` seconds."""
    counter = Counter()
    deadline = time.monotonic() + seconds

    async def keep_asking(number: int) -> None:
        client, turn = Client(port), number
        while time.monotonic() < deadline:
            if not await counter.ask(client, cases[turn % len(cases)]):
                await asyncio.sleep(PAUSE_S)
            turn += 1
        client.close()

    await asyncio.gather(*(keep_asking(number) for number in range(clients)))
    return counter


async def ask_alone(port: int, cases: Sequence[Case]) -> Counter:
    """Send ``LONE`` requests, one at a time."""
    counter, client = Counter(), Client(port)
    for number in range(LONE):
        await counter.ask(client, cases[number % len(cases)])
    client.close()
    return counter


async def recovery(port: int, case: Case, limit_ms: float) -> float:
    """Return the time in seconds until a single request takes at most ``limit_ms``.

    The function stops waiting after 60 seconds.
    """
    start, client = time.monotonic(), Client(port)
    while (waited := time.monotonic() - start) < 60:
        counter = Counter()
        if await counter.ask(client, case) and counter.latencies[0] <= limit_ms:
            break
    client.close()
    return waited


async def drive(server: Server, cases: Sequence[Case], clients: int, queue: int, seconds: float) -> Load:
    """Run one load test against a running server, and return the results."""
    port = server.port
    await ask_all(port, cases, clients, seconds / 5)
    lone = float(np.median((await ask_alone(port, cases)).latencies))
    before, start = server.memory(), time.perf_counter()
    found = await ask_all(port, cases, clients, seconds * 4 / 5)
    spent = time.perf_counter() - start
    recovered = await recovery(port, cases[0], 2 * lone)
    afterwards = await ask_alone(port, cases)
    return Load(
        clients,
        queue,
        len(found.latencies),
        found.refused,
        (*found.errors, *afterwards.errors),
        found.wrong + afterwards.wrong,
        spent,
        tuple(found.latencies),
        before,
        server.memory(),
        recovered,
        len(afterwards.latencies) - afterwards.wrong,
    )


def run(loads: Sequence[tuple[int, int]], seconds: float) -> list[tuple[Load, int]]:
    """Run a load test for each pair (clients, queue length), and return the results and the exit codes."""
    done = []
    with tempfile.TemporaryDirectory() as folder:
        workspace = make_workspace(Path(folder))
        cases = make_cases(workspace)
        for clients, queue in loads:
            with Server(workspace.data_dir, queue) as server:
                load = asyncio.run(drive(server, cases, clients, queue, seconds))
            done.append((load, server.exit_code))
    return done


def table(loads: Sequence[Load]) -> str:
    """Return the results of the load tests as a Markdown table."""
    columns = ("clients", "`--queue`", "answered/s", "503/s", "errors", "wrong")
    columns += ("p50", "p99", "p99/p50", "memory", "recovery")
    lines = [f"| {' | '.join(columns)} |", "|" + " ---: |" * len(columns)]
    for load in loads:
        p50, p99 = np.percentile(load.latencies, [50, 99])
        lines.append(
            f"| {load.clients} | {load.queue} | {load.answered / load.seconds:.0f} "
            f"| {load.refused / load.seconds:.0f} | {len(load.errors)} | {load.wrong} | {p50:.0f} ms "
            f"| {p99:.0f} ms | {p99 / p50:.1f} | {load.memory_before:.0f} MiB "
            f"{load.memory_after / load.memory_before - 1:+.1%} | {load.recovery:.2f} s |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run every load test, print the table, and exit with 1 after a failed request or a wrong response."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="duration of each load test")
    parser.add_argument("--write", action="store_true", help="write the table into docs/serving.md")
    flags = parser.parse_args()
    done = run(LOADS, min(flags.seconds, 120.0))
    found = table([load for load, _ in done])
    print(f"{os.cpu_count()} CPUs, {flags.seconds:.0f} s each, {QUERIES} queries\n\n{found}")
    for load, exit_code in done:
        print(f"{load.clients} clients: exit {exit_code}, {load.afterwards} of {LONE} answered afterwards")
        for error in load.errors[:5]:
            print(f"  {error}")
    if flags.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{found}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    sys.exit(any(load.errors or load.wrong or load.afterwards < LONE for load, _ in done))


if __name__ == "__main__":
    main()
