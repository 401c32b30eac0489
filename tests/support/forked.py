"""Commands in processes that are forked from one that has every light module loaded.

A new interpreter takes a third of a second to import the command line, a fork takes a hundredth. The server
starts no threads: torch, ONNX Runtime and event loops are left to its forks.

1. :func:`run_forked` sends the words, the folder, the environment and three open files to the server.
2. The server forks a keeper, the keeper forks the command, waits for it, and answers with its status.
3. The command runs as ``python WORDS`` would, with its own ``__main__``, arguments, path and warnings.
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

#: Loaded beside the package's own modules.
LIBRARIES = (
    "pandas",
    "scipy.stats",
    "bm25s",
    "openai",
    "chromadb",
    "docutils.core",
    "markdown_it",
    "tomlkit",
    "altair",
    "vl_convert",
)
#: Rooms whose modules import what may start threads or event loops.
NOT_LOADED = (
    "branchrank.frontends.serve",
    "branchrank.embedders",
    "branchrank.search.llm",
    "branchrank.search.agent",
    "branchrank.core.execution",
)
#: Variables that an interpreter reads when it starts; a command that is given one is a new process.
OF_INTERPRETERS = ("PYTHONHASHSEED", "PYTHONIOENCODING", "PYTHONUTF8", "LC_ALL", "LANG", "LD_PRELOAD")
_REQUEST_BYTES = 1 << 20


def can_fork(words: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether a fork does what ``python WORDS`` would do with these additions to the environment."""
    runs = words[0] in ("-m", "-c") or words[0].endswith(".py")
    return sys.platform == "linux" and runs and not set(environment) & set(OF_INTERPRETERS)


def run_forked(
    words: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str],
    files: Sequence[int],
    timeout: float,
    during: Callable[[int], object],
) -> int:
    """Run ``python WORDS`` and return its exit code, negative for a signal; ``during`` gets its process id.

    Raises ``subprocess.TimeoutExpired`` after ``timeout`` seconds, with the process killed.
    """
    answer, theirs = socket.socketpair()
    request = json.dumps([list(words), str(cwd), dict(environment)]).encode()
    with answer:
        with theirs:
            socket.send_fds(server(), [request], [*files, theirs.fileno()])
        answer.settimeout(timeout)
        pid = int(answer.recv(20))
        answer.sendall(b".")
        try:
            during(pid)
            return int(answer.recv(20))
        except BaseException as error:
            os.kill(pid, signal.SIGKILL)
            if isinstance(error, TimeoutError):
                raise subprocess.TimeoutExpired(list(words), timeout) from None
            raise


@cache
def server() -> socket.socket:
    """A connection to the server that the processes of a test run share; the first of them starts it.

    It loads its modules while these go on.
    """
    address = f"\0branchrank-{os.environ.get('PYTEST_XDIST_TESTRUNUID', os.getpid())}"
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _REQUEST_BYTES)
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            connection.connect(address)
            atexit.register(connection.close)
            return connection
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener, contextlib.suppress(OSError):
            listener.bind(address)  # fails where another process was faster
            listener.listen(64)
            listener.set_inheritable(True)
            os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, "-P", __file__, str(listener.fileno())])


def serve(listener: socket.socket) -> None:
    """Fork for each request, until every connection is closed."""
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    load()
    gc.freeze()  # Forks need not look through what is loaded here, nor copy its pages.
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    installed = [path for path in sys.path if path not in given]
    connections = [listener.accept()[0]]
    while connections:
        for ready in select.select([listener, *connections], [], [])[0]:
            if ready is listener:
                connections.append(listener.accept()[0])
                continue
            request, files, _, _ = socket.recv_fds(ready, _REQUEST_BYTES, 4)
            if not request:
                connections.remove(ready)
                ready.close()
                continue
            if os.fork() == 0:
                for each in (listener, *connections):
                    each.close()
                _keep(json.loads(request), files, installed)
            for descriptor in files:
                os.close(descriptor)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass


def load() -> None:
    """Import what commands import, as far as it starts nothing."""
    import branchrank

    for name in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    sys.path.append(str(Path(__file__).parents[1]))
    importlib.import_module("support.drawn").replace_drawing()
    importlib.import_module("support.lighter").lighten()
    sys.path.pop()
    del sys.modules["support"], sys.modules["support.drawn"], sys.modules["support.lighter"]
    for module in pkgutil.walk_packages(branchrank.__path__, "branchrank."):
        if not module.name.startswith(NOT_LOADED) and not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)


def _keep(request: Any, files: list[int], installed: list[str]) -> None:
    """Fork the command, answer with its process id, wait for it, and answer with its status."""
    answer = socket.socket(fileno=files.pop())
    child = os.fork()
    if child == 0:
        answer.close()
        _run(*request, files, installed)
    with contextlib.suppress(OSError):
        answer.sendall(str(child).encode())
        answer.recv(1)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(OSError):
        answer.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _run(
    words: list[str], cwd: str, environment: dict[str, str], files: list[int], installed: list[str]
) -> None:
    status = 1
    try:
        for number, descriptor in enumerate(files):
            os.dup2(descriptor, number)
        os.closerange(3, 256)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(environment)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
        sys.stderr = os.fdopen(
            2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False
        )
        sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]
        warnings.resetwarnings()
        if environment.get("PYTHONWARNINGS"):
            warnings.simplefilter(environment["PYTHONWARNINGS"])  # type: ignore[arg-type]
        added = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
        sys.path[:] = [*added, *installed]
        importlib.invalidate_caches()
        status = _exit_code(words)
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]  # the command's own, as at the end of a process
    finally:
        with contextlib.suppress(BaseException):
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _exit_code(words: list[str]) -> int:
    try:
        execute(words)
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except KeyboardInterrupt:
        traceback.print_exc()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return 0


def execute(words: list[str]) -> None:
    """Do what ``python WORDS`` does, in this process."""
    kind, *rest = words
    if kind == "-m":
        name, *sys.argv[1:] = rest
        sys.path.insert(0, os.getcwd())
        for loaded in (name, f"{name}.__main__"):
            if not hasattr(sys.modules.get(loaded), "__path__"):
                sys.modules.pop(loaded, None)
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    elif kind == "-c":
        code, *sys.argv[1:] = rest
        sys.argv[0] = "-c"
        sys.path.insert(0, "")
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        main.__dict__["__builtins__"] = builtins
        exec(compile(code, "<string>", "exec"), main.__dict__)
    else:
        sys.argv[:] = words
        sys.path.insert(0, str(Path(kind).parent))
        runpy.run_path(kind, run_name="__main__")


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
