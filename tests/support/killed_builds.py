"""Run as a program: kill builds when a file is in place and tell, one JSON object a line, what was found.

Each build runs in a forked process, so that a kill costs milliseconds.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from support.small_corpus import PAGES, reopened, small_workspace

from branchrank.core.errors import ArtifactError, BranchRankError
from branchrank.index.index_build import build_index
from branchrank.index.reader import Index, open_index

CHANGED = PAGES["index.md"].replace("boils", "heats and boils")


def in_child(work: Callable[[], object]) -> tuple[int, object]:
    """What a forked process's ``work`` returns, and the signal that ended it (0: none)."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            result = work()
        except BranchRankError as error:
            result = f"{type(error).__name__}: {error.message}"
        os.write(write, json.dumps(result).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        content = stream.read()
    _, status = os.waitpid(child, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, json.loads(content) if content else None


def answers(index: Index) -> object:
    """Everything that the index says, in a form that JSON keeps."""
    query = "what boils water"
    ranked = [
        index.vectors.search(index.embedder.embed_query(query), 50),
        index.bm25_chunks.search(query, 50),
        index.bm25_nodes.search(query, 50),
    ]
    return [
        *([(key, float(score)) for key, score in each] for each in ranked),
        [chunk.text for chunk in index.chunks.values()],
        list(index.tree.nodes),
    ]


def build(folder: Path, point: str = "") -> object:
    """Build, killed when the file ``point`` is in place; the answers and the number of texts embedded."""
    replace = os.replace

    def replaced(source: str, target: str) -> None:
        replace(source, target)
        if os.path.basename(target) == point:
            os.kill(os.getpid(), signal.SIGKILL)

    os.replace = replaced  # type: ignore[assignment]
    with build_index(reopened(folder)) as index:
        return [answers(index), index.report.embedded]


def read(folder: Path) -> object:
    """The answers of whatever index a reader finds, the corpus's state aside."""
    with open_index(reopened(folder), check_corpus=False) as index:
        return answers(index)


def fresh(folder: Path) -> bool:
    """Whether a reader that checks finds the index up to date."""
    try:
        open_index(reopened(folder)).close()
    except ArtifactError:
        return False
    return True


def trial(folder: Path, point: str, *, first: bool) -> dict[str, object]:
    """Kill a build at ``point``, over an older index unless it is the ``first``; read; build again."""
    folder.mkdir(parents=True)
    small_workspace(folder)
    old = None
    if not first:
        old = in_child(lambda: build(folder))[1][0]  # type: ignore[index]
    (folder / "docs" / "index.md").write_text(CHANGED)
    ended_by, _ = in_child(lambda: build(folder, point))
    _, found = in_child(lambda: read(folder))
    _, was_fresh = in_child(lambda: fresh(folder))
    _, (new, embedded) = in_child(lambda: build(folder))  # type: ignore[misc]
    generations = sorted(path.name for path in (folder / "data").glob("indexes/*/0*"))
    return {
        "point": point,
        "signal": ended_by,
        "found": "old" if found == old and old else "new" if found == new else found,
        "fresh": was_fresh,
        "embedded": embedded,
        "changed": new != old,
        "generations": generations,
        "leftovers": [path.name for path in (folder / "data").rglob("*.tmp")],
    }


if __name__ == "__main__":
    root = Path(sys.argv[1])
    # What every build imports and loads is then there in each fork.
    build_index(small_workspace(root / "warm")).close()
    for number, (name, is_first) in enumerate(json.loads(sys.argv[2])):
        print(json.dumps(trial(root / str(number), name, first=is_first)), flush=True)
