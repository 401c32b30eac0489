"""Run as a program under ``LD_PRELOAD``: fail the disk at chosen operations, and tell what became of it.

    LD_PRELOAD=disk_faults.so python -m support.faults.trials SCENARIO COUNT SEED

1. A scenario is run once undisturbed, in a copy of its folder: its outcome, and its operations by number.
2. Each trial copies the folder, runs the command with one fault, then the same command (or the one that
   resumes it) without a fault, and compares the outcome. Commands run in forked processes that have every
   module loaded, so that a trial costs tenths of a second.
3. A line of JSON tells each trial.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from support.drawn import replace_drawing
from support.faults.scenarios import SCENARIOS, Outcome, Scenario, last_run, make_folder, placed
from support.lighter import lighten

KINDS = {"kill": 1, "torn": 2, "enospc": 3, "eio": 4, "short": 5, "sigint": 6}
#: What is named at random in a path, and the plots, which one function writes.
_RANDOM = re.compile(r"(?<=plots/)[\w.-]+|[0-9a-f]{12,}|\d{8}T\d{6}Z|(?<=tmp)[a-z0-9_]{8}|\d+")
_OF_LOOPS = ("anyio", "httpcore", "httpx", "openai", "sniffio")
#: Longer is a hang.
DEADLINE_S = 300


def program(
    words: Sequence[str],
    folder: Path,
    *,
    at: int = 0,
    kind: str = "",
    log: Path | None = None,
    typed: str = "",
) -> Any:
    """Run a command in a forked process; its exit status (negative: the signal) and what it printed."""
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as stdin:
        stdin.write(typed.encode())
        stdin.seek(0)
        child = os.fork()
        if child == 0:
            status = 70
            try:
                os.chdir(folder)
                os.dup2(stdin.fileno(), 0)
                for stream in (1, 2):
                    os.dup2(printed.fileno(), stream)
                descriptor = -1 if log is None else os.open(log, os.O_WRONLY | os.O_CREAT, 0o600)
                signal.signal(signal.SIGINT, signal.default_int_handler)
                signal.alarm(DEADLINE_S)
                if at or log is not None:
                    armed = ctypes.CDLL(None).faults_arm
                    armed(str(folder.resolve()).encode(), ctypes.c_long(at), KINDS.get(kind, 0), descriptor)
                status = _exit_code(placed(words, folder))
            except BaseException:
                traceback.print_exc()
            finally:
                with contextlib.suppress(Exception):
                    sys.stdout.flush()
                    sys.stderr.flush()
                os._exit(status)
        _, waited = os.waitpid(child, 0)
        printed.seek(0)
        return os.waitstatus_to_exitcode(waited), printed.read().decode("utf-8", "replace")


def _exit_code(words: Sequence[str]) -> int:
    from branchrank.frontends.cli.main import main

    try:
        main(list(words))
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


def load_modules(folder: Path, words: Sequence[str]) -> None:
    """Import here what the command imports, so that its forks need not."""
    listed = folder.parent / "modules.json"
    child = os.fork()
    if child == 0:
        try:
            os.chdir(folder)
            with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
                _exit_code(placed(words, folder))
            listed.write_text(json.dumps(sorted(sys.modules)))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    for name in json.loads(listed.read_text()):
        # What runs event loops is left to the forks: it keeps state of the process that imports it.
        if name not in sys.modules and not name.startswith(("__", "_asyncio", "asyncio", *_OF_LOOPS)):
            with contextlib.suppress(Exception):
                __import__(name)


@contextlib.contextmanager
def scripted_server() -> Iterator[str]:
    """A scripted LLM in a process of its own, without faults; its URL."""
    code = (
        "import sys\nfrom support import scripted_llm as scripted\n"
        "with scripted.ScriptedLLM(lambda chat, n: scripted.ids(list(chat.entries)[::-1])) as server:\n"
        "    print(server.base_url, flush=True)\n    sys.stdin.read()\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        yield server.stdout.readline().decode().strip()
        server.stdin.close()


def sites(log: Path) -> dict[str, list[int]]:
    """The operations by name and path, without what is random in the path."""
    found: dict[str, list[int]] = {}
    for line in log.read_text(encoding="utf-8").splitlines():
        number, _, site = line.partition(" ")
        found.setdefault(_RANDOM.sub("#", site), []).append(int(number))
    return found


class Trials:
    """The trials of one scenario below ``work``."""

    def __init__(self, scenario: Scenario, work: Path, server: str) -> None:
        self.scenario = scenario
        self._work = work
        self.words = [word.replace("{server}", server) for word in scenario.words]
        self._base = work / "base"
        self._base.mkdir(parents=True)
        make_folder(self._base)
        replace_drawing()
        for words in scenario.before:
            status, printed = program(words, self._base)
            assert status == 0, printed
        load_modules(self._copy("modules"), self.words)
        lighten()
        folder, log = self._copy("undisturbed"), work / "operations.log"
        status, printed = program(self.words, folder, log=log, typed=scenario.typed(folder))
        assert status == 0, printed
        self.wanted: Outcome = scenario.outcome(folder)
        self.sites = sites(log)

    def _copy(self, name: str) -> Path:
        folder = self._work / name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self._base, folder, symlinks=True)
        return folder

    def trial(self, at: int, kind: str) -> dict[str, object]:
        """One fault and the command again."""
        folder = self._copy("trial")
        first, printed = program(self.words, folder, at=at, kind=kind, typed=self.scenario.typed(folder))
        problems = []
        if first == -signal.SIGALRM:
            problems.append("hang")
        if "Traceback" in printed or first == 70:
            problems.append("traceback")
        typed = self.scenario.typed(folder)
        again, more = (0, "") if first == 0 else program(self._next(folder), folder, typed=typed)
        if first == 0:
            problems += self._differences(folder, "silent")
        elif again != 0:
            problems.append("lost: the next command fails")
        else:
            problems += self._differences(folder, "lost")
        told = {"scenario": self.scenario.name, "at": at, "kind": kind, "first": first, "problems": problems}
        return told | ({"printed": [printed[-2000:], more[-2000:]]} if problems else {})

    def _next(self, folder: Path) -> list[str]:
        """The command after a fault."""
        run = last_run(folder) if self.scenario.resume else None
        if run is None or json.loads((run / "run.json").read_bytes())["status"] == "finished":
            return self.words
        return list(self.scenario.resume)

    def _differences(self, folder: Path, what: str) -> list[str]:
        try:
            found = self.scenario.outcome(folder)
        except (OSError, ValueError, LookupError) as error:
            return [f"{what}: {error}"]
        names = {name for name in found | self.wanted if found.get(name) != self.wanted.get(name)}
        return [f"{what}: {name}" for name in sorted(names)]


def chosen(
    scenario: Scenario, found: dict[str, list[int]], count: int, draw: random.Random
) -> list[tuple[int, str]]:
    """Operations and kinds: every site once, ``count`` at random, or as many sites as ``-count``."""
    kinds = list(KINDS)
    if count <= 0:
        places = [numbers for site, numbers in found.items() if re.search(scenario.places, site)]
        places = draw.sample(places, min(len(places), -count or len(places)))
        return [(draw.choice(numbers), kinds[index % len(kinds)]) for index, numbers in enumerate(places)]
    last = max(max(numbers) for numbers in found.values())
    return [(draw.randint(1, last), draw.choice(kinds)) for _ in range(count)]


def main() -> None:
    """Run the scenario that is named: so many trials (0: every site once), drawn by a seed."""
    name, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as opened:
        for scenario in SCENARIOS:
            if scenario.name != name:
                continue
            server = opened.enter_context(scripted_server()) if scenario.server else ""
            trials = Trials(scenario, Path(folder).resolve() / scenario.name.replace(" ", "-"), server)
            counted = {"scenario": scenario.name, "sites": len(trials.sites)}
            print(json.dumps(counted | {"operations": sum(map(len, trials.sites.values()))}), flush=True)
            for at, kind in chosen(scenario, trials.sites, count, draw):
                print(json.dumps(trials.trial(at, kind)), flush=True)


if __name__ == "__main__":
    main()
