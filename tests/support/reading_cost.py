"""What reading one generated file costs: a process that forks a fresh child for each measurement.

Lines ``<shape> <size>`` on the standard input are answered by lines of JSON: CPU seconds of the child, which
starts at zero after all imports, and the bytes of the file and of its nodes and chunks. A child that exceeds
its limits has no figures.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, NamedTuple, Self

import msgspec
from support.shapes import Shape, family

CPU_LIMIT = 30
MEMORY_LIMIT = 4 << 30


class Cost(NamedTuple):
    """CPU seconds, and bytes of the file, of its nodes and of its chunks (as their files hold them)."""

    seconds: float
    size: int
    nodes: int
    chunks: int


class Meter:
    """The measuring process; a context manager."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.reading_cost"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=Path(__file__).parents[1],
        )

    def measure(self, shape: str, size: int) -> Cost | None:
        """Read the shape at ``size`` bytes once; ``None`` when the limits stopped it."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin
        assert stdout
        print(shape, size, file=stdin, flush=True)
        return msgspec.json.decode(stdout.readline(), type=Cost | None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.communicate()


def _read(shape: Shape, content: bytes) -> Cost:
    from branchrank.documents.chunking import chunk_document, token_counter
    from branchrank.documents.reading import read_document
    from branchrank.documents.tree_build import build_nodes

    count_tokens = token_counter()
    start = time.process_time()
    document = read_document(shape.source, content)
    nodes, _ = build_nodes([document], "corpus")
    chunks = chunk_document(document, target_tokens=254, overlap_tokens=0, count_tokens=count_tokens)
    seconds = time.process_time() - start
    return Cost(seconds, len(content), len(msgspec.json.encode(nodes)), len(msgspec.json.encode(chunks)))


def _measure(shape: Shape, size: int, output: IO[bytes]) -> None:
    """Read in a child and write what it cost, ``null`` when the child was stopped."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT, CPU_LIMIT))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
        try:
            os.write(writer, msgspec.json.encode(_read(shape, shape.content(size))))
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as stream:
        answer = stream.read()
    os.waitpid(child, 0)
    output.write((answer or b"null") + b"\n")
    output.flush()


def main() -> None:
    """Answer measurements until the input ends."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    shapes = family()
    for shape in (shapes["md/line/letters"], shapes["mdx/line/letters"], shapes["rst/line/letters"]):
        _read(shape, shape.content(2000))
    for line in sys.stdin:
        name, size = line.split()
        _measure(shapes[name], int(size), sys.stdout.buffer)


if __name__ == "__main__":
    main()
