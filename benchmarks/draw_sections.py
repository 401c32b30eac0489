"""Draw sections of a corpus to write questions about, before any system has run on them.

    python benchmarks/draw_sections.py data/sample/corpus --questions 257 --most 12

Each page gets draws in proportion to its words, at least one and at most ``--most``. Within a page, the draws
are evenly spaced over the words of its sections from a random start, so a section gets draws in proportion to
its words. Only sections with at least two lines of content below their heading count. Each line of the output
is a draw: the line to start reading from, and the section's title.
"""

from __future__ import annotations

import argparse
import random
import re
from itertools import accumulate
from pathlib import Path

from branchrank.documents.loading import load_corpus
from branchrank.documents.tree_build import build_nodes


def content(root: Path) -> dict[str, list[tuple[int, int, str]]]:
    """Return the lines with content of each page as (line, words, section title)."""
    pages: dict[str, list[tuple[int, int, str]]] = {}
    nodes, _ = build_nodes(load_corpus(root).documents, "")
    for node in nodes:
        if node.line_start is None or node.own_line_end is None:
            continue
        text = (root / node.source).read_text(encoding="utf-8").splitlines()
        numbers = range(node.line_start + 1, node.own_line_end + 1)
        lines = [(number, len(re.findall(r"\w+", text[number - 1])), node.title) for number in numbers]
        lines = [line for line in lines if line[1]]
        if len(lines) > 1:
            pages.setdefault(node.source, []).extend(lines)
    return pages


def shares(words: dict[str, int], total: int, most: int) -> dict[str, int]:
    """Divide ``total`` draws among the pages. The next draw goes to the page with the most words per draw."""
    drawn = dict.fromkeys(words, 1)
    while sum(drawn.values()) < total:
        open_pages = [page for page in words if drawn[page] < most]
        drawn[max(open_pages, key=lambda page: words[page] / (drawn[page] + 0.5))] += 1
    return drawn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--questions", type=int, required=True)
    parser.add_argument("--most", type=int, default=12)
    parser.add_argument("--seed", type=int, default=42)
    arguments = parser.parse_args()
    pages = content(arguments.corpus)
    words = {page: sum(count for _, count, _ in lines) for page, lines in pages.items()}
    draw = random.Random(arguments.seed)
    for page, count in sorted(shares(words, arguments.questions, arguments.most).items()):
        until = list(accumulate(line[1] for line in pages[page]))
        step = words[page] / count
        start = draw.random() * step
        for number in range(count):
            line = pages[page][next(at for at, end in enumerate(until) if end > start + number * step)]
            print(f"{page}:{line[0]}\t{line[2]}")


if __name__ == "__main__":
    main()
