"""The vector store on Chroma: embedded in a directory, or on a server.

1. A query requests a few more than ``n`` candidates from Chroma. Their scores are computed from the index's
   own vectors, so scores and ties are the same as in the exact store.
2. A collection is checked when it is opened: its count, and the ids, vectors and nearest neighbours of a
   sample, are compared with the index's own vectors. (Chroma's ``count()`` alone is still correct if files
   are missing.) A collection on a server also says for which index it was made.

:mod:`branchrank.stores.chroma_upload` makes the collections.

Chroma writes a file named ``index_metadata.pickle``. Only its Rust code reads this file, never Python.
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

#: The key of a collection's metadata that says for which index it was made.
MADE_FOR = "branchrank"
#: Extra candidates beyond ``n``, so that ties at the end of the list can be broken by id.
_SLACK = 16
#: Chroma computes in float32, so it may not distinguish scores closer than this.
_TIE = 1e-6
_PROBES = 64
#: The share of sampled vectors that must be found. A graph may miss a few; a damaged one misses far more.
_PROBES_FOUND = 0.95


class UnreachableError(ArtifactError):
    """Vectors are stored in the collection, but a search does not find them."""


class ChromaVectors:
    """A vector store that gets candidates from Chroma and scores them with the index's own vectors."""

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
        """Open the collection ``name`` and check it against ``ids`` and ``matrix``.

        ``made_for`` identifies the ids and vectors; a collection on a server must not say anything else. No
        link is followed to an embedded database below the folder ``root`` (default: ``location``). Raises
        :class:`ArtifactError` if the collection does not exist, is damaged, or is not the index's, or if the
        server can't be reached.
        """
        if isinstance(location, Path) and not (location / "chroma.sqlite3").is_file():
            raise ArtifactError(f"there is no Chroma database in {location}", remedy=REBUILD)
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
        # A collection that an older version uploaded says nothing.
        found = (self._collection.metadata or {}).get(MADE_FOR, made_for)
        if isinstance(self._location, str) and found != made_for:
            raise self._damaged("it was made for another index")

    def _probe(self) -> None:
        count = self._collection.count()
        if count != len(self.ids):
            raise self._damaged(f"it holds {count} vectors, the index {len(self.ids)}")
        if not count:
            return
        rows = np.unique(np.linspace(0, count - 1, num=min(count, _PROBES)).astype(np.intp))
        sample = [self.ids[row] for row in rows]
        stored = self._collection.get(ids=sample, include=["embeddings"])
        if sorted(stored["ids"]) != sorted(sample):
            raise self._damaged("ids of the index are missing")
        for key, vector in zip(stored["ids"], stored["embeddings"], strict=True):
            if not np.allclose(vector, self.vector(key), atol=1e-5):
                raise self._damaged(f"the vector of {key!r} differs")
        queries = np.stack([self.vector(key) for key in sample])
        answers = self._collection.query(query_embeddings=queries, n_results=1, include=[])["ids"]
        found = sum(
            self._exact.score(self._rows(answer), query).max(initial=-1.0) > 1 - 1e-4
            for query, answer in zip(queries, answers, strict=True)
        )
        if found < _PROBES_FOUND * len(rows):
            damage = self._damaged(f"only {found} of {len(rows)} vectors find themselves")
            raise UnreachableError(damage.message, remedy=damage.remedy)

    def _rows(self, answer: list[str]) -> IntArray:
        try:
            return np.array([self._exact.row(key) for key in dict.fromkeys(answer)], dtype=np.intp)
        except KeyError as error:
            raise self._damaged(f"it answers with {error.args[0]!r}, which is not in the index") from None

    def _damaged(self, reason: str) -> ArtifactError:
        return ArtifactError(
            f"the Chroma collection at {self._location} is damaged or foreign: {reason}", remedy=REBUILD
        )

    @property
    def ids(self) -> Sequence[str]:
        """The ids, in the order of the rows."""
        return self._exact.ids

    def search(self, vector: Vectors, n: int) -> list[Scored]:
        """The ``n`` nearest; see :class:`~branchrank.stores.vectors.VectorStore`.

        Exact search is used instead if Chroma would have to return everything or can't break a tie.
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
            raise self._damaged(f"asked for {wanted} vectors, it answers with {len(rows)}")
        ranking = self._exact.rank(rows, vector, len(rows))
        # If the tie continues past the last candidate, vectors that are not candidates may come first by id.
        if len(ranking) < n or ranking[n - 1].score - ranking[-1].score < _TIE:
            return self._exact.search(vector, n)
        return ranking[:n]

    def scores(self, vector: Vectors, keys: Sequence[str]) -> NDArray[np.float64]:
        """The exact scores of some ids; see :class:`~branchrank.stores.vectors.VectorStore`."""
        return self._exact.scores(vector, keys)

    def vector(self, key: str) -> Vectors:
        """The vector of an id, shape ``(d,)``."""
        return self._exact.vector(key)

    def close(self) -> None:
        """Close the client."""
        disconnect(self._client)
