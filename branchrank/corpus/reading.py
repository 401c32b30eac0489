"""Parse the bytes of one file into a :class:`Document`. The file's suffix determines the parser.

A file whose markup can't be parsed is read as plain text, with one block per paragraph.
"""

from __future__ import annotations

from branchrank.corpus.document import ENTRY_SUFFIX, Block, Document
from branchrank.errors import CorpusError

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
        from branchrank.corpus.rst import read_rst

        return read_rst(source, content)
    if name.endswith(MARKDOWN_SUFFIXES):
        from branchrank.corpus.markdown import read_markdown

        return read_markdown(source, content)
    if name.endswith(ENTRY_SUFFIX):
        from branchrank.corpus.ir_collections import read_entry

        return read_entry(source, content)
    raise CorpusError(
        f"cannot read the document {source!r}: its suffix is not one of {', '.join(SUFFIXES)}",
        remedy="convert the file to Markdown, and give it the suffix .md",
    )


def plain_blocks(lines: list[str]) -> list[Block]:
    """Return one block for each run of non-blank lines. The first line has line number 1."""
    blocks: list[Block] = []
    run: list[str] = []
    for number, line in enumerate([*lines, ""], start=1):
        if line.strip():
            run.append(line)
        elif run:
            text = "\n".join(run)
            blocks.append(Block(kind="prose", text=text, line_start=number - len(run), line_end=number - 1))
            run = []
    return blocks
