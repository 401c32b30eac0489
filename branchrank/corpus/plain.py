"""The plainest reading of lines: a block per paragraph, word for word. A reader's last resort."""

from __future__ import annotations

from branchrank.corpus.document import Block


def plain_blocks(lines: list[str]) -> list[Block]:
    """Runs of lines that aren't blank; the first of ``lines`` is line 1."""
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
