"""The search tools that people and programs call: grep, vector and hybrid search, and ``read_file``.

1. ``grep_search`` finds the query's terms in the corpus's files; its passages carry marked lines.
2. ``vector_search`` finds the nearest chunks and drops those at or past the distance threshold (squared L2
   of unit vectors), saying how many.
3. ``hybrid_search`` runs both at once and fuses them by RRF: grep passages become the chunks that hold their
   matched lines, so that both sides rank the same things. When one side is empty the other's results come
   in their own order.
4. Every search tells its listeners how many characters and how many distinct files or chunks it found.

A result is cited by its real path and lines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import msgspec

from branchrank.errors import BranchRankError
from branchrank.files.grep import Grep, Passage, Ranking, marked_lines
from branchrank.files.grep_chunks import Place, placed, ranking_of
from branchrank.files.read_file import FileReader, FileRefused
from branchrank.files.ripgrep import DEADLINE_S
from branchrank.index import Index
from branchrank.ranking.fusion import rrf
from branchrank.records import Chunk, Hit, Placement, Record, Scored
from branchrank.settings import GrepSettings
from branchrank.systems.sources import squared_distance

TOP = 10
COVERAGE = 0.95


class SearchStatus(Record, frozen=True, kw_only=True):
    """What a search found, for a status line: characters of text, distinct files or chunks."""

    tool: str
    characters: int
    count: int
    unit: Literal["files", "chunks"]
    notices: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """One line for a person."""
        found = f"{self.tool}: {self.characters} characters, {self.count} {self.unit}"
        return "; ".join([found, *self.notices])


Listener = Callable[[SearchStatus], None]


class Found(Record, frozen=True, kw_only=True):
    """One result. Where grep matched lines of it, ``matched`` are their numbers and ``lines`` the file's own
    lines of the result (the text of a chunk leaves out markup and blank lines).
    """

    hit: Hit
    matched: tuple[int, ...] = ()
    lines: str = ""

    @property
    def citation(self) -> str:
        """The real path and lines: ``path:first-last``."""
        return f"{self.hit.source}:{self.hit.line_start}-{self.hit.line_end}"

    @property
    def marked(self) -> str:
        """The lines with their numbers, ``>`` before each matched one; the plain text without a match."""
        return marked_lines(self.lines, self.hit.line_start, self.matched) if self.matched else self.hit.text


class ToolAnswer(Record, frozen=True, kw_only=True):
    """What a search tool answers: results, best first, and the status that was emitted."""

    results: tuple[Found, ...]
    status: SearchStatus

    @property
    def text(self) -> str:
        """The results for a reader or a model, each under its citation."""
        return "\n\n".join(f"[{found.citation}]\n{found.marked}" for found in self.results)


class SearchTools:
    """The tools over one index and its corpus. Safe for several threads."""

    def __init__(
        self,
        index: Index,
        root: Path,
        *,
        settings: GrepSettings | None = None,
        listeners: Iterable[Listener] = (),
        allowed_paths: Sequence[Path] = (),
        deadline_s: float = DEADLINE_S,
    ) -> None:
        """``root`` is the corpus's folder, and what ``read_file`` may read besides ``allowed_paths``."""
        self._index = index
        self._settings = settings or GrepSettings()
        self._listeners = list(listeners)
        self._reader = FileReader([root, *allowed_paths])
        by_source: dict[str, list[Chunk]] = {}
        for chunk in index.chunks.values():
            by_source.setdefault(chunk.source, []).append(chunk)
        self._chunks = by_source
        self._grep = Grep(
            root,
            sources=[entry.source for entry in index.manifest.files],
            context_lines=self._settings.context_lines,
            deadline_s=deadline_s,
        )

    def listen(self, listener: Listener) -> None:
        """Tell ``listener`` of every search from now on."""
        self._listeners.append(listener)

    def grep_search(
        self, query: str, *, ranking: Ranking | None = None, limit: int | None = TOP
    ) -> ToolAnswer:
        """Passages that hold the query's terms. ``ranking`` ``none`` keeps the order of files and lines."""
        result = self._grep.search(query, ranking=ranking or self._settings.ranking, limit=limit)
        return self._grep_answer("grep_search", result.passages, result.notices)

    def vector_search(self, query: str, *, limit: int = TOP) -> ToolAnswer:
        """The nearest chunks under the distance threshold."""
        near, notices = self._near(query)
        found = [self._chunk_result(entry, {"vector": near}) for entry in near[:limit]]
        return self._answer("vector_search", found, "chunks", notices)

    def hybrid_search(
        self,
        semantic_query: str,
        exact_keywords: str = "",
        *,
        ranking: Ranking = "none",
        limit: int = TOP,
    ) -> ToolAnswer:
        """Both searches at once, fused. Without keywords of its own, a question's terms are looked for."""
        keywords = exact_keywords if exact_keywords.strip() else semantic_query
        kept = TOP if ranking == "bm25" else None
        with ThreadPoolExecutor(1) as pool:
            grepping = pool.submit(self._grep.search, keywords, ranking=ranking, limit=kept)
            near, notices = self._near(semantic_query)
            result = grepping.result()
        notices += result.notices
        if not near:
            return self._grep_answer("hybrid_search", result.passages[:limit], notices)
        places = {place.key: place for place in placed(result, self._chunks)}
        branches = {"grep": ranking_of(list(places.values())), "vector": near}
        ranking_ = rrf(branches, self._settings.rrf_k) if places else near
        found = [self._chunk_result(entry, branches, places.get(entry.key)) for entry in ranking_[:limit]]
        return self._answer("hybrid_search", found, "chunks", notices)

    def read_file(self, path: str) -> str:
        """The text of a file of the corpus, or ``[ERROR: <code>] <why>``."""
        try:
            return self._reader.text(path)
        except FileRefused as refusal:
            return str(refusal)

    def grep_chunks(self, query: str, n: int) -> list[Scored]:
        """The ``grep`` branch of a system: chunks of the ``n`` best passages, at most ``n``.

        Raises :class:`BranchRankError` when the search was cut short: a part must not pass for the whole.
        """
        result = self._grep.search(query, ranking=self._settings.ranking, limit=n)
        if result.notices:
            raise BranchRankError(
                "; ".join(result.notices), remedy="exclude large files from the corpus, or run it less loaded"
            )
        return ranking_of([place for place in placed(result, self._chunks) if place.passage is None])[:n]

    def _near(self, query: str) -> tuple[list[Scored], tuple[str, ...]]:
        """The chunks under the threshold, best first, and how many were dropped."""
        if not query.strip():
            return [], ()
        threshold = self._settings.vector_score_threshold
        found = self._index.vectors.search(
            self._index.embedder.embed_query(query), self._settings.vector_top_n
        )
        kept = [entry for entry in found if squared_distance(entry.score) < threshold]
        dropped = len(found) - len(kept)
        notice = f"{dropped} of {len(found)} chunks dropped at or past distance {threshold:g}"
        return kept, (notice,) if dropped else ()

    def _chunk_result(
        self, entry: Scored, branches: dict[str, list[Scored]], place: Place | None = None
    ) -> Found:
        ranks = {
            name: Placement(rank=rank, score=score)
            for name, ranking in branches.items()
            for rank, (key, score) in enumerate(ranking, start=1)
            if key == entry.key
        }
        if place is not None and place.passage is not None:
            found = _passage_result(place.passage)
            hit = msgspec.structs.replace(found.hit, score=entry.score, branches=ranks)
            return msgspec.structs.replace(found, hit=hit)
        chunk = self._index.chunks[entry.key]
        hit = Hit(
            id=chunk.id,
            source=chunk.source,
            line_start=chunk.line_start,
            line_end=chunk.line_end,
            text=chunk.text,
            score=entry.score,
            node_id=chunk.node_id,
            breadcrumb=chunk.breadcrumb,
            distance=squared_distance(ranks["vector"].score) if "vector" in ranks else None,
            branches=ranks,
        )
        if place is None or not place.matched:
            return Found(hit=hit)
        lines = self._grep.lines(chunk.source)[chunk.line_start - 1 : chunk.line_end]
        return Found(hit=hit, matched=place.matched, lines="\n".join(lines))

    def _grep_answer(self, tool: str, passages: Sequence[Passage], notices: tuple[str, ...]) -> ToolAnswer:
        return self._answer(tool, [_passage_result(passage) for passage in passages], "files", notices)

    def _answer(
        self, tool: str, found: Sequence[Found], unit: Literal["files", "chunks"], notices: tuple[str, ...]
    ) -> ToolAnswer:
        distinct = {result.hit.source if unit == "files" else result.hit.id for result in found}
        status = SearchStatus(
            tool=tool,
            characters=sum(len(result.hit.text) for result in found),
            count=len(distinct),
            unit=unit,
            notices=notices,
        )
        for listener in self._listeners:
            listener(status)
        return ToolAnswer(results=tuple(found), status=status)


class Calibration(Record, frozen=True, kw_only=True):
    """What a set of questions says of the distance threshold for one model.

    ``best`` are the questions' nearest distances, ascending. ``suggested`` keeps the nearest chunk of 95 of
    100 questions; ``losing`` counts the questions that lose every chunk at ``threshold``.
    """

    threshold: float
    suggested: float
    losing: int
    best: tuple[float, ...]

    @property
    def warning(self) -> str:
        """One line when over half of the questions lose the vector branch; else empty."""
        if 2 * self.losing <= len(self.best):
            return ""
        return (
            f"{self.losing} of {len(self.best)} questions have no chunk under the distance "
            f"{self.threshold:g}: for this model set vector_score_threshold = {self.suggested:g} in [grep]"
        )


def calibrate(index: Index, questions: Sequence[str], threshold: float = 0.5) -> Calibration:
    """Suggest a distance threshold for the index's model from questions. Raises ``ValueError`` for none."""
    if not questions:
        raise ValueError("calibration needs questions")
    near = [index.vectors.search(index.embedder.embed_query(question), 1)[0] for question in questions]
    best = sorted(squared_distance(entry.score) for entry in near)
    covering = best[math.ceil(COVERAGE * len(best)) - 1]
    # A distance at the threshold is dropped, so the suggestion lies above the last one that is kept.
    suggested = min(4.0, math.floor(covering * 100 + 1) / 100)
    return Calibration(
        threshold=threshold,
        suggested=suggested,
        losing=sum(distance >= threshold for distance in best),
        best=tuple(best),
    )


def _passage_result(passage: Passage) -> Found:
    hit = Hit(
        id=passage.citation,
        source=passage.source,
        line_start=passage.line_start,
        line_end=passage.line_end,
        text=passage.text,
        score=passage.score,
    )
    return Found(hit=hit, matched=passage.matched, lines=passage.text)
