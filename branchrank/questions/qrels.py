"""Relevance judgments (qrels) in TREC files and BEIR folders."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from branchrank.errors import InputError

#: Maps each query id to a map from document ids to relevance.
Qrels = dict[str, dict[str, int]]


_ORDER = (
    "The two commands take their arguments in different orders: "
    "branchrank score-trec RUN QRELS, compare-trec QRELS RUN"
)
#: Maps the expected and the actual number of columns to the fix that the error suggests.
_OTHER_KIND = {
    (4, 6): f"give a qrels file; this file looks like a run file. {_ORDER}",
    (6, 4): f"give a run file; this file looks like a qrels file. {_ORDER}",
}


def read_qrels(path: Path) -> Qrels:
    """Read qrels in TREC's format. A file with the suffix ``.tsv`` is read in BEIR's format.

    Raises :class:`InputError` with the line number if a line is invalid, or if a query has two judgments for
    the same document.
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
        raise InputError(f"{path} has no judgments", remedy="give a file with qrels")
    return dict(qrels)


def columns_of(path: Path, count: int, expected: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the columns of each line in a TREC or TSV file.

    Raises :class:`InputError` if the file can't be read or a line does not have ``count`` columns.
    """
    try:
        with path.open(encoding="utf-8") as stream:
            for number, line in enumerate(stream, start=1):
                columns = line.split("\t") if path.suffix == ".tsv" else line.split()
                if not line.strip():
                    continue
                if len(columns) != count:
                    raise InputError(
                        f"{path}:{number}: the line has {len(columns)} columns, but must be {expected}",
                        remedy=_OTHER_KIND.get((count, len(columns)), ""),
                    )
                yield number, [column.strip() for column in columns]
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}", remedy="check the path") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text: {error.reason}") from None


def number_of(text: str, place: str, *, whole: bool = False) -> float:
    """Parse a finite number.

    Raises :class:`InputError`, with ``place`` in its message, if the text is not a finite number.
    """
    try:
        value = int(text) if whole else float(text)
        if math.isfinite(value):
            return value
    except (ValueError, OverflowError):  # a number with 400 digits is too large for a float
        pass
    raise InputError(f"{place}: {text!r} is not a {'whole ' if whole else ''}number")
