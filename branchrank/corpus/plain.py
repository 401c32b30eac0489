"""The plainest reading of a file: one section, a block per paragraph. A reader's last resort."""

from __future__ import annotations

from branchrank.corpus.document import Block
from branchrank.corpus.sections import Heading


def plain_blocks(lines: list[str], headings: list[Heading] | None = None) -> list[Block]:
    """Runs of lines that aren't blank, word for word, leaving out the lines of ``headings``."""
    taken = {
        number for heading in headings or () for number in range(heading.line_start, heading.line_end + 1)
    }
    blocks: list[Block] = []
    run: list[str] = []
    for number, line in enumerate([*lines, ""], start=1):
        if line.strip() and number not in taken:
            run.append(line)
        elif run:
            text = "\n".join(run)
            blocks.append(Block(kind="prose", text=text, line_start=number - len(run), line_end=number - 1))
            run = []
    return blocks
