"""The branch kinds that search the index itself: ``dense``, ``bm25`` and ``fts5``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from branchrank.core.records import Scored
from branchrank.index.reader import Index
from branchrank.index.stores.vectors import squared_distance
from branchrank.search.systems.branches import BranchKind, BranchResult, Lookup, Opening, Scores, Search
from branchrank.search.systems.system_checks import depth

if TYPE_CHECKING:
    from branchrank.index.stores.sqlite_fts5 import Fts5Table


class DenseKind(BranchKind):
    """A search for the chunks whose vectors are nearest to the query's vector, by cosine similarity.

    ``threshold`` is a squared L2 distance. Chunks at or beyond this distance are dropped.
    """

    name = "dense"
    needs_vector = True
    ranks_by = "vectors"
    scale = "cosine"
    shows_unit = True

    def open(self, opening: Opening) -> Search:
        """Open the vector store and the embedding model."""
        index = opening.index
        vectors, _ = index.vectors, index.embedder

        def search(lookup: Lookup) -> BranchResult:
            found: Sequence[Scored] = vectors.search(lookup.sources.embedding(lookup.query.text), lookup.n)
            asked = lookup.branch.threshold
            if asked is None:
                return BranchResult(found)
            threshold = index.manifest.distance.threshold if asked == "calibrated" else asked
            admits = lookup.sources.admits("chunk", lookup.query)
            found = [entry for entry in found if admits(entry.key)][: depth(lookup.branch, lookup.asked.k)]
            near = [entry for entry in found if squared_distance(entry.score) < threshold]
            calibrated = _calibrated(index) if asked == "calibrated" else ()
            return BranchResult(near, notices=(*calibrated, *_below(found, near, threshold)))

        return search

    def open_scores(self, opening: Opening) -> Scores:
        """Return a function that scores chunks by cosine similarity, without the distance threshold."""
        return lambda lookup, keys: lookup.sources.cosines(lookup.query.text, keys)


def _calibrated(index: Index) -> tuple[str, ...]:
    """Return the notice about the index's calibrated threshold, or ``()`` if the index uses the default."""
    words = index.manifest.distance.words
    return (words,) if words else ()


def _below(found: Sequence[Scored], near: Sequence[Scored], threshold: float) -> tuple[str, ...]:
    """Return a notice with the number of candidates below the threshold, or ``()`` without candidates."""
    if not found:
        return ()
    notice = f"{len(near)} of {len(found)} candidates are below the distance threshold {threshold:g}"
    if not near:
        nearest = squared_distance(found[0].score)
        notice += f" (the smallest distance is {nearest:.3f}); see `branchrank calibrate`"
    return (notice,)


class Bm25Kind(BranchKind):
    """A ranking of chunks or sections by BM25, with the workspace's analyzer and weights."""

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
            return lookup.sources.own_scores(text, keys)

        return scores


class Fts5Kind(BranchKind):
    """A search of the chunks with SQLite FTS5. Scores are in 0..1, and exact matches come first."""

    name = "fts5"
    scale = "open"

    def open(self, opening: Opening) -> Search:
        """Open the SQLite file of the index. The file is created on first use."""
        table = _table(opening)

        def search(lookup: Lookup) -> BranchResult:
            matches = table.matches(lookup.query.words, lookup.n)
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
        return lambda lookup, keys: table.bm25(lookup.query.words, keys)


def _table(opening: Opening) -> Fts5Table:
    return opening.shared("fts5 table", lambda: _opened(opening))


def _opened(opening: Opening) -> Fts5Table:
    table = opening.index.open_fts5()
    opening.resources.callback(table.close)
    return table


DENSE = DenseKind()
BM25 = Bm25Kind()
FTS5 = Fts5Kind()
