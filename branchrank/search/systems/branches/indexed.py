"""The branch kinds that search the index and its files: ``dense``, ``bm25``, ``fts5`` and ``grep``.

The results of ``grep`` are passages in the files (unit ``span``) or the chunks that overlap these passages
(unit ``chunk``), so that grep and vector search rank the same items.

1. A passage is mapped to the chunks that contain one of the passage's matched lines. If no chunk contains a
   matched line, the passage is mapped to all chunks that overlap the passage. A passage that overlaps no
   chunk is dropped.
2. A chunk's relevance is computed from the lines that the chunk shares with the passage. If several passages
   are mapped to the same chunk, the chunk's highest relevance is used.
3. The chunks of all passages are sorted together by relevance. Otherwise, the weakest chunk of a passage
   would rank above the best chunk of the next passage. With ``ranking="raw"``, all have the same relevance
   and are sorted by path and line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, get_args

from branchrank.core.ranked_lists import RankedList
from branchrank.core.records import Chunk, Scored
from branchrank.core.settings import BenchmarkSettings, GrepRanking, GrepSettings
from branchrank.core.spec import Branch
from branchrank.documents.reading import TEXTS
from branchrank.index.reader import Index
from branchrank.index.stores.analyzer import stop_words
from branchrank.index.stores.vectors import squared_distance
from branchrank.search.systems.branches import BranchKind, BranchResult, Lookup, Opening, Scores, Search
from branchrank.search.systems.system_checks import depth

if TYPE_CHECKING:
    from branchrank.index.stores.sqlite_fts5 import Fts5Table
    from branchrank.search.files.grep_search import GrepPassage, GrepResult

RANKINGS: tuple[GrepRanking, ...] = get_args(GrepRanking)


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


class GrepKind(BranchKind):
    """A search of the indexed files with ripgrep, for the lines that contain words from the query.

    The option ``ranking`` overrides ``[grep] ranking``. The option ``passage_lines`` is the maximum number of
    lines of a passage (0: any number). The default is ``[benchmark] passage_lines``, or 60.
    """

    name = "grep"
    units = ("chunk", "span")
    waits = True
    options = ("ranking", "passage_lines")

    def problems(self, branch: Branch) -> list[str]:
        """Check the values of the options."""
        found = super().problems(branch)
        if branch.options.get("ranking", "order") not in RANKINGS:
            found.append(f"grep's option 'ranking' must be one of {', '.join(RANKINGS)}")
        lines = branch.options.get("passage_lines", 0)
        if type(lines) is not int or lines < 0:
            found.append("grep's option 'passage_lines' must be an integer of at least 0")
        return found

    def open(self, opening: Opening) -> Search:
        """Return the function that searches the files of the index."""
        from branchrank.search.files.grep_search import PASSAGE_LINES, Grep

        settings = opening.settings.part(GrepSettings)
        index = opening.index
        grep = Grep(
            opening.corpus_root,
            index.sources,
            texts=(index.directory / TEXTS, index.text_files),
            stop_words=stop_words(index.bm25_settings),
            context_lines=settings.context_lines,
        )
        chunks_of = partial(chunks_in, index)
        bound = opening.settings.part(BenchmarkSettings).passage_lines or PASSAGE_LINES

        def search(lookup: Lookup) -> BranchResult:
            options, filters = lookup.branch.options, lookup.query.filters
            ranking = RANKINGS[RANKINGS.index(options.get("ranking", settings.ranking))]
            lines = options.get("passage_lines", bound)
            admitted = lookup.sources.admitted_sources(filters) if filters else None
            result = grep.search(
                lookup.query.words, ranking=ranking, limit=lookup.n, sources=admitted, passage_lines=lines
            )
            return _spans(result) if lookup.branch.unit == "span" else passage_chunks(result, chunks_of)

        return search


def chunks_in(index: Index, source: str) -> list[Chunk]:
    """Return the chunks of a document in line order, read from the index."""
    return [index.chunks.at(row) for row in sorted(index.chunks.in_source(source).tolist())]


def _spans(result: GrepResult) -> BranchResult:
    passages = {passage.span.citation: passage for passage in result.passages}
    return BranchResult(
        [Scored(key, passage.score) for key, passage in passages.items()],
        matched={key: passage.matched for key, passage in passages.items()},
        found=result.files,
        incomplete="; ".join(result.notices),
    )


def passage_chunks(result: GrepResult, chunks_of: Callable[[str], Sequence[Chunk]]) -> BranchResult:
    """Map the passages in a grep result to chunks, and sort the chunks by relevance.

    ``chunks_of`` returns the chunks of a file. The score of a chunk is 1 / rank.
    """
    matched: dict[str, tuple[int, ...]] = {}
    relevance: dict[str, float] = {}
    for passage in result.passages:
        overlapping = [c for c in chunks_of(passage.source) if c.span.overlap(passage.span)]
        held = {chunk.id: _held(chunk, passage) for chunk in overlapping}
        counting = [chunk for chunk in overlapping if held[chunk.id]] or overlapping
        lines = passage.text.split("\n")
        relevant = {chunk.id: result.relevance(_shared(chunk, passage, lines)) for chunk in counting}
        for chunk in sorted(counting, key=lambda each: (-relevant[each.id], each.line_start, each.id)):
            matched[chunk.id] = tuple(sorted({*held[chunk.id], *matched.get(chunk.id, ())}))
            relevance[chunk.id] = max(relevant[chunk.id], relevance.get(chunk.id, 0.0))
    return BranchResult(
        RankedList.in_order(sorted(relevance, key=lambda key: -relevance[key])),
        matched=matched,
        found=result.files,
        incomplete="; ".join(result.notices),
    )


def _held(chunk: Chunk, passage: GrepPassage) -> tuple[int, ...]:
    return tuple(line for line in passage.matched if chunk.line_start <= line <= chunk.line_end)


def _shared(chunk: Chunk, passage: GrepPassage, lines: Sequence[str]) -> str:
    """Return the lines of a passage that are inside a chunk."""
    first = max(chunk.line_start, passage.line_start) - passage.line_start
    last = min(chunk.line_end, passage.line_end) - passage.line_start
    return "\n".join(lines[first : last + 1])


DENSE = DenseKind()
BM25 = Bm25Kind()
FTS5 = Fts5Kind()
GREP = GrepKind()
