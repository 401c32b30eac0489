"""Build the index of a workspace.

1. The build locks the workspace. An index that is already up to date is opened without being rebuilt.
2. The documents of the corpus are read and divided into chunks, and a tree of nodes is built from the
   documents. Chunks and nodes supplied by the user replace the computed chunks and nodes.
3. If token vectors are enabled, the token vectors of unchanged chunks are copied from the current generation.
   Token vectors that can't be copied are computed.
4. Unless adopted vectors are used, each chunk is embedded with its breadcrumb as the first line. Texts that
   were embedded in step 3 or are in the cache are not embedded again. With the cache, an interrupted build
   can be resumed, and a later build embeds only changed documents.
5. The distance threshold for the model is measured with probe queries (:mod:`branchrank.index.calibration`).
6. The vectors, the Chroma collection, the BM25 indexes and the manifest are written to a new generation.
7. The workspace's links are created, and the generation is flushed to disk. A single rename makes the new
   generation the current one. Generations older than the previous one are deleted.

Two builds from the same corpus with the same settings write identical manifests. The files that these
manifests list are identical too.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from branchrank import __version__
from branchrank.corpus.loading import discover
from branchrank.embedders import Embedder, open_embedder, token_embedder
from branchrank.errors import ArtifactError
from branchrank.execution.executors import Executor, open_executor
from branchrank.index.contents import Contents, read_contents
from branchrank.index.documents import MODIFIED, CorpusEntry, write_documents, write_modified
from branchrank.index.embedding import ChunkEmbedding, embed_chunks, measure_distance
from branchrank.index.failpoints import failpoint
from branchrank.index.generations import MANIFEST, build_lock
from branchrank.index.manifest import (
    SCHEMA_VERSION,
    BuildReport,
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
    open_index,
    vectors_content,
)
from branchrank.index.records_file import RecordsFile, write_records
from branchrank.index.stamps import write_stamps
from branchrank.index.token_vectors import keep_token_vectors
from branchrank.index.tree_file import write_links
from branchrank.index.workspace_folder import WorkspaceFolder, without_credentials
from branchrank.io.files import digest_file, digest_of, storage_errors
from branchrank.io.progress import Progress, no_progress
from branchrank.records import Chunk, Node
from branchrank.stores.bm25 import Bm25Index
from branchrank.stores.bm25_weights import TokenCounts
from branchrank.stores.strings import Strings
from branchrank.stores.vectors_exact import ExactVectors, save_vectors


def build_index(
    workspace: WorkspaceFolder, *, progress: Progress = no_progress, force: bool = False
) -> Index:
    """Build the index that the workspace's settings select, unless it is up to date, and open the index.

    If ``force`` is true, an index that is up to date is built again. ``progress`` is called with the name of
    a stage, the number of finished items and the total number of items. An item is a document in the stage
    ``read``, a text in the stages ``tokens`` and ``embed``, and a step in the stage ``store``. If an error is
    raised, the previous index is unchanged.

    Raises :class:`~branchrank.errors.BusyError` if another process is building an index in the workspace,
    :class:`CorpusError` for a corpus that can't be read, :class:`~branchrank.errors.ModelError` for a model
    that can't be used, and :class:`~branchrank.errors.StorageError` for files that can't be written.
    """
    workspace.check_links()
    _ = workspace.corpus_root  # raises an error if the corpus is missing, before any file is written
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
        # Opening these parts raises an error if one of them is damaged.
        _ = index.embedder, index.vectors, index.token_vectors
        if index.manifest.settings.token_vectors != workspace.index_settings.token_vectors:
            raise ArtifactError(
                "the index has token vectors that the settings do not ask for", remedy="branchrank index"
            )
    except ArtifactError:
        index.close()
        return None
    return index


def _build(workspace: WorkspaceFolder, progress: Progress) -> None:
    seconds: dict[str, float] = {}
    timed = _timer(seconds)
    with timed("discover"):
        discover(
            workspace.corpus_root, workspace.exclude
        )  # raises an error for an empty corpus before the model is loaded
    with timed("model"):
        embedder = open_embedder(workspace.index_settings, notify=workspace.notify)
        if workspace.index_settings.token_precision is not None:
            token_embedder(
                embedder, workspace.index_settings.embedder
            )  # raises an error for a model without token vectors before any work
    with open_executor(workspace.settings, workspace.notify) as executor:
        _publish(workspace, embedder, executor, seconds, progress)


def _publish(
    workspace: WorkspaceFolder,
    embedder: Embedder,
    executor: Executor,
    seconds: dict[str, float],
    progress: Progress,
) -> None:
    """Write a new generation of the index and make it the current one."""
    with _timer(seconds)("read"):
        contents = read_contents(workspace, embedder, executor, progress)
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
        workspace.install_links()  # before publishing, so that every published index has its links
    failpoint("linked")
    generations.publish(generation)
    failpoint("published")
    generations.sweep(partial(_discard_collection, workspace.index_settings.chroma_url))


def _write(
    workspace: WorkspaceFolder,
    embedder: Embedder,
    executor: Executor,
    contents: Contents,
    generation: Path,
    seconds: dict[str, float],
    progress: Progress,
) -> None:
    """Write all files of a new generation."""
    timed = _timer(seconds)
    with timed("write"):
        write_records(generation, CHUNKS, contents.chunks)
        failpoint("chunks written")
        write_records(generation, NODES, contents.nodes.lines)
        write_links(generation, RecordsFile(generation, NODES, Node), contents.nodes.depths)
        failpoint("nodes written")
        # To free memory, all following steps read chunks and nodes from the disk.
        contents.chunks.clear()
        contents.nodes.lines.clear()
        chunks = RecordsFile(generation, CHUNKS, Chunk)
    with timed("tokens"):
        vectors = keep_token_vectors(workspace, embedder, executor, chunks, generation / TOKENS, progress)
    failpoint("tokens written")
    with timed("embed"):
        embedding = ChunkEmbedding(workspace.index_settings, embedder, executor, vectors)
        matrix, embedded = embed_chunks(workspace, embedding, contents.adoption, chunks, progress)
    failpoint("embedded")
    with timed("calibrate"):
        exact = ExactVectors(chunks.ids, matrix)
        distance = measure_distance(workspace, embedder, exact, contents.nodes.titles)
    collection = _store(workspace, generation, contents, exact, progress, timed)
    write_documents(generation, _entries(contents))
    write_modified(generation, {file.source: file.mtime_ns for file in contents.files})
    failpoint("documents written")
    with timed("digests"):
        counts = len(contents.corpus.documents), len(contents.nodes.depths), len(chunks)
        manifest = _manifest(workspace, embedder, contents, counts, generation, distance)
        write_record(generation / MANIFEST, manifest)
    chroma_digests = _chroma_digests(generation)
    with storage_errors(generation):
        write_stamps(
            generation, [MANIFEST, *manifest.digests, *(f"{CHROMA}/{name}" for name in chroma_digests)]
        )
    report = BuildReport(
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds={stage: round(value, 3) for stage, value in seconds.items()},
        bytes=sum(path.stat().st_size for path in generation.rglob("*") if path.is_file()),
        embedded=embedded,
        reused=len(chunks) - embedded,
        collection=collection,
        chroma_digests=chroma_digests,
        notes=contents.notes,
        token_texts=len(vectors),
        manifest_digest=digest_file(generation / MANIFEST),
    )
    write_record(generation / BUILD, report)


def _store(
    workspace: WorkspaceFolder,
    generation: Path,
    contents: Contents,
    exact: ExactVectors,
    progress: Progress,
    timed: Callable[[str], contextlib.AbstractContextManager[None]],
) -> str:
    """Write the vectors, the Chroma collection and the BM25 indexes, and return the collection's name."""
    ids = exact.ids
    with timed("vectors"):
        save_vectors(generation / VECTORS, exact.matrix)
    progress("store", 1, 4)
    failpoint("vectors written")
    settings = workspace.index_settings
    collection = ""
    with timed("chroma"):
        if chroma_place(settings):
            from branchrank.stores.chroma import build_collection

            location = settings.chroma_url or generation / CHROMA
            collection = _server_collection(generation) if settings.chroma_url else COLLECTION
            content = vectors_content({name: digest_file(generation / name) for name in (CHUNKS, VECTORS)})
            build_collection(location, collection, ids, exact.matrix, made_for=content)
            failpoint("collection built")
    progress("store", 2, 4)
    with timed("bm25"):
        _save_bm25(workspace, generation, "chunks", CHUNKS, ids, contents.chunk_tokens)
        progress("store", 3, 4)
        nodes = RecordsFile(generation, NODES, Node)
        sections = nodes.ids.where(nodes.has_lines)
        _save_bm25(workspace, generation, "nodes", NODES, sections, contents.nodes.tokens)
    progress("store", 4, 4)
    failpoint("bm25 written")
    return collection


def _save_bm25(
    workspace: WorkspaceFolder, generation: Path, kind: str, file: str, ids: Strings, tokens: TokenCounts
) -> None:
    settings = workspace.bm25_settings
    bm25 = Bm25Index.weighed(ids, tokens, settings, digest_file(generation / file))
    bm25.save(bm25_path(generation, kind, settings))


def _server_collection(generation: Path) -> str:
    """Return a collection name that no other generation on the Chroma server uses."""
    return f"branchrank-{digest_of([socket.gethostname(), str(generation.resolve())])[:32]}"


def _discard_collection(url: str, generation: Path) -> None:
    """Delete a generation's collection from the Chroma server ``url``, if the server can be reached."""
    with contextlib.suppress(ArtifactError):
        manifest = read_record(generation / MANIFEST, Manifest)
        if url and manifest.chroma == url:
            from branchrank.stores.chroma import drop_collection

            drop_collection(manifest.chroma, read_record(generation / BUILD, BuildReport).collection)


def _entries(contents: Contents) -> Iterator[CorpusEntry]:
    """Yield an entry for each file in the corpus, with an empty digest for a file that could not be read."""
    digests = {document.source: document.digest for document in contents.corpus.documents}
    for file in contents.files:
        yield CorpusEntry(source=file.source, size=file.size, digest=digests.get(file.source, ""))


def _manifest(
    workspace: WorkspaceFolder,
    embedder: Embedder,
    contents: Contents,
    counts: tuple[int, int, int],
    generation: Path,
    distance: DistanceCalibration,
) -> Manifest:
    documents, nodes, chunks = counts
    digests = {
        name: digest
        for name, digest in file_digests(generation).items()
        if name != MODIFIED and not name.startswith(f"{CHROMA}/")
    }
    return Manifest(
        schema_version=SCHEMA_VERSION,
        package_version=__version__,
        corpus=workspace.corpus_name,
        corpus_digest=contents.corpus.digest,
        exclude=workspace.exclude,
        settings=without_credentials(workspace.index_settings),
        embedder=embedder.identity,
        bm25=workspace.bm25_settings,
        chroma=chroma_place(workspace.index_settings),
        chunks_digest=given_digest(workspace.chunks_file),
        nodes_digest=given_digest(workspace.nodes_file),
        adoption_digest=given_digest(workspace.adoption_file),
        documents=documents,
        nodes=nodes,
        chunks=chunks,
        digests=digests,
        distance=distance,
    )


def _chroma_digests(generation: Path) -> dict[str, str]:
    """Return the digests of Chroma's files except the database file, which changes whenever it is opened."""
    digests = file_digests(generation / CHROMA)
    return {name: digest for name, digest in digests.items() if "/" in name}


def _timer(seconds: dict[str, float]) -> Callable[[str], contextlib.AbstractContextManager[None]]:
    @contextlib.contextmanager
    def timed(stage: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        seconds[stage] = seconds.get(stage, 0.0) + time.perf_counter() - start

    return timed
