"""Read lines as plain text, one block per paragraph. Readers use this module if a parser fails."""

from __future__ import annotations

from branchrank.corpus.document import Block


def plain_blocks(lines: list[str]) -> list[Block]:
    """Return one block for each run of lines that are not blank. The first of ``lines`` is line 1."""
    blocks: list[Block] = []
    run: list[str] = []
    for number, line in enumerate([*lines, ""], start=1):
        if line.strip():
            run.append(line)
        elif run:
            text = "\n".join(run)
            blocks.append(Block(kind="prose", text=text, line_start=number - len(run), line_end=number - 1))
            run = []
    return blocks
