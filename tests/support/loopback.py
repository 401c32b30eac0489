"""HTTP servers on a loopback port: one answers from a function, one writes whatever bytes it likes."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Request(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body or b"{}")


class Reply:
    """What a server sends: a status, a body (JSON unless bytes), headers, and the length it promises."""

    def __init__(
        self, body: Any, status: int = 200, headers: dict[str, str] | None = None, promised: int | None = None
    ) -> None:
        self.content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.status = status
        self.headers = headers or {}
        self.promised = len(self.content) if promised is None else promised


@contextlib.contextmanager
def answering(reply: Callable[[Request], Reply]) -> Iterator[str]:
    """Answer every request until the block ends; the URL has no path."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            made = reply(Request(self.command, self.path, headers, body))
            self.send_response(made.status)
            for name, value in {"Content-Type": "application/json", **made.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(made.promised))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(made.content)
                self.close_connection = made.promised > len(made.content)

        do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _complete(request: bytes) -> bool:
    head, end, body = request.partition(b"\r\n\r\n")
    promised = re.search(rb"Content-Length: (\d+)", head)
    return bool(end) and len(body) >= (int(promised[1]) if promised else 0)


class RawServer:
    """Reads one request per connection and lets ``answer`` write whatever it likes."""

    def __init__(self, answer: Callable[[socket.socket], None]) -> None:
        self.answer = answer
        #: What each connection sent, also one that sent nothing.
        self.requests: list[bytes] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.url = f"http://{self.address}/retrieve"
        self.closing = threading.Event()
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self) -> None:
        while not self.closing.is_set():
            connection, _ = self.listener.accept()
            self.requests.append(b"")
            with connection, contextlib.suppress(OSError):
                while not _complete(self.requests[-1]) and (piece := connection.recv(65536)):
                    self.requests[-1] += piece
                if self.requests[-1]:
                    self.answer(connection)

    def drip(self, connection: socket.socket, piece: bytes) -> None:
        """Send one piece again and again until the client is gone."""
        while not self.closing.wait(0.02):
            connection.sendall(piece)

    def close(self) -> None:
        self.closing.set()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            pass
        self.thread.join()
        self.listener.close()


def says(content: bytes) -> Callable[[socket.socket], None]:
    return lambda connection: connection.sendall(content)
