"""The branch kind ``bm25``, which ranks chunks or sections by BM25."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from branchrank.systems.branches.protocol import BranchKind, BranchResult, Lookup, Opening, Scores, Search


class Bm25Kind(BranchKind):
    """BM25 with the workspace's analyzer and weights."""

    name = "bm25"
    units = ("chunk", "node")
    ranks_by = "words"
    scale = "open"
    shows_unit = True

    def open(self, opening: Opening) -> Search:
        """Return the search function. The BM25 indexes are read on first use."""
        index = opening.index

        def search(lookup: Lookup) -> BranchResult:
            bm25 = index.bm25_nodes if lookup.branch.unit == "node" else index.bm25_chunks
            return BranchResult(bm25.search(lookup.query.text, lookup.n))

        return search

    def open_scores(self, opening: Opening) -> Scores:
        """Return a function that scores any chunk or section by BM25."""

        def scores(lookup: Lookup, keys: Sequence[str]) -> Mapping[str, float]:
            text = lookup.query.text
            if lookup.branch.unit == "chunk":
                return lookup.sources.bm25_scores(text, keys)
            own = lookup.sources.own_scores(text)
            return {key: own[key] for key in keys if key in own}

        return scores


BM25 = Bm25Kind()
