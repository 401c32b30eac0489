"""Parse the bytes of one file into a :class:`Document`. The file's suffix determines the parser.

A file whose markup can't be parsed is read as plain text, with one block per paragraph.
"""

from __future__ import annotations

from branchrank.corpus.document import ENTRY_SUFFIX, Block, Document, Section, plain_blocks
from branchrank.corpus.lines import decode, split_lines
from branchrank.errors import CorpusError
from branchrank.io.files import digest_bytes

RST_SUFFIXES = (".rst", ".rst.inc", ".txt")
MARKDOWN_SUFFIXES = (".md", ".mdx")
SUFFIXES = (*RST_SUFFIXES, *MARKDOWN_SUFFIXES, ENTRY_SUFFIX)


def is_document(source: str) -> bool:
    """Return whether BranchRank can parse files with the suffix of ``source``."""
    return source.lower().endswith(SUFFIXES)


def read_document(source: str, content: bytes) -> Document:
    """Parse ``content``, the bytes of a file. ``source`` is the file's path relative to the corpus folder.

    Malformed markup never raises an exception, but is read as plain text. Raises :class:`CorpusError` if
    BranchRank can't parse files with the suffix of ``source``.
    """
    name = source.lower()
    if name.endswith(RST_SUFFIXES):
        return read_rst(source, content)
    if name.endswith(MARKDOWN_SUFFIXES):
        from branchrank.corpus.markdown import read_markdown

        return read_markdown(source, content)
    if name.endswith(ENTRY_SUFFIX):
        return read_entry(source, content)
    raise CorpusError(
        f"cannot read the document {source!r}: its suffix is not one of {', '.join(SUFFIXES)}",
        remedy="convert the file to Markdown, and give it the suffix .md",
    )


def read_rst(source: str, content: bytes) -> Document:
    """Read a reStructuredText (RST) file. Malformed content raises no exception.

    Directives are never run, so no other file is included and no code is executed. In the returned document,
    ``toctree`` contains the toctree entries as written, including patterns, and ``labels`` contains the
    internal targets with normalized names.
    """
    from branchrank.corpus.rst_scan import Scanner

    text, notes = decode(content)
    lines = split_lines(text)
    scanner = Scanner(source, lines)
    scanner.scan()
    scanner.notes.extend(notes)
    return scanner.document(source, content, len(lines))


def read_entry(source: str, content: bytes) -> Document:
    """Parse the bytes of a ``.beir`` file into a document. Malformed content raises no exception."""
    text, notes = decode(content)
    lines = split_lines(text)
    title = " ".join(lines[0].split())
    blocks: list[Block] = plain_blocks(["", *lines[1:]])
    if title and not blocks:
        title, blocks = "", [Block(kind="prose", text=title, line_start=1, line_end=1)]
    section = Section(
        id=source,
        title=title,
        level=0,
        parent=None,
        line_start=1,
        own_line_end=len(lines),
        line_end=len(lines),
        blocks=tuple(blocks),
    )
    return Document(
        source=source,
        title=title,
        digest=digest_bytes(content),
        line_count=len(lines),
        sections=(section,),
        notes=notes,
    )
