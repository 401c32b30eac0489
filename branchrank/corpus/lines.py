"""Bytes to lines: the one definition of "line 17 of the raw file" that every reader shares.

A line ends at ``\\n``, as for grep, sed and editors; a ``\\r`` before it is dropped, and a last line
break opens no further line. An empty file counts as one empty line, so that it too has a section.
"""

from __future__ import annotations

import codecs


def decode(content: bytes) -> tuple[str, tuple[str, ...]]:
    """Text of a file, and notes on what is odd in its bytes.

    What isn't UTF-8 is read as Latin-1, which can't fail; NUL bytes are read as spaces.
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
