"""Parse source code into documents whose sections are definitions such as functions and classes.

1. The sections are those of :mod:`branchrank.documents.code_outline`, which runs in a child process. The
   process parses one file after another, and ends with this one. If it needs too much CPU time or memory for
   a file, the operating system ends it, and the file is read as plain text.
2. The title of a file is its name with the name of its folder. A section's title is the name of the
   definition.
3. Comments outside functions and docstrings are prose, without the characters that mark them. All other
   lines are code.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import subprocess
import sys
import threading
from itertools import groupby, pairwise

import msgspec

from branchrank.core.io import environment_of_parsers
from branchrank.documents import code_outline
from branchrank.documents.document import Findings, Heading, plain_blocks, read_as_text
from branchrank.documents.lines import joined_note
from branchrank.documents.reading import Reader

#: A larger file is read as plain text. Such files are usually generated.
MAX_BYTES = 1_000_000
#: A file of ``MAX_BYTES`` takes about 0.3 seconds.
CPU_SECONDS = 5.0
_MARKS = re.compile(
    r"""^(\s*)(?:\#+!?|//[/!]*|/\*+!?|\*+/|\*(?=\s|$)|[rRuU]?(?:\"{3}|'{3}))|\s*(?:\*+/|\"{3}|'{3})\s*$"""
)

#: For each section its level, title and first line, the lines that joined a section, and the lines of prose.
_Outline = tuple[list[tuple[int, str, int]], list[int], list[tuple[int, int]]]


class _Outliner:
    """The child process that finds definitions. It is started on first use, once in each process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def outline(self, suffix: str, content: bytes) -> _Outline | None:
        """Return the outline of a file, or ``None`` if the child process ended."""
        with self._lock:
            if self._process is None or self._owner != os.getpid():
                self._start()
            process = self._process
            assert process is not None
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(f"{suffix} {len(content)} {CPU_SECONDS}\n".encode() + content)
                process.stdin.flush()
                answer = process.stdout.readline()
            except BrokenPipeError:
                answer = b""
            except BaseException:  # an interrupt: the next file must not get this file's answer
                self._stop()
                raise
            if not answer:
                self._stop()
                return None
        found: _Outline = msgspec.json.decode(answer, type=_Outline)
        return found

    def _start(self) -> None:
        # -P keeps the modules beside the program from hiding those of the standard library.
        command = [sys.executable, "-P", code_outline.__file__]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment_of_parsers(),
        )
        self._owner = os.getpid()
        atexit.register(self._stop)

    def _stop(self) -> None:
        process, self._process = self._process, None
        atexit.unregister(self._stop)
        if process is not None and self._owner == os.getpid():
            # Leaving the context closes the pipes and waits for the process.
            with contextlib.suppress(BrokenPipeError), process:
                process.kill()


_OUTLINER = _Outliner()


def read_code(source: str, lines: list[str]) -> Findings:
    """Read a file of source code. Malformed content raises no exception."""
    content = "\n".join(lines).encode()
    if len(content) > MAX_BYTES:
        return read_as_text(lines, f"it has more than {MAX_BYTES:,} bytes")
    outline = _OUTLINER.outline(os.path.splitext(source)[1].lower(), content)
    if outline is None:
        return read_as_text(lines, "parsing it takes too much time or memory")
    found, (sections, joined, prose) = Findings(), outline
    found.title = "/".join(source.split("/")[-2:])
    # A heading of level 1 could be the title of the page.
    found.headings = [Heading(level + 1, title, line, line, in_text=True) for level, title, line in sections]
    is_prose = {line for first, last in prose for line in range(first, last + 1)}
    bounds = [1, *(line for _, _, line in sections), len(lines) + 1]
    for start, end in pairwise(bounds):
        _add_blocks(found, lines, range(start, end), is_prose)
    found.notes += joined_note(joined, "definition")
    return found


def _add_blocks(found: Findings, lines: list[str], numbers: range, is_prose: set[int]) -> None:
    """Add the lines with the given numbers. A run of prose is paragraphs, and a run of code is one block."""
    for prose, run in groupby(numbers, key=is_prose.__contains__):
        own = list(run)
        texts, before = lines[own[0] - 1 : own[-1]], own[0] - 1
        if not prose:
            found.add_block("code", texts, own[0])
            continue
        for block in plain_blocks([_MARKS.sub(r"\1", text) for text in texts]):
            first, last = block.line_start + before, block.line_end + before
            found.blocks.append(msgspec.structs.replace(block, line_start=first, line_end=last))


READER = Reader(read_code)
