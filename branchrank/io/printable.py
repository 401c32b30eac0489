"""Make text from documents, file names and command lines safe to print and to encode."""

from __future__ import annotations

import unicodedata

_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
_LINE = str.maketrans({"\n": "\N{REPLACEMENT CHARACTER}", "\t": " "})


def safe(text: str) -> str:
    """Replace every character that is not printable, except newline and tab, with U+FFFD.

    The replaced characters include control characters, escape sequences, bidirectional overrides and
    private-use characters.
    """
    return "".join(
        character
        if character in "\n\t" or unicodedata.category(character) not in _HIDDEN
        else "\N{REPLACEMENT CHARACTER}"
        for character in text
    )


def safe_line(text: str) -> str:
    """Replace the characters that :func:`safe` replaces, and also newlines and tabs."""
    return safe(text).translate(_LINE)


def encodable(text: str) -> str:
    """Replace each lone surrogate (from an undecodable command-line argument) with ``?``."""
    return text.encode("utf-8", "replace").decode("utf-8")
