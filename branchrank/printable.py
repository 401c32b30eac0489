"""Text from documents made safe to show."""

from __future__ import annotations

import unicodedata

_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn")


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
