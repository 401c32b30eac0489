"""Measure the overhead of an LLM call in BranchRank, compared with an HTTP POST request to the same server.

1. A server in another process answers every chat request immediately with the same completion.
2. In each round, an HTTP POST request on an open connection is timed first, followed by four kinds of LLM
   calls. The LLM calls are a call from the client, a call from the gateway, a call from the gateway that is
   recorded in a cassette (one durable commit per call), and a call that the cassette answers. Each round uses
   a new prompt, which is as long as a typical rerank prompt.
3. The table shows the median and the 95th percentile of each kind of call in milliseconds. The table also
   shows how much longer the median call takes than the median HTTP POST request.

    python benchmarks/llm_overhead.py [--calls 300]
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path

from branchrank.core.io.keys import Endpoint
from branchrank.core.settings import LLMSettings
from branchrank.search.llm.cassette import Cassette
from branchrank.search.llm.client import ChatClient
from branchrank.search.llm.gateway import Gateway
from branchrank.search.llm.prompts import Shown, labels, labels_schema, read_labels, rerank_messages
from branchrank.search.llm.request import LLMReply, LLMRequest

LABELS = labels(30)
COMPLETION = json.dumps(
    {
        "model": "m",
        "choices": [
            {"message": {"content": json.dumps({"ids": LABELS[:10]})}, "finish_reason": "stop", "index": 0}
        ],
        "usage": {"prompt_tokens": 5000, "completion_tokens": 60, "total_tokens": 5060},
    }
).encode()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(COMPLETION)))
        self.end_headers()
        self.wfile.write(COMPLETION)

    def log_message(self, *_: object) -> None:
        pass


def serve(ready: Connection) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    ready.send(server.server_address[1])
    server.serve_forever()


def request(number: int) -> LLMRequest:
    shown = [Shown(label=label, heading=f"Guide > Section {label}", body="word " * 110) for label in LABELS]
    messages = rerank_messages(f"question {number}", shown)
    return LLMRequest(stage="rerank", messages=messages, schema=labels_schema(LABELS, 10, least=1))


def read(reply: LLMReply) -> list[str]:
    return read_labels(reply.text, LABELS)


def measure(port: int, calls: int, folder: Path) -> dict[str, list[float]]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    settings = LLMSettings()
    with (
        ChatClient(Endpoint(f"http://127.0.0.1:{port}/v1"), "m", settings) as client,
        Cassette(folder / "cassette.sqlite") as cassette,
    ):

        def bare(asked: LLMRequest) -> None:
            body = json.dumps(asked.content("m")).encode()
            headers = {"Content-Type": "application/json"}
            connection.request("POST", "/v1/chat/completions", body, headers)
            json.loads(connection.getresponse().read())

        plain = Gateway("m", client)
        recording = Gateway("m", client, cassette=cassette)
        routes: dict[str, Callable[[LLMRequest], object]] = {
            "bare post": bare,
            "client": client.complete,
            "gateway and ledger": lambda asked: plain.ask(asked, read),
            "gateway and cassette": lambda asked: recording.ask(asked, read),
            "answered by the cassette": lambda asked: recording.ask(asked, read),
        }
        times: dict[str, list[float]] = {name: [] for name in routes}
        for number in range(calls + 10):
            asked = request(number)
            for name, route in routes.items():
                started = time.perf_counter()
                route(asked)
                if number >= 10:  # the first ten calls are a warm-up
                    times[name].append((time.perf_counter() - started) * 1000)
    connection.close()
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=300)
    calls = parser.parse_args().calls
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    with tempfile.TemporaryDirectory() as folder:
        times = measure(ours.recv(), calls, Path(folder))
    server.terminate()
    base = statistics.median(times["bare post"])
    print(f"{calls} calls, prompt of {request(0).prompt_tokens} estimated tokens")
    print(f"{'':26}{'p50 ms':>8}{'p95 ms':>8}{'over bare':>11}")
    for name, values in times.items():
        median = statistics.median(values)
        tail = statistics.quantiles(values, n=20)[-1]
        print(f"{name:26}{median:8.2f}{tail:8.2f}{median - base:+11.2f}")


if __name__ == "__main__":
    main()
