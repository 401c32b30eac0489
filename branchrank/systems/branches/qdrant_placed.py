"""Searches a user's Qdrant collection, whose points are passages from the indexed documents.

1. The line numbers or the text in a point's payload determine the point's lines in a document (see
   :mod:`branchrank.corpus.placing`). Points whose passage does not occur in any document are ignored, and a
   notice reports their number.
2. The texts of a sample of points are embedded again, and the new vectors must agree with the stored dense
   vectors. The terms in the stored sparse vectors are compared with those of Qdrant's BM25. If the stored
   terms differ too much from Qdrant's BM25 terms, only dense vectors are searched, and a notice gives the
   reason. If no point has text, the vectors can't be checked, and a notice says so.
3. Each search result is the span of document lines that a point covers. If several points cover the same
   span, the result has the best of their scores.
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
from branchrank.systems.branches import BranchResult, Lookup, Opening

if TYPE_CHECKING:
    from branchrank.stores.qdrant_existing import ExistingCollection
    from branchrank.stores.qdrant_layout import StoredVectors
    from branchrank.stores.qdrant_points import SparseWeights

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


class _Points(NamedTuple):
    """The points whose passages were found in the documents.

    ``spans`` maps the key of each point to its lines in a document, and ``texts`` maps the key to the point's
    text. ``left_out`` is the number of points whose passages were not found.
    """

    spans: dict[str, Span]
    texts: dict[str, str]
    left_out: int


class PlacedCollection:
    """Dense and sparse search in a user's Qdrant collection. The results are spans of document lines."""

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
        """Return the document spans of the points nearest to the query's vector."""
        check_unit(lookup, "span")
        vector = lookup.sources.embedding(lookup.query.text)
        found = self._collection.dense(vector, lookup.n + self._spare, self._admitted(lookup))
        return BranchResult(self._placed(found), notices=self._notices)

    def sparse(self, lookup: Lookup) -> BranchResult:
        """Return the document spans of the points with the best BM25 scores.

        If sparse search is not possible, return an empty result with a notice that gives the reason.
        """
        check_unit(lookup, "span")
        if self._no_sparse:
            return BranchResult([], notices=(self._no_sparse,))
        found = self._collection.sparse(self._terms(lookup), lookup.n + self._spare, self._admitted(lookup))
        return BranchResult(self._placed(found))

    def dense_scores(self, lookup: Lookup, keys: Sequence[str]) -> dict[str, float]:
        """Return the cosine similarity between each span's vector and the query's vector."""
        points = [point for key in keys for point in self._points.get(key, ())]
        vector = lookup.sources.embedding(lookup.query.text)
        found = self._collection.dense(vector, len(points), points) if points else []
        return dict(self._placed(found))

    def sparse_scores(self, lookup: Lookup, keys: Sequence[str]) -> dict[str, float]:
        """Return the BM25 scores of spans, or an empty dict if sparse search is not possible."""
        points = [point for key in keys for point in self._points.get(key, ())]
        if self._no_sparse or not points:
            return {}
        return dict(self._placed(self._collection.sparse(self._terms(lookup), len(points), points)))

    def maxsim(self, tokens: Vectors, keys: Sequence[str]) -> dict[str, float]:
        """Return, for each span, the MaxSim between a query's token vectors and the span's best point."""
        points = [point for key in keys for point in self._points.get(key, ())]
        from branchrank.stores.qdrant_points import mean_of_sums

        found = self._collection.maxsim(tokens, points)
        return mean_of_sums(self._placed(found), tokens)

    @property
    def has_tokens(self) -> bool:
        """Whether the collection has token vectors."""
        return self._collection.layout.tokens is not None

    def _terms(self, lookup: Lookup) -> SparseWeights:
        return self._encoder.query(lookup.query.words)

    def _admitted(self, lookup: Lookup) -> list[str] | None:
        """Return the keys of points in documents that pass the filters, or ``None`` for no filters."""
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
    """Raise :class:`UsageError` if the branch's unit differs from the unit of the collection's passages."""
    if lookup.branch.unit != unit:
        raise UsageError(
            f"the branch {lookup.branch.kind} has the unit {lookup.branch.unit}, but must have {unit}",
            remedy=f'set unit = "{unit}" in the branch',
        )


def placed_collection(opening: Opening) -> PlacedCollection:
    """Return the user's collection, opened on first use.

    Raises :class:`ArtifactError` if the collection does not exist or does not match the index.
    """
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
        notices += (
            f"{points.left_out} of {total} points of {collection.place} were ignored, because "
            "their text does not occur in any document",
        )
    no_sparse = _no_sparse(collection, [points.texts[key] for key in chosen], stored)
    return PlacedCollection(collection, points, notices, no_sparse)


def _span_key(span: Span) -> str:
    return f"{span.source}:{span.line_start}-{span.line_end}"


def _points(collection: ExistingCollection, places: Places) -> _Points:
    points = _Points({}, {}, 0)
    reason = "the collection is empty"
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
            remedy="index the documents that the collection was created from, or choose another collection",
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
        remedy="index with the embedder of the collection: branchrank index --embedder NAME",
    )


def _check_tokens(
    opening: Opening, collection: ExistingCollection, texts: Sequence[str], stored: Sequence[StoredVectors]
) -> None:
    """Raise :class:`ArtifactError` if sampled token vectors differ from those of the index's model."""
    pairs = [(text, each.tokens) for text, each in zip(texts, stored, strict=True) if each.tokens is not None]
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
            remedy="index with the embedder of the collection: branchrank index --embedder NAME",
        )


def _no_sparse(collection: ExistingCollection, texts: Sequence[str], stored: Sequence[StoredVectors]) -> str:
    """Return the reason why the sparse vectors are not searched, or an empty string if they are searched."""
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
