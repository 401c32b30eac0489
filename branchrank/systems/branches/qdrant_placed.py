"""An existing Qdrant collection as a branch: its points are passages of the index's documents.

1. Every point is placed by its payload (:mod:`branchrank.corpus.placing`): lines, else its text. Points that
   are in no document are left out, and a notice says how many.
2. A sample of the points is embedded again: the dense vectors must be those of the index's embedder. Sparse
   vectors are searched if they have the terms of Qdrant's BM25; else the search is dense only, with a notice.
   Points without text can't be checked, which is a notice as well.
3. A result is the span of a point; of several points with the same span, the best one counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from branchrank.corpus.placing import Places, opened_up, passage_of
from branchrank.embedders import token_embedder
from branchrank.embedders.agreement import check_agreement, sampled
from branchrank.embedders.protocol import Vectors
from branchrank.errors import ArtifactError, UsageError
from branchrank.records import Scored, Span
from branchrank.settings import QdrantSettings
from branchrank.spec import Unit
from branchrank.systems.branches.protocol import BranchResult, Lookup, Opening

if TYPE_CHECKING:
    from branchrank.stores.qdrant_existing import ExistingCollection
    from branchrank.stores.qdrant_layout import StoredVectors
    from branchrank.stores.qdrant_points import SparseWeights

DENSE_ONLY = "the Qdrant collection has no sparse vectors: dense search only"
FOREIGN_SPARSE = "the Qdrant collection's sparse vectors are not Qdrant's BM25: dense search only"
UNCHECKED = "the Qdrant collection holds no texts: nothing shows that its vectors are the embedder's"
#: The least share of terms that stored sparse vectors and Qdrant's BM25 have in common.
_LEAST_TERMS = 0.8
#: The least mean cosine of a point's stored token vectors with those of its text, and share of such points.
_LEAST_COSINE = 0.99
_LEAST_ALIKE = 0.9


class _Points(NamedTuple):
    """The points that were located: span and text by key, and the number of the others."""

    spans: dict[str, Span]
    texts: dict[str, str]
    left_out: int


class PlacedCollection:
    """Both searches of an existing collection; the answers are spans."""

    def __init__(
        self, collection: ExistingCollection, points: _Points, notices: tuple[str, ...], no_sparse: str
    ) -> None:
        from branchrank.stores.qdrant_points import Bm25Encoder

        self._collection = collection
        self._spans = points.spans
        self._points: dict[str, list[str]] = {}
        for key, span in points.spans.items():
            self._points.setdefault(_span_key(span), []).append(key)
        self._spare = points.left_out + len(points.spans) - len(self._points)
        self._notices = notices
        self._no_sparse = no_sparse
        self._encoder = Bm25Encoder()

    def dense(self, lookup: Lookup) -> BranchResult:
        """The spans of the points nearest to the query's vector."""
        check_unit(lookup, "span")
        vector = lookup.sources.embedding(lookup.query.text)
        found = self._collection.dense(vector, lookup.n + self._spare, self._admitted(lookup))
        return BranchResult(self._placed(found), notices=self._notices)

    def sparse(self, lookup: Lookup) -> BranchResult:
        """The spans of the best points by BM25; empty, with a notice, if sparse search is not possible."""
        check_unit(lookup, "span")
        if self._no_sparse:
            return BranchResult([], notices=(self._no_sparse,))
        found = self._collection.sparse(self._terms(lookup), lookup.n + self._spare, self._admitted(lookup))
        return BranchResult(self._placed(found))

    def dense_scores(self, lookup: Lookup, keys: Sequence[str]) -> dict[str, float]:
        """The scores of spans by the query's vector."""
        points = [point for key in keys for point in self._points.get(key, ())]
        vector = lookup.sources.embedding(lookup.query.text)
        found = self._collection.dense(vector, len(points), points) if points else []
        return dict(self._placed(found))

    def sparse_scores(self, lookup: Lookup, keys: Sequence[str]) -> dict[str, float]:
        """The scores of spans by BM25; empty if sparse search is not possible."""
        points = [point for key in keys for point in self._points.get(key, ())]
        if self._no_sparse or not points:
            return {}
        return dict(self._placed(self._collection.sparse(self._terms(lookup), len(points), points)))

    def maxsim(self, tokens: Vectors, keys: Sequence[str]) -> dict[str, float]:
        """MaxSim of a query's token vectors with spans; several points with one span give their best."""
        points = [point for key in keys for point in self._points.get(key, ())]
        from branchrank.stores.qdrant_points import mean_of_sums

        found = self._collection.maxsim(tokens, points)
        return mean_of_sums(self._placed(found), tokens)

    @property
    def has_tokens(self) -> bool:
        """Whether the collection has token vectors."""
        return self._collection.layout.tokens is not None

    def _terms(self, lookup: Lookup) -> SparseWeights:
        return self._encoder.query(lookup.query.keywords.strip() or lookup.query.text)

    def _admitted(self, lookup: Lookup) -> list[str] | None:
        """The points in documents that the query's filters admit, for Qdrant to filter by."""
        if not lookup.query.filters:
            return None
        admitted = lookup.sources.admitted_sources(lookup.query.filters)
        return [key for key, span in self._spans.items() if span.source in admitted]

    def _placed(self, found: Sequence[Scored]) -> list[Scored]:
        best: dict[str, float] = {}
        for key, score in found:
            if (span := self._spans.get(key)) is not None:
                best.setdefault(_span_key(span), score)
        ranking = [Scored(name, score) for name, score in best.items()]
        return sorted(ranking, key=lambda entry: (-entry.score, entry.key))


def check_unit(lookup: Lookup, unit: Unit) -> None:
    """Raise :class:`UsageError` for a branch whose unit is not that of the collection's passages."""
    if lookup.branch.unit != unit:
        raise UsageError(
            f"the branch {lookup.branch.kind} has the unit {lookup.branch.unit}; the collection's is {unit}",
            remedy=f'write unit = "{unit}" into the branch',
        )


def placed_collection(opening: Opening) -> PlacedCollection:
    """The collection that the settings name, opened once. Raises :class:`ArtifactError`."""
    return opening.shared("existing qdrant collection", lambda: _opened(opening))


def _opened(opening: Opening) -> PlacedCollection:
    from branchrank.stores.qdrant_existing import open_existing

    settings = opening.settings.part(QdrantSettings)
    manifest = opening.index.manifest
    collection = open_existing(
        settings.collection, url=settings.url, path=settings.path, dimension=manifest.embedder.dimension
    )
    opening.resources.callback(collection.close)
    points = _points(collection, Places(opening.corpus_root, opening.index.sources))
    keys = [key for key, text in points.texts.items() if text]
    chosen = [keys[row] for row in sampled(len(keys))]
    stored = collection.vectors(chosen) if chosen else []
    _check_dense(opening, collection, [points.texts[key] for key in chosen], stored)
    _check_tokens(opening, collection, [points.texts[key] for key in chosen], stored)
    notices: tuple[str, ...] = () if chosen else (UNCHECKED,)
    if points.left_out:
        total = points.left_out + len(points.spans)
        notices += (f"{points.left_out} of {total} points of {collection.place} are in no document",)
    no_sparse = _no_sparse(collection, [points.texts[key] for key in chosen], stored)
    return PlacedCollection(collection, points, notices, no_sparse)


def _span_key(span: Span) -> str:
    return f"{span.source}:{span.line_start}-{span.line_end}"


def _points(collection: ExistingCollection, places: Places) -> _Points:
    points = _Points({}, {}, 0)
    reason = "it holds no points"
    left_out = 0
    for key, payload in collection.payloads():
        passage = passage_of(opened_up(payload))
        place = places.place(passage)
        if isinstance(place, str):
            left_out, reason = left_out + 1, f"point {key}: {place}"
        else:
            points.spans[key] = place.span
            points.texts[key] = passage.text
    if not points.spans:
        raise ArtifactError(
            f"no point of {collection.place} is in the documents of the index: {reason}",
            remedy="index the documents that it was made from, or name another collection",
        )
    return points._replace(left_out=left_out)


def _check_dense(
    opening: Opening, collection: ExistingCollection, texts: Sequence[str], stored: Sequence[StoredVectors]
) -> None:
    pairs = [(text, each.dense) for text, each in zip(texts, stored, strict=True) if each.dense is not None]
    if not pairs:
        return
    check_agreement(
        opening.index.embedder,
        np.stack([vector for _, vector in pairs]),
        {"text": [text for text, _ in pairs]},
        place=collection.place,
        remedy="index with the model that made the collection: branchrank index --embedder NAME",
    )


def _check_tokens(
    opening: Opening, collection: ExistingCollection, texts: Sequence[str], stored: Sequence[StoredVectors]
) -> None:
    """Raise :class:`ArtifactError` where a sample of the token vectors is not that of the index's model."""
    pairs = [(text, each.tokens) for text, each in zip(texts, stored, strict=True) if each.tokens is not None]
    if not pairs:  # points without tokens get no MaxSim
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
            f"the multivector {collection.layout.tokens!r} of {collection.place} is not made of the token "
            f"vectors of the index's model: {alike} of {len(pairs)} points agree",
            remedy="index with the model that made the collection: branchrank index --embedder NAME",
        )


def _no_sparse(collection: ExistingCollection, texts: Sequence[str], stored: Sequence[StoredVectors]) -> str:
    """Why the sparse vectors are not searched; empty when they are."""
    from branchrank.stores.qdrant_points import Bm25Encoder

    if collection.layout.sparse is None:
        return DENSE_ONLY
    encoder = Bm25Encoder()
    shares = []
    for text, each in zip(texts, stored, strict=True):
        terms = set(encoder.document(text).indices)
        held = set(each.sparse.indices) if each.sparse is not None else set()
        if terms:
            shares.append(len(terms & held) / len(terms | held))
    return FOREIGN_SPARSE if shares and sum(shares) / len(shares) < _LEAST_TERMS else ""
