"""Copy chunks, vectors and nodes from another program into a workspace.

1. The documents are read, and every chunk is located in a document (:mod:`branchrank.documents.locating`).
   Chunks that are not found in any document are left out and listed in the adoption record.
2. A sample of the chunks is embedded again, and the new vectors are compared with the existing vectors in the
   collection (:mod:`branchrank.index.embedders.protocol`). If the new vectors agree with the existing
   vectors, the existing vectors are reused. Chunks that have no vector in the collection are embedded.
3. If ``nodes.jsonl`` is a valid tree of the documents, it is used unchanged. Otherwise a new tree is built,
   and each summary in ``nodes.jsonl`` is assigned to the section with the same lines, text or title.
4. The results are written to the workspace's folder ``adopted/``. The other program's folder is not changed.
   The adoption record ``adoption.json`` contains the digest of the documents and the identity of the model. A
   later build uses the adoption record to check whether the adopted chunks and vectors are still valid.
"""

from __future__ import annotations

import contextlib
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from branchrank.core.errors import ArtifactError, InputError, UsageError
from branchrank.core.io.files import digest_file, write_jsonl
from branchrank.core.records import Chunk, Node, Record
from branchrank.documents.lines import normalize
from branchrank.documents.loading import Corpus, load_corpus
from branchrank.documents.locating import PROBLEMS, Anchor, ChunkLocator
from branchrank.documents.named import locate_corpus
from branchrank.documents.tree_build import build_nodes, with_summaries
from branchrank.documents.tree_nodes import Tree
from branchrank.index.adopted_files import (
    ChromaRecords,
    GivenChunk,
    given_nodes,
    json_objects,
    passage_of,
    read_found,
    string_of,
)
from branchrank.index.embedders import open_embedder
from branchrank.index.embedders.protocol import EmbedderIdentity, Vectors, check_agreement, unit_rows
from branchrank.index.generations import CHROMA, CHUNKS, NODES, build_lock
from branchrank.index.manifest import read_record, write_record
from branchrank.index.reader import VECTORS
from branchrank.index.stores.analyzer import embedded_text
from branchrank.index.stores.vectors import load_vectors, save_vectors
from branchrank.index.workspace_folder import CONFIG, WorkspaceFolder, read_config

ADOPTED = "adopted"
RECORD = "adoption.json"


class Adoption(Record, frozen=True, kw_only=True):
    """A record of what was adopted from ``folder``, and what was left out.

    ``by_lines`` is the number of chunks found at the line numbers that the other program recorded.
    ``anchored`` is the number of chunks located by searching the documents for the chunk's text.
    ``unconfirmed`` is the number of chunks whose text was not found and which therefore keep the other
    program's line numbers. ``left_out`` lists the chunks that were left out, each with the reason. ``reused``
    is the number of vectors copied from the collection, and ``embedded`` is the number of newly computed
    vectors for chunks that had no vector in the collection. ``sampled`` is the number of existing vectors
    that were compared with newly computed vectors. ``least_cosine`` is the smallest cosine similarity between
    an existing vector and the newly computed vector of the same chunk. ``form`` (``text``, ``document`` or
    ``breadcrumb``) specifies the text from which the existing vectors were computed. ``tree`` is ``own`` for
    a tree that is used unchanged, ``summaries`` for a tree of which only the summaries are used, and empty
    for a folder without nodes. ``nodes`` is the number of the folder's nodes that were found in the
    documents, and ``nodes_left_out`` is the number of nodes that were not found.
    """

    folder: str
    corpus_digest: str
    chunks: int
    by_lines: int
    anchored: int
    unconfirmed: int
    left_out: tuple[str, ...]
    chunks_digest: str
    collection: str = ""
    embedder: EmbedderIdentity | None = None
    vectors_digest: str = ""
    form: str = ""
    reused: int = 0
    embedded: int = 0
    sampled: int = 0
    least_cosine: float = 0.0
    tree: str = ""
    nodes: int = 0
    nodes_left_out: int = 0


def adopt_folder(
    workspace: WorkspaceFolder, folder: Path, corpus_root: Path, collection: str, held: ExitStack
) -> Adoption:
    """Adopt the chunks, vectors and nodes in ``folder``.

    Files are written only to the workspace's folder ``adopted/``, and the build lock is added to ``held``
    before. Raises :class:`InputError` or :class:`ArtifactError` for files in ``folder`` that can't be used.
    Raises :class:`~branchrank.core.errors.UsageError` or :class:`~branchrank.core.errors.ModelError` if the
    model can't be used. All these errors are raised before any file is written.
    """
    remedy = (
        f"branchrank index {shlex.quote(str(corpus_root))} --data-dir {shlex.quote(str(workspace.data_dir))} "
        f"--embedder {shlex.quote(workspace.index_settings.embedder)}"
    )
    found, records = read_found(folder, collection, remedy=remedy)
    corpus = load_corpus(corpus_root, workspace.exclude)
    locator = ChunkLocator(Path(corpus.root), (document.source for document in corpus.documents))
    tree, of_tree = _tree(folder, corpus, locator, remedy)
    chunks: list[Chunk] = []
    left_out: list[str] = []
    by: Counter[str] = Counter()
    for key, fields in found.items():
        passage = passage_of(fields, locator)
        anchor = locator.find(passage) if passage.text.strip() else None
        if not isinstance(anchor, Anchor):
            left_out.append(f"{key}: {PROBLEMS[anchor] if anchor else 'it has no text'}")
            continue
        by[anchor.how] += 1
        chunk = GivenChunk(
            id=key,
            node_id=string_of(fields, "node_id"),
            breadcrumb=string_of(fields, "breadcrumb"),
            text=passage.text,
            **msgspec.structs.asdict(anchor.span),
        )
        chunks.append(chunk.completed(tree))
    if not chunks:
        raise InputError(
            f"none of the {len(found)} chunks of {folder} was found in the corpus {corpus_root}"
            + "".join(f": {reason}" for reason in left_out[:1]),
            remedy=remedy,
        )
    vectors = None if records is None else _vectors(workspace, records, chunks, folder, remedy)
    held.enter_context(build_lock(workspace.data_dir))
    adopted = workspace.data_dir / ADOPTED
    of_vectors: dict[str, Any] = {}
    if vectors is not None:
        save_vectors(adopted / VECTORS, vectors[0])
        of_vectors = {**vectors[1], "vectors_digest": digest_file(adopted / VECTORS)}
    write_jsonl(adopted / "chunks.jsonl", chunks)
    if of_tree:
        write_jsonl(adopted / "nodes.jsonl", tree.nodes.values())
    record = Adoption(
        folder=str(folder.resolve()),
        corpus_digest=corpus.digest,
        chunks=len(chunks),
        by_lines=by["claimed"],
        anchored=by["exact"] + by["plain"] + by["aligned"],
        unconfirmed=by["unconfirmed"],
        left_out=tuple(left_out),
        chunks_digest=digest_file(adopted / "chunks.jsonl"),
        **of_vectors,
        **of_tree,
    )
    write_record(adopted / RECORD, record)
    return record


def documents_of(workspace: WorkspaceFolder, folder: Path, corpus: str | PathLike[str] | None) -> Path:
    """Return the folder with the documents from which the chunks in ``folder`` were made.

    If ``corpus`` is ``None``, the corpus is taken from the workspace's ``branchrank.toml``. A
    ``branchrank.toml`` in ``folder`` is used if the workspace's file specifies no corpus. Raises
    :class:`~branchrank.core.errors.UsageError` if no corpus is specified, or if the workspace is inside
    ``folder``. Raises :class:`ArtifactError` if another program's files are in the way of the workspace's
    links.
    """
    here, data_dir = folder.resolve(), workspace.data_dir.resolve()
    words = ["branchrank", "adopt", str(folder), "--embedder", workspace.index_settings.embedder]
    if (here / "indexes").is_dir() and (here / "branchrank.toml").is_file():
        raise UsageError(
            f"{folder} is already a BranchRank workspace, which you can search directly",
            remedy=shlex.join(["branchrank", "retrieve", "QUERY", "--data-dir", str(folder)]),
        )
    if data_dir == here or data_dir.is_relative_to(here):
        beside = here.with_name(f"{here.name}-branchrank")
        raise UsageError(
            f"the workspace {workspace.data_dir} is inside {folder}, but `adopt` must not change {folder}",
            remedy=shlex.join([*words, "--data-dir", str(beside), "--corpus", str(corpus or "DOCUMENTS")]),
        )
    workspace.check_links()
    if corpus is not None:
        return locate_corpus(Path(corpus) if isinstance(corpus, PathLike) else corpus)
    for place in (data_dir, here):
        named = read_config(place / CONFIG)[0].corpus
        if named:
            return locate_corpus(place / named if (place / named).is_dir() else named)
    raise UsageError(
        f"the documents from which the chunks in {folder} were made are not known",
        remedy=shlex.join([*words, "--data-dir", str(workspace.data_dir), "--corpus", "DOCUMENTS"]),
    )


def adopted_vectors(workspace: WorkspaceFolder, corpus: Corpus, identity: EmbedderIdentity) -> Vectors | None:
    """Return the workspace's adopted vectors as unit vectors.

    Returns ``None`` without an adoption, or if the model or the chunks have changed since the adoption.
    Raises :class:`ArtifactError` if the documents have changed, or if the vector file is missing or damaged.
    """
    path, chunks = workspace.given("adoption"), workspace.given("chunks")
    if path is None:
        return None
    adoption = read_record(path, Adoption)
    if adoption.corpus_digest != corpus.digest:
        raise ArtifactError(
            f"the documents in {corpus.root} have changed since {workspace.data_dir} adopted its chunks",
            remedy=_again(adoption, workspace),
        )
    if adoption.embedder != identity or chunks is None or digest_file(chunks) != adoption.chunks_digest:
        return None
    file = path.with_name(VECTORS)
    if not file.is_file() or digest_file(file) != adoption.vectors_digest:
        raise ArtifactError(f"{file} is missing or damaged", remedy=_again(adoption, workspace))
    return load_vectors(file, adoption.chunks, identity.dimension)


def _again(adoption: Adoption, workspace: WorkspaceFolder) -> str:
    """Return the command that repeats an adoption with the corpus and embedder in ``branchrank.toml``."""
    words = ["branchrank", "adopt", adoption.folder, "--data-dir", str(workspace.data_dir)]
    return shlex.join([*words, *(["--collection", adoption.collection] if adoption.collection else [])])


def _vectors(
    workspace: WorkspaceFolder, records: ChromaRecords, chunks: Sequence[Chunk], folder: Path, remedy: str
) -> tuple[Vectors, dict[str, Any]]:
    """Return the chunks' unit vectors, and the fields of :class:`Adoption` that describe the vectors."""
    embedder = open_embedder(workspace.index_settings, notify=workspace.notify)
    row_of = {key: row for row, key in enumerate(records.ids)}
    of_document = {text: row for row, text in enumerate(records.documents)}
    rows = [row_of.get(chunk.id, of_document.get(chunk.text)) for chunk in chunks]
    place = f"the collection {records.collection!r} in {folder / CHROMA}"
    known = [(row, chunk) for row, chunk in zip(rows, chunks, strict=True) if row is not None]
    if not known:
        raise ArtifactError(
            f"{place} has no record with the id or the text of a chunk in {folder / CHUNKS}",
            remedy=remedy,
        )
    stored = records.vectors[[row for row, _ in known]]
    forms = {
        "text": [chunk.text for _, chunk in known],
        "document": [records.documents[row] for row, _ in known],
        "breadcrumb": [embedded_text(chunk) for _, chunk in known],
    }
    agreement = check_agreement(embedder, stored, forms, place=place, remedy=remedy)
    matrix = np.empty((len(chunks), embedder.identity.dimension), dtype=np.float32)
    has = np.array([row is not None for row in rows])
    matrix[has] = unit_rows(stored, origin=place)
    if not has.all():
        missing = [chunk for row, chunk in zip(rows, chunks, strict=True) if row is None]
        texts = [embedded_text(each) if agreement.form == "breadcrumb" else each.text for each in missing]
        matrix[~has] = embedder.embed_documents(texts)
    return matrix, {
        "collection": records.collection,
        "embedder": embedder.identity,
        "form": agreement.form,
        "reused": int(has.sum()),
        "embedded": int((~has).sum()),
        "sampled": agreement.sampled,
        "least_cosine": round(agreement.least, 6),
    }


def _tree(folder: Path, corpus: Corpus, locator: ChunkLocator, remedy: str) -> tuple[Tree, dict[str, Any]]:
    """Return the tree and the fields of :class:`Adoption` that describe the folder's nodes, if it has any."""
    nodes, _ = build_nodes(corpus.documents, Path(corpus.root).name or "corpus")
    built = Tree(nodes)
    if not (folder / NODES).exists():
        return built, {}
    objects = list(json_objects(folder, NODES, remedy=remedy))
    with contextlib.suppress(InputError):
        own = given_nodes(folder / NODES, corpus)
        return own, {"tree": "own", "nodes": len(own.nodes)}
    summaries: dict[str, str] = {}
    found = 0
    for fields in objects:
        node = _section(fields, built, locator)
        found += node is not None
        summary = fields.get("summary")
        if node is not None and isinstance(summary, str) and summary.strip():
            summaries.setdefault(node.id, summary)
    return Tree(with_summaries(nodes, summaries)), {
        "tree": "summaries",
        "nodes": found,
        "nodes_left_out": len(objects) - found,
    }


def _section(fields: Mapping[str, Any], tree: Tree, locator: ChunkLocator) -> Node | None:
    """Return the section in ``tree`` that corresponds to another tree's node, or ``None``."""
    passage = passage_of(fields, locator)
    anchor = locator.find(passage)
    if isinstance(anchor, Anchor):
        first = msgspec.structs.replace(anchor.span, line_end=anchor.line_start)
        return next(iter(tree.overlapping(first)), None)
    title, source = normalize(string_of(fields, "title")), passage.source
    named = [node for node in tree.sections if node.source == source and normalize(node.title) == title]
    return named[0] if title and len(named) == 1 else None
