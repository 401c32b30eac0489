"""Words in every script: the characters of a word, and text in the form in which words are compared.

A word is a run of letters, digits, ``_`` and the marks that belong to letters, such as vowel signs. Soft
hyphens, zero-width characters and all other characters that Unicode ignores by default are not part of a
text's words. In scripts that are written without spaces, such as Han, Kana and Thai, a run of letters has no
visible words, so each pair of letters is a word.
"""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import regex

#: Letters of scripts without spaces: East Asian scripts, and the scripts of Southeast Asia (Thai, Khmer).
UNSPACED = (
    r"[\p{L}&&[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Bopomofo}\p{Yi}\p{Tangut}\p{lb=SA}"
    r"\p{Javanese}\p{Balinese}\p{Tibetan}]]"
)
MARK = r"[\p{Mn}\p{Mc}]"
#: The first character of a word in a script with spaces, and a run of characters of a word.
START = rf"[[\p{{L}}\p{{N}}_]--{UNSPACED}]"
RUN = rf"{START}[[\p{{L}}\p{{N}}\p{{Mn}}\p{{Mc}}_]--{UNSPACED}]*+"
#: A run of letters of scripts without spaces.
UNSPACED_RUN = rf"{UNSPACED}[{UNSPACED}{MARK}]*+"
#: A place that is not inside a word. In a script without spaces, each place is one.
EDGE = rf"(?:(?<!{START}{MARK}*)|(?!{START}|{MARK}))"

_WORDS = regex.compile(r"[\p{L}\p{N}_][\p{L}\p{N}\p{Mn}\p{Mc}_]*+")
_LETTER = regex.compile(rf"{UNSPACED}{MARK}*+", regex.V1)
#: Characters inside words that only say where a line may be broken.
_BREAKS = dict.fromkeys(map(ord, "\u00ad\u200b\u2060\ufeff"))
#: Characters that are not part of a heading's anchor, as on GitHub.
NOT_IN_ANCHOR = regex.compile(r"[^\p{L}\p{N}\p{Mn}\p{Mc}_\- ]|\p{Default_Ignorable_Code_Point}")
_IGNORED = regex.compile(r"\p{Default_Ignorable_Code_Point}+")


def visible(text: str) -> str:
    """Return a text in the Unicode form NFC, without soft hyphens and other characters that are ignored."""
    return text if text.isascii() else unicodedata.normalize("NFC", _IGNORED.sub("", text))


def unhyphenated(text: str) -> str:
    """Return a text to read and to embed, without soft hyphens and zero-width spaces."""
    return text if text.isascii() else text.translate(_BREAKS)


def folded(text: str) -> str:
    """Return a visible text without differences in case. The Turkish dotted and dotless i are an i.

    >>> folded("STRASSE") == folded("Straße"), folded("İstanbul")
    (True, 'istanbul')
    """
    if text.isascii():
        return text.lower()
    return visible(visible(text).casefold()).replace("i\u0307", "i").replace("ı", "i")


def title_words(title: str) -> list[str]:
    """Return the words of a title. The words of scripts without spaces are not separated.

    >>> title_words("हिन्दी में C++")
    ['हिन्दी', 'में', 'C']
    """
    words: list[str] = _WORDS.findall(visible(title))
    return words


def letters_of(run: str) -> list[str]:
    """Return the letters of a run, each with its marks."""
    letters: list[str] = _LETTER.findall(run)
    return letters


def pairs_of(run: str) -> list[str]:
    """Return each pair of letters in a run of a script without spaces, or the run if it is one letter."""
    letters = letters_of(run)
    return [first + second for first, second in pairwise(letters)] or letters
