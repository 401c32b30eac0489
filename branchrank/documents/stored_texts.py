"""The texts that an index stores because their documents are binary files, such as PDFs.

A text is stored under the digest of its document, which depends on the bytes of the file and the version of
the reader. A text is therefore the same in every index that stores it, and this process reads it from any
index that it has opened.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from branchrank.core.io.files import write_bytes

#: The folder of the texts in an index.
TEXTS = "texts"
_folders: dict[Path, None] = {}


def text_name(digest: str) -> str:
    """Return the name of the file that contains the text of the document with a digest."""
    return f"{digest}.txt"


def write_texts(index: Path, texts: Mapping[str, str]) -> None:
    """Write the texts of an index. ``texts`` maps the digest of each document to its text."""
    for digest, text in texts.items():
        (index / TEXTS).mkdir(exist_ok=True)
        write_bytes(index / TEXTS / text_name(digest), text.encode())


def use_texts(index: Path) -> None:
    """Let :func:`stored_text` return the texts of an index."""
    if (index / TEXTS).is_dir():
        _folders[index / TEXTS] = None


def stored_text(digest: str) -> str | None:
    """Return the text of the document with a digest, or ``None`` if no index in use stores it."""
    assert re.fullmatch(r"[0-9a-f]+", digest)
    for folder in tuple(_folders):
        try:
            return (folder / text_name(digest)).read_bytes().decode()
        except OSError:
            continue  # the index has been replaced
    return None
