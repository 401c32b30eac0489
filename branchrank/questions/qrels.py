"""Relevance judgements: TREC qrels and those of BEIR folders."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from branchrank.errors import InputError

#: Query id -> document id -> relevance.
Qrels = dict[str, dict[str, int]]


_ORDER = "The order is: branchrank score-trec RUN QRELS, but branchrank compare-trec QRELS RUN"
#: (Columns expected, columns found) -> the likely mistake.
_OTHER_KIND = {
    (4, 6): f"this looks like a run, not like qrels. {_ORDER}",
    (6, 4): f"these look like qrels, not like a run. {_ORDER}",
}


def read_qrels(path: Path) -> Qrels:
    """Read TREC qrels, or those of a BEIR folder (``.tsv`` with a header), by query.

    Raises :class:`InputError` naming a line that is neither, or that judges a document twice.
    """
    qrels: defaultdict[str, dict[str, int]] = defaultdict(dict)
    beir = path.suffix == ".tsv"
    expected = "`query document relevance`" if beir else "`query 0 document relevance`"
    for number, columns in columns_of(path, 3 if beir else 4, expected):
        query, document, text = columns[0], *columns[-2:]
        if beir and number == 1 and not text.lstrip("-").isdecimal():
            continue
        if document in qrels[query]:
            raise InputError(f"{path}:{number}: {document!r} is judged twice for the query {query!r}")
        qrels[query][document] = int(number_of(text, f"{path}:{number}", whole=True))
    if not qrels:
        raise InputError(f"{path} judges nothing", remedy="give a qrels file")
    return dict(qrels)


def columns_of(path: Path, count: int, expected: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the columns of each line of a TREC or TSV file. Raises :class:`InputError`."""
    try:
        with path.open(encoding="utf-8") as stream:
            for number, line in enumerate(stream, start=1):
                columns = line.split("\t") if path.suffix == ".tsv" else line.split()
                if not line.strip():
                    continue
                if len(columns) != count:
                    raise InputError(
                        f"{path}:{number}: {len(columns)} columns; a line is {expected}",
                        remedy=_OTHER_KIND.get((count, len(columns)), ""),
                    )
                yield number, [column.strip() for column in columns]
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}", remedy="check the path") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text: {error.reason}") from None


def number_of(text: str, place: str, *, whole: bool = False) -> float:
    """Read a finite number. Raises :class:`InputError` that names ``place``."""
    try:
        value = int(text) if whole else float(text)
        if math.isfinite(value):
            return value
    except (ValueError, OverflowError):  # a whole number of 400 digits is too large for a float
        pass
    raise InputError(f"{place}: {text!r} is not a {'whole ' if whole else ''}number")
