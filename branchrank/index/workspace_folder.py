"""A workspace, which is a folder that contains ``branchrank.toml`` and the files that commands create.

- ``branchrank.toml`` specifies the corpus and contains the settings.
- ``chunks.jsonl`` is a link to the chunks of the default index.
- ``chroma`` is a link to the Chroma collection of the default index.
- ``pageindex/nodes.jsonl`` is a link to the PageIndex tree of the default index.
- ``adopted/`` contains the chunks, vectors and nodes that ``branchrank adopt`` copied.
- ``hybrid/cache/`` contains cached embeddings, whose keys are made from the text and the model.
- ``benchmark/`` contains the workspace's question files.
- ``indexes/<name>/`` contains the generations of the index for one combination of embedder and chunking
  settings.

The settings in ``branchrank.toml`` determine the default index. Command-line flags and environment variables
can select another index. A workspace can be moved, because the links are relative and go through the index's
link ``current``.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from branchrank.core.errors import ArtifactError, CorpusError, UsageError, or_else
from branchrank.core.io.files import digest_of, storage_errors, write_text
from branchrank.core.io.printable import url_to_keep
from branchrank.core.io.progress import Notify
from branchrank.core.io.text_files import read_text
from branchrank.core.records import Record
from branchrank.core.settings import (
    PARTS,
    SECTIONS,
    Bm25Settings,
    CacheSettings,
    EngineSettings,
    IndexSettings,
    Resolved,
    meant,
    read_toml,
    resolve,
)
from branchrank.core.spec import System
from branchrank.index.generations import (
    BUILD_LOCK,
    CHROMA,
    CHUNKS,
    NODES,
    Generations,
    refuse_links,
    replace_link,
)

if TYPE_CHECKING:
    from branchrank.index.embedders.cache import EmbeddingCache, TokenCache

AnyPath = str | os.PathLike[str]
CONFIG = "branchrank.toml"
Given = Literal["chunks", "nodes", "adoption"]
#: The keys of ``branchrank.toml`` that contain the path of a file that a build reads.
GIVEN: tuple[Given, ...] = ("chunks", "nodes", "adoption")
_SECTIONS = frozenset(part.section for part in PARTS)


class WorkspaceConfig(Record, frozen=True, kw_only=True):
    """The top-level keys of ``branchrank.toml``. Paths are relative to the folder of ``branchrank.toml``.

    ``corpus`` is a folder or a corpus name. ``exclude`` contains glob patterns for documents to leave out,
    and ``code`` is whether source code is indexed.
    ``questions`` is the path of the question file. ``chunks`` and ``nodes`` are the paths of the user's own
    files, which replace the chunks and nodes computed by a build. ``adoption`` is the path of the record that
    ``branchrank adopt`` wrote. ``system`` is the default system, as ``branchrank advise --write`` stores it.
    """

    corpus: str = ""
    exclude: tuple[str, ...] = ()
    code: bool = False
    questions: str = "benchmark/questions.jsonl"
    chunks: str = ""
    nodes: str = ""
    adoption: str = ""
    system: System | None = None


#: The top-level keys and the tables of settings in ``branchrank.toml``.
ConfigFile = tuple[WorkspaceConfig, dict[str, Any]]


def read_config(path: Path) -> ConfigFile:
    """Read the top-level keys and the tables of settings in ``branchrank.toml``.

    Raises :class:`UsageError` for unknown keys and invalid values.
    """
    content = read_toml(path)
    index = content.get(IndexSettings.section, {})
    if isinstance(embedder := content.pop("embedder", None), dict) and isinstance(index, dict):
        content[IndexSettings.section] = {**embedder, **index}  # the settings of [index] in their own table
    own = {key: value for key, value in content.items() if key not in _SECTIONS}
    remedy = f"correct {path}"
    unknown = [key for key in own if key not in WorkspaceConfig.__struct_fields__]
    if unknown:
        known = [*WorkspaceConfig.__struct_fields__, *sorted(_SECTIONS)]
        raise UsageError(
            "\n".join(f"{path} has no key {key!r}{meant(key) or or_else(key, known)}" for key in unknown),
            remedy=remedy,
        )
    try:
        config = msgspec.convert(own, WorkspaceConfig)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {error}", remedy=remedy) from None
    tables = {key: value for key, value in content.items() if key in _SECTIONS}
    index = tables.get(IndexSettings.section)
    chunker = index.get("chunker") if isinstance(index, Mapping) else None
    if isinstance(chunker, str):
        check_chunker_name(path, chunker)
    return config, tables


def check_chunker_name(path: Path, chunker: str) -> None:
    """Raise :class:`UsageError` if the file ``path`` names a chunker that is code."""
    from branchrank.documents.chunkers import is_code

    if is_code(chunker):
        raise UsageError(
            f"{path}: the chunker {chunker!r} is code, which a workspace can't name, because it may come "
            "from another person",
            remedy=f"remove it from {path}, and pass --chunker {chunker}, or name it in an experiment file",
        )


def update_config(path: Path, changes: Mapping[str, object]) -> None:
    """Set keys such as ``corpus`` or ``index.embedder`` in ``branchrank.toml``, atomically.

    The value ``None`` removes a key. Comments, all other keys, the order of the keys and the line ends are
    kept, and a link stays a link. Raises :class:`UsageError` if ``path`` is not valid TOML, or if a section
    that contains a key, such as the section ``index``, is not a table. Raises
    :class:`~branchrank.core.errors.StorageError` if the file can't be written.
    """
    import tomlkit

    before = read_toml(path)
    document = tomlkit.parse(read_text(path) if path.exists() else "")
    for key, value in changes.items():
        table, _, name = key.rpartition(".")
        if table and table not in document:
            document[table] = tomlkit.table()
        target = document[table] if table else document
        if not isinstance(target, MutableMapping):
            raise UsageError(f"{path}: {table} must be a table", remedy=f"correct {path}")
        wanted = list(value) if isinstance(value, tuple) else value
        if wanted is None:
            target.pop(name, None)
        elif name not in target or target[name] != wanted:
            target[name] = wanted
    if not path.exists() or document.unwrap() != before:
        text = tomlkit.dumps(document)
        text = re.sub("\r?\n", "\r\n", text) if "\r\n" in text else text
        write_text(path.resolve(), text)


def without_credentials(settings: IndexSettings) -> IndexSettings:
    """Return the settings as a manifest stores them, with passwords removed from URLs."""
    return msgspec.structs.replace(
        settings,
        embedding_url=url_to_keep(settings.embedding_url),
        chroma_url=url_to_keep(settings.chroma_url),
    )


def index_name(settings: IndexSettings) -> str:
    """Return an index's folder name, which depends on all settings that affect the vectors or the chunks."""
    settings = without_credentials(settings)
    readable = _slug(settings.embedder)
    parts = [settings.embedder, settings.embedding_url, settings.embedding_revision]
    if settings.embedder_precision != "float32":
        parts.append(settings.embedder_precision)
    if settings.chunker != SECTIONS:
        parts.append(settings.chunker)
        readable += f"-{_slug(settings.chunker)}"
    parts += [f"{name}={value}" for name, value in settings.sent.items()]
    digest = digest_of([*parts, settings.chunk_tokens, settings.chunk_overlap])[:8]
    return f"{readable or 'index'}-{settings.chunk_tokens}-{digest}"


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.casefold()).strip("-")[-40:].strip("-")


class WorkspaceFolder:
    """The workspace in the folder ``data_dir``, and the settings that apply to it."""

    def __init__(
        self,
        data_dir: Path,
        settings: Resolved,
        notify: Notify | None = None,
        *,
        flags: Mapping[str, Any] | None = None,
        content: ConfigFile | None = None,
    ) -> None:
        """Read ``branchrank.toml``, if it exists. Raises :class:`UsageError` if the file has errors.

        ``content`` is the content of the file if it has already been read.

        ``notify`` is called with a line of text for each download and for a cache that can't be used.
        """
        self.data_dir = data_dir
        self.settings = settings
        self.notify = notify or (lambda line: None)
        #: Values that override ``branchrank.toml`` and environment variables, keyed by setting
        #: (``section.name``).
        self.flags: Mapping[str, Any] = flags or {}
        self.content = content or read_config(data_dir / CONFIG)
        self.config, self._tables = self.content

    @classmethod
    def open(
        cls,
        data_dir: Path,
        *,
        flags: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
        notify: Notify | None = None,
    ) -> WorkspaceFolder:
        """Open a workspace with the settings from its ``branchrank.toml``, the environment and flags."""
        content = read_config(data_dir / CONFIG)
        name = str(data_dir / CONFIG)
        if flags and "index.embedder" in flags:
            from branchrank.index.embedders import portable_name

            flags = {**flags, "index.embedder": portable_name(str(flags["index.embedder"]))}
        resolved = resolve(toml=content[1], toml_name=name, environment=environment, flags=flags)
        resolved = msgspec.structs.replace(resolved, system=content[0].system)
        folder = cls(data_dir, resolved, notify, flags=flags, content=content)
        for warning in resolved.warnings:
            folder.notify(f"warning: {warning}")
        return folder

    def with_flags(self, flags: Mapping[str, Any]) -> WorkspaceFolder:
        """Open the workspace again with additional settings, which override the current settings."""
        return type(self).open(self.data_dir, flags={**self.flags, **flags}, notify=self.notify)

    @property
    def index_settings(self) -> IndexSettings:
        """The index settings."""
        return self.settings.part(IndexSettings)

    @property
    def bm25_settings(self) -> Bm25Settings:
        """The BM25 settings (analyzer and weights)."""
        return self.settings.part(Bm25Settings)

    @property
    def corpus_root(self) -> Path:
        """The folder that contains the corpus.

        Raises :class:`CorpusError` if no corpus is set or its folder is missing.
        """
        remedy = f"branchrank index FOLDER --data-dir {self.data_dir}"
        self.check_exists()
        if not self.config.corpus:
            raise CorpusError(f"{self.data_dir / CONFIG} does not name a corpus", remedy=remedy)
        root = self.data_dir / self.config.corpus
        # If the name is too long, os.path.isdir returns false, whereas Path.is_dir raises an error.
        if not os.path.isdir(root):
            from branchrank.documents.named import known_corpora, locate_corpus

            if self.config.corpus in known_corpora():
                root = locate_corpus(self.config.corpus)
        if not os.path.isdir(root):
            raise CorpusError(
                f"the corpus {self.config.corpus[:200]!r} is not a folder ({str(root)[:200]})", remedy=remedy
            )
        return root.resolve()

    def check_exists(self) -> None:
        """Raise :class:`CorpusError` if the folder ``data_dir`` is not a workspace."""
        if not (self.data_dir / CONFIG).exists():
            remedy = f"branchrank init FOLDER --data-dir {self.data_dir}"
            raise CorpusError(
                f"{self.data_dir} is not a workspace: it has no {CONFIG}",
                remedy=self.adopting() if self._foreign() else remedy,
            )

    def adopting(self, corpus: Path | None = None) -> str:
        """Return a command that adopts the files in this folder into a new workspace next to the folder.

        ``corpus`` is the folder that contains the documents, if it is known.
        """
        if corpus is None and self.config.corpus:
            corpus = self.data_dir / self.config.corpus
        here = self.data_dir if self.data_dir.name else self.data_dir.resolve()
        words = ["adopt", str(self.data_dir), "--data-dir", str(here.with_name(f"{here.name}-branchrank"))]
        words += ["--embedder", self.index_settings.embedder]
        words += ["--corpus", "DOCUMENTS" if corpus is None else os.path.normpath(corpus)]
        return shlex.join(["branchrank", *words])

    @property
    def corpus_name(self) -> str:
        """The name of the corpus folder, which trees and reports show as the name of the corpus."""
        return self.corpus_root.name or "corpus"

    @property
    def exclude(self) -> tuple[str, ...]:
        """The patterns for :func:`~branchrank.documents.loading.discover`."""
        from branchrank.documents.loading import ALL_CODE

        return (*((ALL_CODE,) if self.config.code else ()), *self.config.exclude)

    def given(self, key: Given) -> Path | None:
        """Return the path of the user's own file that ``branchrank.toml`` specifies, or ``None``."""
        name: str = getattr(self.config, key)
        return self.data_dir / name if name else None

    @property
    def generations(self) -> Generations:
        """The generations of the index for the workspace's current settings."""
        return Generations(self.data_dir, f"indexes/{index_name(self.index_settings)}")

    @property
    def index_names(self) -> tuple[str, ...]:
        """The names of the workspace's finished indexes."""
        return tuple(sorted(path.parent.name for path in (self.data_dir / "indexes").glob("*/current")))

    @property
    def is_default_index(self) -> bool:
        """Whether the settings select the default index, which ``branchrank.toml`` describes."""
        plain = resolve(toml=self._tables, environment={}, flags={}).part(IndexSettings)
        return index_name(plain) == index_name(self.index_settings)

    @property
    def cache_directory(self) -> Path:
        """The folder of the embedding cache."""
        return self.data_dir / "hybrid" / "cache"

    @property
    def decisions_path(self) -> Path:
        """The path of the decision cache. Raises :class:`ArtifactError` if the file is a symbolic link."""
        refuse_links(self.data_dir, "hybrid/cache/decisions.sqlite")
        return self.cache_directory / "decisions.sqlite"

    def open_cache(self) -> EmbeddingCache:
        """Open the embedding cache, which is in Redis if ``cache.redis_url`` is set, otherwise in a file."""
        from branchrank.index.embedders.cache import open_cache

        url = self.settings.part(CacheSettings).redis_url
        if not url:
            refuse_links(self.data_dir, "hybrid/cache/embeddings.sqlite3")
        return open_cache(
            self.cache_directory / "embeddings.sqlite3",
            root=self.data_dir,
            redis_url=url,
            notify=self.notify,
        )

    def open_token_cache(self) -> TokenCache:
        """Open the cache of token vectors, which is a file in the workspace."""
        from branchrank.index.embedders.cache import TokenCache

        refuse_links(self.data_dir, "hybrid/cache/token_vectors.sqlite3")
        return TokenCache(
            self.cache_directory / "token_vectors.sqlite3", root=self.data_dir, notify=self.notify
        )

    @property
    def questions_path(self) -> Path:
        """The question file of the workspace, by default ``benchmark/questions.jsonl``.

        Raises :class:`CorpusError` if neither the file nor the workspace exists.
        """
        path = self.data_dir / self.config.questions
        if not path.exists():
            self.check_exists()
        plain = Path(os.path.normpath(path))
        same = os.path.realpath(plain) == os.path.realpath(path)  # `..` may follow a symbolic link
        return plain if same else path

    @property
    def links(self) -> dict[Path, Path]:
        """A mapping from each link to its target, which is a path in the default index's generation."""
        return {self.data_dir / name: Path(name) for name in (CHUNKS, CHROMA, NODES)}

    def _foreign(self) -> list[Path]:
        """Return the files that another program created at the paths where BranchRank puts its links."""
        own = (self.given("chunks"), self.given("nodes"))
        return [link for link in self.links if link.exists() and not link.is_symlink() and link not in own]

    def check_links(self, corpus: Path | None = None, own: Collection[Path] = ()) -> None:
        """Check that a build can write its links and folders.

        ``corpus`` is the folder that contains the documents. An error message suggests a command with this
        folder. ``own`` contains the paths of the user's chunks file and nodes file. The user's own files may
        exist where a build would otherwise create links. Raises :class:`ArtifactError` if another program's
        file exists where a link must be created, or if a folder of the build is a symbolic link.
        """
        for name in (BUILD_LOCK, "pageindex"):
            refuse_links(self.data_dir, name)
        named = {path.resolve() for path in own}
        for link in self._foreign():
            if link.resolve() not in named:
                raise ArtifactError(
                    f"{link} was not created by BranchRank and was left unchanged; the index needs this name",
                    remedy=self.adopting(corpus),
                )

    def install_links(self) -> None:
        """Create the links to the default index, without replacing the user's own files.

        The caller must hold the build lock.
        """
        current = self.generations.directory / "current"
        for link, inside in self.links.items():
            with storage_errors(link):
                if link in (self.given("chunks"), self.given("nodes")) or (
                    link.exists() and not link.is_symlink()
                ):
                    continue
                link.parent.mkdir(parents=True, exist_ok=True)
                target = Path(os.path.relpath(current / inside, link.parent))
                if not link.is_symlink() or link.readlink() != target:
                    replace_link(link, target)


def configure(
    data_dir: Path,
    *,
    corpus: str | Path | None = None,
    exclude: Sequence[str] | None = None,
    code: bool | None = None,
    settings: Mapping[str, object] | None = None,
    **files: Path | None,
) -> None:
    """Set the corpus, other paths and settings in ``branchrank.toml``, and leave its other keys unchanged.

    ``corpus`` is a folder or the name of an added corpus. Paths are written relative to ``data_dir``.
    ``files`` contains the paths of the keys in :data:`GIVEN`. ``settings`` maps keys such as
    ``"index.embedder"`` to values. Settings in the section ``engine`` apply to
    one command only, so they are not written.

    Raises :class:`CorpusError` if the corpus does not exist, :class:`~branchrank.core.errors.UsageError` if
    ``branchrank.toml`` has errors, and :class:`~branchrank.core.errors.StorageError` if ``branchrank.toml``
    can't be written.
    """
    from branchrank.documents.named import locate_corpus

    _check_name(data_dir)
    changes: dict[str, object] = {}
    if corpus is not None:
        folder = locate_corpus(corpus)
        named = not Path(corpus).expanduser().is_dir()
        changes["corpus"] = str(corpus) if named else _relative(folder, data_dir)
    if exclude is not None:
        changes["exclude"] = tuple(exclude)
    if code is not None:
        changes["code"] = code
    changes |= {key: _relative(path, data_dir) for key, path in files.items() if path is not None}
    engine = f"{EngineSettings.section}."
    changes |= {key: value for key, value in (settings or {}).items() if not key.startswith(engine)}
    update_config(data_dir / CONFIG, changes)


def _check_name(path: Path) -> None:
    """Raise :class:`UsageError` if ``path`` is not valid UTF-8, since TOML and Chroma can't store it."""
    try:
        os.fspath(path.resolve()).encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError(f"the path {str(path)!a} is not UTF-8", remedy="rename the folder") from None


def _relative(path: Path, data_dir: Path) -> str:
    _check_name(path)
    return Path(os.path.relpath(path.resolve(), data_dir.resolve())).as_posix()
