"""Parse files of plain text: one block per paragraph, and no headings."""

from __future__ import annotations

from branchrank.documents.document import ENTRY_SUFFIX, Block, Findings, Reader, plain_blocks


def read_text(source: str, lines: list[str]) -> Findings:
    """Read a file of plain text. The first line of a ``.beir`` file is the title."""
    found = Findings()
    if not source.lower().endswith(ENTRY_SUFFIX):
        found.blocks = plain_blocks(lines)
        return found
    found.title = " ".join(lines[0].split())
    found.blocks = plain_blocks(["", *lines[1:]])
    if found.title and not found.blocks:
        found.blocks = [Block(kind="prose", text=found.title, line_start=1, line_end=1)]
        found.title = ""
    return found


READER = Reader(read_text)
