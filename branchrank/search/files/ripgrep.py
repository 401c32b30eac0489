"""Run ripgrep as a child process, with patterns that match in linear time, and return the matched lines.

1. Only the ``rg`` installed by the package ``ripgrep`` is used, never another ``rg`` on the PATH.
2. ripgrep runs in a new session, without a configuration file, and does not follow links. Its default regex
   engine does not backtrack. Each pattern is passed as ``--regexp=PATTERN``, so the text of a query can't
   become a flag.
3. Files that are too large to be indexed are not searched.
4. If ripgrep exceeds the deadline or the output limit, its process group is killed. The incomplete output of
   ripgrep is returned with a notice.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sysconfig
import threading
from collections.abc import Collection, Sequence
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from branchrank.core.errors import BranchRankError, CorpusError, MissingDependencyError
from branchrank.core.records import Record
from branchrank.documents.loading import MAX_FILE_BYTES

DEADLINE_S = 2.0
OUTPUT_LIMIT = 64 * 1024 * 1024
#: Flags that make ripgrep print ``path NUL number:text`` for each matched line.
_PLAIN = ("--no-heading", "--with-filename", "--line-number", "--null", "--color=never")


class MatchedLine(NamedTuple):
    """A matched line, with its line number (from 1) and its text without the line break."""

    number: int
    text: str


class Matches(Record, frozen=True, kw_only=True):
    """The matched lines in each file (sorted by path), and the reasons for an incomplete search."""

    files: dict[str, list[MatchedLine]]
    notices: tuple[str, ...] = ()


@cache
def ripgrep_binary() -> Path:
    """Return the path of the ``rg`` installed by the package ``ripgrep``.

    Raises :class:`MissingDependencyError` if the package is not installed.
    """
    candidates = [Path(sysconfig.get_path("scripts")) / "rg"]
    with contextlib.suppress(metadata.PackageNotFoundError):
        distribution = metadata.distribution("ripgrep")
        installed = [Path(str(distribution.locate_file(file))) for file in distribution.files or ()]
        candidates = [path for path in installed if path.stem == "rg"] + candidates
    for candidate in candidates:
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate.resolve()
    raise MissingDependencyError("ripgrep", purpose="grep search")


def search_files(
    root: Path, patterns: Sequence[str], sources: Collection[str], *, deadline_s: float = DEADLINE_S
) -> Matches:
    """Find every line in the files ``sources`` that matches at least one pattern, ignoring case.

    ``sources`` are paths relative to ``root``. Raises :class:`CorpusError` if ``root`` is not a folder.
    """
    if not patterns:
        return Matches(files={})
    command = [*_PLAIN, "--ignore-case", "--engine=default", *_limits(sources)]
    command.extend(f"--regexp={pattern}" for pattern in patterns)
    output, notices = _run(command, root, deadline_s)
    found: dict[str, list[MatchedLine]] = {}
    for raw in output.split(b"\n"):
        path, separator, rest = raw.partition(b"\0")
        number, colon, text = rest.partition(b":")
        # All other lines, such as a truncated last line or a message about a binary file, are ignored.
        if separator and colon and number.isdigit():
            line = MatchedLine(int(number), text.decode("utf-8", "replace").removesuffix("\r"))
            found.setdefault(_source(path), []).append(line)
    allowed = sorted(found.keys() & set(sources))
    return Matches(files={source: found[source] for source in allowed}, notices=notices)


@lru_cache(maxsize=4096)
def _source(path: bytes) -> str:
    return os.fsdecode(path).removeprefix("./").replace(os.sep, "/")


def _limits(sources: Collection[str]) -> list[str]:
    flags = ["--no-messages", "--no-ignore", "--no-follow", "--no-search-zip", "--no-pre", "--hidden"]
    flags += [f"--max-filesize={MAX_FILE_BYTES}"]
    suffixes = sorted({Path(source).suffix for source in sources})
    if all(re.fullmatch(r"\.\w+", suffix) for suffix in suffixes):
        flags.extend(f"--glob=*{suffix}" for suffix in suffixes)
    return flags


def _run(flags: list[str], root: Path, deadline_s: float) -> tuple[bytes, tuple[str, ...]]:
    """Run ripgrep and return its output, with a notice if the output is incomplete."""
    if not root.is_dir():
        raise CorpusError(f"{root} is not a folder", remedy="correct `corpus` in branchrank.toml")
    notices: list[str] = []
    with subprocess.Popen(
        [str(ripgrep_binary()), "--no-config", *flags, "--", "."],
        cwd=root,
        env={"LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:

        def stop(reason: str) -> None:
            notices.append(f"grep stopped {reason}: the results may be incomplete")
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

        timer = threading.Timer(deadline_s, stop, [f"after {deadline_s:g} s"])
        timer.daemon = True
        timer.start()
        try:
            assert process.stdout is not None
            output = process.stdout.read(OUTPUT_LIMIT)
            if len(output) == OUTPUT_LIMIT and not notices:
                stop(f"at {OUTPUT_LIMIT // 2**20} MiB of matches")
        except BaseException:
            stop("by an interruption")
            raise
        finally:
            timer.cancel()
            timer.join()
    # Exit codes of ripgrep: 0 for matches, 1 for no match, 2 for an unreadable file, negative if killed.
    if process.returncode == 2 and not output:
        raise BranchRankError(
            f"ripgrep failed in {root} with exit code 2",
            remedy=f"check that this command works: {ripgrep_binary()} --version",
        )
    return output, tuple(notices)
