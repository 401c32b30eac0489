"""The branch kind ``fts5``, a keyword search in the SQLite file of the index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from branchrank.records import Scored
from branchrank.systems.branches.protocol import BranchKind, BranchResult, Lookup, Opening, Scores, Search

if TYPE_CHECKING:
    from branchrank.stores.sqlite_fts5 import Fts5Table


class Fts5Kind(BranchKind):
    """A search of the chunks with SQLite FTS5. Scores are in 0..1, and exact matches come first."""

    name = "fts5"
    scale = "open"

    def open(self, opening: Opening) -> Search:
        """Open the SQLite file of the index. The file is created on first use."""
        table = _table(opening)

        def search(lookup: Lookup) -> BranchResult:
            matches = table.matches(_words(lookup), lookup.n)
            return BranchResult(
                [Scored(match.key, match.score) for match in matches],
                notes={match.key: match.note for match in matches},
            )

        return search

    def open_scores(self, opening: Opening) -> Scores:
        """Return a function that scores candidates with FTS5's BM25.

        Score fusion does not use the scores of the search, because all good matches have scores close to 1.
        """
        table = _table(opening)
        return lambda lookup, keys: table.bm25(_words(lookup), keys)


def _table(opening: Opening) -> Fts5Table:
    return opening.shared("fts5 table", lambda: _opened(opening))


def _opened(opening: Opening) -> Fts5Table:
    from branchrank.index.sqlite_index import open_fts5

    table = open_fts5(opening.index)
    opening.resources.callback(table.close)
    return table


def _words(lookup: Lookup) -> str:
    return lookup.query.keywords.strip() or lookup.query.text


FTS5 = Fts5Kind()
