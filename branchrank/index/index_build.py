"""Build the index of a workspace.

1. The build locks the workspace. An index that is already up to date is opened without being rebuilt.
2. The documents of the corpus are read and divided into chunks, and a tree of nodes is built from the
   documents. Chunks and nodes supplied by the user replace the computed chunks and nodes.
3. If token vectors are enabled, the token vectors of unchanged chunks are copied from the current generation.
   Token vectors that can't be copied are computed.
4. Unless adopted vectors are used, each chunk is embedded with its breadcrumb as the first line. Texts that
   were embedded in step 3 or are in the cache are not embedded again. With the cache, an interrupted build
   can be resumed, and a later build embeds only changed documents.
5. The spread of the similarities and the distance threshold for the model are measured with probe queries
   (:mod:`branchrank.index.embedding`).
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
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from branchrank.core.errors import ArtifactError
from branchrank.core.execution import Executor
from branchrank.core.execution.executors import open_executor
from branchrank.core.io import VERSION
from branchrank.core.io.files import digest_file, digest_of, storage_errors
from branchrank.core.io.progress import Progress, no_progress
from branchrank.documents.chunkers import check_chunker, chunker_version
from branchrank.documents.loading import discover
from branchrank.documents.navigation import navigation_digest
from branchrank.documents.reading import write_texts
from branchrank.index.contents import Contents, read_contents
from branchrank.index.embedders import on_server, open_embedder, token_embedder
from branchrank.index.embedders.protocol import roles_notes
from branchrank.index.embedding import embed_chunks, keep_token_vectors, measure_similarities, wanted_tokens
from branchrank.index.generations import CHROMA, CHUNKS, MANIFEST, build_lock
from branchrank.index.manifest import (
    MODIFIED,
    SCHEMA_VERSION,
    BuildReport,
    Manifest,
    MeasuredCosines,
    file_digests,
    read_record,
    write_documents,
    write_record,
    write_stamps,
)
from branchrank.index.reader import (
    BUILD,
    COLLECTION,
    TOKENS,
    VECTORS,
    Index,
    bm25_name,
    chroma_place,
    given_digest,
    open_index,
    vectors_content,
)
from branchrank.index.stores.analyzer import letters_by_script, sample_text
from branchrank.index.stores.bm25 import Bm25Index, TokenCounts
from branchrank.index.stores.vectors import ExactVectors, save_vectors
from branchrank.index.workspace_folder import GIVEN, WorkspaceFolder, without_credentials


def build_index(
    workspace: WorkspaceFolder, *, progress: Progress = no_progress, force: bool = False, locked: bool = False
) -> Index:
    """Build the index that the workspace's settings select, unless it is up to date, and open the index.

    If ``force`` is true, an index that is up to date is built again. If ``locked`` is true, the caller holds
    the build lock. ``progress`` is called with the name of a stage, the number of finished items and the
    total number of items. An item is a document in the stage ``read``, a text in the stages ``tokens`` and
    ``embed``, and a step in the stage ``store``. If an error is raised, the previous index is unchanged.

    Raises :class:`~branchrank.core.errors.BusyError` if another process is building an index in the
    workspace,
    :class:`CorpusError` for a corpus that can't be read, :class:`~branchrank.core.errors.ModelError` for a
    model that can't be used, and :class:`~branchrank.core.errors.StorageError` for files that can't be
    written.
    """
    workspace.check_links()
    _ = workspace.corpus_root  # raises an error if the corpus is missing, before any file is written
    with contextlib.nullcontext() if locked else build_lock(workspace.data_dir):
        index = None if force else _up_to_date(workspace)
        if index is None:
            _Build(workspace, progress).publish()
            index = open_index(workspace, check_corpus=False)
            index.is_new = True
        elif workspace.is_default_index:
            workspace.install_links()
        return index


class _Build:
    """One build of an index. ``seconds`` maps each finished stage to its wall time in seconds."""

    def __init__(self, workspace: WorkspaceFolder, progress: Progress) -> None:
        """Open the model. An empty corpus or an unsuitable chunker or model is an error before any work."""
        self.workspace = workspace
        self.settings = workspace.index_settings
        self.progress = progress
        self.seconds: dict[str, float] = {}
        check_chunker(self.settings)
        with self.timed("discover"):
            discover(workspace.corpus_root, workspace.exclude)
        with self.timed("model"):
            self.embedder = open_embedder(self.settings, notify=workspace.notify)
            if self.settings.token_precision is not None:
                token_embedder(self.embedder, self.settings.embedder)

    @contextlib.contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the time of a ``with`` block to the time of a stage."""
        start = time.perf_counter()
        yield
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start

    def publish(self) -> None:
        """Write a new generation of the index and make it the current one."""
        workspace, generations = self.workspace, self.workspace.generations
        with open_executor(workspace.settings, workspace.notify) as executor:
            generation = generations.begin()
            try:
                with self.timed("read"):
                    contents = read_contents(workspace, generation, self.embedder, executor, self.progress)
                self.choose_tokens(contents)
                self.write(generation, contents, executor)
            except BaseException:
                with contextlib.suppress(OSError):
                    generations.remove(generation)
                raise
        if workspace.is_default_index:
            workspace.install_links()  # before publishing, so that every published index has its links
        generations.publish(generation)
        generations.sweep(partial(_discard_collection, self.settings.chroma_url))

    def choose_tokens(self, contents: Contents) -> None:
        """Resolve ``token_vectors = "auto"``. Adopted chunks have their vectors, and need no model run."""
        asked, chunks = self.settings, len(contents.chunks)
        wanted = wanted_tokens(asked, self.embedder, chunks) if contents.adopted is None else "none"
        if asked.chooses_tokens:
            self.settings = msgspec.structs.replace(asked, token_vectors=wanted)

    def write(self, generation: Path, contents: Contents, executor: Executor) -> None:
        """Write all files of a new generation, which has its chunks and nodes."""
        workspace, embedder = self.workspace, self.embedder
        chunks, nodes = contents.chunks, contents.nodes
        tokens = generation / TOKENS, self.settings.token_precision
        with self.timed("tokens"):
            vectors = keep_token_vectors(workspace, embedder, executor, chunks, tokens, self.progress)
        if vectors and workspace.index_settings.chooses_tokens:
            size = (generation / TOKENS).stat().st_size / 1e6
            workspace.notify(
                f"the index has token vectors for late interaction ({size:,.0f} MB); --token-vectors none "
                "leaves them out"
            )
        with self.timed("embed"):
            known = contents.adopted, vectors
            matrix, embedded = embed_chunks(workspace, embedder, executor, chunks, known, self.progress)
        with self.timed("calibrate"):
            exact = ExactVectors(chunks.ids, matrix)
            measured = measure_similarities(workspace, embedder, exact, (chunks, nodes), tokens)
        collection = self.store(generation, contents, exact)
        of_documents = {document.source: document.digest for document in contents.corpus.documents}
        write_texts(generation, contents.texts)
        write_documents(generation, contents.files, of_documents, navigation_digest(workspace.corpus_root))
        with self.timed("digests"):
            digests = file_digests(generation)
            # Chroma's database file changes whenever it is opened, so its digest is not recorded.
            for name in (MODIFIED, f"{CHROMA}/chroma.sqlite3"):
                digests.pop(name, None)
            chroma_digests = {name: digests.pop(name) for name in [*digests] if name.startswith(f"{CHROMA}/")}
            manifest = self.manifest(contents, digests, measured)
            write_record(generation / MANIFEST, manifest)
        with storage_errors(generation):
            write_stamps(generation, [MANIFEST, *digests, *chroma_digests])
        report = BuildReport(
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds={stage: round(value, 3) for stage, value in self.seconds.items()},
            bytes=sum(path.stat().st_size for path in generation.rglob("*") if path.is_file()),
            embedded=embedded,
            reused=len(chunks) - embedded,
            collection=collection,
            chroma_digests=chroma_digests,
            notes=(*contents.notes, *roles_notes(embedder)),
            token_texts=len(vectors),
            manifest_digest=digest_file(generation / MANIFEST),
        )
        write_record(generation / BUILD, report)

    def store(self, generation: Path, contents: Contents, exact: ExactVectors) -> str:
        """Write the vectors, the Chroma collection and the BM25 indexes, and return the collection's name."""
        with self.timed("vectors"):
            save_vectors(generation / VECTORS, exact.matrix)
        self.progress("store", 1, 4)
        collection, url = "", self.settings.chroma_url
        with self.timed("chroma"):
            if chroma_place(self.settings):
                from branchrank.index.stores.chroma import build_collection

                collection = _server_collection(generation) if url else COLLECTION
                digests = {name: digest_file(generation / name) for name in (CHUNKS, VECTORS)}
                content = vectors_content(digests)
                build_collection(url or generation / CHROMA, collection, exact, made_for=content)
        self.progress("store", 2, 4)
        with self.timed("bm25"):
            self.save_bm25(generation, "chunks", exact.ids, contents.chunk_tokens)
            self.progress("store", 3, 4)
            nodes = contents.nodes
            sections = nodes.ids.take(np.flatnonzero(nodes.has_lines).tolist())
            self.save_bm25(generation, "nodes", sections, contents.node_tokens)
        self.progress("store", 4, 4)
        return collection

    def save_bm25(self, generation: Path, kind: str, ids: Sequence[str], tokens: TokenCounts) -> None:
        """Write a BM25 index with the workspace's settings."""
        settings = self.workspace.bm25_settings
        Bm25Index.weighed(ids, tokens, settings).save(generation / bm25_name(kind, settings))

    def manifest(self, contents: Contents, digests: dict[str, str], measured: MeasuredCosines) -> Manifest:
        """Return the manifest of a generation with these contents and files' digests."""
        workspace = self.workspace
        return Manifest(
            schema_version=SCHEMA_VERSION,
            package_version=VERSION,
            corpus=workspace.corpus_name,
            corpus_digest=contents.corpus.digest,
            exclude=workspace.exclude,
            settings=without_credentials(self.settings),
            embedder=self.embedder.identity,
            bm25=workspace.bm25_settings,
            chroma=chroma_place(self.settings),
            given={key: given_digest(workspace.given(key)) for key in GIVEN},
            documents=len(contents.corpus.documents),
            chunks=len(contents.chunks),
            nodes=len(contents.nodes),
            digests=digests,
            chunker=chunker_version(self.settings.chunker),
            **msgspec.structs.asdict(measured),
            scripts=letters_by_script(sample_text(contents.chunks)),
            languages=getattr(self.embedder, "languages", ()),
        )


def _up_to_date(workspace: WorkspaceFolder) -> Index | None:
    try:
        index = open_index(workspace)
    except ArtifactError:
        return None
    with contextlib.suppress(ArtifactError):
        # Opening these parts raises an error if one of them is damaged.
        _ = index.embedder, index.vectors, index.token_vectors
        if on_server(workspace.index_settings.embedder):
            index.embedder.embed_query("dimension")  # an error if the server's model has changed
        kept, asked = index.manifest.settings.token_vectors, workspace.index_settings
        wanted = wanted_tokens(asked, index.embedder, index.manifest.chunks)
        if kept == wanted or (asked.chooses_tokens and "none" not in (wanted, kept)):
            return index
    index.close()
    return None


def _server_collection(generation: Path) -> str:
    """Return a collection name that no other generation on the Chroma server uses."""
    return f"branchrank-{digest_of([socket.gethostname(), str(generation.resolve())])[:32]}"


def _discard_collection(url: str, generation: Path) -> None:
    """Delete a generation's collection from the Chroma server ``url``, if the server can be reached."""
    with contextlib.suppress(ArtifactError):
        manifest = read_record(generation / MANIFEST, Manifest)
        if url and manifest.chroma == url:
            from branchrank.index.stores.chroma import drop_collection

            drop_collection(manifest.chroma, read_record(generation / BUILD, BuildReport).collection)
