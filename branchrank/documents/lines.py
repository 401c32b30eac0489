"""Split text into lines, normalize text for quotes, and collect headings and blocks that share lines.

All parsers use this module, so their line numbers agree.

A line ends at ``\n``, as in grep, sed and editors. A ``\r`` before the ``\n`` is dropped, and a line break
at the end of the file does not start another line. An empty file has one line, which is empty.

Normalized text has no differences in case, markup and layout.

In Markdown, a paragraph starts on a line of its own. In HTML and in notebooks, a line can contain the end of
one paragraph, a heading and the start of another paragraph (:class:`SharedLines`).

1. Text on the last line of the previous heading or block is added to this heading or block. Its other lines
   form a block of their own.
2. A heading that starts on a line of the previous heading or block is read as text, so the section that owns
   the line keeps it. A note counts such headings.
3. If text follows a heading on the heading's last line, the heading and the text become one block.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from branchrank.documents.document import Block, BlockKind, Findings, Heading


def names_in(text: str) -> frozenset[str]:
    """Return the names in a text, which are separated by spaces."""
    return frozenset(text.split())


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


@dataclass
class _Piece:
    """A heading or block. ``texts`` contains, for each line from ``first``, the parts of its text."""

    kind: BlockKind
    first: int
    texts: list[list[str]]
    heading: Heading | None

    @property
    def last(self) -> int:
        return self.first + len(self.texts) - 1


class SharedLines(Findings):
    """Findings that are given line by line. Call :meth:`finish` after the last line."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[_Piece] = []
        self._joined: list[int] = []

    def add(self, kind: BlockKind, lines: Mapping[int, str], heading: Heading | None = None) -> None:
        """Add a block, or the heading with these lines. ``lines`` maps line numbers, ascending, to texts.

        The lines must not be before those that were added earlier. Lines without text can be omitted.
        """
        lines = {number: text for number, text in lines.items() if text.strip()}
        if not lines:
            return
        owned = self.owned
        if heading is not None and next(iter(lines)) <= owned:
            self._joined.append(next(iter(lines)))
            heading = None
        if text := lines.pop(owned, ""):
            self._pieces[-1].texts[-1].append(text)
        if lines:
            first, last = min(lines), max(lines)
            texts = [[lines.get(number, "")] for number in range(first, last + 1)]
            self._pieces.append(_Piece(kind, first, texts, heading))

    @property
    def owned(self) -> int:
        """The last line of the last heading or block, or 0."""
        return self._pieces[-1].last if self._pieces else 0

    def finish(self) -> None:
        """Turn everything that was added into headings and blocks."""
        for piece in self._pieces:
            texts = [" ".join(parts) for parts in piece.texts]
            if piece.heading is None or len(piece.texts[-1]) > 1:
                block = Block(
                    kind=piece.kind, text="\n".join(texts), line_start=piece.first, line_end=piece.last
                )
                self.blocks.append(block)
            if piece.heading is not None:
                in_text = len(piece.texts[-1]) > 1
                self.headings.append(piece.heading._replace(line_end=piece.last, in_text=in_text))
        self.notes += joined_note(self._joined)


def joined_note(lines: Sequence[int], what: str = "heading") -> list[str]:
    """Return the note about the headings that start on these lines of another section, if there are any."""
    if not lines:
        return []
    count = f"1 {what} starts" if len(lines) == 1 else f"{len(lines)} {what}s start"
    return [f"line {lines[0]}: {count} on a line of another section, which keeps the line"]
