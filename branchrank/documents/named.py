"""Find and download named corpora, each of which is a folder of documents with a pinned version.

1. ``named.toml`` pins the version of each corpus with the SHA-256 digest of a source distribution or with a
   Git commit.
2. A download is unpacked into a temporary folder, which is renamed at the end, so an interrupted download
   leaves no incomplete corpus. Only the regular files in the folder that ``named.toml`` specifies are
   unpacked, and no file is executed.
3. :func:`locate_corpus` returns the folder of the corpus whose name or path the user gave.
4. The question file of a corpus is part of this package (:func:`write_corpus_questions`).
5. The name ``ir:ID`` refers to a dataset in the package ir-datasets
   (:mod:`branchrank.documents.ir_collections`).

Named corpora are stored in the folder ``$BRANCHRANK_CORPORA``, or in the user's data folder if this
environment variable is not set.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import msgspec

from branchrank.core.errors import CorpusError, or_else
from branchrank.core.io.files import storage_errors, write_bytes
from branchrank.core.io.progress import Progress, no_progress
from branchrank.documents.ir_collections import PREFIX, dataset_folder
from branchrank.documents.package_index import NamedCorpus, fetch_pinned


def known_corpora() -> dict[str, NamedCorpus]:
    """Return a dictionary that maps the name of every corpus in ``named.toml`` to its pinned origin."""
    content = resources.files("branchrank.documents").joinpath("named.toml").read_bytes()
    return msgspec.toml.decode(content, type=dict[str, NamedCorpus])


def named_corpus(name: str) -> NamedCorpus:
    """Return the entry of a corpus in ``named.toml``. Raises :class:`CorpusError` for an unknown ``name``."""
    known = known_corpora()
    if name not in known:
        raise CorpusError(
            f"there is no named corpus {name!r}{or_else(name, known)}", remedy="branchrank corpus list"
        )
    return known[name]


class CorpusPlace(NamedTuple):
    """A corpus that can be downloaded.

    ``place`` is the folder of the corpus, or ``None`` if the corpus has not been downloaded. ``questions``
    says whether :func:`write_corpus_questions` has questions about it.
    """

    name: str
    description: str
    license: str
    questions: bool
    place: Path | None


def list_corpora() -> list[CorpusPlace]:
    """List the corpora that can be fetched by name, with the folder of each fetched corpus."""
    places = []
    for name, corpus in known_corpora().items():
        try:
            place: Path | None = locate_corpus(name)
        except CorpusError:
            place = None
        places.append(CorpusPlace(name, corpus.description, corpus.license, bool(corpus.questions), place))
    return places


def corpora_home() -> Path:
    """Return the folder in which named corpora are stored."""
    if configured := os.environ.get("BRANCHRANK_CORPORA"):
        return Path(configured)
    from platformdirs import user_data_path

    return user_data_path("branchrank") / "corpora"


def locate_corpus(name_or_path: str | Path) -> Path:
    """Return the folder of a corpus, given the folder's path or the name of a downloaded corpus.

    If a folder has the same name as a named corpus, the folder is returned. Raises :class:`CorpusError` if no
    folder and no downloaded corpus has the given path or name.
    """
    name = str(name_or_path)
    path = Path(name_or_path).expanduser()
    # An empty name (perhaps from an unset variable) must not select the current folder.
    if name and path.is_dir():
        return path
    if name.startswith(PREFIX):
        return dataset_folder(name, corpora_home())
    if name in known_corpora():
        added = corpora_home() / name
        if added.is_dir():
            return added
        raise CorpusError(
            f"the corpus {name!r} has not been downloaded yet", remedy=f"branchrank corpus add {name}"
        )
    raise CorpusError(
        f"there is no corpus folder {name!r}",
        remedy=f"give the path of a folder of documents, or a name: {', '.join(known_corpora())}",
    )


def add_corpus(
    name: str,
    destination: Path | None = None,
    progress: Progress = no_progress,
    *,
    source: Path | None = None,
) -> Path:
    """Download a named corpus to the folder ``destination``, and return the folder.

    If the folder already contains files, nothing is downloaded. By default, ``destination`` is the folder
    ``name`` in the folder that :func:`corpora_home` returns. If the pinned file of the corpus is in
    the folder ``source``, it is copied from there.

    Raises :class:`CorpusError` for an unknown ``name``, a failed download, or a file whose SHA-256 digest
    differs from the pinned digest.
    """
    if source is not None and (name.startswith(PREFIX) or not named_corpus(name).filename):
        raise CorpusError(f"the corpus {name!r} is not a file", remedy=f"branchrank corpus add {name}")
    if name.startswith(PREFIX):
        return dataset_folder(name, corpora_home(), download=True, progress=progress)
    entry, target = named_corpus(name), destination or corpora_home() / name
    if target.is_dir() and any(target.iterdir()):
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{name}-") as temporary:
            content = Path(temporary, "content")
            if entry.repository:
                _clone(entry, content, progress)
            else:
                archive = Path(temporary, "archive")
                fetch_pinned(entry, archive, progress, source)
                unpack_folder(archive, entry.folder, content)
                progress("unpack", 1, 1)
            folder = content / entry.folder if entry.repository else content
            if not folder.is_dir():
                raise CorpusError(
                    f"the download of {name!r} does not contain the folder {entry.folder!r}",
                    remedy=f"correct `folder` of {name!r} in branchrank/documents/named.toml",
                )
            folder.replace(target)
    except OSError as error:
        raise CorpusError(
            f"cannot write the corpus to {target}: {error.strerror}",
            remedy="set BRANCHRANK_CORPORA to a folder that you can write to",
        ) from error
    return target


def write_corpus_questions(name: str, destination: Path | None = None) -> Path:
    """Write the questions about a named corpus to a file, and return its path.

    By default, ``destination`` is ``NAME-questions.jsonl`` in the working directory.

    Raises :class:`CorpusError` if there are no questions about the corpus, or if ``destination`` exists and
    contains something else.
    """
    if not named_corpus(name).questions:
        raise CorpusError(
            f"BranchRank has no questions about the corpus {name!r}",
            remedy="choose a corpus with questions: branchrank corpus list",
        )
    filename = f"{name}-questions.jsonl"
    package = Path(__file__).parents[1]
    places = (package / "examples", package.parent / "examples")  # in a wheel, in a git checkout
    content = next(path for place in places if (path := place / filename).is_file()).read_bytes()
    target = destination or Path(filename)
    with storage_errors(target):
        if not target.exists():
            write_bytes(target, content)
        elif target.read_bytes() != content:
            raise CorpusError(
                f"{target} exists and does not contain the questions about {name!r}",
                remedy=f"move it away: mv {target} {target}.old",
            )
    return target


def unpack_folder(archive: Path, folder: str, target: Path) -> None:
    """Unpack the regular files below ``<top folder>/<folder>/`` in an archive (tar or .deb) into ``target``.

    Links are left out. The size is not limited, because the archive's digest is pinned. Raises
    :class:`CorpusError` if the archive is damaged, or if it contains an absolute path, a path that leaves
    the folder, or a device in the folder.
    """
    target.mkdir()
    try:
        content = archive.read_bytes()
        if content.startswith(b"!<arch>\n"):  # a Debian package: its last member has a header of 60 bytes
            content = content[content.index(b"data.tar.") + 60 :]
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:*") as tar:
            tar.extractall(target, members=_members(tar, folder), filter="data")
    except (tarfile.TarError, EOFError) as error:
        raise CorpusError(
            f"the downloaded archive can't be unpacked: {error}", remedy="run branchrank corpus add again"
        ) from error


def _members(tar: tarfile.TarFile, folder: str) -> Iterator[tarfile.TarInfo]:
    below = PurePosixPath(folder).parts
    start = len(below) + 1
    for member in tar:
        path = PurePosixPath(member.name)
        if path.is_absolute():
            raise tarfile.AbsolutePathError(member)
        # Packages of Debian have links to files of other packages.
        left_out = member.isdir() or member.issym() or member.islnk()
        if not left_out and len(path.parts) > start and path.parts[1:start] == below:
            yield member.replace(name=str(PurePosixPath(*path.parts[start:])), mode=0o644, deep=False)


def _clone(entry: NamedCorpus, target: Path, progress: Progress) -> None:
    """Fetch the files of one Git commit into ``target``, without history, hooks, filters or submodules."""
    progress("clone", 0, 1)
    target.mkdir()
    _git(entry, target, "init", "--quiet", "--template=")
    _git(entry, target, "fetch", "--quiet", "--depth=1", "--no-tags", "--", entry.repository, entry.commit)
    _git(entry, target, "checkout", "--quiet", "--detach", entry.commit)
    shutil.rmtree(target / ".git")
    progress("clone", 1, 1)


def _git(entry: NamedCorpus, folder: Path, *arguments: str) -> None:
    git = shutil.which("git")
    if git is None:
        raise CorpusError("git is not installed", remedy="install git, or give the path of a folder")
    safe = ["-c", "core.hooksPath=/dev/null", "-c", "core.symlinks=false", "-c", "core.fsmonitor=false"]
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1"}
    command = [git, "-C", str(folder), *safe, *arguments]
    result = subprocess.run(
        command, capture_output=True, text=True, errors="replace", check=False, env=environment
    )
    if result.returncode:
        reason = (result.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise CorpusError(
            f"cannot clone {entry.repository}: {reason}",
            remedy="check the network, or clone the repository yourself and give the path of its folder",
        )
