"""Vector search with Chroma, in an embedded database in a directory or on a server.

1. A search for ``n`` results requests a few more than ``n`` candidates from Chroma. The scores of the
   candidates are computed from the vectors of the index, so scores and ties are the same as in exact search.
2. A collection is checked when it is opened. The collection and the index must have the same number of
   vectors. A sample of ids and vectors must be the same in the collection and the index, and searches must
   find at least 95% of the sampled vectors. (Chroma's ``count()`` alone is not enough, because the count is
   correct even if files are missing.) The metadata of a collection on a server must contain the identifier of
   the index.

:mod:`branchrank.stores.chroma_upload` creates the collections.

Only Chroma's Rust code reads Chroma's file ``index_metadata.pickle``, so Python never unpickles this file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from branchrank.embedders.protocol import Vectors
from branchrank.errors import ArtifactError
from branchrank.records import Scored
from branchrank.stores.chroma_client import (
    REBUILD,
    Location,
    chroma_errors,
    connect,
    disconnect,
    refuse_foreign,
)
from branchrank.stores.ordering import IntArray
from branchrank.stores.vectors import check_query
from branchrank.stores.vectors_exact import ExactVectors

#: The metadata of a collection contains the identifier of its index under this key.
MADE_FOR = "branchrank"
#: The number of candidates to request beyond ``n``, so that ties at the end of the list are sorted by id.
_SLACK = 16
#: Scores that differ by less than this value are treated as ties, because Chroma computes in float32.
_TIE = 1e-6
_PROBES = 64
#: The graph counts as intact if searches find at least this share of the sampled vectors.
_PROBES_FOUND = 0.95


class UnreachableError(ArtifactError):
    """Error for a Chroma collection in which searches fail to find stored vectors."""


class ChromaVectors:
    """A vector store that requests candidates from Chroma, and scores them with the vectors of the index."""

    def __init__(
        self,
        location: Location,
        name: str,
        ids: Sequence[str],
        matrix: Vectors,
        *,
        root: Path | None = None,
        made_for: str = "",
    ) -> None:
        """Open the collection ``name``, and compare its ids with ``ids`` and its vectors with ``matrix``.

        ``made_for`` is the identifier of the index. The metadata of a collection on a server must contain
        this identifier. The path of an embedded database must not contain a symbolic link below the folder
        ``root`` (by default ``location``).

        Raises :class:`ArtifactError` if the collection does not exist, is damaged, or belongs to another
        index. Raises :class:`ArtifactError` if the server can't be reached.
        """
        if isinstance(location, Path) and not (location / "chroma.sqlite3").is_file():
            raise ArtifactError(f"the folder {location} does not contain a Chroma database", remedy=REBUILD)
        self._location = location
        self._exact = ExactVectors(ids, matrix)
        with chroma_errors(location):
            self._client = connect(location, root)
        try:
            with chroma_errors(location):
                self._collection = self._client.get_collection(name, embedding_function=None)
                refuse_foreign(self._collection, location)
                self._check_owner(made_for)
                self._probe()
        except BaseException:
            self.close()
            raise

    def _check_owner(self, made_for: str) -> None:
        # Collections uploaded by older versions of BranchRank have no identifier.
        found = (self._collection.metadata or {}).get(MADE_FOR, made_for)
        if isinstance(self._location, str) and found != made_for:
            raise self._damaged("the collection was made for another index")

    def _probe(self) -> None:
        count = self._collection.count()
        if count != len(self.ids):
            raise self._damaged(f"the collection has {count} vectors, but the index has {len(self.ids)}")
        if not count:
            return
        rows = np.unique(np.linspace(0, count - 1, num=min(count, _PROBES)).astype(np.intp))
        sample = [self.ids[row] for row in rows]
        stored = self._collection.get(ids=sample, include=["embeddings"])
        if sorted(stored["ids"]) != sorted(sample):
            raise self._damaged("some of the index's ids are missing from the collection")
        for key, vector in zip(stored["ids"], stored["embeddings"], strict=True):
            if not np.allclose(vector, self.vector(key), atol=1e-5):
                raise self._damaged(f"the vector of {key!r} differs from the vector in the index")
        queries = np.stack([self.vector(key) for key in sample])
        answers = self._collection.query(query_embeddings=queries, n_results=1, include=[])["ids"]
        found = sum(
            self._exact.score(self._rows(answer), query).max(initial=-1.0) > 1 - 1e-4
            for query, answer in zip(queries, answers, strict=True)
        )
        if found < _PROBES_FOUND * len(rows):
            damage = self._damaged(f"searches find only {found} of {len(rows)} sampled vectors")
            raise UnreachableError(damage.message, remedy=damage.remedy)

    def _rows(self, answer: list[str]) -> IntArray:
        try:
            return np.array([self._exact.row(key) for key in dict.fromkeys(answer)], dtype=np.intp)
        except KeyError as error:
            raise self._damaged(f"a search returned {error.args[0]!r}, which is not in the index") from None

    def _damaged(self, reason: str) -> ArtifactError:
        return ArtifactError(
            f"the Chroma collection at {self._location} is damaged or belongs to another index: {reason}",
            remedy=REBUILD,
        )

    @property
    def ids(self) -> Sequence[str]:
        """The ids of the vectors, in the order of the rows."""
        return self._exact.ids

    def search(self, vector: Vectors, n: int) -> list[Scored]:
        """Return the ``n`` nearest vectors; see :class:`~branchrank.stores.vectors.VectorStore`.

        Exact search is used if all vectors are requested, or if the ``n``-th result has the same score as the
        last candidate that Chroma returns.
        """
        check_query(vector, self._exact.dimension)
        wanted = min(n + _SLACK, len(self.ids))
        if n <= 0 or n >= len(self.ids):
            return self._exact.search(vector, n)
        with chroma_errors(self._location):
            answer = self._collection.query(
                query_embeddings=vector[np.newaxis], n_results=wanted, include=[]
            )["ids"][0]
        rows = self._rows(answer)
        if len(rows) < _PROBES_FOUND * n:
            raise self._damaged(f"a search for {wanted} vectors returned {len(rows)}")
        ranking = self._exact.rank(rows, vector, len(rows))
        # If the ``n``-th result ties with the last candidate, vectors that are not candidates may have the
        # same score too.
        if len(ranking) < n or ranking[n - 1].score - ranking[-1].score < _TIE:
            return self._exact.search(vector, n)
        return ranking[:n]

    def scores(self, vector: Vectors, keys: Sequence[str]) -> NDArray[np.float64]:
        """Return the scores for the ids ``keys``; see :class:`~branchrank.stores.vectors.VectorStore`."""
        return self._exact.scores(vector, keys)

    def vector(self, key: str) -> Vectors:
        """Return the vector for the id ``key``, as an array of shape ``(d,)``."""
        return self._exact.vector(key)

    def close(self) -> None:
        """Close the Chroma client."""
        disconnect(self._client)
