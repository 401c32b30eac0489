"""Fetch the pinned file of a named corpus.

1. A package of Debian (``.deb``) is downloaded with ``apt-get``. For any other file, a child process runs
   this module, and uses pip's functions to find and download the file. The configurations of apt and pip
   determine the archives, package indexes, certificates, proxies and credentials, so this module contains no
   host names. pip's functions are not meant for use inside another program, and must not change the state of
   this one.
2. Instead, the file can be copied from a folder that the user gave.
3. A file that is larger than the pinned size is rejected, and so is a file whose SHA-256 digest differs from
   the pinned digest.

``pip download`` is not used, because it would run the build backend of a source distribution, which is code
from the package.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from branchrank.core.errors import CorpusError
from branchrank.core.io.files import digest_file
from branchrank.core.io.progress import Progress
from branchrank.core.records import Record

_BLOCK = 2**18


class NamedCorpus(Record, frozen=True, kw_only=True):
    """The pinned origin of a corpus, which is a file from a package index, a Debian package or a Git commit.

    A package's file is identified by ``project``, ``filename``, ``sha256`` and ``size`` (in bytes), and a Git
    commit by ``repository`` and ``commit``. ``folder`` is the folder, inside the package's top folder or the
    repository, that becomes the corpus. ``license`` is the SPDX identifier of the documents. ``questions`` is
    the SHA-256 digest of the question file that belongs to the corpus, and ``exclude`` are the patterns of
    the files that an index for these questions leaves out. ``code`` is whether the documents are source code.
    """

    description: str
    folder: str
    project: str = ""
    filename: str = ""
    sha256: str = ""
    size: int = 0
    repository: str = ""
    commit: str = ""
    license: str = ""
    exclude: tuple[str, ...] = ()
    code: bool = False
    questions: str = ""


def fetch_pinned(corpus: NamedCorpus, target: Path, progress: Progress, source: Path | None = None) -> None:
    """Download the pinned file of ``corpus`` to ``target``, or copy it from the folder ``source``.

    Raises :class:`CorpusError` if no package index, archive or folder has a file with the corpus's file name,
    with its SHA-256 digest and with at most as many bytes as its pinned size.
    """
    if source is None and not corpus.filename.endswith(".deb"):
        _download_with_pip(corpus, target, progress)
        return
    path = (source or target.parent) / corpus.filename
    problem = "" if source else _download_with_apt(corpus, target.parent)
    digest = digest_file(path) if path.is_file() else "not known: there is no such file"
    if problem or digest != corpus.sha256:
        problem = problem or f"the SHA-256 of {path} must be {corpus.sha256}, but is {digest}"
        remedy = "download it yourself, and give its folder: branchrank corpus add NAME --from FOLDER"
        raise CorpusError(problem, remedy=remedy)
    shutil.copyfile(path, target)


def _download_with_apt(corpus: NamedCorpus, folder: Path) -> str:
    """Download a package of Debian to ``folder``. Return the reason if that is not possible."""
    command = ["apt-get", "download", f"{corpus.project}={corpus.filename.split('_')[1]}"]
    try:
        subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        return f"apt-get can't download {corpus.filename}: {getattr(error, 'stderr', '') or error}".rstrip()
    return ""


def _download_with_pip(corpus: NamedCorpus, target: Path, progress: Progress) -> None:
    pinned = (corpus.project, corpus.filename, corpus.sha256, str(corpus.size))
    command = [sys.executable, "-m", __name__, *pinned, str(target)]
    # The child process finds this package, even if it is not installed.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    failures: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip().isdecimal():
                progress("download", int(line), corpus.size)
            else:
                failures.append(f"\n  {line.rstrip()}")
    if process.returncode:
        target.unlink(missing_ok=True)
        raise CorpusError(
            f"{corpus.filename} can't be downloaded from the package index in pip's configuration"
            + "".join(failures),
            remedy="check the network and the output of `pip config list`, or give the path of a folder",
        )


def _main(project: str, filename: str, sha256: str, size: str, target: str) -> int:
    """Download a file with pip, and print the number of bytes after each block. Return the exit code."""
    try:
        command = _download_command()
    except ImportError:
        print(f"{sys.executable} has no working pip; install it with: {sys.executable} -m ensurepip")
        return 1
    # pip reports an index that can't be read in a debug message.
    logging.basicConfig(format="%(message)s")
    pages = logging.getLogger("pip._internal.index.collector")
    pages.setLevel(logging.DEBUG)
    pages.addFilter(lambda record: record.levelno > logging.DEBUG or record.msg.startswith("Could not fetch"))
    options, _ = command.parse_args(["--no-input", "--ignore-requires-python", f"--no-binary={project}"])
    with command._build_session(options) as session:
        finder = command._build_package_finder(options, session)
        links = [found.link for found in finder.find_all_candidates(project)]
        for link in links:
            if link.filename != filename:
                continue
            try:
                digest = _copy(session, link.url_without_fragment, Path(target), int(size))
            except (OSError, ValueError) as error:  # the errors of pip's HTTP library are OSErrors
                print(f"{link}: {error}")
                continue
            if digest == sha256:
                return 0
            print(f"{link}: its SHA-256 is {digest}, not {sha256}")
    return 1


def _download_command() -> Any:
    """Return pip's ``download`` command, from pip's wheel in the standard library if pip is missing."""
    if find_spec("pip") is None:
        import ensurepip

        sys.path += map(str, Path(ensurepip.__file__).parent.glob("_bundled/pip-*.whl"))
    from pip._internal.commands import create_command

    return create_command("download")


def _copy(session: Any, url: str, target: Path, size: int) -> str:
    """Download ``url`` to the file ``target``, and return the SHA-256 digest of the file.

    Raises ``ValueError`` if the file has more than ``size`` bytes.
    """
    digest = hashlib.sha256()
    done = 0
    response = session.get(url, headers={"Accept-Encoding": "identity"}, stream=True)
    response.raise_for_status()
    with target.open("wb") as output:
        for block in response.iter_content(_BLOCK):
            done += len(block)
            if done > size:
                raise ValueError(f"the file is larger than the pinned {size} bytes")
            digest.update(block)
            output.write(block)
            print(done, flush=True)
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
