"""Change one thing in a world, run a command, and judge: an error in words, or a right result.

A trial runs in this process, in a world that is restored afterwards. It fails if the command

- ends with an exception (``crashed``), or the process grows by more than its limit,
- does not end (``hung``),
- shows or copies the content of a file outside the world (``leaked``), or changes one (``lost``),
- answers with something else where digests protect the file, where the change can't explain it, or with
  numbers that are none (``wrong``); ``verify`` must not call a changed run right.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
import shutil
import stat
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner
from support.limits import HungError, TooMuchMemoryError, limited

from branchrank.core.io.files import digest_of
from branchrank.frontends.cli.main import main
from branchrank.runs.directory import COMPACT_ROWS, MEASURED, ROWS
from damaged_files.changes import Change, changes_of
from damaged_files.world import ARTIFACTS, CANARY, Artifact, files_of, make_world

CPU_S, WALL_S, GROWTH_MIB = 40.0, 120.0, 500
#: The artifacts that are finished runs.
RUNS = ("run", "compact run")
#: Exit codes of errors in words; 1 is a finding of ``verify`` and of ``gate``.
REFUSALS = frozenset({2, 3, 4, 5, 6, 7, 8, 9})
_NO_NUMBER = re.compile(r"(?<![\w-])(nan|inf|NaN|Infinity)(?![\w-])")
_TIME = re.compile(r"\d{8}T\d{6}Z|\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?|\d+(\.\d+)? ?m?s\b")


@dataclass(frozen=True)
class Trial:
    """One change of one file, and the command that meets it. ``sealed``: digests are made to fit."""

    artifact: Artifact
    file: Path
    change: Change
    command: tuple[object, ...]
    sealed: bool

    @property
    def name(self) -> str:
        seal = ", sealed" if self.sealed else ""
        return f"{' '.join(map(str, self.command[:3]))} | {self.file}: {self.change.name}{seal}"


@dataclass(frozen=True)
class Outcome:
    """What a command did: its exit code (``None``: an exception), and what it printed."""

    code: int | None
    output: str
    errors: str


class World:
    """A world, its copy for the next trial, and what the commands say in the whole one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "world"
        self._whole = folder / "whole"
        self.outside = folder / "outside"
        self.folder.mkdir()
        with contextlib.chdir(self.folder):
            make_world(self.folder)
        shutil.copytree(self.folder, self._whole, symlinks=True)
        self._whole_outside = folder / "outside-whole"
        shutil.copytree(self.outside, self._whole_outside)
        self.expected: dict[tuple[object, ...], Outcome] = {}
        for artifact in ARTIFACTS:
            for command in artifact.commands:
                self.expected[command] = self.run(command)
                self.restore()
                assert self.expected[command].code == 0, self.expected[command]

    def restore(self) -> None:
        """Make the world whole: what is not as it was is copied again."""
        for whole, folder in ((self._whole, self.folder), (self._whole_outside, self.outside)):
            wanted, found = states(whole), states(folder)
            for name in sorted(found.keys() - wanted.keys(), reverse=True):
                _remove(folder / name)
            for name, state in wanted.items():
                if found.get(name) == state:
                    continue
                _remove(folder / name)
                if (whole / name).is_dir() and not (whole / name).is_symlink():
                    (folder / name).mkdir()
                else:
                    shutil.copy2(whole / name, folder / name, follow_symlinks=False)

    def run(self, command: tuple[object, ...]) -> Outcome:
        """Run a command in the world."""
        with contextlib.chdir(self.folder):
            result = CliRunner().invoke(main, [str(word) for word in command])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Outcome(result.exit_code, result.stdout, result.stderr)

    def trials(self) -> Iterator[Trial]:
        """All trials. A change of a field meets one command, one of the file three.

        The record of the unfinished run has the fields of the finished one; every second of its changes is
        tried.
        """
        for artifact in ARTIFACTS:
            for file in files_of(artifact, self._whole):
                for number, change in enumerate(changes_of(self._whole / file, self.outside)):
                    is_field = ": " in change.name
                    place = int(hashlib.sha256(f"{file}{change.name}".encode()).hexdigest()[:8], 16)
                    if is_field and artifact.name == "unfinished run" and place % 2:
                        continue
                    commands = artifact.commands
                    chosen = {
                        commands[(place + more) % len(commands)] for more in range(1 if is_field else 3)
                    }
                    for command in sorted(chosen, key=str):
                        sealed = is_field and number % 2 == 0 and _can_seal(artifact)
                        yield Trial(artifact, file, change, command, sealed)

    @cached_property
    def every_trial(self) -> tuple[Trial, ...]:
        """All trials: listing them takes seconds."""
        return tuple(self.trials())

    def sample(self, count: int, seed: int) -> list[Trial]:
        """Trials drawn so that every artifact and every kind of change is there before any comes twice."""
        random = Random(seed)
        drawn = list(self.every_trial)
        random.shuffle(drawn)
        seen: dict[tuple[str, str], int] = {}
        order = []
        for trial in drawn:
            kind = (trial.artifact.name, trial.change.name.rpartition(": ")[2])
            seen[kind] = seen.get(kind, -1) + 1
            order.append(seen[kind])
        kept = sorted(range(len(drawn)), key=lambda place: order[place])[:count]
        return [drawn[place] for place in kept]

    def refuses(self, trial: Trial) -> bool:
        """Whether the command of a trial ends with an error, or ``verify`` with a finding."""
        try:
            trial.change.apply(self.folder / trial.file)
            with limited(CPU_S, WALL_S, GROWTH_MIB):
                return self.run(trial.command).code in REFUSALS | {1}
        finally:
            self.restore()

    def judge(self, trial: Trial) -> tuple[str, str] | None:
        """Run a trial; return its fault and what happened, ``None`` without one."""
        try:
            trial.change.apply(self.folder / trial.file)
            if trial.sealed:
                seal(self.folder, trial.file)
            with limited(CPU_S, WALL_S, GROWTH_MIB):
                outcome = self.run(trial.command)
            return self._fault(trial, outcome)
        except HungError:
            return "hung", "".join(traceback.format_exc(limit=-8))
        except (Exception, TooMuchMemoryError):
            return "crashed", "".join(traceback.format_exc(limit=-8))
        finally:
            self.restore()

    def _fault(self, trial: Trial, outcome: Outcome) -> tuple[str, str] | None:
        said = outcome.output + outcome.errors
        if "Traceback" in said:
            return "crashed", said[-2_000:]
        if CANARY in said or (self._holds_canary() and "link" not in trial.change.name):
            return "leaked", said[-500:]
        if (self.outside / "secret.txt").read_text() != f"{CANARY}\n" or self._copy_changed(trial):
            return "lost", "a file outside was changed"
        if outcome.code in REFUSALS:
            return None if outcome.errors.strip() else ("wrong", f"exit code {outcome.code} without a word")
        if outcome.code == 1 and trial.command[0] == "verify":
            return None
        if outcome.code != 0:
            return "wrong", f"exit code {outcome.code}: {said[-500:]}"
        return self._wrong(trial, outcome)

    def _wrong(self, trial: Trial, outcome: Outcome) -> tuple[str, str] | None:
        expected = self.expected[trial.command]
        alike = _plain(outcome.output) == _plain(expected.output)
        if _NO_NUMBER.search(outcome.output) and not _NO_NUMBER.search(expected.output) and not _names(trial):
            return "wrong", f"a number that is none: {outcome.output[-500:]}"
        changed = (self._whole / trial.file).read_bytes()
        if trial.command[0] == "verify" and _is_computed_from(trial) and not trial.sealed:
            now = self.folder / trial.file
            same = now.is_file() and not now.is_symlink() and now.read_bytes() == changed
            return None if same else ("wrong", f"called right: {outcome.output[-300:]}")
        if trial.artifact.protected and not trial.sealed and not alike:
            return "wrong", f"{outcome.output[-500:]} instead of {expected.output[-500:]}"
        return None

    def _copy_changed(self, trial: Trial) -> bool:
        copy = self.outside / "copy"
        return copy.exists() and copy.read_bytes() != (self._whole / trial.file).read_bytes()

    def _holds_canary(self) -> bool:
        """Whether a file of the world holds what only the secret holds."""
        return any(
            CANARY.encode() in path.read_bytes()
            for path in self.folder.rglob("*")
            if path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 20
        )


State = tuple[int, int, int]


def states(folder: Path) -> dict[str, State]:
    """Kind, size and time of everything below a folder, folders before what they hold and without times."""
    found: dict[str, State] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        kind = stat.S_IFMT(status.st_mode)
        timed = kind != stat.S_IFDIR
        size, time = (status.st_size, status.st_mtime_ns) if timed and kind != stat.S_IFLNK else (0, 0)
        link = hash(os.readlink(path)) if kind == stat.S_IFLNK else size
        found[path.relative_to(folder).as_posix()] = (kind, link, time)
    return found


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _is_computed_from(trial: Trial) -> bool:
    """Whether the file is one that ``verify`` has the digest of."""
    return trial.artifact.name in RUNS and trial.file.name in (ROWS, COMPACT_ROWS, *MEASURED)


def _names(trial: Trial) -> bool:
    """Whether the change itself is a text that reads as a number that is none."""
    return trial.change.name.rpartition(": ")[2] in ("nan", "inf", "NaN", "Infinity")


def _plain(output: str) -> str:
    """What a command said, without times; of an answer in JSON only the hits."""
    with contextlib.suppress(ValueError, TypeError):
        answer = json.loads(output)
        return json.dumps(answer.get("hits", answer.get("results")))
    return _TIME.sub("", output)


def _can_seal(artifact: Artifact) -> bool:
    return artifact.name in ("index", *RUNS)


def seal(folder: Path, file: Path) -> None:
    """Make the digests beside a changed file fit again, as whoever changes a file on purpose would."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration):
        if file.parts[0] == "reports":
            path = folder / file.parts[0] / file.parts[1] / "run.json"
            record = json.loads(path.read_bytes())
            if file.name in record["digests"]:
                record["digests"][file.name] = _digest(folder / file)
            record["digests"]["run.json"] = digest_of(
                {**record, "digests": {k: v for k, v in record["digests"].items() if k != "run.json"}}
            )
        else:
            path = next(
                parent / "manifest.json" for parent in (folder / file).parents if _has_manifest(parent)
            )
            record = json.loads(path.read_bytes())
            name = (folder / file).relative_to(path.parent).as_posix()
            if name in record["digests"]:
                record["digests"][name] = _digest(folder / file)
        path.write_text(json.dumps(record), encoding="utf-8")


def _has_manifest(folder: Path) -> bool:
    return (folder / "manifest.json").is_file()


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Nothing is logged, and no variable of this environment is read."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("BRANCHRANK_")]:
            patch.delenv(name)
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)
