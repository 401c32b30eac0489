"""``dense``: the chunks nearest to the query's vector, by cosine similarity."""

from __future__ import annotations

from branchrank.systems.branches.protocol import BranchKind, BranchResult, Lookup, Opening, Scores, Search
from branchrank.systems.sources import squared_distance


class DenseKind(BranchKind):
    """Vector search in the index's store. ``threshold`` drops chunks at or past that squared L2 distance."""

    name = "dense"
    needs_vector = True
    ranks_by = "vectors"
    scale = "fixed"
    shows_unit = True

    def open(self, opening: Opening) -> Search:
        """Open the vector store and the model of the queries."""
        vectors, _ = opening.index.vectors, opening.index.embedder

        def search(lookup: Lookup) -> BranchResult:
            found = vectors.search(lookup.sources.embedding(lookup.query.text), lookup.n)
            threshold = lookup.branch.threshold
            if threshold is None:
                return BranchResult(found)
            near = [entry for entry in found if squared_distance(entry.score) < threshold]
            dropped = len(found) - len(near)
            notice = f"{dropped} of {len(found)} chunks dropped at or past distance {threshold:g}"
            return BranchResult(near, notices=(notice,) if dropped else ())

        return search

    def open_scores(self, opening: Opening) -> Scores:
        """Every chunk has a cosine, those past the threshold too."""
        return lambda lookup, keys: lookup.sources.cosines(lookup.query.text, keys)


DENSE = DenseKind()
