"""Parse the bytes of one file into a :class:`Document`. The file's suffix determines the reader.

1. A :class:`Reader` turns the bytes of a file into the text whose lines are
   numbered, and finds the headings, blocks, labels and references in these lines. The document's sections are
   made from the reader's :class:`~branchrank.documents.document.Findings`.
2. A reader never fails: a file whose markup can't be parsed is read as plain text, with one block per
   paragraph, and a binary file that can't be read has one empty line.
3. An installed package can add a reader with an entry point in the group ``branchrank.readers``. The name of
   the entry point is the suffix without its dot, such as ``tex``, and its value is a ``Reader``. A suffix can
   have only one reader.

Whatever needs the lines of a document calls :func:`document_lines`, so that all line numbers agree.

An index stores the text of a binary file, such as a PDF, under the digest of its document, which depends on
the bytes of the file and the version of the reader. The text is therefore the same in every index that stores
it, and this process reads it from any index that it has opened (:func:`use_texts`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from branchrank.core.errors import CorpusError, MissingDependencyError
from branchrank.core.io.files import digest_bytes, digest_of, read_beneath, write_bytes
from branchrank.core.io.text_files import decoded_always
from branchrank.core.registry import Registry
from branchrank.documents.code_outline import GRAMMARS
from branchrank.documents.document import ENTRY_SUFFIX, Block, Document, Findings, plain_blocks
from branchrank.documents.lines import split_lines, without_encoded_data


class Reader:
    """Reads the files of one format.

    ``find`` finds the contents of a text file, given the file's path in the corpus and the file's lines (see
    :func:`~branchrank.documents.lines.without_encoded_data`). A
    subclass can override :meth:`text`, and for a format that is not text also :meth:`read`. If ``version`` is
    not empty, it is part of the digest of each document, so that another version makes an index stale.
    """

    #: Whether files of this format are not text. The index stores the text of such a file.
    binary = False
    #: Whether people read the lines as they are. If not, chunkers get the readable text of the blocks.
    readable = True
    version = ""

    def __init__(self, find: Callable[[str, list[str]], Findings]) -> None:
        self.find = find

    def text(self, content: bytes) -> tuple[str, tuple[str, ...]]:
        """Return the text whose lines are numbered, and notes about bytes that can't be decoded."""
        return decoded_always(content)

    def read(self, source: str, content: bytes) -> tuple[list[str], Findings]:
        """Return the lines of the text, without line breaks, and what they contain. Never fails."""
        text, notes = self.text(content)
        lines = split_lines(text)
        found = self.find(source, [without_encoded_data(line) for line in lines])
        found.notes = [*notes, *found.notes]
        return lines, found


class _Builtin(NamedTuple):
    """A built-in reader: the module of its ``READER``, and the package of an extra that the module needs.

    ``own_text`` is whether the reader overrides :meth:`Reader.text`.
    """

    module: str
    package: str = ""
    extra: str = ""
    own_text: bool = False


#: No file's name is longer, but a link's is as long as a document likes.
_LONGEST_NAME = 255
#: Suffixes of HTML files, which are templates and assets, not documents, in folders such as ``_static``.
HTML = (".html", ".htm", ".xhtml")
#: The built-in reader of each suffix. A reader's module is imported on first use.
BUILTIN_READERS: dict[str, _Builtin] = {
    **dict.fromkeys((".rst", ".rst.inc", ".txt"), _Builtin("rst_scan")),
    **dict.fromkeys((".md", ".mdx"), _Builtin("markdown")),
    **dict.fromkeys(HTML, _Builtin("html_pages", own_text=True)),
    **dict.fromkeys((".adoc", ".asciidoc", ".asc"), _Builtin("asciidoc")),
    ".ipynb": _Builtin("notebooks"),
    ".pdf": _Builtin("pdf", package="pypdfium2", extra="pdf", own_text=True),
    **dict.fromkeys((".text", ENTRY_SUFFIX), _Builtin("reading")),
    **{suffix: _Builtin("source_code", package, "code") for suffix, (package, _) in GRAMMARS.items()},
}


#: All readers by suffix.
READERS = Registry[Reader](
    "reader",
    "readers",
    {suffix: f"branchrank.documents.{each.module}:READER" for suffix, each in BUILTIN_READERS.items()},
    kind=Reader,
    named=lambda name: f".{name.lower()}",
)


def suffix_of(source: str) -> str:
    """Return the longest suffix of a path that has a reader, or an empty string."""
    end = source[-_LONGEST_NAME:]
    _, dot, ending = end[end.rfind("/") + 1 :].partition(".")
    return _longest_suffix(dot + ending)


@lru_cache(1 << 12)
def _longest_suffix(ending: str) -> str:
    """Return the suffix of a name, which ends with ``ending`` from its first dot on."""
    name = ending.lower()
    # Installed packages are looked up only for a suffix that is not built in, because this takes 50 ms.
    suffix = max(filter(name.endswith, READERS.builtin), key=len, default="")
    return suffix or max(filter(name.endswith, READERS.installed), key=len, default="")


@cache
def reader_of(suffix: str) -> Reader:
    """Return the reader of a suffix.

    Raises :class:`MissingDependencyError` for a reader whose extra is not installed, and :class:`UsageError`
    for an installed reader that can't be imported.
    """
    if lacking := _missing_extra(suffix):
        raise lacking
    return READERS.get(suffix)


def why_unread(source: str) -> str:
    """Return why a file with a known suffix is not read as a document, or an empty string.

    The reason is the command that installs what its reader needs, or the location of the file.
    """
    suffix = suffix_of(source)
    if suffix in HTML and any(folder.startswith("_") for folder in source.split("/")[:-1]):
        return "below a folder whose name starts with _"
    lacking = _missing_extra(suffix)
    return lacking.remedy if lacking else ""


@cache
def _missing_extra(suffix: str) -> MissingDependencyError | None:
    """Return the error for a suffix whose reader needs an extra that is not installed."""
    builtin = BUILTIN_READERS.get(suffix)
    if builtin is None or not builtin.package or find_spec(builtin.package):
        return None
    purpose = f"reading files that end with {suffix}"
    return MissingDependencyError(builtin.package, purpose=purpose, extra=builtin.extra)


def _reader(source: str) -> Reader:
    suffix = suffix_of(source)
    if not suffix:
        raise CorpusError(
            f"cannot read the document {source!r}: its suffix is not one of {', '.join(READERS.names)}",
            remedy="convert the file to Markdown, and give it the suffix .md",
        )
    return reader_of(suffix)


def is_binary(source: str) -> bool:
    """Return whether the document at the path ``source`` is a binary file, whose text an index stores."""
    suffix = suffix_of(source)
    builtin = BUILTIN_READERS.get(suffix)
    return bool(suffix) and (builtin is None or builtin.own_text) and reader_of(suffix).binary


def read_document(source: str, content: bytes) -> Document:
    """Parse ``content``, the bytes of a file. ``source`` is the file's path relative to the corpus folder.

    Malformed markup never raises an exception, but is read as plain text. Raises :class:`CorpusError` if
    BranchRank can't parse files with the suffix of ``source``.
    """
    lines, found = _reader(source).read(source, content)
    digest = document_digest(source, content)
    return found.document(source, digest=digest, size=len(content), line_count=len(lines))


def document_digest(source: str, content: bytes) -> str:
    """Return the SHA-256 of a file's bytes and, if it has one, of the version of its reader."""
    digest = digest_bytes(content)
    version = _reader(source).version
    return digest_of([digest, version]) if version else digest


def document_text(source: str, content: bytes) -> str:
    """Return the text of the file with the bytes ``content``. Line numbers are those of this text.

    Raises the same errors as :func:`read_document`. A file without a reader is read as plain text.
    """
    suffix = suffix_of(source)
    builtin = BUILTIN_READERS.get(suffix)
    # A query reads the lines of its hits. Importing docutils for that would take longer than the query.
    if not suffix or (builtin and not builtin.own_text):
        return decoded_always(content)[0]
    reader = reader_of(suffix)
    stored = stored_text(document_digest(source, content)) if reader.binary else None
    return reader.text(content)[0] if stored is None else stored


def document_lines(root: Path, source: str) -> list[str]:
    """Return the lines of the document ``source`` below ``root``, without line breaks.

    Raises the same errors as :func:`document_text` and :func:`~branchrank.core.io.files.read_beneath`.
    """
    return split_lines(document_text(source, read_beneath(root, source)))


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


def _plain_text(source: str, lines: list[str]) -> Findings:
    """Read a file of plain text. The first line of a ``.beir`` file is the title."""
    found = Findings()
    if not source.lower().endswith(ENTRY_SUFFIX):
        found.blocks = plain_blocks(lines)
        return found
    found.title = " ".join(lines[0].split())
    found.blocks = plain_blocks(["", *lines[1:]])
    if found.title and not found.blocks:
        found.blocks = [Block(kind="prose", text=found.title, line_start=1, line_end=1)]
        found.title = ""
    return found


#: The reader of plain text.
READER = Reader(_plain_text)
