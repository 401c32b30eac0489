"""``bm25``: BM25 over the chunks, or over the sections' own texts."""

from __future__ import annotations

from branchrank.systems.branches.protocol import BranchKind, BranchResult, Lookup, Opening, Search


class Bm25Kind(BranchKind):
    """BM25 with the workspace's analyzer and weights."""

    name = "bm25"
    units = ("chunk", "node")
    ranks_by = "words"
    shows_unit = True

    def open(self, opening: Opening) -> Search:
        """Return the search; the two BM25 indexes are read when they are first asked."""
        index = opening.index

        def search(lookup: Lookup) -> BranchResult:
            bm25 = index.bm25_nodes if lookup.branch.unit == "node" else index.bm25_chunks
            return BranchResult(bm25.search(lookup.query.text, lookup.n))

        return search


BM25 = Bm25Kind()
