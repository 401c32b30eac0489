"""Read the user's own chunks and nodes, which replace the chunks and nodes computed by a build.

1. The user's files are used only if ``branchrank.toml`` specifies their paths (``chunks = ...``, ``nodes =
   ...``).
2. Each chunk must have the keys ``id``, ``source``, ``line_start``, ``line_end`` and ``text``. A chunk
   belongs to every node with which it shares a line. The chunk's ``node_id`` is used only if the tree has
   that node.
3. Every source must be a document in the corpus, and every line number must exist in that document.
"""

from __future__ import annotations

from pathlib import Path

from branchrank.corpus.loading import Corpus, CorpusOutline
from branchrank.errors import ArtifactError, InputError
from branchrank.io.files import read_jsonl
from branchrank.records import Chunk, Record, Span
from branchrank.tree.navigate import Tree
from branchrank.tree.store import check_nodes, load_nodes


class _GivenChunk(Record, frozen=True, kw_only=True):
    """A chunk in a file that the user supplies. Keys that are not fields of this class are ignored."""

    id: str
    source: str
    line_start: int
    line_end: int
    text: str
    node_id: str = ""
    breadcrumb: str = ""


def given_nodes(path: Path, corpus: Corpus | CorpusOutline) -> Tree:
    """Read the tree in the user's nodes file ``path``.

    Raises :class:`InputError` if the file does not contain a tree of ``corpus``.
    """
    try:
        tree = load_nodes(path)
    except ArtifactError as error:
        raise InputError(error.message, remedy=f"correct {path}") from error
    line_counts = {document.source: document.line_count for document in corpus.documents}
    problems = check_nodes(list(tree.nodes.values()), line_counts)
    if not problems:
        problems = [
            f"the tree lacks the document {source}" for source in line_counts if not tree.file_node(source)
        ]
    if problems:
        raise InputError(
            f"{path} is not a tree of the corpus {corpus.root}: {problems[0]}",
            remedy=f"correct {path}, or remove it from branchrank.toml",
        )
    return tree


def given_chunks(path: Path, corpus: Corpus | CorpusOutline, tree: Tree) -> list[Chunk]:
    """Read the chunks in the user's chunks file ``path``, in file order.

    Raises :class:`InputError` if a chunk is invalid.
    """
    line_counts = {document.source: document.line_count for document in corpus.documents}
    seen: set[str] = set()
    chunks = []
    remedy = f"correct {path}, or remove it from branchrank.toml"
    for number, given in enumerate(read_jsonl(path, _GivenChunk, remedy=remedy), start=1):
        problem = ""
        if given.id in seen:
            problem = f"the id {given.id!r} occurs twice"
        elif given.source not in line_counts:
            problem = f"{given.source!r} is not a document of the corpus {corpus.root}"
        elif not 1 <= given.line_start <= given.line_end <= line_counts[given.source]:
            problem = (
                f"it has lines {given.line_start}-{given.line_end} of {given.source!r}, "
                f"but this document has {line_counts[given.source]} lines"
            )
        elif not given.text.strip():
            problem = f"the chunk {given.id!r} has no text"
        if problem:
            raise InputError(f"{path}: chunk {number}: {problem}", remedy=remedy)
        seen.add(given.id)
        chunks.append(_chunk(given, tree))
    return chunks


def _chunk(given: _GivenChunk, tree: Tree) -> Chunk:
    breadcrumb = given.breadcrumb
    if not breadcrumb:
        span = Span(source=given.source, line_start=given.line_start, line_end=given.line_end)
        nodes = [*tree.overlapping(span), tree.file_node(given.source)]
        breadcrumb = nodes[0].breadcrumb if nodes[0] else ""
    return Chunk(
        id=given.id,
        node_id=given.node_id,
        source=given.source,
        line_start=given.line_start,
        line_end=given.line_end,
        breadcrumb=breadcrumb,
        text=given.text,
    )
