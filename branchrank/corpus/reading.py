"""Parse the bytes of one file into a :class:`Document`, with the reader for the file's suffix."""

from __future__ import annotations

from branchrank.corpus.document import ENTRY_SUFFIX, Document
from branchrank.errors import CorpusError

RST_SUFFIXES = (".rst", ".rst.inc", ".txt")
MARKDOWN_SUFFIXES = (".md", ".mdx")
SUFFIXES = (*RST_SUFFIXES, *MARKDOWN_SUFFIXES, ENTRY_SUFFIX)


def is_document(source: str) -> bool:
    """Return whether BranchRank has a reader for the suffix of ``source``."""
    return source.lower().endswith(SUFFIXES)


def read_document(source: str, content: bytes) -> Document:
    """Parse ``content``, the bytes of the file ``source`` (a path relative to the corpus, with ``/``).

    Malformed markup is read as plain text, with a note in the document, and never raises an exception. Raises
    :class:`CorpusError` if there is no reader for the suffix of ``source``.
    """
    name = source.lower()
    if name.endswith(RST_SUFFIXES):
        from branchrank.corpus.rst import read_rst

        return read_rst(source, content)
    if name.endswith(MARKDOWN_SUFFIXES):
        from branchrank.corpus.markdown import read_markdown

        return read_markdown(source, content)
    if name.endswith(ENTRY_SUFFIX):
        from branchrank.corpus.beir import read_entry

        return read_entry(source, content)
    raise CorpusError(
        f"cannot read the document {source!r}: its suffix is none of {', '.join(SUFFIXES)}",
        remedy="convert the file to Markdown, and give it the suffix .md",
    )
