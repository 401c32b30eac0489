"""Read lines as plain text, with one block per paragraph, for files whose markup can't be parsed."""

from __future__ import annotations

from branchrank.corpus.document import Block


def plain_blocks(lines: list[str]) -> list[Block]:
    """Return one block for each run of non-blank lines. The first line has line number 1."""
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
