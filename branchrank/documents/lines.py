"""Split text into lines, find the lines without content, and normalize text for quotes.

All parsers use this module, so their line numbers agree.

A line ends at ``\n``, as in grep, sed and editors. A ``\r`` before the ``\n`` is dropped, and a line break
at the end of the file does not start another line. An empty file has one line, which is empty.

Normalized text has no differences in case, markup and layout.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple


def split_lines(text: str) -> list[str]:
    """Return the lines of ``text`` without their line breaks. There is always at least one line."""
    lines = text.split("\n")
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


#: A ``data:`` URI, or a run of characters that could be Base64.
_ENCODED = re.compile(
    r"(data:[\w.+/-]++(?:;[\w=.+-]++)*+,)[^\s\"'<>()\[\]]{200,}+|(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{201,}+=*+"
)


def without_encoded_data(line: str) -> str:
    """Remove the data of long ``data:`` URIs, and runs of more than 200 characters that look like Base64."""
    return line if len(line) < 200 else _ENCODED.sub(_kept, line)


def _kept(run: re.Match[str]) -> str:
    looks_random = all(re.search(kind, run[0]) for kind in ("[a-z]", "[A-Z]", "[0-9]"))
    separators = sum(map(run[0].count, "+/_-"))
    return run[1] or ("" if looks_random and separators * 10 < len(run[0]) else run[0])


#: A stripped line that is only a delimiter: of code in Markdown (also in JSON), reStructuredText and
#: AsciiDoc; of a section, table or directive; or of a comment or docstring.
_DELIMITER = re.compile(
    r"""(?x) "?(?:`{3,}|~~~|:::) [^`]* | \.\.[ ](?:code|code-block|sourcecode):: .* | \[source\b[^\]]*\]
    | [-=+|:\ \t]* | ([~^*_.\#"'`])\1{2,} | \.\. | "\\n",?
    | [rR]?(?:\"{3}|'{3}) | \#+:? | //+!? | /\*+!? | \*+/ | \* | <!-{2,} | -{2,}!?>
    """
)


def blank_lines(lines: Iterable[str], first: int = 1) -> tuple[int, ...]:
    """Return the numbers of the lines without content. ``first`` is the number of the first line.

    A line has no content if it is only whitespace, a code fence, a rule or a comment delimiter, also after
    the ``>`` of a quotation.

    >>> blank_lines(["Call it:", "", "```python", "run()", "```"])
    (2, 3, 5)
    """
    stripped = (line.strip().lstrip("> \t") for line in lines)
    return tuple(number for number, line in enumerate(stripped, first) if _DELIMITER.fullmatch(line))


_MARKUP = str.maketrans("", "", "*_`~#|\\\u00ad\u200b\u2060\ufeff")


def normalize(text: str) -> str:
    r"""Normalize text, so that comparisons ignore differences in case, whitespace and markup.

    The text is converted to the Unicode form NFKC and to lower case. The markup characters ``* _ ` ~ # | \``
    and soft hyphens are deleted, and each run of whitespace becomes one space.
    """
    return " ".join(unicodedata.normalize("NFKC", text).casefold().translate(_MARKUP).split())


class NormalizedLines(NamedTuple):
    """The normalized lines of a file, joined by spaces.

    Line number ``numbers[i]`` of the file starts at the offset ``starts[i]`` of ``text``. Lines that are
    empty after normalization are skipped.
    """

    text: str
    starts: list[int]
    numbers: list[int]

    @classmethod
    def of(cls, lines: Sequence[str]) -> NormalizedLines:
        """Normalize the lines of a file. Line numbers start at 1."""
        words: list[str] = []
        starts: list[int] = []
        numbers: list[int] = []
        offset = 0
        for number, line in enumerate(lines, start=1):
            if normalized := normalize(line):
                words.append(normalized)
                starts.append(offset)
                numbers.append(number)
                offset += len(normalized) + 1
        return cls(" ".join(words), starts, numbers)

    def quoted(self, quote: str) -> list[tuple[int, int]]:
        """Return the first and last line number of every occurrence of ``quote``.

        ``quote`` must be normalized and not empty.
        """
        places: list[tuple[int, int]] = []
        start = self.text.find(quote)
        while start >= 0:
            places.append((self._line(start), self._line(start + len(quote) - 1)))
            start = self.text.find(quote, start + 1)
        return places

    def _line(self, offset: int) -> int:
        return self.numbers[bisect_right(self.starts, offset) - 1]
