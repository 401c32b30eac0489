"""Collect the headings and blocks of formats in which several of them can be on the same line.

In Markdown, a paragraph starts on a line of its own. In HTML and in notebooks, a line can contain the end of
one paragraph, a heading and the start of another paragraph.

1. Text on the last line of the previous heading or block is added to this heading or block. Its other lines
   form a block of their own.
2. A heading that starts on a line of the previous heading or block is read as text, so the section that owns
   the line keeps it. A note counts such headings.
3. If text follows a heading on the heading's last line, the heading and the text become one block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from branchrank.documents.document import Block, BlockKind, Findings, Heading


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
