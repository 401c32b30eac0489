"""Read the text of an indexed file.

The error message for a file that can't be read begins with one of the following codes.

- ``NOT_FOUND`` means that the path is inside an allowed folder, but does not exist.
- ``ACCESS_DENIED`` means that the path is outside the allowed folders, hidden, not indexed, reached through a
  link, or not a regular file. An ``ACCESS_DENIED`` message lists the allowed folders.
- ``NOT_A_FILE`` means that the path is a folder.
- ``TOO_LARGE`` means that the file is larger than the size limit.
- ``NOT_TEXT`` means that the file is neither UTF-8 nor UTF-16, or contains NUL bytes. An indexed PDF is
  read as its text.
- ``NO_SUCH_LINE`` means that the file ends before the first line that was asked for.

1. In the corpus's folder, only indexed files can be read. Excluded files and hidden files (such as ``.env``)
   are denied, whether they exist or not.
2. In additional folders that the user allows (``allowed_paths``), every file that is not hidden can be read.
3. A path is absolute or relative to an allowed folder. A relative path is tried in each allowed folder, in
   order. ``..`` in a path is resolved without looking at the disk. A resolved path outside the allowed
   folders is denied, whether it exists or not. Symbolic links in a path are never followed.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path, PurePosixPath
from typing import Literal

from branchrank.core.errors import InputError
from branchrank.core.io.files import open_beneath, read_beneath
from branchrank.core.io.text_files import decoded
from branchrank.documents.reading import document_text, is_binary

ErrorCode = Literal["NOT_FOUND", "ACCESS_DENIED", "NOT_A_FILE", "TOO_LARGE", "NOT_TEXT", "NO_SUCH_LINE"]

SIZE_LIMIT = 4 * 1024 * 1024


class FileRefused(InputError):
    """Error for a file that can't be read.

    ``code`` is one of the error codes listed at the top of this module. ``brief`` is the message without the
    folders, and therefore the same on every machine.
    """

    def __init__(self, code: ErrorCode, reason: str, folders: Sequence[Path] = ()) -> None:
        self.brief = f"[ERROR: {code}] {reason}"
        allowed = f". Allowed folders: {', '.join(map(str, folders))}" if folders else ""
        super().__init__(self.brief + allowed)
        self.code = code


class FileReader:
    """Reads the indexed files ``sources`` below ``root``, and all files below ``allowed_paths``.

    ``sources`` are paths relative to ``root``, with ``/`` as separator.
    """

    def __init__(self, root: Path, sources: Collection[str], allowed_paths: Sequence[Path] = ()) -> None:
        folders = (root, *allowed_paths)
        self._root = root.resolve()
        self._sources = frozenset(sources)
        self._allowed = frozenset(path.resolve() for path in allowed_paths)
        self._spellings = tuple((Path(os.path.abspath(path)), path.resolve()) for path in folders)

    @property
    def folders(self) -> tuple[Path, ...]:
        """The canonical paths of the corpus's folder and the other allowed folders."""
        return tuple(dict.fromkeys(root for _, root in self._spellings))

    def text(self, path: str) -> str:
        """Return the UTF-8 text of ``path``. Raises :class:`FileRefused` if the file can't be read."""
        return self.read(path)[1]

    def read(self, path: str) -> tuple[str, str]:
        """Return the file's name and its text, and raise the errors of :meth:`text`.

        The name is relative to the corpus, or the absolute path of a file elsewhere.
        """
        places = self._places(path)
        if not places:
            raise self._denied(path, "it is outside the allowed folders")
        unindexed = False
        for root, relative in places:
            if any(name.startswith(".") for name in relative.split("/")) and relative != ".":
                raise self._denied(path, "it is hidden")
            try:
                with open_beneath(root, relative) as stream:
                    if not self._is_readable(root, relative):
                        unindexed = True
                        continue
                    content = stream.read(SIZE_LIMIT + 1)
            except FileNotFoundError:
                continue
            except IsADirectoryError:
                raise FileRefused("NOT_A_FILE", f"{path!r} is a folder") from None
            except OSError as error:
                raise self._denied(path, str(error.strerror)) from None
            if root == self._root and relative in self._sources and is_binary(relative):
                content = document_text(relative, read_beneath(root, relative)).encode()
            source = relative if root == self._root else str(root / relative)
            return source, self._decoded(path, content)
        if unindexed:
            raise self._denied(path, "it is not one of the indexed files")
        raise FileRefused("NOT_FOUND", f"there is no file {path!r}")

    def _places(self, path: str) -> list[tuple[Path, str]]:
        """Return each allowed folder that may contain ``path``, and the path relative to this folder."""
        places: dict[tuple[Path, str], None] = {}
        for spelling, root in self._spellings:
            for start in (spelling, root):
                named = PurePosixPath(os.path.normpath(os.path.join(start, path)))
                if named.is_relative_to(start):
                    places[root, str(named.relative_to(start))] = None
        return list(places)

    def _is_readable(self, root: Path, relative: str) -> bool:
        file = root / relative
        indexed = root == self._root and relative in self._sources
        return indexed or any(file.is_relative_to(folder) for folder in self._allowed)

    def _denied(self, path: str, reason: str) -> FileRefused:
        return FileRefused("ACCESS_DENIED", f"{path!r}: {reason}", self.folders)

    def _decoded(self, path: str, content: bytes) -> str:
        if len(content) > SIZE_LIMIT:
            raise FileRefused("TOO_LARGE", f"{path!r} is larger than {SIZE_LIMIT} bytes")
        try:
            text = decoded(content)
        except UnicodeDecodeError:
            raise FileRefused("NOT_TEXT", f"{path!r} is not UTF-8 text") from None
        if "\0" in text:
            raise FileRefused("NOT_TEXT", f"{path!r} contains NUL bytes")
        return text
