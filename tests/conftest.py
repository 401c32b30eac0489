"""Every test runs without the outside: only the loopback interface and local sockets can be reached."""

from __future__ import annotations

import gc
import ipaddress
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from support import draw, forked
from support.chromium import Chromium
from support.drawn import replace_drawing
from support.lighter import lighten
from support.needs import missing
from support.redis_server import RedisServer

# A shell's background jobs ignore Ctrl-C, and so would every process that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


#: Examples of a property test in ``make test`` and in ``make test-full``.
EXAMPLES, FULL_EXAMPLES = 20, 150
#: Bytes of memory that must be free for temporary folders in it.
ROOM = 6 << 30
#: The slowest files, which several processes start first, so that at the end no process works alone.
SLOWEST = (
    "view/",
    "runs/test_agent_commands.py",
    "docs/test_commands.py",
    "reports/",
    "frontends/test_tui.py",
    "search/test_real_server.py",
    "doors/",
    "faults/",
    "damaged_files/",
)
#: Files that import PyTorch, which takes fifteen seconds: one process runs them all, from the start.
WITH_TORCH = (
    "index/test_colbert.py",
    "index/test_embedders_minilm.py",
    "index/test_embedders_sentence_transformers.py",
    "index/test_nomic_bert.py",
    "search/test_rerank_cross_encoder.py",
    "core/test_executors.py",
    "runs/test_adapters.py",
    "runs/test_outside_systems.py",
    "runs/test_pyterrier_frames.py",
    "runs/test_whole_pipelines.py",
)
#: Long tests that are started last, so that the other processes of ``make test-full`` work on them.
LAST = "faults/test_disk_faults.py::test_operations_fail_at_random[benchmark"
#: Tests that run only when ``-m`` names their marker.
ON_REQUEST = ("campaign", "corpora", "full")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    hidden = [marker for marker in ON_REQUEST if marker not in config.getoption("markexpr")]
    left_out = [item for item in items if any(item.get_closest_marker(marker) for marker in hidden)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    if hasattr(config, "workerinput"):
        items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    """The place of a test's file among the slowest; the others keep their order behind these."""
    name = item.nodeid.removeprefix("tests/")
    if name.startswith(LAST):
        return len(SLOWEST) + 1
    if name.startswith(WITH_TORCH):
        return -1
    return next((turn for turn, slow in enumerate(SLOWEST) if name.startswith(slow)), len(SLOWEST))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With ``--dist loadfile``, the files that import PyTorch are as one file."""
    from xdist.scheduler import LoadFileScheduling

    class OfFiles(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            own = nodeid.removeprefix("tests/").startswith(WITH_TORCH)
            return WITH_TORCH[0] if own else super()._split_scope(nodeid)

    return OfFiles(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_finish() -> None:
    """Do not look through what is loaded by now whenever garbage is collected."""
    gc.collect()
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    """Try fewer examples unless the ``full`` tests run, draw few plots, keep temporary folders in memory."""
    examples = FULL_EXAMPLES if "full" in config.getoption("markexpr") else EXAMPLES
    settings.register_profile("tests", max_examples=examples, deadline=None, derandomize=True)
    settings.load_profile("tests")
    replace_drawing()
    if not os.access(Path.home(), os.W_OK):
        # The clients of the model hub and of ir-datasets make folders in the home when they are imported.
        own = Path(tempfile.mkdtemp(prefix="branchrank-home-"))
        os.environ |= {"HF_HOME": str(own / "hub"), "IR_DATASETS_HOME": str(own / "datasets")}
        config.add_cleanup(lambda: shutil.rmtree(own, ignore_errors=True))
    if hasattr(config, "workerinput") and sys.platform == "linux":
        forked.server()
    memory = Path("/dev/shm")
    if hasattr(config, "workerinput") or config.option.basetemp or not os.access(memory, os.W_OK):
        return
    if shutil.disk_usage(memory).free > ROOM:
        config.option.basetemp = Path(tempfile.mkdtemp(prefix="branchrank-tests-", dir=memory))
        config.add_cleanup(lambda: shutil.rmtree(config.option.basetemp, ignore_errors=True))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the seed of the draw, and what to install for tests that were skipped because it is missing."""
    if (seed := draw.DRAWN_WITH) is not None:
        terminalreporter.write_line(f"campaigns: drawn with the seed {seed} (make test-full SEED={seed})")
    if lines := missing(terminalreporter.stats.get("skipped", [])):
        terminalreporter.write_sep("-", "skipped: not installed")
        terminalreporter.write_line("\n".join(lines))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Do not check each part of a plot against Altair's schema: one test checks the plots."""
    lighten()


class OutsideError(AssertionError):
    """A test tried to reach another machine."""


def _is_local(address: object) -> bool:
    if not isinstance(address, tuple):
        return True
    host = str(address[0])
    if host in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


@pytest.fixture(autouse=True)
def only_loopback(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse every connection that leaves the machine; tests over whole corpora may fetch them."""
    if request.node.get_closest_marker("corpora"):
        return
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def guarded(original):
        def call(self, address):
            if not _is_local(address):
                raise OutsideError(f"a test tried to connect to {address!r}")
            return original(self, address)

        return call

    monkeypatch.setattr(socket.socket, "connect", guarded(connect))
    monkeypatch.setattr(socket.socket, "connect_ex", guarded(connect_ex))


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    started = Chromium(tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    running = RedisServer(tmp_path_factory.mktemp("redis"))
    yield running
    running.stop()


@pytest.fixture
def redis(redis_server: RedisServer) -> Iterator[Any]:
    """A client of the empty server."""
    from redis import Redis

    with Redis.from_url(redis_server.url) as connected:
        connected.config_set("maxmemory", 0)
        connected.flushall()
        yield connected
