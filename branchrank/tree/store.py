"""Read and write the file ``nodes.jsonl``, which contains the nodes of a tree, one per line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from branchrank.errors import ArtifactError
from branchrank.io.files import NOT_JSON, read_file, write_jsonl
from branchrank.records import Node
from branchrank.tree.check import find_problems
from branchrank.tree.navigate import Tree

_REMEDY = "build it again: branchrank index CORPUS, or pageindex_common.py build"


def write_nodes(path: Path, nodes: Iterable[Node]) -> None:
    """Write one node per line, atomically. Raises :class:`StorageError` if the file can't be written."""
    write_jsonl(path, nodes)


def load_nodes(path: Path | str) -> Tree:
    """Read a tree, and check that it is valid.

    Raises :class:`ArtifactError` if the file can't be read or does not contain a valid tree. The message
    contains the line number of the invalid node.
    """
    decoder = msgspec.json.Decoder(Node)
    nodes: list[Node] = []
    numbers: list[int] = []
    try:
        content = read_file(Path(path))
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror}", remedy=_REMEDY) from error
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            nodes.append(decoder.decode(line))
        except NOT_JSON as error:
            raise ArtifactError(f"{path}:{number}: {error}", remedy=_REMEDY) from None
        numbers.append(number)
    if not nodes:
        raise ArtifactError(f"the file {path} contains no nodes", remedy=_REMEDY)
    for index, message in find_problems(nodes):
        raise ArtifactError(f"{path}:{numbers[index]}: {nodes[index].id!r}: {message}", remedy=_REMEDY)
    return Tree(nodes)
