"""Parse one file's bytes into a :class:`Document` with the reader for its suffix."""

from __future__ import annotations

from branchrank.corpus.document import ENTRY_SUFFIX, Document
from branchrank.errors import CorpusError

RST_SUFFIXES = (".rst", ".rst.inc", ".txt")
MARKDOWN_SUFFIXES = (".md", ".mdx")
SUFFIXES = (*RST_SUFFIXES, *MARKDOWN_SUFFIXES, ENTRY_SUFFIX)


def is_document(source: str) -> bool:
    """Whether a reader exists for a file of this name."""
    return source.lower().endswith(SUFFIXES)


def read_document(source: str, content: bytes) -> Document:
    """Read the file ``source`` (relative to its corpus, with ``/``), whatever it contains.

    Malformed markup is read as plainer text, with a note in the document; it never raises an exception.

    Raises:
        CorpusError: there is no reader for the suffix.
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
        f"no reader for {source!r}; there are readers for {', '.join(SUFFIXES)}",
        remedy="leave the file out, or rename it",
    )
