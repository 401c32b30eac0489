"""Text from documents, file names and command lines made safe to show and to encode."""

from __future__ import annotations

import unicodedata

_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
_LINE = str.maketrans({"\n": "\N{REPLACEMENT CHARACTER}", "\t": " "})


def safe(text: str) -> str:
    """Replace every character of a text except printable characters, newline and tab.

    Control characters, escape sequences, bidirectional overrides and private-use characters can reach
    neither a terminal nor a report.
    """
    return "".join(
        character
        if character in "\n\t" or unicodedata.category(character) not in _HIDDEN
        else "\N{REPLACEMENT CHARACTER}"
        for character in text
    )


def safe_line(text: str) -> str:
    """Make a name safe to show: like :func:`safe`, without newlines, so that it can't start a new line."""
    return safe(text).translate(_LINE)


def encodable(text: str) -> str:
    """``text`` with each lone surrogate (from an undecodable argument) replaced by ``?``."""
    return text.encode("utf-8", "replace").decode("utf-8")
