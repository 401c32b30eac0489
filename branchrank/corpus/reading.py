"""Parse the bytes of one file into a :class:`Document`. The file's suffix determines the reader.

A reader finds the headings, blocks, labels and references in the lines of a file, and returns them as
:class:`~branchrank.corpus.document.Findings`, from which the document's sections are made. A reader never
fails: a file whose markup can't be parsed is read as plain text, with one block per paragraph.
"""

from __future__ import annotations

from collections.abc import Callable

from branchrank.corpus.document import ENTRY_SUFFIX, Block, Document, Findings, plain_blocks
from branchrank.corpus.lines import decode, split_lines
from branchrank.errors import CorpusError

#: Finds the contents of a file, given the file's path in the corpus and the file's lines.
Reader = Callable[[str, list[str]], Findings]


def _read_rst(source: str, lines: list[str]) -> Findings:
    from branchrank.corpus.rst_scan import Scanner

    scanner = Scanner(source, lines)
    scanner.scan()
    return scanner


def _read_markdown(source: str, lines: list[str]) -> Findings:
    from branchrank.corpus.markdown import read_markdown

    return read_markdown(source, lines)


def _read_entry(source: str, lines: list[str]) -> Findings:
    """Read a ``.beir`` file: the title on the first line, then the text."""
    found = Findings()
    found.title = " ".join(lines[0].split())
    found.blocks = plain_blocks(["", *lines[1:]])
    if found.title and not found.blocks:
        found.blocks = [Block(kind="prose", text=found.title, line_start=1, line_end=1)]
        found.title = ""
    return found


#: The reader of each suffix.
_READERS: dict[str, Reader] = {
    **dict.fromkeys((".rst", ".rst.inc", ".txt"), _read_rst),
    **dict.fromkeys((".md", ".mdx"), _read_markdown),
    ENTRY_SUFFIX: _read_entry,
}
SUFFIXES = tuple(_READERS)


def is_document(source: str) -> bool:
    """Return whether BranchRank can parse files with the suffix of ``source``."""
    return source.lower().endswith(SUFFIXES)


def read_document(source: str, content: bytes) -> Document:
    """Parse ``content``, the bytes of a file. ``source`` is the file's path relative to the corpus folder.

    Malformed markup never raises an exception, but is read as plain text. Raises :class:`CorpusError` if
    BranchRank can't parse files with the suffix of ``source``.
    """
    read = next((read for suffix, read in _READERS.items() if source.lower().endswith(suffix)), None)
    if read is None:
        raise CorpusError(
            f"cannot read the document {source!r}: its suffix is not one of {', '.join(SUFFIXES)}",
            remedy="convert the file to Markdown, and give it the suffix .md",
        )
    text, notes = decode(content)
    lines = split_lines(text)
    found = read(source, lines)
    found.notes = [*notes, *found.notes]
    return found.document(source, content, len(lines))
