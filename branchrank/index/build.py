"""Building an index.

1. The build holds the workspace's lock. If the index is up to date, it is only opened.
2. The corpus is read, its nodes are built and its chunks are cut (or the user's own files are used).
3. If the settings ask for token vectors, those of unchanged chunks are copied from the current generation and
   the others are computed.
4. The chunks are embedded, each with its breadcrumb above it, unless adopted vectors are used. Texts that
   step 3 embedded or that are in the cache are not embedded again. So unchanged documents cost nothing, and
   an interrupted build is resumed.
5. Probe queries measure which distance threshold suits the model (:mod:`branchrank.index.calibration`).
6. Vectors, Chroma collection and BM25 indexes are written into a new generation, then the manifest.
7. The workspace's links are made; the generation is flushed to the disk and published by one rename; older
   ones are deleted.

For the same corpus and settings, all files except ``build.json`` and Chroma's are identical byte for byte.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from branchrank import __version__
from branchrank.artifacts import digest_file, digest_of, write_jsonl
from branchrank.corpus.chunking import chunk_document
from branchrank.corpus.discovery import CorpusFile, discover
from branchrank.corpus.loading import Corpus, load_corpus
from branchrank.corpus.tokens import token_counter
from branchrank.embedders import Embedder, open_embedder, token_embedder
from branchrank.embedders.cache import cached_documents, cached_query
from branchrank.embedders.nothing import NONE, NoEmbedder
from branchrank.embedders.protocol import Vectors
from branchrank.embedders.shards import EmbeddingTask
from branchrank.errors import ArtifactError, CorpusError
from branchrank.execution import Executor, open_executor
from branchrank.index.adoption import Adoption, adopted_vectors, check_adoption, read_adoption
from branchrank.index.calibration import distance_calibration, nearest_distances, probe_queries
from branchrank.index.failpoints import failpoint
from branchrank.index.generations import MANIFEST, build_lock
from branchrank.index.manifest import (
    SCHEMA_VERSION,
    BuildReport,
    CorpusEntry,
    DistanceCalibration,
    Manifest,
    file_digests,
    read_record,
    write_record,
)
from branchrank.index.reader import (
    BUILD,
    CHROMA,
    CHUNKS,
    COLLECTION,
    NODES,
    TOKENS,
    VECTORS,
    Index,
    bm25_path,
    chroma_place,
    given_digest,
    nodes_with_lines,
    open_index,
    vectors_content,
)
from branchrank.index.token_vectors import keep_token_vectors
from branchrank.index.user_files import given_chunks, given_nodes
from branchrank.index.workspace_folder import WorkspaceFolder, without_credentials
from branchrank.progress import Progress, no_progress
from branchrank.records import Chunk
from branchrank.settings import IndexSettings
from branchrank.stores.bm25 import Bm25Index
from branchrank.stores.indexed_text import chunk_terms, embedded_text, node_terms
from branchrank.stores.vectors_exact import ExactVectors, save_vectors
from branchrank.tree.build import build_nodes
from branchrank.tree.navigate import Tree
from branchrank.tree.store import write_nodes


class _Contents(NamedTuple):
    """The contents of an index before the embedding."""

    files: tuple[CorpusFile, ...]
    corpus: Corpus
    tree: Tree
    chunks: list[Chunk]
    notes: tuple[str, ...]
    adoption: Adoption | None


def build_index(
    workspace: WorkspaceFolder, *, progress: Progress = no_progress, force: bool = False
) -> Index:
    """Build the index that the workspace's settings ask for, unless it is up to date, and open it.

    ``force`` builds it even if it is up to date. ``progress`` counts documents (``read``), texts (``embed``)
    and steps (``store``). Raises :class:`~branchrank.errors.BusyError` when another process is building,
    :class:`CorpusError`, :class:`~branchrank.errors.ModelError`, :class:`~branchrank.errors.StorageError`;
    after an error the previous index is unchanged.
    """
    workspace.check_links()
    _ = workspace.corpus_root  # a workspace without a corpus is refused before anything is written
    with build_lock(workspace.data_dir):
        index = None if force else _up_to_date(workspace)
        if index is not None:
            if workspace.is_default_index:
                workspace.install_links()
            return index
        _build(workspace, progress)
        index = open_index(workspace, check_corpus=False)
        index.is_new = True
        return index


def _up_to_date(workspace: WorkspaceFolder) -> Index | None:
    try:
        index = open_index(workspace)
    except ArtifactError:
        return None
    try:
        # Each of these raises an error if it is damaged.
        _ = index.embedder, index.vectors, index.token_vectors
        if index.manifest.settings.token_vectors != workspace.index_settings.token_vectors:
            raise ArtifactError(
                "it keeps token vectors that the settings do not ask for", remedy="rebuild it"
            )
    except ArtifactError:
        index.close()
        return None
    asks_probes = index.manifest.embedder.name != NONE
    if asks_probes and not index.manifest.distance.probes:  # of a version that asked none
        index.close()
        return None
    return index


def _build(workspace: WorkspaceFolder, progress: Progress) -> None:
    seconds: dict[str, float] = {}
    timed = _timer(seconds)
    with timed("discover"):
        discover(workspace.corpus_root, workspace.exclude)  # find an empty corpus before loading a model
    with timed("model"):
        embedder = open_embedder(workspace.index_settings, notify=workspace.notify)
        if workspace.index_settings.token_precision is not None:
            token_embedder(
                embedder, workspace.index_settings.embedder
            )  # a model without them is refused before any work
    with open_executor(workspace.settings, workspace.notify) as executor:
        _publish(workspace, embedder, executor, seconds, progress)


def _publish(
    workspace: WorkspaceFolder,
    embedder: Embedder,
    executor: Executor,
    seconds: dict[str, float],
    progress: Progress,
) -> None:
    """Write a new generation and make it the current one."""
    with _timer(seconds)("read"):
        contents = _read(workspace, embedder, progress)
    generations = workspace.generations
    generation = generations.begin()
    failpoint("begun")
    try:
        _write(workspace, embedder, executor, contents, generation, seconds, progress)
    except BaseException:
        with contextlib.suppress(OSError):
            generations.remove(generation)
        raise
    failpoint("manifest written")
    if workspace.is_default_index:
        workspace.install_links()  # first, so that no reader finds an index without them
    failpoint("linked")
    generations.publish(generation)
    failpoint("published")
    generations.sweep(partial(_discard_collection, workspace.index_settings.chroma_url))


def _write(
    workspace: WorkspaceFolder,
    embedder: Embedder,
    executor: Executor,
    contents: _Contents,
    generation: Path,
    seconds: dict[str, float],
    progress: Progress,
) -> None:
    """Fill the directory of a new generation."""
    timed = _timer(seconds)
    with timed("write"):
        write_jsonl(generation / CHUNKS, contents.chunks)
        failpoint("chunks written")
        write_nodes(generation / NODES, contents.tree.nodes.values())
        failpoint("nodes written")
    with timed("tokens"):
        vectors = keep_token_vectors(
            workspace, embedder, executor, contents.chunks, generation / TOKENS, progress
        )
    failpoint("tokens written")
    with timed("embed"):
        embedding = _Embedding(workspace.index_settings, embedder, executor, vectors)
        matrix, embedded = _embed(workspace, embedding, contents, progress)
    failpoint("embedded")
    with timed("calibrate"):
        distance = _distance(workspace, embedder, contents, matrix)
    collection = _store(workspace, generation, contents, matrix, progress, timed)
    with timed("digests"):
        manifest = _manifest(workspace, embedder, contents, generation, distance)
        write_record(generation / MANIFEST, manifest)
    report = BuildReport(
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds={stage: round(value, 3) for stage, value in seconds.items()},
        bytes=sum(path.stat().st_size for path in generation.rglob("*") if path.is_file()),
        embedded=embedded,
        reused=len(contents.chunks) - embedded,
        collection=collection,
        chroma_digests=_chroma_digests(generation),
        modified_ns={file.source: file.mtime_ns for file in contents.files},
        notes=contents.notes,
        token_texts=len(vectors),
    )
    write_record(generation / BUILD, report)


def _read(workspace: WorkspaceFolder, embedder: Embedder, progress: Progress) -> _Contents:
    root = workspace.corpus_root
    # Taken before reading: a file that changes during the read makes the index stale, not wrong.
    files = discover(root, workspace.exclude).files
    corpus = load_corpus(root, workspace.exclude, progress)
    notes = list(corpus.notes)
    adoption = read_adoption(workspace.adoption_file)
    if adoption is not None:
        check_adoption(adoption, workspace, corpus)
    if workspace.nodes_file is not None:
        tree = given_nodes(workspace.nodes_file, corpus)
    else:
        nodes, tree_notes = build_nodes(corpus.documents, workspace.corpus_name)
        tree = Tree(nodes)
        notes += tree_notes
    if workspace.chunks_file is not None:
        chunks = given_chunks(workspace.chunks_file, corpus, tree)
    else:
        settings = workspace.index_settings
        count_tokens = token_counter()
        # The model adds tokens for the start and the end of a text.
        limit = max(8, embedder.identity.max_tokens - 2)
        chunks = [
            chunk
            for document in corpus.documents
            for chunk in chunk_document(
                document,
                target_tokens=settings.chunk_tokens,
                overlap_tokens=settings.chunk_overlap,
                limit_tokens=limit,
                count_tokens=count_tokens,
            )
        ]
    if not chunks:
        raise CorpusError(f"no document of the corpus {root} holds any text", remedy="add text to index")
    return _Contents(files, corpus, tree, chunks, tuple(notes), adoption)


def _embed(
    workspace: WorkspaceFolder, embedding: _Embedding, contents: _Contents, progress: Progress
) -> tuple[Vectors, int]:
    """The chunks' unit rows, and the number of texts that were embedded, not adopted or cached."""
    identity = embedding.embedder.identity
    if contents.adoption is not None:
        adopted = adopted_vectors(contents.adoption, workspace, identity)
        if adopted is not None:
            return adopted, 0
    if identity.name == NONE:
        return NoEmbedder().embed_documents([""] * len(contents.chunks)), 0
    with contextlib.closing(workspace.open_cache()) as cache:
        texts = [embedded_text(chunk) for chunk in contents.chunks]
        matrix = cached_documents(embedding.embedder, cache, texts, progress, embedding.embed_batches)
    return matrix, embedding.texts


def _distance(
    workspace: WorkspaceFolder, embedder: Embedder, contents: _Contents, matrix: Vectors
) -> DistanceCalibration:
    """The distances of probe queries to their nearest chunks; the probes' vectors are cached."""
    if embedder.identity.name == NONE:
        return DistanceCalibration()
    exact = ExactVectors([chunk.id for chunk in contents.chunks], matrix)
    with contextlib.closing(workspace.open_cache()) as cache:
        embed = partial(cached_query, embedder, cache)
        return distance_calibration(nearest_distances(exact, embed, probe_queries(contents.tree)))


class _Embedding:
    """Embeds batches of documents and counts them; those in ``vectors`` are not embedded again."""

    def __init__(
        self,
        settings: IndexSettings,
        embedder: Embedder,
        executor: Executor,
        vectors: Mapping[str, Vectors],
    ) -> None:
        self.embedder = embedder
        self.texts = 0
        self._task = EmbeddingTask(settings, embedder)
        self._executor = executor
        self._vectors = vectors

    def embed_batches(self, batches: Sequence[Sequence[str]]) -> Iterator[Vectors]:
        """Yield the rows of each batch."""
        missing = [[text for text in batch if text not in self._vectors] for batch in batches]
        embedded = self._executor.map(self._task, [texts for texts in missing if texts])
        for batch, texts in zip(batches, missing, strict=True):
            self.texts += len(batch)
            failpoint("embedding")
            rows = dict(zip(texts, next(embedded) if texts else (), strict=True))
            yield np.array([rows[text] if text in rows else self._vectors[text] for text in batch])


def _store(
    workspace: WorkspaceFolder,
    generation: Path,
    contents: _Contents,
    matrix: Vectors,
    progress: Progress,
    timed: Callable[[str], contextlib.AbstractContextManager[None]],
) -> str:
    """Write vectors, Chroma collection and BM25 indexes; return the collection's name."""
    ids = [chunk.id for chunk in contents.chunks]
    with timed("vectors"):
        save_vectors(generation / VECTORS, matrix)
    progress("store", 1, 4)
    failpoint("vectors written")
    settings = workspace.index_settings
    collection = ""
    with timed("chroma"):
        if chroma_place(settings):
            from branchrank.stores.chroma_upload import build_collection

            location = settings.chroma_url or generation / CHROMA
            collection = _server_collection(generation) if settings.chroma_url else COLLECTION
            content = vectors_content({name: digest_file(generation / name) for name in (CHUNKS, VECTORS)})
            build_collection(
                location, collection, ids, np.asarray(matrix), root=workspace.data_dir, made_for=content
            )
            failpoint("collection built")
    progress("store", 2, 4)
    with timed("bm25"):
        bm25 = workspace.bm25_settings
        texts = [chunk_terms(chunk) for chunk in contents.chunks]
        Bm25Index.build(ids, texts, bm25).save(bm25_path(generation, "chunks", bm25))
        progress("store", 3, 4)
        nodes = nodes_with_lines(contents.tree)
        texts = [node_terms(node) for node in nodes.values()]
        Bm25Index.build(list(nodes), texts, bm25).save(bm25_path(generation, "nodes", bm25))
    progress("store", 4, 4)
    failpoint("bm25 written")
    return collection


def _server_collection(generation: Path) -> str:
    """A name that no other generation, workspace or machine uses on the same server."""
    return f"branchrank-{digest_of([socket.gethostname(), str(generation.resolve())])[:32]}"


def _discard_collection(url: str, generation: Path) -> None:
    """Delete the collection that a generation has on the server ``url``, if the server can be reached."""
    with contextlib.suppress(ArtifactError):
        manifest = read_record(generation / MANIFEST, Manifest)
        if url and manifest.chroma == url:
            from branchrank.stores.chroma_upload import drop_collection

            drop_collection(manifest.chroma, read_record(generation / BUILD, BuildReport).collection)


def _manifest(
    workspace: WorkspaceFolder,
    embedder: Embedder,
    contents: _Contents,
    generation: Path,
    distance: DistanceCalibration,
) -> Manifest:
    digest_of_source = {document.source: document.digest for document in contents.corpus.documents}
    digests = {
        name: digest for name, digest in file_digests(generation).items() if not name.startswith(f"{CHROMA}/")
    }
    return Manifest(
        schema_version=SCHEMA_VERSION,
        package_version=__version__,
        corpus=workspace.corpus_name,
        corpus_digest=contents.corpus.digest,
        exclude=workspace.exclude,
        files=tuple(
            CorpusEntry(source=file.source, size=file.size, digest=digest_of_source.get(file.source, ""))
            for file in contents.files
        ),
        settings=without_credentials(workspace.index_settings),
        embedder=embedder.identity,
        bm25=workspace.bm25_settings,
        chroma=chroma_place(workspace.index_settings),
        chunks_digest=given_digest(workspace.chunks_file),
        nodes_digest=given_digest(workspace.nodes_file),
        adoption_digest=given_digest(workspace.adoption_file),
        documents=len(contents.corpus.documents),
        nodes=len(contents.tree.nodes),
        chunks=len(contents.chunks),
        digests=digests,
        distance=distance,
    )


def _chroma_digests(generation: Path) -> dict[str, str]:
    """Digests of the collection's own files; the database file changes whenever it is opened."""
    digests = file_digests(generation / CHROMA)
    return {name: digest for name, digest in digests.items() if "/" in name}


def _timer(seconds: dict[str, float]) -> Callable[[str], contextlib.AbstractContextManager[None]]:
    @contextlib.contextmanager
    def timed(stage: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        seconds[stage] = seconds.get(stage, 0.0) + time.perf_counter() - start

    return timed
