"""Split the bytes of a file into lines. All parsers use this module, so their line numbers agree.

A line ends at ``\\n``, as in grep, sed and editors. A ``\\r`` before the ``\\n`` is dropped, and a line break
at the end of the file does not start another line. An empty file has one line, which is empty.
"""

from __future__ import annotations

import codecs


def decode(content: bytes) -> tuple[str, tuple[str, ...]]:
    """Decode the bytes of a file. Return the text, and notes about bytes that are not valid text.

    A file that is not valid UTF-8 is read as Latin-1, in which all bytes are valid. NUL bytes are read as
    spaces.
    """
    content = content.removeprefix(codecs.BOM_UTF8)
    notes: tuple[str, ...] = ()
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        notes = (f"read as Latin-1, because byte {error.start + 1} is not valid UTF-8",)
        text = content.decode("latin-1")
    if "\0" in text:
        notes += ("NUL bytes were read as spaces",)
    return text.replace("\0", " "), notes


def split_lines(text: str) -> list[str]:
    """Return the lines of ``text`` without their line breaks. There is always at least one line."""
    lines = text.split("\n")
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]
