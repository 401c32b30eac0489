"""A user's class or framework pipeline in a process of its own, which gets only texts and k.

1. The command starts ``python -P -c ...`` with its own working directory, import path and environment. The
   child imports the class, and answers with its name, its LLM and the digest of its module's source.
2. For each query, the command sends the text and k, and the child returns the hits and the LLM calls. Before,
   an agent can call tools, which the command carries out. Both directions are JSON, so no object of the child
   is unpickled. An answer has at most
   :data:`~branchrank.runs.adapters.MOST_HITS` hits and :data:`MOST_BYTES` bytes.
3. If the child does not answer in time, or exits, the query fails, and the next query starts a new child. If
   several children in a row exit, the run ends with an error.
4. The median time of empty round trips is subtracted from the latencies (:mod:`.running`).

The gold, the rows and the other systems are in the memory of the command only. The gold on disk can be read.
"""

from __future__ import annotations

import importlib
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from branchrank.core import errors
from branchrank.core.errors import BranchRankError, ChildError, Remedy, UsageError
from branchrank.core.io.files import digest_file
from branchrank.core.records import NOT_REPORTED, Answer, Hit, LLMUse, Passage, Record
from branchrank.runs.adapters import Retriever, answer_of, load_retriever, tools_parameter
from branchrank.search.systems.memo import caches_off

if TYPE_CHECKING:
    from branchrank.core.records import Predictor
    from branchrank.search.agent.tool_session import RecordedTools
    from branchrank.search.systems.toolbox import ToolReply

MOST_BYTES = 64 * 1024 * 1024
#: The seconds in which the child must have imported and made the user's class.
STARTS_WITHIN_S = 600.0
_PINGS = 20
#: Children in a row that exit during a query before the run ends.
_MOST_EXITS = 3
_START = "from branchrank.runs.bench.child_process import serve; serve({}, {!r})"


class _Asked(Record, frozen=True, kw_only=True):
    query: str = ""
    k: int = 0
    #: The definitions of the tools, which only an agent's process decodes.
    tools: msgspec.Raw = msgspec.Raw(b"[]")


class _Item(Record, frozen=True, kw_only=True):
    """A hit, or a passage, which JSON can't tell apart."""

    hit: Hit | None = None
    passage: Passage | None = None


class _Given(Record, frozen=True, kw_only=True):
    """What the child answers: to the start, to a query, or an error. Or it calls ``tool``."""

    name: str = ""
    llm: str = NOT_REPORTED
    digest: str = ""
    #: The name of the parameter that gets the tools, or "".
    tools: str = ""
    tool: str = ""
    arguments: str = ""
    items: tuple[_Item, ...] = ()
    calls: tuple[LLMUse, ...] = ()
    #: The class of the error, its message and its fix.
    error: str = ""
    message: str = ""
    remedy: str = ""


class ChildRetriever:
    """The retriever that ``origin`` names, in a process of its own, with a time limit for each query."""

    def __init__(self, origin: str) -> None:
        self.origin, self.timeout_s = origin, 60.0
        self._lock, self._exits = threading.Lock(), 0
        self._start()

    def _start(self) -> None:
        self._connection, theirs = Pipe()
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", _START.format(theirs.fileno(), self.origin)],
                stdin=subprocess.DEVNULL,
                stdout=2,  # What the class prints is for the user's eyes, and must not mix with the output.
                pass_fds=(theirs.fileno(),),
                process_group=0,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
            )
        self.close = weakref.finalize(self, _stop, process, self._connection)
        started = self._receive(STARTS_WITHIN_S)
        if started.error:
            self.close()
            raise _error_of(started)
        self.name, self.llm, self.digest = started.name, started.llm, started.digest
        self.tools = "tools" if started.tools else ""
        times = []
        for _ in range(_PINGS):
            begun = time.perf_counter()
            self._send(_Asked())
            self._receive(self.timeout_s)
            times.append(1000.0 * (time.perf_counter() - begun))
        #: The time of an empty round trip in ms.
        self.overhead_ms = statistics.median(times)

    def retrieve(self, query: str, k: int, tools: RecordedTools | None = None) -> Answer:
        """Return the child's hits and LLM calls, checked and within the limits of the module."""
        offered = msgspec.Raw(msgspec.json.encode(tools.definitions if tools else ()))
        with self._lock:
            if not self.close.alive:
                self._start()
            deadline = time.monotonic() + self.timeout_s
            self._send(_Asked(query=query, k=k, tools=offered))
            while (given := self._receive(deadline - time.monotonic())).tool and tools:
                try:
                    reply = tools.call(given.tool, given.arguments)
                except BaseException:  # the child waits for a reply
                    self.close()
                    raise
                self._send(reply)
        self._exits = 0
        if given.error:
            raise _error_of(given)
        hits = [item.hit or item.passage for item in given.items]
        return Answer(hits=[hit for hit in hits if hit is not None], calls=given.calls)

    def _send(self, asked: Record) -> None:
        try:
            self._connection.send_bytes(msgspec.json.encode(asked))
        except OSError:
            raise self._exited() from None

    def _receive(self, seconds: float) -> _Given:
        try:
            if not self._connection.poll(max(0.0, seconds)):
                self.close()
                raise ChildError(
                    f"{self.origin} did not answer within {self.timeout_s:g} seconds",
                    remedy=Remedy("raise the limit with {}", "--predictor-timeout"),
                )
            content = self._connection.recv_bytes(MOST_BYTES)
        except (EOFError, OSError):
            raise self._exited() from None
        except BaseException:  # an interrupt: the next query must not get this query's answer
            self.close()
            raise
        try:
            return msgspec.json.decode(content, type=_Given)
        except msgspec.DecodeError as error:
            raise UsageError(
                f"retrieve() returned an invalid hit: {error}", remedy="return a list of Hit records"
            ) from None

    def _exited(self) -> BranchRankError:
        """Return the error for a child that exited, or that sent more than the limit."""
        self.close()
        self._exits += 1
        message = f"{self.origin}: its process exited, or its answer is larger than {MOST_BYTES} bytes"
        if self._exits < _MOST_EXITS:
            return ChildError(message)
        return UsageError(f"{message}, {_MOST_EXITS} times in a row", remedy="correct the class")


def _stop(process: subprocess.Popen[bytes], connection: Connection) -> None:
    connection.close()
    process.kill()
    process.wait()


def _error_of(given: _Given) -> BranchRankError:
    kind = getattr(errors, given.error, ChildError)
    error: BranchRankError = kind.__new__(kind)
    BranchRankError.__init__(error, given.message, remedy=given.remedy)
    return error


def serve(descriptor: int, origin: str) -> None:
    """Answer queries in a child process until the command closes the socket ``descriptor``."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Connection(descriptor) as connection:
        retriever: Predictor | Retriever | None = None
        try:
            retriever = load_retriever(origin)
            name, llm = getattr(retriever, "name", origin), getattr(retriever, "llm", NOT_REPORTED)
            takes = tools_parameter(retriever.retrieve)
            given = _Given(name=str(name), llm=str(llm), digest=source_digest(origin), tools=takes)
        except Exception as error:
            given = _failure(error)
        try:
            connection.send_bytes(msgspec.json.encode(given))
            with caches_off():  # for a class that searches a workspace, as in the latency pass
                while retriever is not None:
                    asked = msgspec.json.decode(connection.recv_bytes(), type=_Asked)
                    tools = {given.tools: _PipeTools(connection, asked.tools)} if given.tools else {}
                    connection.send_bytes(_answer(retriever, asked, tools))
        except (EOFError, OSError):  # The command has closed its end of the socket, or has exited.
            return


class _PipeTools:
    """The tools of one query, which the command carries out and records. Thread-safe.

    It has the same methods as :class:`~branchrank.search.agent.tool_session.RecordedTools`.
    """

    def __init__(self, connection: Connection, definitions: msgspec.Raw) -> None:
        from branchrank.search.llm.request import Tool

        self.definitions = msgspec.json.decode(definitions, type=tuple[Tool, ...])
        self._connection, self._lock = connection, threading.Lock()

    def call(self, name: str, arguments: str | Mapping[str, Any] = "") -> ToolReply:
        """Call a tool with its arguments, or with their JSON text."""
        from branchrank.search.systems.toolbox import ToolReply

        text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
        with self._lock:
            self._connection.send_bytes(msgspec.json.encode(_Given(tool=name, arguments=text)))
            return msgspec.json.decode(self._connection.recv_bytes(), type=ToolReply)


def _answer(retriever: Predictor | Retriever, asked: _Asked, tools: Mapping[str, Any]) -> bytes:
    if not asked.k:
        return msgspec.json.encode(_Given())
    try:
        answer = answer_of(retriever.retrieve(asked.query, asked.k, **tools))
        items = [_Item(hit=hit) if isinstance(hit, Hit) else _Item(passage=hit) for hit in answer.hits]  # type: ignore[arg-type]
        return msgspec.json.encode(_Given(items=tuple(items), calls=tuple(answer.calls)))
    except Exception as error:  # A user's class can raise any exception.
        return msgspec.json.encode(_failure(error))


def _failure(error: Exception) -> _Given:
    kind = type(error).__name__
    if isinstance(error, BranchRankError):
        return _Given(error=kind, message=error.message, remedy=error.remedy)
    return _Given(error=kind, message=f"{kind}: {error}")


def source_digest(origin: str) -> str:
    """Return the digest of the file of the module that ``origin`` names, after it was imported, or ``""``."""
    module = [part for part in origin.split(":") if "=" not in part][-2]
    path = getattr(importlib.import_module(module), "__file__", None)
    return digest_file(Path(path)) if path else ""
