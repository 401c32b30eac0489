"""The branch kinds ``qdrant-dense`` and ``qdrant-sparse``, which search one Qdrant collection.

1. By default, the collection contains the chunks and vectors of the index. With embedded Qdrant, each engine
   creates the collection in a temporary folder on first use. On a server, the collection is named after a
   digest of its content and created only once.
2. If ``qdrant.collection`` is set, the user's own collection is searched, whose points are passages from the
   indexed documents. The line numbers or the text in a point's payload determine the point's lines in a
   document (:mod:`branchrank.documents.locating`). Points whose passage does not occur in any document are
   ignored, and a notice reports their number. Each search result is the span of document lines that a point
   covers. If several points cover the same span, the result has the best of their scores.
3. The texts of a sample of the user's points are embedded again, and the new vectors must agree with the
   stored dense vectors and token vectors. If the terms in the stored sparse vectors differ too much from
   Qdrant's BM25 terms, only dense vectors are searched, and a notice gives the reason.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from branchrank.core.errors import ArtifactError, UsageError
from branchrank.core.io.files import digest_of
from branchrank.core.records import Scored, Span
from branchrank.core.settings import IndexSettings, QdrantSettings, Resolved
from branchrank.core.spec import Unit
from branchrank.documents.locating import PROBLEMS, Anchor, ChunkLocator
from branchrank.index.adopted_files import opened_up, passage_of
from branchrank.index.embedders import token_embedder
from branchrank.index.embedders.protocol import Vectors, check_agreement, sampled
from branchrank.index.maxsim import unit_tokens
from branchrank.index.reader import Index
from branchrank.search.systems.branches import (
    BranchKind,
    BranchResult,
    Lookup,
    MaxSim,
    Opening,
    Scores,
    Search,
)

if TYPE_CHECKING:
    from branchrank.index.stores.qdrant_store import (
        Filters,
        Point,
        QdrantCollection,
        SparseWeights,
        StoredVectors,
    )

DENSE_ONLY = "the Qdrant collection has no sparse vectors; only dense search is used"
FOREIGN_SPARSE = (
    "the sparse vectors of the Qdrant collection are not Qdrant's BM25 weights; only dense search is used"
)
UNCHECKED = "the points of the Qdrant collection have no text, so its vectors could not be checked"
#: The minimum share of terms that stored sparse vectors and Qdrant's BM25 must have in common.
_LEAST_TERMS = 0.8
#: The minimum mean cosine between a point's stored token vectors and the token vectors of its text.
_LEAST_COSINE = 0.99
#: The minimum share of sampled points whose stored token vectors agree with newly computed ones.
_LEAST_ALIKE = 0.9
_EMBEDDER = "index with the embedder of the collection: branchrank index --embedder NAME"


class Searched:
    """A collection with one point per chunk of the index.

    ``no_sparse`` is the reason why sparse vectors are not searched, or empty if they are searched.
    """

    unit: Unit = "chunk"
    #: The number of points to request in addition, because they may not give a result of their own.
    spare = 0
    notices: tuple[str, ...] = ()

    def __init__(self, collection: QdrantCollection, no_sparse: str) -> None:
        from branchrank.index.stores.qdrant_store import Bm25Encoder

        self.collection = collection
        self.no_sparse = no_sparse
        self._encoder = Bm25Encoder()

    def dense(self, lookup: Lookup) -> BranchResult:
        """Return the entries that are nearest to the query's vector."""
        self._check_unit(lookup)
        vector = lookup.sources.embedding(lookup.query.text)
        found = self.collection.dense(vector, lookup.n + self.spare, self.filters(lookup))
        return BranchResult(self.ranked(found), notices=self.notices)

    def sparse(self, lookup: Lookup) -> BranchResult:
        """Return the entries with the best BM25 scores, or a notice if sparse vectors are not searched."""
        self._check_unit(lookup)
        if self.no_sparse:
            return BranchResult([], notices=(self.no_sparse,), unavailable=True)
        found = self.collection.sparse(self._terms(lookup), lookup.n + self.spare, self.filters(lookup))
        return BranchResult(self.ranked(found))

    def dense_scores(self, lookup: Lookup, keys: Sequence[str]) -> Mapping[str, float]:
        """Return the cosine similarity between each entry's vector and the query's vector."""
        return lookup.sources.cosines(lookup.query.text, keys)

    def sparse_scores(self, lookup: Lookup, keys: Sequence[str]) -> Mapping[str, float]:
        """Return the BM25 scores of entries, or an empty dict if sparse vectors are not searched."""
        points = self.points_of(keys)
        if self.no_sparse or not points:
            return {}
        return dict(self.ranked(self.collection.sparse(self._terms(lookup), len(points), {"key": points})))

    def maxsim(self, tokens: Vectors, keys: Sequence[str]) -> Mapping[str, float]:
        """Return, for each entry, the MaxSim between a query's token vectors and the entry's best point."""
        found = self.collection.maxsim(tokens, self.points_of(keys))
        return dict(self.ranked([Scored(key, score) for key, score in found.items()]))

    def filters(self, lookup: Lookup) -> Filters | None:
        """Return a filter for the points of the documents that pass the query's filters."""
        if not lookup.query.filters:
            return None
        return {"file_path": sorted(lookup.sources.admitted_sources(lookup.query.filters))}

    def points_of(self, keys: Sequence[str]) -> Sequence[str]:
        """Return the keys of the points of entries."""
        return keys

    def ranked(self, found: Sequence[Scored]) -> Sequence[Scored]:
        """Return the entries of ranked points."""
        return found

    def _check_unit(self, lookup: Lookup) -> None:
        if lookup.branch.unit != self.unit:
            raise UsageError(
                f"the branch {lookup.branch.kind} has the unit {lookup.branch.unit}, but must have "
                f"{self.unit}",
                remedy=f'set unit = "{self.unit}" in the branch',
            )

    def _terms(self, lookup: Lookup) -> SparseWeights:
        return self._encoder.query(lookup.query.words)


class OwnCollection(Searched):
    """The user's own collection. ``spans`` maps the key of each point to its lines in a document."""

    unit: Unit = "span"

    def __init__(self, collection: QdrantCollection, no_sparse: str, spans: Mapping[str, Span]) -> None:
        super().__init__(collection, no_sparse)
        self._spans = spans
        self._points: dict[str, list[str]] = {}
        for key, span in spans.items():
            self._points.setdefault(span.citation, []).append(key)
        self.spare = len(spans) - len(self._points)

    def dense_scores(self, lookup: Lookup, keys: Sequence[str]) -> Mapping[str, float]:
        """Return the cosine similarity between each span's nearest point and the query's vector."""
        points = self.points_of(keys)
        vector = lookup.sources.embedding(lookup.query.text)
        found = self.collection.dense(vector, len(points), {"key": points}) if points else []
        return dict(self.ranked(found))

    def filters(self, lookup: Lookup) -> Filters | None:
        """Return a filter for the points of the documents that pass the query's filters."""
        if not lookup.query.filters:
            return None
        admitted = lookup.sources.admitted_sources(lookup.query.filters)
        return {"key": [key for key, span in self._spans.items() if span.source in admitted]}

    def points_of(self, keys: Sequence[str]) -> Sequence[str]:
        """Return the keys of the points that cover spans."""
        return [point for key in keys for point in self._points.get(key, ())]

    def ranked(self, found: Sequence[Scored]) -> Sequence[Scored]:
        """Return the spans of ranked points, each with the best of its points' scores."""
        best: dict[str, float] = {}
        for key, score in found:
            if (span := self._spans.get(key)) is not None:
                best.setdefault(span.citation, score)
        ranking = [Scored(name, score) for name, score in best.items()]
        return sorted(ranking, key=lambda entry: (-entry.score, entry.key))


class QdrantKind(BranchKind):
    """A search in the Qdrant collection, which is opened on first use.

    The dense branch finds the nearest vectors by cosine similarity. The sparse branch searches with Qdrant's
    BM25, and only gives a notice if the collection has no sparse vectors.
    """

    units = ("chunk", "span")
    waits = True
    keeps_tokens = True

    def require(self, settings: Resolved) -> None:
        """Raise MissingDependencyError if Qdrant, or the client for its server, is not installed."""
        from branchrank.index.stores.qdrant_engines import client_module, edge

        _ = client_module() if settings.part(QdrantSettings).url else edge()

    def open(self, opening: Opening) -> Search:
        """Open the collection and return the search function."""
        return _searched(opening).dense if self.needs_vector else _searched(opening).sparse

    def open_scores(self, opening: Opening) -> Scores:
        """Return a function that scores entries by cosine similarity or by their BM25 vectors."""
        return _searched(opening).dense_scores if self.needs_vector else _searched(opening).sparse_scores

    def open_maxsim(self, opening: Opening) -> MaxSim | None:
        """Return the collection's MaxSim function, or ``None`` if the collection has no token vectors."""
        searched = _searched(opening)
        return searched.maxsim if searched.collection.layout.tokens else None


class QdrantDenseKind(QdrantKind):
    """The dense branch."""

    name = "qdrant-dense"
    needs_vector = True
    scale = "cosine"


class QdrantSparseKind(QdrantKind):
    """The sparse branch."""

    name = "qdrant-sparse"
    scale = "open"


QDRANT_DENSE = QdrantDenseKind()
QDRANT_SPARSE = QdrantSparseKind()


def _searched(opening: Opening) -> Searched:
    make: Callable[[Opening], Searched] = (
        _placed if opening.settings.part(QdrantSettings).is_existing else _filled
    )
    return opening.shared("qdrant collection", lambda: make(opening))


def _filled(opening: Opening) -> Searched:
    """Open the collection with the chunks of the index, and add missing points."""
    from branchrank.index.stores.qdrant_store import embedded_collection, own_layout, served_collection

    index, settings = opening.index, opening.settings.part(QdrantSettings)
    # As float32 in Qdrant, token vectors need four times the space, so that they are stored only on request.
    asked = opening.settings.part(IndexSettings).token_precision is not None
    layout = own_layout(
        index.manifest.embedder.dimension,
        sparse=settings.enable_hybrid,
        token_dimension=index.token_vectors.dimension if asked and index.token_vectors is not None else 0,
    )
    if settings.url:
        cluster = settings.shards, settings.replication_factor, settings.write_consistency, settings.on_disk
        content = [index.manifest, settings.enable_hybrid, *([cluster] if any(cluster) else [])]
        content += [] if layout.tokens or index.token_vectors is None else ["without token vectors"]
        collection = served_collection(f"branchrank-{digest_of(content)[:32]}", layout, settings)
    else:
        folder = opening.resources.enter_context(tempfile.TemporaryDirectory(prefix="branchrank-"))
        collection = embedded_collection(Path(folder) / "qdrant", layout)
    opening.resources.callback(collection.close)
    if collection.count() < len(index.chunks):
        collection.fill(tuple(index.chunks), partial(_points, index, collection.layout.tokens))
    if collection.count() != len(index.chunks):
        raise ArtifactError(
            f"the Qdrant collection contains only {collection.count()} of {len(index.chunks)} chunks",
            remedy="read the log of the Qdrant server and run the command again",
        )
    return Searched(collection, "" if collection.layout.sparse else DENSE_ONLY)


def _points(index: Index, tokens: str | None, rows: Sequence[int]) -> list[Point]:
    """Return the points for the chunks in these rows of the index.

    They have token vectors if ``tokens``, the name of the collection's multivector, is not ``None``.
    """
    from branchrank.index.stores.qdrant_store import chunk_point

    store, kept = index.exact_vectors, index.token_vectors if tokens else None
    chunks = [index.chunks[store.ids[row]] for row in rows]
    return [
        chunk_point(
            chunk, store.vector(chunk.id), None if kept is None else unit_tokens(kept.vectors(chunk.id))
        )
        for chunk in chunks
    ]


def _placed(opening: Opening) -> Searched:
    """Open the user's collection, find its points in the documents, and check a sample of its vectors."""
    from branchrank.index.stores.qdrant_existing import open_existing

    settings = opening.settings.part(QdrantSettings)
    dimension = opening.index.manifest.embedder.dimension
    collection = opening.resources.enter_context(
        open_existing(settings.collection, url=settings.url, path=settings.path, dimension=dimension)
    )
    locator = ChunkLocator(opening.corpus_root, opening.index.sources)
    spans: dict[str, Span] = {}
    texts: dict[str, str] = {}
    left_out, reason = 0, "the collection is empty"
    for key, payload in collection.payloads():
        passage = passage_of(opened_up(payload), locator)
        anchor = locator.find(passage)
        if isinstance(anchor, Anchor):
            spans[key], texts[key] = anchor.span, passage.text
        else:
            left_out, reason = left_out + 1, f"point {key}: {PROBLEMS[anchor]}"
    if not spans:
        raise ArtifactError(
            f"no point of {collection.place} is in the documents of the index: {reason}",
            remedy="index the documents that the collection was created from, or choose another collection",
        )
    keys = [key for key, text in texts.items() if text]
    chosen = [keys[row] for row in sampled(len(keys))]
    sample = list(
        zip([texts[key] for key in chosen], collection.vectors(chosen) if chosen else [], strict=True)
    )
    _check_dense(opening, collection, sample)
    _check_tokens(opening, collection, sample)
    found = OwnCollection(collection, _no_sparse(collection, sample), spans)
    found.spare += left_out
    found.notices = () if chosen else (UNCHECKED,)
    if left_out:
        found.notices += (
            f"{left_out} of {left_out + len(spans)} points of {collection.place} were ignored, because "
            "their text does not occur in any document",
        )
    return found


#: The texts of some points, each with the point's stored vectors.
_Sample = Sequence[tuple[str, "StoredVectors"]]


def _check_dense(opening: Opening, collection: QdrantCollection, sample: _Sample) -> None:
    pairs = [(text, stored.dense) for text, stored in sample if stored.dense is not None]
    if pairs:
        check_agreement(
            opening.index.embedder,
            np.stack([vector for _, vector in pairs]),
            {"text": [text for text, _ in pairs]},
            place=collection.place,
            remedy=_EMBEDDER,
        )


def _check_tokens(opening: Opening, collection: QdrantCollection, sample: _Sample) -> None:
    """Raise :class:`ArtifactError` if sampled token vectors differ from those of the index's model."""
    pairs = [(text, stored.tokens) for text, stored in sample if stored.tokens is not None]
    if not pairs:  # MaxSim is not used without token vectors
        return
    model = token_embedder(opening.index.embedder, opening.index.settings.embedder)
    made = model.embed_documents_and_tokens([text for text, _ in pairs]).tokens
    alike = 0
    for (_, theirs), ours in zip(pairs, made, strict=True):
        if theirs.shape == ours.shape:
            lengths = np.maximum(np.linalg.norm(theirs, axis=1), np.finfo(np.float32).tiny)
            alike += bool(np.mean(np.sum(theirs * ours, axis=1) / lengths) >= _LEAST_COSINE)
    if alike < _LEAST_ALIKE * len(pairs):
        raise ArtifactError(
            f"the multivector {collection.layout.tokens!r} of {collection.place} does not contain the "
            f"token vectors of the index's model: only {alike} of {len(pairs)} sampled points agree",
            remedy=_EMBEDDER,
        )


def _no_sparse(collection: QdrantCollection, sample: _Sample) -> str:
    """Return the reason why the sparse vectors are not searched, or an empty string if they are searched."""
    from branchrank.index.stores.qdrant_store import Bm25Encoder

    if collection.layout.sparse is None:
        return DENSE_ONLY
    encoder = Bm25Encoder()
    shares = []
    for text, stored in sample:
        terms = set(encoder.document(text).indices)
        held = set(stored.sparse.indices) if stored.sparse is not None else set()
        if terms:
            shares.append(len(terms & held) / len(terms | held))
    return FOREIGN_SPARSE if shares and sum(shares) / len(shares) < _LEAST_TERMS else ""
