"""Open an index, after checking that it is complete and up to date.

1. The current generation is locked, so that a build can't delete it.
2. The index must have the current schema version and the requested settings, and the corpus must be
   unchanged. To check the corpus, the size and modification time of each document are compared with the
   values that the build recorded. If only the modification time differs, the document's digest is compared.
3. Every file in the index must be unchanged since the build. A file is checked by comparing its digest or its
   stamp (:mod:`branchrank.index.manifest`) with the recorded value. The file with token vectors is checked on
   first use. Chroma's database file has no digest, because Chroma changes the file whenever the file is
   opened. The vectors in the database are checked with sample queries before the first search.
4. Files are mapped into memory on first use, and records are decoded one by one. The time to open an index
   does not depend on the index's size. A BM25 query loads neither vectors nor a model.
5. If the BM25 settings have changed since the build, the BM25 weights are computed on first use and stored.
   The FTS5 file is also built on first use. Only one process at a time writes such a file. If the index's
   folder is not writable, a temporary file is used.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from branchrank.core.errors import ArtifactError, BusyError, CorpusError, LostCollectionError, StorageError
from branchrank.core.io import Closing
from branchrank.core.io.files import (
    digest_file,
    digest_of,
    only_writer,
    reading_errors,
    safe_path,
    storage_errors,
)
from branchrank.core.records import Chunk, Node, Record
from branchrank.core.settings import SECTIONS, Bm25Settings, IndexSettings
from branchrank.documents.chunkers import chunker_version
from branchrank.documents.reading import TEXTS, text_name, use_texts
from branchrank.documents.tree_nodes import Tree
from branchrank.index.embedders import check_name, open_embedder
from branchrank.index.embedders.protocol import NONE, Embedder, model_changed
from branchrank.index.generations import CHROMA, CHUNKS, MANIFEST, NODES, Pin
from branchrank.index.manifest import (
    SCHEMA_VERSION,
    BuildReport,
    DistanceCalibration,
    Manifest,
    check_digests,
    corpus_change,
    is_derived,
    note_derived,
    read_documents,
    read_record,
)
from branchrank.index.records_file import RecordsFile, open_tree
from branchrank.index.stores.analyzer import VERSION, chunk_terms, node_terms
from branchrank.index.stores.arrays import Kept
from branchrank.index.stores.bm25 import Bm25Index
from branchrank.index.stores.vectors import EXACT_UP_TO, ExactVectors, TokenFile, load_vectors
from branchrank.index.workspace_folder import GIVEN, WorkspaceFolder, without_credentials

if TYPE_CHECKING:
    from branchrank.index.stores.sqlite_fts5 import Fts5Table

BUILD = "build.json"
VECTORS = "vectors.arrays"
TOKENS = "tokens.arrays"
COLLECTION = "vectors"
#: The maximum number of nodes whose chunks are cached.
_KNOWN_NODES = 1 << 14


class CheckedIndex(Record, frozen=True, kw_only=True):
    """The result of checking an index, with the number of files and their total size in bytes."""

    directory: str
    files: int
    bytes: int


class Index(Closing):
    """An open index, which can be used as a context manager.

    The index's generation is locked until the index is closed. ``is_new`` is true if the call that opened the
    index also built it.
    """

    def __init__(self, pin: Pin, manifest: Manifest, report: BuildReport, workspace: WorkspaceFolder) -> None:
        self.directory = pin.directory
        #: The real path of the workspace. Links below this path are not followed.
        self.root = pin.directory.parents[2]
        self.manifest = manifest
        self.report = report
        self.settings: IndexSettings = workspace.index_settings
        self.bm25_settings: Bm25Settings = workspace.bm25_settings
        self.is_new = False
        self._pin = pin
        self._notify = workspace.notify
        self._opened: list[ExactVectors] = []
        #: The cached chunks of each node. An ``lru_cache`` would prevent a closed index from being freed.
        self._known_chunks = Kept[str, tuple[Chunk, ...]](_KNOWN_NODES)

    def close(self) -> None:
        """Close files and connections, and release the lock on the generation."""
        while self._opened:
            self._opened.pop().close()
        self._pin.close()

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The paths of the indexed documents, sorted.

        Raises :class:`ArtifactError` if the list of documents is damaged.
        """
        return tuple(entry.source for entry in read_documents(self.directory))

    @cached_property
    def text_files(self) -> dict[str, str]:
        """The name of the file in the folder ``texts`` that contains the text of each binary document."""
        names = {entry.source: text_name(entry.digest) for entry in read_documents(self.directory)}
        stored = self.manifest.digests
        return {source: name for source, name in names.items() if f"{TEXTS}/{name}" in stored}

    @cached_property
    def chunks(self) -> RecordsFile[Chunk]:
        """A mapping from ids to chunks, in the order of the corpus."""
        return RecordsFile(self.directory, CHUNKS, Chunk)

    @cached_property
    def nodes(self) -> RecordsFile[Node]:
        """A mapping from ids to nodes, in pre-order."""
        return RecordsFile(self.directory, NODES, Node)

    @cached_property
    def tree(self) -> Tree:
        """The PageIndex tree, whose nodes are decoded when they are used."""
        return open_tree(self.nodes)

    @property
    def vector_store(self) -> str:
        """The vector store's name in reports (``exact``, ``chroma`` or ``chroma server``).

        The vector store is not opened.
        """
        if searches_exactly(self.settings, self.manifest.chunks):
            return "exact"
        return "chroma server" if self.settings.chroma_url else "chroma"

    @cached_property
    def vectors(self) -> ExactVectors:
        """The vector store of ``--vector-store``, or exact search if Chroma can't write to its folder.

        Raises :class:`ArtifactError` for a damaged store.
        """
        store = exact = self.exact_vectors
        if not searches_exactly(self.settings, len(exact.ids)):
            from branchrank.index.stores.chroma import ChromaVectors

            location = self.settings.chroma_url or self.directory / CHROMA
            content = vectors_content(self.manifest.digests)
            try:
                store = ChromaVectors(location, self.report.collection, exact, made_for=content)
            except StorageError as error:  # Chroma writes to its database whenever it opens it
                self._notify(f"the vectors are searched exactly, without Chroma: {error.message}")
        self._opened.append(store)
        return store

    @cached_property
    def exact_vectors(self) -> ExactVectors:
        """Exact search over the index's vectors."""
        ids = self.chunks.ids
        return ExactVectors(
            ids, load_vectors(self.directory / VECTORS, len(ids), self.manifest.embedder.dimension)
        )

    @cached_property
    def token_vectors(self) -> TokenFile | None:
        """The token vectors of the chunks, or ``None`` if there are none or the settings don't use them.

        Raises :class:`ArtifactError` if the token-vector files are damaged.
        """
        settings = self.manifest.settings if self.settings.chooses_tokens else self.settings
        precision = settings.token_precision
        if precision is None:
            return None
        check_digests(self.directory, {TOKENS: self.manifest.digests.get(TOKENS, "")})
        return TokenFile(self.directory / TOKENS, self.chunks.ids, precision)

    @cached_property
    def bm25_chunks(self) -> Bm25Index:
        """The BM25 index over the chunks, with the workspace's BM25 settings."""
        return self._bm25("chunks", lambda: ((each.id, chunk_terms(each)) for each in self.chunks.stream()))

    @cached_property
    def bm25_nodes(self) -> Bm25Index:
        """The BM25 index over the nodes that have lines of their own, with the workspace's BM25 settings."""
        return self._bm25(
            "nodes",
            lambda: ((each.id, node_terms(each)) for each in self.nodes.stream() if each.has_lines),
        )

    def _bm25(self, kind: str, texts: Callable[[], Iterable[tuple[str, str]]]) -> Bm25Index:
        settings, name = self.bm25_settings, bm25_name(kind, self.bm25_settings)

        def build() -> Bm25Index:
            return Bm25Index.build((key for key, _ in texts()), (text for _, text in texts()), settings)

        try:
            if name not in self.manifest.digests:
                self._derive(name, lambda path: build().save(path))
            return Bm25Index.load(self.directory / name, settings)
        except StorageError:  # if the disk is full or read-only, the BM25 index is kept only in memory
            return build()

    def open_fts5(self) -> Fts5Table:
        """Open the full-text index of the chunks. The caller must close it."""
        from branchrank.index.stores import sqlite_fts5

        settings, name = self.bm25_settings, fts5_name(self.bm25_settings)
        try:
            self._derive(name, lambda path: sqlite_fts5.build_fts5(path, self.chunks.stream(), settings))
            return sqlite_fts5.Fts5Table(self.directory / name, self.chunks, settings)
        except StorageError:
            with tempfile.TemporaryDirectory(prefix="branchrank-") as temporary:
                path = Path(temporary, "search.sqlite")
                sqlite_fts5.build_fts5(path, self.chunks.stream(), settings)
                # The temporary file is deleted with its folder, but remains readable while it is open.
                return sqlite_fts5.Fts5Table(path, self.chunks, settings)

    def _derive(self, name: str, build: Callable[[Path], None]) -> None:
        """Build a file that is derived from the index, if it is missing or damaged."""
        path = self.directory / name
        if not is_derived(self.directory, name):
            folder = path.parent.relative_to(self.root).as_posix()
            with storage_errors(path), only_writer(safe_path(self.root, folder)):
                if not is_derived(self.directory, name):  # another process may have written the file
                    build(path)
                    note_derived(self.directory, name)

    @cached_property
    def embedder(self) -> Embedder:
        """The model that computed the vectors.

        Raises :class:`ArtifactError` if the model has changed since the build. A model on a server is
        compared when the first text is embedded.
        """
        built = self.manifest.embedder
        embedder = open_embedder(self.settings, notify=self._notify, built=built)
        if embedder.identity != built:
            raise model_changed(built, embedder.identity)
        return embedder

    def chunks_of(self, node_id: str) -> tuple[Chunk, ...]:
        """Return the chunks that overlap a node's own lines, in line order (none for a folder)."""
        known = self._known_chunks.get(node_id)
        if known is None:
            row = self.nodes.row(node_id)
            has_lines = self.nodes.line_starts[row] > 0
            found = self.chunks.overlapping(self.nodes.span(row)) if has_lines else ()
            known = self._known_chunks.keep(node_id, tuple(found))
        return known


def vectors_content(digests: Mapping[str, str]) -> str:
    """Return a digest of an index's chunks and vectors, computed from the digests of its files."""
    return digest_of([digests.get(name, "") for name in (CHUNKS, VECTORS)])


def searches_exactly(settings: IndexSettings, count: int) -> bool:
    """Return true if an index with ``count`` vectors is searched exactly, or if the embedder is ``none``."""
    if settings.embedder == NONE:
        return True
    return settings.vector_store == "exact" or (settings.vector_store == "auto" and count <= EXACT_UP_TO)


def bm25_name(kind: str, settings: Bm25Settings) -> str:
    """Return the name of a BM25 index in a generation. ``kind`` is ``chunks`` or ``nodes``."""
    return f"bm25/{digest_of((VERSION, settings))[:12]}/{kind}.arrays"


def fts5_name(settings: Bm25Settings) -> str:
    """Return the name of the FTS5 file in a generation, which contains the words for these settings."""
    return f"derived/{digest_of((VERSION, settings.stemmer))[:12]}/search.sqlite"


def open_index(workspace: WorkspaceFolder, *, check_corpus: bool = True) -> Index:
    """Open the index that the workspace's settings select.

    Raises :class:`ArtifactError` if the index is missing, damaged or built with other settings than the
    workspace's. If ``check_corpus`` is true, :class:`ArtifactError` is also raised when the corpus has
    changed since the build. Raises :class:`CorpusError` if the corpus is missing.
    """
    remedy = (
        f"branchrank index --data-dir {workspace.data_dir} --embedder {workspace.index_settings.embedder}"
    )
    if workspace.index_settings.token_precision is not None:
        remedy += f" --token-vectors {workspace.index_settings.token_vectors}"
    chunked = ""
    if workspace.index_settings.chunker != SECTIONS:
        remedy += f" --chunker {workspace.index_settings.chunker}"
        chunked = f" and the chunker {workspace.index_settings.chunker}"
    generations = workspace.generations
    try:
        pin = generations.pin()
    except ArtifactError as error:
        workspace.check_exists()
        others = ", ".join(workspace.index_names)
        held = f" (its indexes: {others})" if others else ""
        raise ArtifactError(
            f"{workspace.data_dir} has no index for the embedder {workspace.index_settings.embedder}"
            f"{chunked}{held}",
            remedy=remedy,
        ) from error
    try:
        generations.refuse_links(pin.directory)
        manifest = read_record(pin.directory / MANIFEST, Manifest)
        report = read_record(pin.directory / BUILD, BuildReport)
        reason = mismatch(workspace, manifest)
        if not reason:
            digests = {name: digest for name, digest in manifest.digests.items() if name != TOKENS}
            check_digests(pin.directory, {MANIFEST: report.manifest_digest} | digests)
            if check_corpus:
                reason = corpus_change(workspace.corpus_root, workspace.exclude, pin.directory)
        if reason:
            raise ArtifactError(f"the index in {workspace.data_dir} {reason}", remedy=remedy)
        if manifest.chroma == "embedded" and not searches_exactly(workspace.index_settings, manifest.chunks):
            links = [workspace.data_dir / CHROMA] if workspace.is_default_index else []
            for place in (pin.directory / CHROMA / "chroma.sqlite3", *links):
                if not place.exists():
                    raise LostCollectionError(
                        f"{place} is missing, but the index in {workspace.data_dir} has its vectors "
                        "in Chroma",
                        remedy=remedy,
                    )
            check_digests(pin.directory, report.chroma_digests)
    except BaseException:
        pin.close()
        raise
    use_texts(pin.directory)
    return Index(pin, manifest, report, workspace)


def open_or_build(workspace: WorkspaceFolder, build: Callable[[], Index]) -> Index:
    """Open the workspace's index. If the index is missing or stale, print a notice and call ``build``.

    Raises every error that ``build`` raises. Also raises :class:`~branchrank.core.errors.UsageError` for an
    unknown embedder, :class:`~branchrank.core.errors.BusyError` if another process is building the index, and
    :class:`~branchrank.core.errors.LostCollectionError` if the index's Chroma collection was removed.
    """
    try:
        return open_index(workspace)
    except (BusyError, LostCollectionError):
        raise
    except ArtifactError as reason:
        check_name(workspace.index_settings.embedder)
        workspace.notify(f"{reason.message}; building it")
        return build()


def check_index(workspace: WorkspaceFolder) -> CheckedIndex:
    """Check the digest of every file in the index, even if the file matches its stamp.

    If the index is searched with Chroma, the ids in the collection are compared with those of the chunks.

    Raises the same errors as :func:`open_index`.
    """
    with open_index(workspace) as index:
        digests = {MANIFEST: index.report.manifest_digest} | index.manifest.digests
        if index.manifest.chroma == "embedded":
            digests |= index.report.chroma_digests
        check_digests(index.directory, digests, all_files=True)
        if index.vector_store != "exact":
            from branchrank.index.stores.chroma import ChromaVectors

            if isinstance(index.vectors, ChromaVectors):
                index.vectors.check_ids()
        size = sum((index.directory / name).stat().st_size for name in digests)
        return CheckedIndex(directory=str(index.directory), files=len(digests), bytes=size)


def measured_distance(workspace: WorkspaceFolder) -> DistanceCalibration:
    """Return the distance threshold in the index's manifest, or the default if there is no index."""
    with contextlib.suppress(ArtifactError), contextlib.closing(workspace.generations.pin()) as pin:
        return read_record(pin.directory / MANIFEST, Manifest).distance
    return DistanceCalibration()


def mismatch(workspace: WorkspaceFolder, manifest: Manifest) -> str:
    """Return how an index differs from the workspace's settings, or an empty string for no difference."""
    wanted, built = (without_credentials(each) for each in (workspace.index_settings, manifest.settings))
    if manifest.schema_version != SCHEMA_VERSION:
        return f"has schema {manifest.schema_version}, but this version of BranchRank needs {SCHEMA_VERSION}"
    if manifest.exclude != workspace.exclude:
        return f"was built with exclude = {list(manifest.exclude)}, not {list(workspace.exclude)}"
    if wanted.token_vectors not in ("auto", "none", built.token_vectors):
        return f"was built with token_vectors {built.token_vectors!r}, not {wanted.token_vectors!r}"
    place = chroma_place(wanted)
    if place != manifest.chroma and not searches_exactly(wanted, manifest.chunks):
        return f"was built with the Chroma location {manifest.chroma or 'none'}, not {place}"
    version = chunker_version(wanted.chunker)
    if version and version != manifest.chunker:
        return f"was built with another version of the chunker {wanted.chunker}"
    for key in GIVEN:
        path = workspace.given(key)
        if given_digest(path) != manifest.given.get(key):
            return f"does not match the `{key}` file in `branchrank.toml` ({path or 'none'})"
    return ""


def chroma_place(settings: IndexSettings) -> str:
    """Return the location of the Chroma collection that stores the index's vectors.

    The location is ``embedded`` for a collection in the index, and a URL for a collection on a Chroma server.
    The location is an empty string if the settings do not use Chroma.
    """
    if settings.embedder == NONE or settings.vector_store == "exact":
        return ""
    return without_credentials(settings).chroma_url or "embedded"


def given_digest(path: Path | None) -> str:
    """Return the SHA-256 digest of a user-supplied file, or an empty string if ``path`` is ``None``."""
    if path is None:
        return ""
    with reading_errors(path, CorpusError, "correct the name of the file in branchrank.toml"):
        return digest_file(path)
