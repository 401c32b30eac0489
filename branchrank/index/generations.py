"""Store each build of an index as a generation, which is a numbered directory.

1. Each build writes a new directory, ``000001``, ``000002``, ..., below the index's directory.
2. When all files of the new directory are on disk, a single rename replaces the symbolic link ``current``
   with a link to the new directory. Readers see the new directory only after the link has been replaced. The
   directory that a killed build leaves behind is deleted by the next build.
3. A reader follows the link ``current`` once, and takes a shared lock on the generation that the link points
   to.
4. A build keeps the current and the previous generation. Older generations are deleted unless a reader has
   locked them.
5. Each workspace has a lock that prevents two builds at the same time. A build also writes the workspace's
   settings under this lock. The lock is released when the process that holds the lock exits.
6. Below the workspace, the only symbolic link that is followed is ``current``, which can only point to a
   generation in the same directory. A generation that contains a symbolic link is not opened, and deletions
   do not follow links.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

from branchrank.core.errors import ArtifactError, BusyError
from branchrank.core.io.files import fsync_path, links_beneath, remove_beneath, storage_errors

MANIFEST = "manifest.json"
CHUNKS = "chunks.jsonl"
NODES = "pageindex/nodes.jsonl"
CHROMA = "chroma"
BUILD_LOCK = ".build.lock"
_CURRENT = "current"


@contextlib.contextmanager
def build_lock(data_dir: Path) -> Iterator[None]:
    """Hold the workspace's build lock. Raises :class:`BusyError` if another process has the lock."""
    from filelock import FileLock, Timeout

    with contextlib.ExitStack() as held:
        with storage_errors(data_dir):
            data_dir.mkdir(parents=True, exist_ok=True)
            try:
                held.enter_context(FileLock(data_dir / BUILD_LOCK, timeout=0))
            except Timeout:
                raise BusyError(
                    f"another process is building an index in {data_dir}",
                    remedy="wait until the other process has finished, and run the command again",
                ) from None
        yield


class Pin:
    """A reader's lock on a generation. ``directory`` is the real path of the generation."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        # Without O_NONBLOCK, this call would wait forever if another process replaced the file with a pipe.
        self._descriptor: int | None = os.open(directory / MANIFEST, os.O_RDONLY | os.O_NONBLOCK)
        # On file systems that don't support locks, a build may delete a generation that is being read.
        with contextlib.suppress(OSError):
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def close(self) -> None:
        """Release the lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class Generations:
    """The generations of one index. A generation contains the files that one build wrote.

    ``name`` is the path of the index's folder, relative to the workspace.
    """

    def __init__(self, data_dir: Path, name: str) -> None:
        self.directory = data_dir / name
        self._data_dir = data_dir
        self._name = name

    def pin(self) -> Pin:
        """Lock the current generation for reading. Raises :class:`ArtifactError` if there is no index."""
        missing = ArtifactError(
            f"there is no index in {self.directory}",
            remedy=f"branchrank index CORPUS --data-dir {self._data_dir}",
        )
        # If a build deletes this generation before the reader locks it, the reader tries the newer one.
        for _ in range(10):
            number = self._current()
            if number is None:
                raise missing
            directory = self._path(number)
            try:
                pin = Pin(directory)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise ArtifactError(
                    f"cannot read {directory}: {error.strerror}",
                    remedy=f"make the files in {directory} readable",
                ) from error
            if (directory / MANIFEST).exists():
                return pin
            pin.close()
        raise missing

    def begin(self) -> Path:
        """Delete the directories left behind by killed builds, and create a directory for a new build.

        The caller must hold the build lock.
        """
        refuse_links(self._data_dir, self._name)
        with storage_errors(self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
            current = self._current() or 0
            for number in self._numbers():
                if number > current:
                    self.remove(self._path(number))
            path = self._path(current + 1)
            path.mkdir()
        return path

    def publish(self, generation: Path) -> None:
        """Make a finished generation the current one. The caller must hold the build lock."""
        with storage_errors(generation):
            sync_tree(generation)
            fsync_path(self.directory)
            replace_link(self.directory / _CURRENT, Path(generation.name))

    def sweep(self, discard: Callable[[Path], None] = lambda generation: None) -> None:
        """Delete generations older than the previous one, unless a reader has locked them.

        ``discard`` is called with the path of each generation before it is deleted.
        """
        current = self._current() or 0
        for number in self._numbers():
            path = self._path(number)
            if number < current - 1 and self._is_free(path):
                discard(path)
                with contextlib.suppress(OSError):
                    self.remove(path)

    def remove(self, generation: Path) -> None:
        """Delete a generation's directory. Raises ``OSError`` if the directory can't be deleted."""
        remove_beneath(self._data_dir, f"{self._name}/{generation.name}")

    def refuse_links(self, generation: Path) -> None:
        """Raise :class:`ArtifactError` if a generation, or the path to it, contains a symbolic link."""
        refuse_links(self._data_dir, self._name)
        for link in links_beneath(generation):
            raise linked(link)

    @staticmethod
    def _is_free(directory: Path) -> bool:
        try:
            descriptor = os.open(directory / MANIFEST, os.O_RDONLY)
        except FileNotFoundError:
            return True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return True

    def _current(self) -> int | None:
        try:
            target = os.readlink(self.directory / _CURRENT)
        except OSError:
            return None
        return int(target) if target.isdecimal() else None

    def _numbers(self) -> list[int]:
        return sorted(int(path.name) for path in self.directory.iterdir() if path.name.isdecimal())

    def _path(self, number: int) -> Path:
        return self.directory / f"{number:06}"


def refuse_links(data_dir: Path, name: str) -> None:
    """Raise :class:`ArtifactError` if the path ``name`` below a workspace contains a symbolic link."""
    path = data_dir
    for part in name.split("/"):
        path /= part
        if path.is_symlink():
            raise linked(path)


def linked(link: Path) -> ArtifactError:
    """Return the error for a symbolic link that was found in a workspace."""
    return ArtifactError(
        f"{link} is a symbolic link, and BranchRank does not follow links in a workspace",
        remedy=f"rm {shlex.quote(str(link))}, and copy the link's target to the same path",
    )


def replace_link(link: Path, target: Path) -> None:
    """Make ``link`` a symbolic link to ``target``, atomically and durably.

    The caller must hold the build lock. Raises ``OSError`` if the link can't be written.
    """
    # A killed build may have left a link with this fixed temporary name.
    temporary = link.with_name(f".{link.name}.tmp")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    os.replace(temporary, link)
    fsync_path(link.parent)


def sync_tree(directory: Path) -> None:
    """Flush every file and directory below ``directory`` to disk.

    Raises ``OSError`` if a file or directory can't be flushed.
    """
    for folder, _, files in os.walk(directory, topdown=False):
        for name in files:
            fsync_path(Path(folder, name))
        fsync_path(Path(folder))
