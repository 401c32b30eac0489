"""The branch kind ``grep``, which finds the lines that contain words from the query.

The results are passages in the files (unit ``span``) or the chunks that overlap these passages (unit
``chunk``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from branchrank.files.grep import Grep, GrepResult, Ranking
from branchrank.files.grep_chunks import placed, ranking_of
from branchrank.index import Index
from branchrank.records import Chunk, Scored
from branchrank.settings import GrepSettings
from branchrank.spec import Branch
from branchrank.systems.branches import BranchKind, BranchResult, Lookup, Opening, Search

RANKINGS: tuple[Ranking, ...] = ("none", "bm25")


class GrepKind(BranchKind):
    """A search of the indexed files with ripgrep. The ``ranking`` option overrides ``[grep] ranking``."""

    name = "grep"
    units = ("chunk", "span")
    waits = True
    options = ("ranking",)

    def problems(self, branch: Branch) -> list[str]:
        """Check the value of the ``ranking`` option."""
        found = super().problems(branch)
        if branch.options.get("ranking", "none") not in RANKINGS:
            found.append(f"grep's option 'ranking' must be one of {', '.join(RANKINGS)}")
        return found

    def open(self, opening: Opening) -> Search:
        """Return the function that searches the files of the index."""
        settings = opening.settings.part(GrepSettings)
        index = opening.index
        grep = Grep(
            opening.corpus_root,
            sources=index.sources,
            context_lines=settings.context_lines,
        )
        chunks = ChunksBySource(index)

        def search(lookup: Lookup) -> BranchResult:
            words = lookup.query.words
            ranking = RANKINGS[RANKINGS.index(lookup.branch.options.get("ranking", settings.ranking))]
            filters = lookup.query.filters
            admitted = lookup.sources.admitted_sources(filters) if filters else None
            result = grep.search(words, ranking=ranking, limit=lookup.n, sources=admitted)
            return _spans(result) if lookup.branch.unit == "span" else _chunks(result, chunks)

        return search


class ChunksBySource(Mapping[str, Sequence[Chunk]]):
    """Maps each source to its chunks in line order. Each lookup reads the source's chunks from the index."""

    def __init__(self, index: Index) -> None:
        self._chunks = index.chunks

    def __getitem__(self, source: str) -> Sequence[Chunk]:
        rows = sorted(self._chunks.in_source(source).tolist())
        if not rows:
            raise KeyError(source)
        return [self._chunks.at(row) for row in rows]

    def __iter__(self) -> Iterator[str]:
        return iter(self._chunks.sources)

    def __len__(self) -> int:
        return len(self._chunks.sources)


def _spans(result: GrepResult) -> BranchResult:
    passages = {passage.citation: passage for passage in result.passages}
    return BranchResult(
        [Scored(key, passage.score) for key, passage in passages.items()],
        matched={key: passage.matched for key, passage in passages.items()},
        found=result.files,
        incomplete="; ".join(result.notices),
    )


def _chunks(result: GrepResult, chunks: Mapping[str, Sequence[Chunk]]) -> BranchResult:
    places = placed(result, chunks)
    return BranchResult(
        ranking_of(places),
        matched={place.key: place.matched for place in places},
        found=result.files,
        incomplete="; ".join(result.notices),
    )


GREP = GrepKind()
