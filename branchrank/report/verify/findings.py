"""The findings from a verification, and functions that compare stored files with recomputed ones."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO
from itertools import zip_longest
from pathlib import Path

from branchrank.io.files import read_beneath
from branchrank.records import Record

#: The maximum number of differences listed for one file; other differences are only counted.
SHOWN = 5


class Finding(Record, frozen=True, kw_only=True):
    """A problem in ``file`` at ``place`` (such as a row or a line)."""

    file: str
    place: str
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.file, self.place, self.message) if part)


def read_text(path: Path) -> str | None:
    """Return a file's text with invalid bytes replaced, or ``None`` if the file is missing.

    Symbolic links, pipes and folders count as missing files, because a run from another person could contain
    a link to a private file, and a finding would quote that file.
    """
    try:
        return read_beneath(path.parent, path.name).decode("utf-8", errors="replace")
    except OSError:
        return None


def compare_csv(name: str, found: str | None, expected: str) -> list[Finding]:
    """Return a finding with line and column for each CSV cell that differs from the recomputed cell."""
    if found is None:
        return [Finding(file=name, place="", message="is missing")]
    if found == expected:
        return []
    try:
        theirs, ours = list(csv.reader(StringIO(found))), list(csv.reader(StringIO(expected)))
    except csv.Error as error:
        return [Finding(file=name, place="", message=f"can't be compared as CSV ({error})")]
    if theirs[:1] != ours[:1]:
        return [Finding(file=name, place="line 1", message=_other_columns(theirs[:1], ours[0]))]
    if len(theirs) != len(ours):
        return [Finding(file=name, place="", message=f"has {len(theirs)} lines, should have {len(ours)}")]
    findings = []
    for number, (their, our) in enumerate(zip(theirs, ours, strict=True), start=1):
        for heading, their_cell, our_cell in zip_longest(ours[0], their, our, fillvalue=""):
            if their_cell != our_cell:
                place = f"line {number} ({our[0]}), column {heading}"
                message = f"is {their_cell!r}, should be {our_cell!r}"
                findings.append(Finding(file=name, place=place, message=message))
    return some(name, findings) or [
        Finding(
            file=name, place="", message="has the same values, but not the format that this version writes"
        )
    ]


def _other_columns(header: list[list[str]], ours: list[str]) -> str:
    theirs = header[0] if header else []
    lacks = [column for column in ours if column not in theirs]
    extra = [column for column in theirs if column not in ours]
    parts = ([f"lacks {', '.join(lacks)}"] if lacks else []) + ([f"has {', '.join(extra)}"] if extra else [])
    return (
        f"has columns that differ from those of this version ({'; '.join(parts) or 'in another order'}); if "
        "an older version made the run, use `branchrank report RUN` to regenerate its tables and reports"
    )


def compare_lines(name: str, found: str | None, expected: str) -> list[Finding]:
    """Return a finding for each line that differs from the recomputed line, with the first difference."""
    if found is None:
        return [Finding(file=name, place="", message="is missing")]
    if found == expected:
        return []
    theirs, ours = found.split("\n"), expected.split("\n")
    findings = []
    if len(theirs) != len(ours):
        message = f"has {len(theirs)} lines, should have {len(ours)}"
        findings.append(Finding(file=name, place="", message=message))
    for number, (their, our) in enumerate(zip(theirs, ours, strict=False), start=1):
        if their != our:
            findings.append(_line_finding(name, number, their, our))
            if len(theirs) != len(ours):
                break
    return some(name, findings)


def _line_finding(name: str, number: int, their: str, our: str) -> Finding:
    if their.startswith("| ") and our.startswith("| "):
        cells = zip_longest(their.split(" | "), our.split(" | "), fillvalue="")
        column, (is_cell, should) = next(
            (column, pair) for column, pair in enumerate(cells, start=1) if pair[0] != pair[1]
        )
        row = our.removeprefix("| ").split(" | ")[0]
        message = f"is {is_cell!r}, should be {should!r}"
        return Finding(file=name, place=f"line {number} ({row}), column {column}", message=message)
    start = next((i for i, (a, b) in enumerate(zip_longest(their, our)) if a != b), 0)
    cut = slice(max(0, start - 20), start + 20)
    message = f"is {their[cut]!r}, should be {our[cut]!r}"
    return Finding(file=name, place=f"line {number}, character {start + 1}", message=message)


def some(name: str, findings: Sequence[Finding]) -> list[Finding]:
    """Return the first findings about a file, followed by one that counts the remaining findings."""
    more = len(findings) - SHOWN
    if more <= 0:
        return list(findings)
    return [*findings[:SHOWN], Finding(file=name, place="", message=f"and {more} more differences")]
