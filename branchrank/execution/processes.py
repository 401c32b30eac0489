"""Workers that are processes on this machine.

1. A worker is a new Python interpreter that is connected to the command by a socket. Workers are not
   started with ``multiprocessing``, which would import the caller's script again.
2. Each worker has its own process group, so Ctrl-C reaches only the command, which then stops its workers.
3. A worker exits when the command closes the socket, or when the command itself exits.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Collection
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import NamedTuple

from branchrank.execution.handler import Handler, Setup
from branchrank.execution.pool import Answered, Event, Lost, Ready

_READY = b"ready"
_ENDS_WITHIN_S = 10.0
_START = "from branchrank.execution.processes import serve; serve({})"


class ProcessWorker(NamedTuple):
    """A worker process, and the connection that the command uses to communicate with the worker."""

    process: subprocess.Popen[bytes]
    connection: Connection

    def __hash__(self) -> int:
        return id(self.process)


class Processes:
    """A pool backend that runs up to ``workers`` processes."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def start(self, setup: Setup) -> ProcessWorker:
        """Start a process and send it the setup over its socket."""
        ours, theirs = Pipe()
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", _START.format(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                process_group=0,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(setup.path)},
            )
        worker = ProcessWorker(process, ours)
        _send(worker, setup)
        return worker

    def submit(self, worker: ProcessWorker, shard: bytes) -> None:
        """Send a shard to a process.

        If a process has died, :meth:`wait` returns :class:`Lost` for that process.
        """
        _send(worker, shard)

    def wait(self, workers: Collection[ProcessWorker], timeout: float) -> list[tuple[ProcessWorker, Event]]:
        """Return an event for every process that has sent a message or has died."""
        by_connection = {worker.connection: worker for worker in workers}
        found: list[tuple[ProcessWorker, Event]] = []
        for connection in wait(list(by_connection), timeout):
            assert isinstance(connection, Connection)
            worker = by_connection[connection]
            try:
                content = connection.recv_bytes()
            except (EOFError, OSError):
                found.append((worker, Lost(_how_it_ended(worker.process))))
            else:
                found.append((worker, Ready() if content == _READY else Answered(content)))
        return found

    def stop(self, workers: Collection[ProcessWorker], *, at_once: bool) -> None:
        """Stop the processes, and wait until all of the processes have exited.

        If ``at_once`` is true, the processes are killed. If ``at_once`` is false, only processes that do not
        exit within 10 seconds are killed.
        """
        for worker in workers:
            worker.connection.close()
            if at_once:
                worker.process.kill()
        for worker in workers:
            try:
                worker.process.wait(_ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()

    def close(self) -> None:
        """Do nothing, because this backend has no connections except those to its workers."""


def serve(descriptor: int) -> None:
    """Handle shards in a worker process until the command closes the socket ``descriptor``."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Connection(descriptor) as connection:
        try:
            handler = Handler(connection.recv())
            connection.send_bytes(_READY)
            while True:
                connection.send_bytes(handler.handle(connection.recv_bytes()))
        except (EOFError, OSError):  # The command has closed its end of the socket, or has exited.
            handler.close()


def _send(worker: ProcessWorker, message: Setup | bytes) -> None:
    """Send a message to a worker, which may have exited."""
    try:
        if isinstance(message, bytes):
            worker.connection.send_bytes(message)
        else:
            worker.connection.send(message)
    except OSError:  # The process has exited, and Processes.wait returns Lost for it.
        return


def _how_it_ended(process: subprocess.Popen[bytes]) -> str:
    try:
        code = process.wait(_ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        return "it closed its connection"
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"
