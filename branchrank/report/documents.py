"""The document text in ``report.html``: the hits and the gold, with two lines of context before and after.

Document text is read from the corpus when the report is written, and only if the corpus has not changed since
the run. A report without document text shows only the files and line numbers of hits and gold.
"""

from __future__ import annotations

from pathlib import Path

from branchrank.corpus.lines import decode, split_lines
from branchrank.io.files import read_beneath
from branchrank.io.printable import safe
from branchrank.runs.run import RunData

#: The maximum number of hits per answer that are shown with their text.
SHOWN_HITS = 5
#: The number of lines shown before and after a passage.
AROUND = 2
#: The maximum number of lines that are shown for one passage.
LONGEST = 200

#: Maps each source file to its blocks of consecutive lines. A block consists of the number of its first line
#: and the text of its lines.
Passages = dict[str, list[tuple[int, list[str]]]]


def gather_passages(run: RunData, root: Path) -> Passages:
    """Return the lines that the report shows, read from the corpus in the folder ``root``."""
    wanted: dict[str, set[int]] = {}

    def want(source: str, start: int, end: int) -> None:
        last = min(end, start + LONGEST - 1)
        wanted.setdefault(source, set()).update(range(max(1, start - AROUND), last + AROUND + 1))

    for row in run.rows:
        for hit in row.hits[:SHOWN_HITS]:
            want(hit.source, hit.line_start, hit.line_end)
    for question in run.asked:
        for item in question.gold:
            if item.span is not None:
                want(item.source_file, item.span.line_start, item.span.line_end)
    passages: Passages = {}
    for source in sorted(wanted):
        try:
            lines = split_lines(decode(read_beneath(root, source))[0])
        except OSError:
            continue
        passages[source] = _runs(lines, wanted[source])
    return passages


def _runs(lines: list[str], wanted: set[int]) -> list[tuple[int, list[str]]]:
    runs: list[tuple[int, list[str]]] = []
    for number in sorted(wanted):
        if number > len(lines):
            break
        text = safe(lines[number - 1])
        if runs and number == runs[-1][0] + len(runs[-1][1]):
            runs[-1][1].append(text)
        else:
            runs.append((number, [text]))
    return runs
