"""``fts5``: keyword search in the SQLite file of the index."""

from __future__ import annotations

from branchrank.records import Scored
from branchrank.systems.branches.protocol import BranchKind, BranchResult, Lookup, Opening, Search


class Fts5Kind(BranchKind):
    """SQLite FTS5 over the chunks. Scores lie in 0..1, exact matches first."""

    name = "fts5"

    def open(self, opening: Opening) -> Search:
        """Open the file of the index, made on first use."""
        from branchrank.index.sqlite_index import open_fts5

        table = open_fts5(opening.index)
        opening.resources.callback(table.close)

        def search(lookup: Lookup) -> BranchResult:
            matches = table.matches(lookup.query.keywords.strip() or lookup.query.text, lookup.n)
            return BranchResult(
                [Scored(match.key, match.score) for match in matches],
                notes={match.key: match.note for match in matches},
            )

        return search


FTS5 = Fts5Kind()
