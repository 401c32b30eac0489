"""The branch kind ``dense``, which finds the chunks nearest to the query's vector by cosine similarity."""

from __future__ import annotations

from collections.abc import Sequence

from branchrank.index import Index
from branchrank.records import Scored
from branchrank.stores.vectors import squared_distance
from branchrank.systems.branches.protocol import BranchKind, BranchResult, Lookup, Opening, Scores, Search


class DenseKind(BranchKind):
    """A search for the nearest vectors in the index's vector store.

    ``threshold`` is a squared L2 distance. Chunks at or beyond this distance are dropped.
    """

    name = "dense"
    needs_vector = True
    ranks_by = "vectors"
    scale = "fixed"
    shows_unit = True
    fills = True

    def open(self, opening: Opening) -> Search:
        """Open the vector store and the embedding model."""
        index = opening.index
        vectors, _ = index.vectors, index.embedder

        def search(lookup: Lookup) -> BranchResult:
            found = vectors.search(lookup.sources.embedding(lookup.query.text), lookup.n)
            asked = lookup.branch.threshold
            if asked is None:
                return BranchResult(found)
            threshold = index.manifest.distance.threshold if asked == "calibrated" else asked
            admits = lookup.sources.admits("chunk", lookup.query)
            found = [entry for entry in found if admits(entry.key)]
            near = [entry for entry in found if squared_distance(entry.score) < threshold]
            calibrated = _calibrated(index) if asked == "calibrated" else ()
            return BranchResult(near, notices=(*calibrated, *_dropped(found, near, threshold)))

        return search

    def open_scores(self, opening: Opening) -> Scores:
        """Return a function that scores chunks by cosine similarity, without the distance threshold."""
        return lambda lookup, keys: lookup.sources.cosines(lookup.query.text, keys)


def _calibrated(index: Index) -> tuple[str, ...]:
    """Return the notice about the index's calibrated threshold, or ``()`` if the index uses the default."""
    words = index.manifest.distance.words
    return (words,) if words else ()


def _dropped(found: Sequence[Scored], near: Sequence[Scored], threshold: float) -> tuple[str, ...]:
    """Return a notice with the number of chunks that the threshold dropped, or ``()`` if there are none."""
    dropped = len(found) - len(near)
    if not dropped:
        return ()
    notice = f"{dropped} of {len(found)} chunks were dropped because their distance is at least {threshold:g}"
    if near:
        return (notice,)
    nearest = squared_distance(found[0].score)
    return (
        f"{notice}: no chunk is left (the smallest distance is {nearest:.3f}); see `branchrank calibrate`",
    )


DENSE = DenseKind()
