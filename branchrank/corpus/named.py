"""Named corpora. Each is downloaded once, at a pinned version, and is then used like any other folder.

1. ``named.toml`` pins each corpus: a source distribution by SHA-256, or a repository by commit.
2. A download is unpacked into a temporary folder that is then renamed, so a corpus is complete or absent.
   Only regular files of the pinned folder are kept, and none of them is executed.
3. :func:`locate_corpus` resolves the name or path of a corpus that a user gives.
4. ``ir:ID`` names a dataset of the package ir-datasets (:mod:`branchrank.corpus.ir_dataset`).

Named corpora are stored in ``$BRANCHRANK_CORPORA``; if it is not set, in the user's data directory.
"""

from __future__ import annotations

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

from branchrank.corpus.ir_dataset import dataset_folder, is_dataset
from branchrank.corpus.package_index import IndexConfiguration, fetch_pinned
from branchrank.errors import CorpusError, nearest_path, or_else, suggestion
from branchrank.progress import Progress, no_progress
from branchrank.records import Record

MAX_FILES = 50_000
MAX_BYTES = 2**29


class NamedCorpus(Record, frozen=True, kw_only=True):
    """The pinned origin of a corpus: ``filename`` of ``project``, or ``repository`` at ``commit``.

    ``size`` is in bytes.
    """

    description: str
    folder: str
    project: str = ""
    filename: str = ""
    sha256: str = ""
    size: int = 0
    repository: str = ""
    commit: str = ""


def known_corpora() -> dict[str, NamedCorpus]:
    """The corpora that can be added, by name."""
    content = resources.files("branchrank.corpus").joinpath("named.toml").read_bytes()
    return msgspec.toml.decode(content, type=dict[str, NamedCorpus])


class CorpusPlace(NamedTuple):
    """A corpus that can be added; ``place`` is its folder, ``None`` if it has not been downloaded."""

    name: str
    description: str
    place: Path | None


def corpus_places() -> list[CorpusPlace]:
    """Every corpus that can be added, in the order of ``named.toml``."""
    places = []
    for name, corpus in known_corpora().items():
        try:
            place: Path | None = locate_corpus(name)
        except CorpusError:
            place = None
        places.append(CorpusPlace(name, corpus.description, place))
    return places


def corpora_home() -> Path:
    """The folder in which named corpora are stored."""
    if configured := os.environ.get("BRANCHRANK_CORPORA"):
        return Path(configured)
    from platformdirs import user_data_path

    return user_data_path("branchrank") / "corpora"


def locate_corpus(name_or_path: str | Path) -> Path:
    """Return the folder of a corpus, given its path or the name of an added corpus.

    If both a folder and a named corpus match, the folder is used.

    Raises:
        CorpusError: neither exists; the remedy says how to fix it.
    """
    name = str(name_or_path)
    path = Path(name_or_path).expanduser()
    if name and path.is_dir():  # an empty name comes from an unset variable; it is not the current folder
        return path
    if is_dataset(name):
        return dataset_folder(name, corpora_home())
    if name in known_corpora():
        added = corpora_home() / name
        if added.is_dir():
            return added
        raise CorpusError(
            f"the corpus {name!r} is not downloaded yet", remedy=f"branchrank corpus add {name}"
        )
    raise CorpusError(
        f"there is no corpus folder {name!r}{_meant(name)}",
        remedy=f"give the path of a folder of documents, or a name: {', '.join(known_corpora())}",
    )


def _meant(name: str) -> str:
    """A suggestion: the corpus or folder with a similar name."""
    near = suggestion(name, known_corpora())
    return f"; {near}" if near else nearest_path(Path(name))


def add_corpus(
    name: str,
    destination: Path | None = None,
    progress: Progress = no_progress,
    *,
    corpus: NamedCorpus | None = None,
    configuration: IndexConfiguration | None = None,
) -> Path:
    """Download a named corpus to ``destination`` and return that folder; an existing one is kept.

    ``destination`` defaults to the corpus's folder in :func:`corpora_home`. ``corpus`` and ``configuration``
    replace the pinned entry and pip's configuration.

    Raises:
        CorpusError: the name is unknown, or the corpus can't be downloaded or does not match its pin.
    """
    if is_dataset(name):
        return dataset_folder(name, corpora_home(), download=True, progress=progress)
    known = known_corpora()
    entry = corpus or known.get(name)
    if entry is None:
        raise CorpusError(
            f"no corpus is called {name!r}{or_else(name, known)}", remedy="branchrank corpus list"
        )
    target = destination or corpora_home() / name
    if target.is_dir() and any(target.iterdir()):
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{name}-") as temporary:
            folder = _fetch(entry, Path(temporary), progress, configuration)
            if not folder.is_dir():
                raise CorpusError(f"the download of {name!r} has no folder {entry.folder!r}")
            folder.replace(target)
    except OSError as error:
        raise CorpusError(
            f"cannot write the corpus to {target}: {error.strerror}",
            remedy="set BRANCHRANK_CORPORA to a folder that can be written",
        ) from error
    return target


def _fetch(
    entry: NamedCorpus, temporary: Path, progress: Progress, configuration: IndexConfiguration | None
) -> Path:
    content = temporary / "content"
    if entry.repository:
        _clone(entry, content, progress)
        return content / entry.folder
    archive = temporary / "archive"

    fetch_pinned(
        entry.project,
        entry.filename,
        sha256=entry.sha256,
        size=entry.size,
        target=archive,
        progress=progress,
        configuration=configuration,
    )
    unpack_folder(archive, entry.folder, content)
    progress("unpack", 1, 1)
    return content


def unpack_folder(archive: Path, folder: str, target: Path) -> None:
    """Unpack the regular files below ``<top>/<folder>/`` of a tar archive into ``target``.

    Links, devices, absolute paths and paths with ``..`` are skipped.

    Raises:
        CorpusError: the archive is damaged, or unpacks to more than MAX_FILES files or MAX_BYTES bytes.
    """
    target.mkdir()
    try:
        with tarfile.open(archive, "r:*") as tar:
            tar.extractall(target, members=_members(tar, folder), filter="data")
    except (tarfile.TarError, EOFError) as error:
        raise CorpusError(f"the archive can't be unpacked: {error}", remedy="fetch it again") from error


def _members(tar: tarfile.TarFile, folder: str) -> Iterator[tarfile.TarInfo]:
    files = size = 0
    for member in tar:
        path = PurePosixPath(member.name)
        if not member.isreg() or path.is_absolute() or ".." in path.parts:
            continue
        if len(path.parts) < 3 or path.parts[1] != folder:
            continue
        files += 1
        size += member.size
        if files > MAX_FILES or size > MAX_BYTES:
            raise CorpusError(
                f"the archive unpacks to more than {MAX_FILES} files or {MAX_BYTES} bytes",
                remedy="give the path of a folder instead",
            )
        yield member.replace(name=str(PurePosixPath(*path.parts[2:])), mode=0o644, deep=False)


def _clone(entry: NamedCorpus, target: Path, progress: Progress) -> None:
    """Check out the files of one commit, without history, hooks, filters or submodules."""
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
            remedy="look at the network, or clone it elsewhere and give the path of the folder",
        )
