"""A server in a thread, and a client that can send anything."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import msgspec
from starlette.types import ASGIApp

from branchrank.core.io.loopback_server import http_server, listen

TIMEOUT_S = 20.0
#: Opening a client reads all of the system's certificates; this one reads none and keeps no connection.
CLIENT = httpx2.Client(verify=False, limits=httpx2.Limits(max_keepalive_connections=0))


class Running:
    """A server that answers on ``port``; ``server`` is uvicorn's."""

    def __init__(self, server: Any, port: int) -> None:
        self.server = server
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT_S)

    def send(self, raw: bytes) -> tuple[int, dict[str, str], bytes]:
        """The answer to raw bytes: status, headers, body. The server must close the connection."""
        with self.connect() as connection:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(raw)
            return parsed(received(connection))


def received(connection: socket.socket) -> bytes:
    """Everything until the server closes."""
    content = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(65_536):
            content += piece
    return content


def parsed(raw: bytes) -> tuple[int, dict[str, str], bytes]:
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return int(first.split()[1]), headers, body


def post(body: bytes, *, path: str = "/retrieve", host: str = "127.0.0.1", **headers: str) -> bytes:
    """A whole request that asks for the connection to be closed."""
    lines = {
        "Host": host,
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Connection": "close",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body


def asking(query: str = "cache", **more: Any) -> bytes:
    """The body of a request."""
    return msgspec.json.encode({"query": query, **more})


def running(application: ASGIApp) -> contextlib.AbstractContextManager[Running]:
    """Serve on a free port of the loopback interface."""
    return running_at(lambda url: application)


@contextlib.contextmanager
def running_at(application: Callable[[str], ASGIApp]) -> Iterator[Running]:
    """Serve an application that knows its own URL."""
    listening = listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    server = http_server(application(f"http://127.0.0.1:{port}"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield Running(server, port)
    finally:
        server.should_exit = True
        thread.join(TIMEOUT_S)
        assert not thread.is_alive()


def eventually(condition: Callable[[], bool]) -> bool:
    """Whether a condition comes true before the timeout."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return False
