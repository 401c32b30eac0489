"""Keyword, semantic and hybrid search over one SQLite file. Every score lies in 0..1.

========  =======================================================================================
keyword   ``(e + s / (1 + s)) / 2`` with FTS5's BM25 ``s`` and ``e`` = 1 where the chunk holds one of
          the query's terms as it is written, 0 where it only matches in part: by word stem, or
          (when that doesn't give enough candidates) by prefix. So exact matches come first
semantic  ``max(0, cosine)``
hybrid    ``(k + 1) * (alpha / (k + rank_vector) + (1 - alpha) / (k + rank_keyword))``: 1 is first in
          both. A branch of weight 0 isn't run and contributes nothing
========  =======================================================================================

None of them depends on the other candidates of the query, so a score means the same from query to query.

1. Each branch gives ``candidate_k_*`` chunks; ties break by id.
2. Chunks are grouped by document: a document's score is its best chunk's, or the mean of those shown
   (at most ``max_chunks_per_doc``). ``group_by = "none"`` lists chunks.
3. The first ``final_limit`` are returned.

The text of a query is only ever a bound value, its terms quoted FTS5 strings: no operator survives.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

from branchrank.embedders.protocol import Embedder, Vectors
from branchrank.errors import ArtifactError, UsageError
from branchrank.ranking.fusion import rrf
from branchrank.ranking.grouping import group
from branchrank.records import Chunk, Hit, Placement, Record, Scored
from branchrank.settings import RetrievalSettings
from branchrank.stores.sqlite_file import REMEDY, SqliteFile
from branchrank.stores.stop_words import STOP_WORDS
from branchrank.stores.vectors_exact import ExactVectors

Mode = Literal["keyword", "semantic", "hybrid"]

TERM_LIMIT = 32
PREFIX_LENGTH = 2

_TERM = re.compile(r"\"([^\"]*)\"|(\w+)")
_STEMS = "SELECT rowid, -rank FROM stems WHERE stems MATCH ? ORDER BY rank, rowid LIMIT ?"
_WORDS = "SELECT rowid, -rank FROM words WHERE words MATCH ? ORDER BY rank, rowid LIMIT ?"


class KeywordMatch(NamedTuple):
    """A chunk that FTS5 found: BM25 at least 0, and whether it holds a term as it is written."""

    key: str
    bm25: float
    exact: bool

    @property
    def score(self) -> float:
        """The keyword score, in 0..1; at least 0.5 for exact matches, at most 0.5 for others."""
        return (self.exact + self.bm25 / (1.0 + self.bm25)) / 2.0


class ChunkResult(Record, frozen=True, kw_only=True):
    """A chunk of a result, its score in 0..1, and the parts of the score; ``None``: not in that branch."""

    chunk: Chunk
    score: float
    keyword: Placement | None = None
    bm25: float | None = None
    exact: bool | None = None
    vector: Placement | None = None

    @property
    def explanation(self) -> str:
        """Each part of the score in words."""
        parts = [f"score {self.score:.4f}"]
        if self.keyword is not None:
            source = f"BM25 {self.bm25:.4f}, {'exact' if self.exact else 'partial'}"
            parts.append(f"keyword rank {self.keyword.rank}, score {self.keyword.score:.4f} ({source})")
        if self.vector is not None:
            parts.append(f"vector rank {self.vector.rank}, cosine {self.vector.score:.4f}")
        return "; ".join(parts)


class SearchResult(Record, frozen=True, kw_only=True):
    """A document (or a chunk, when nothing is grouped) with its best chunks, best first."""

    id: str
    score: float
    chunks: tuple[ChunkResult, ...]

    @property
    def hit(self) -> Hit:
        """The best chunk, with the result's score."""
        best = self.chunks[0]
        branches = {"keyword": best.keyword, "vector": best.vector}
        return Hit(
            id=best.chunk.id,
            source=best.chunk.source,
            line_start=best.chunk.line_start,
            line_end=best.chunk.line_end,
            text=best.chunk.text,
            score=self.score,
            node_id=best.chunk.node_id,
            breadcrumb=best.chunk.breadcrumb,
            branches={name: place for name, place in branches.items() if place is not None},
        )


def query_terms(query: str) -> list[str]:
    """The terms of any text, lower case, each once: quoted phrases and words that aren't stop words.

    When all are stop words they are kept. At most :data:`TERM_LIMIT`.
    """
    readable = query.encode("utf-8", "ignore").decode("utf-8").replace("\0", " ").lower()
    found = [" ".join(phrase.split()) or word for phrase, word in _TERM.findall(readable)]
    terms = [term for term in dict.fromkeys(found) if re.search(r"\w", term)]
    telling = [term for term in terms if term not in STOP_WORDS]
    return (telling or terms)[:TERM_LIMIT]


def fts_expression(terms: Iterable[str], *, prefix: bool = False) -> str:
    """An FTS5 expression that matches any of the terms, each quoted; with ``prefix``, their beginnings."""
    return " OR ".join('"' + term.replace('"', '""') + ('"*' if prefix else '"') for term in terms)


def _literal(terms: Iterable[str]) -> re.Pattern[str]:
    """Finds any of the terms as it is written, no word cut; white space in the text must be folded."""
    # A word character may not stand next to a term's own; next to a bracket or a dash it may.
    return re.compile(
        "|".join(
            (r"(?<!\w)" if re.match(r"\w", term) else "")
            + re.escape(term)
            + (r"(?!\w)" if re.search(r"\w\Z", term) else "")
            for term in terms
        )
    )


class SqliteSearch:
    """Searches one file. ``embedder`` embeds queries; without it only keyword search is possible."""

    def __init__(self, path: Path, *, embedder: Embedder | None = None) -> None:
        """Open ``path``. Raises :class:`ArtifactError` when it is missing, foreign, damaged, or its vectors
        come from another embedder.
        """
        self.file = SqliteFile(path)
        self._embedder = embedder
        stored = self.file.header.embedder
        if embedder is not None and stored is not None and stored != embedder.identity:
            self.file.close()
            raise ArtifactError(
                f"{path} was embedded with {stored.model}, not {embedder.identity.model}", remedy=REMEDY
            )

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """The chunks' ids, ascending."""
        return self.file.ids()

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {key: row for row, key in enumerate(self.ids, start=1)}

    @cached_property
    def _vectors(self) -> ExactVectors:
        return ExactVectors(self.ids, self.file.vectors())

    def chunks(self, keys: Iterable[str]) -> dict[str, Chunk]:
        """The chunks with these ids."""
        chunks = self.file.chunks([self._rows[key] for key in keys])
        return {chunk.id: chunk for chunk in chunks}

    def keyword_matches(self, query: str, n: int) -> list[KeywordMatch]:
        """At most ``n`` chunks that hold a term of any text, exact matches first, then by BM25."""
        terms = query_terms(query)
        if not terms:
            return []
        found = self.file.rows(_STEMS, (fts_expression(terms), n))
        begun = [term for term in terms if len(term) >= PREFIX_LENGTH]
        if len(found) < n and begun:
            seen = {row for row, _ in found}
            more = self.file.rows(_WORDS, (fts_expression(begun, prefix=True), n))
            found += [(row, bm25) for row, bm25 in more if row not in seen]
        literal = _literal(terms)
        chunks = self.file.chunks([int(str(row)) for row, _ in found])
        matches = [
            KeywordMatch(
                chunk.id,
                max(0.0, float(str(bm25))),
                literal.search(" ".join(f"{chunk.breadcrumb}\n{chunk.text}".lower().split())) is not None,
            )
            for chunk, (_, bm25) in zip(chunks, found, strict=True)
        ]
        return sorted(matches, key=lambda match: (-match.score, match.key))[:n]

    def keyword(self, query: str, n: int) -> list[Scored]:
        """The keyword branch's ranked list, scores in 0..1."""
        return [Scored(match.key, match.score) for match in self.keyword_matches(query, n)]

    def semantic(self, vector: Vectors, n: int) -> list[Scored]:
        """The ``n`` nearest chunks to a unit vector ``(d,)``, by cosine, ties by id; scores clipped at 0."""
        return [Scored(key, max(0.0, score)) for key, score in self._vectors.search(vector, n)]

    def search(
        self, query: str, *, mode: Mode = "hybrid", settings: RetrievalSettings | None = None
    ) -> list[SearchResult]:
        """Search in one mode. Raises :class:`UsageError` when it needs embeddings and there are none."""
        settings = settings or RetrievalSettings()
        alpha = {"keyword": 0.0, "semantic": 1.0, "hybrid": settings.hybrid_alpha}[mode]
        matches = self.keyword_matches(query, settings.candidate_k_keyword) if alpha < 1 else []
        vectors = self._nearest(query, mode, settings.candidate_k_vector) if alpha > 0 else []
        keywords = [Scored(match.key, match.score) for match in matches]
        if mode == "hybrid":
            k = settings.rrf_k
            branches = {"keyword": keywords, "vector": vectors}
            fused = rrf(branches, k, {"keyword": 1.0 - alpha, "vector": alpha})
            # Rounding must not push a score past 1.
            ranking = [Scored(key, min(1.0, score * (k + 1))) for key, score in fused]
        else:
            ranking = keywords or vectors
        return self._results(ranking, matches, vectors, settings)

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def _nearest(self, query: str, mode: Mode, n: int) -> list[Scored]:
        if self._embedder is None:
            raise UsageError(
                f"{mode} search needs embeddings, and there is no [embedding] section",
                remedy="use --mode keyword, or add this to branchrank.toml and index again:\n\n"
                '    [embedding]\n    model = "all-MiniLM-L6-v2"\n',
            )
        return self.semantic(self._embedder.embed_query(query), n)

    def _results(
        self,
        ranking: list[Scored],
        matches: list[KeywordMatch],
        vectors: list[Scored],
        settings: RetrievalSettings,
    ) -> list[SearchResult]:
        chunks = self.chunks(entry.key for entry in ranking)
        grouped = settings.group_by == "document"
        groups = group(
            ranking,
            lambda key: chunks[key].source if grouped else key,
            aggregate=settings.doc_agg,
            members=settings.max_chunks_per_doc,
        )
        keyword = {match.key: (rank, match) for rank, match in enumerate(matches, start=1)}
        vector = {
            key: Placement(rank=rank, score=score) for rank, (key, score) in enumerate(vectors, start=1)
        }

        def chunk_result(entry: Scored) -> ChunkResult:
            rank, match = keyword.get(entry.key, (0, None))
            return ChunkResult(
                chunk=chunks[entry.key],
                score=entry.score,
                keyword=None if match is None else Placement(rank=rank, score=match.score),
                bm25=None if match is None else match.bm25,
                exact=None if match is None else match.exact,
                vector=vector.get(entry.key),
            )

        return [
            SearchResult(
                id=chunks[best.key].source if grouped else best.key,
                score=best.score,
                chunks=tuple(chunk_result(member) for member in members),
            )
            for best, members in groups[: settings.final_limit]
        ]
