"""Split the bytes of a file into lines. Every reader uses this definition of a line number.

A line ends at ``\\n``, as in grep, sed and editors. A ``\\r`` before it is dropped, and a line break at the
end of the file does not start another line. An empty file has one empty line, so that it has a section.
"""

from __future__ import annotations

import codecs


def decode(content: bytes) -> tuple[str, tuple[str, ...]]:
    """Decode a file's bytes. Returns the text, and notes on bytes that are not valid text.

    A file that is not UTF-8 is read as Latin-1, which can't fail. NUL bytes are read as spaces.
    """
    content = content.removeprefix(codecs.BOM_UTF8)
    notes: tuple[str, ...] = ()
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        notes = (f"not UTF-8 (byte {error.start + 1}): read as Latin-1",)
        text = content.decode("latin-1")
    if "\0" in text:
        notes += ("NUL bytes: read as spaces",)
    return text.replace("\0", " "), notes


def split_lines(text: str) -> list[str]:
    """The lines of a file without their line ends; at least one."""
    lines = text.split("\n")
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]
