"""Store the links between an index's nodes in ``lookup/tree.npy``, and map this file into memory."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from branchrank.errors import ArtifactError
from branchrank.index.records_file import LOOKUP, RecordsFile
from branchrank.io.files import NOT_JSON, atomic_writer, open_beneath
from branchrank.records import Node
from branchrank.stores.arrays import mapped_arrays, write_arrays
from branchrank.tree.navigate import Rows, Tree, TreeRows

TREE = f"{LOOKUP}/tree.npy"


def write_links(directory: Path, nodes: RecordsFile[Node], depths: Rows) -> None:
    """Write the links between a generation's nodes. Raises StorageError if the file can't be written."""
    links = TreeRows.of(depths, nodes.source_rows, nodes.line_starts)
    with atomic_writer(directory / TREE) as stream:
        write_arrays(stream, links)


def open_tree(directory: Path, nodes: RecordsFile[Node]) -> Tree:
    """Open the tree of the index generation in ``directory``.

    Raises :class:`ArtifactError` if the file ``lookup/tree.npy`` is missing or damaged.
    """
    try:
        links = TreeRows(*mapped_arrays(partial(open_beneath, directory), TREE, len(TreeRows._fields)))
        _check(links, len(nodes))
    except (OSError, ValueError, *NOT_JSON) as error:
        raise ArtifactError(
            f"cannot read {directory / TREE}: {error}", remedy="rebuild the index: branchrank index"
        ) from error
    return Tree.opened(nodes, links)


def _check(links: TreeRows, count: int) -> None:
    """Raise ``ValueError`` if an array has the wrong type, or the wrong shape for ``count`` nodes."""
    shapes = [array.shape for array in links]
    if {array.dtype for array in links} != {np.dtype(np.int32)} or shapes != [(count,)] * 5 + [(count + 1,)]:
        raise ValueError(f"its arrays do not have the shapes for {count} nodes: {shapes}")
