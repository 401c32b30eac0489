"""Text from documents, file names and command lines made safe to show and to encode."""

from __future__ import annotations

import unicodedata

_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
_LINE = str.maketrans({"\n": "\N{REPLACEMENT CHARACTER}", "\t": " "})


def safe(text: str) -> str:
    """Text with everything but printable characters, newline and tab replaced.

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
    """Safe text that can't begin a line of its own, for names."""
    return safe(text).translate(_LINE)


def encodable(text: str) -> str:
    """``text`` with each lone surrogate (from an undecodable argument) replaced by ``?``."""
    return text.encode("utf-8", "replace").decode("utf-8")
