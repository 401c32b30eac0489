"""Find the lines that contain a query's terms, and return them as passages with context, ranked by BM25.

1. The query is split into terms (:mod:`branchrank.files.terms`), and never used as a regular expression.
2. ripgrep finds every line that contains any of the terms.
3. A match is added to the passage of the previous match if both lines are at most twice the context apart.
   The distance is measured between matched lines. With the distance between context windows, a series of
   matches could make a passage of a whole file.
4. Passages are sorted by score, and passages with equal scores by path and line. ``ranking="bm25"`` drops
   passages with a score below the 25th percentile. The best ``limit`` passages are returned.
5. Only the text of the returned passages is read, with the context before and after the matches.

The statistics of BM25 come from all searched files, not from the passages. The document frequency ``n`` of a
term is the number of files that contain the term, and ``N`` is the number of searched files. The IDF
``ln(1 + (N - n + 0.5) / (n + 0.5))`` is never negative. Every passage contains a term, so the classic IDF
over the passages alone would be negative for an exact match. A passage's length is counted in lines.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from branchrank.corpus.discovery import MAX_FILE_BYTES
from branchrank.files.ripgrep import DEADLINE_S, MatchedLine, count_files, search_files
from branchrank.files.terms import Term, extract_terms
from branchrank.records import Record, Span
from branchrank.safe_open import read_beneath

CONTEXT_LINES = 10
LIMIT = 10
PERCENTILE = 25.0
K1 = 1.2
B = 0.75

Ranking = Literal["bm25", "none"]
Scores = NDArray[np.float64]


class Passage(Record, frozen=True, kw_only=True):
    """Matched lines with their context. ``text`` is exactly the lines ``line_start..line_end`` of the file.

    ``matched`` are the numbers of the matched lines. ``score`` is the BM25 score, at least 0.
    """

    source: str
    line_start: int
    line_end: int
    text: str
    matched: tuple[int, ...]
    score: float = 0.0

    @property
    def span(self) -> Span:
        """The lines of the passage."""
        return Span(source=self.source, line_start=self.line_start, line_end=self.line_end)

    @property
    def citation(self) -> str:
        """The location of the passage, as ``path:first-last``."""
        return f"{self.source}:{self.line_start}-{self.line_end}"

    @property
    def marked(self) -> str:
        """The text with line numbers, and ``>`` before each matched line."""
        return marked_lines(self.text, self.line_start, self.matched)


class GrepResult(Record, frozen=True, kw_only=True):
    """The result of a grep search, with passages, best first, and the terms of the query.

    ``weights`` are the IDF values of the terms. ``matches`` is the number of passages before any were
    dropped, and ``files`` is the number of files with a passage.
    """

    passages: tuple[Passage, ...]
    terms: tuple[Term, ...]
    weights: tuple[float, ...]
    matches: int
    files: int = 0
    notices: tuple[str, ...] = ()

    def relevance(self, text: str) -> float:
        """Return the BM25 score of a text without length normalisation; 0 if the text contains no term."""
        counts = counts_of(self.terms, text)
        return sum(
            weight * count * (K1 + 1) / (count + K1)
            for weight, count in zip(self.weights, counts, strict=True)
        )


class _Cluster(Record, frozen=True, kw_only=True):
    """Matched lines of one file that belong to the same passage."""

    source: str
    lines: tuple[MatchedLine, ...]
    score: float = 0.0


def _too_large(root: Path, sources: Collection[str]) -> tuple[str, ...]:
    """Return a notice about files that are larger than the limit, if there are any."""
    large = []
    for source in sorted(sources):
        with contextlib.suppress(OSError):
            if os.stat(root / source, follow_symlinks=False).st_size > MAX_FILE_BYTES:
                large.append(source)
    if not large:
        return ()
    more = f" and {len(large) - 1} more" if len(large) > 1 else ""
    return (f"grep skipped {large[0]}{more}: larger than {MAX_FILE_BYTES >> 20} MiB",)


class Grep:
    """Searches the files below ``root``, or only ``sources``, which are paths relative to ``root``."""

    def __init__(
        self,
        root: Path,
        *,
        sources: Collection[str] | None = None,
        context_lines: int = CONTEXT_LINES,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self._root = root
        self._sources = None if sources is None else frozenset(sources)
        self._context = context_lines
        self._deadline_s = deadline_s
        self._notices = _too_large(root, self._sources or ())

    def search(
        self,
        query: str,
        *,
        ranking: Ranking = "none",
        limit: int | None = LIMIT,
        sources: Collection[str] | None = None,
    ) -> GrepResult:
        """Return the passages that contain the query's terms; ``limit=None`` returns all.

        With ``sources``, other files are neither searched nor counted in this search. Raises
        :class:`~branchrank.errors.CorpusError` if the root is not a folder.
        """
        terms = extract_terms(query)
        searched = self._sources if sources is None else frozenset(sources)
        found = search_files(
            self._root,
            [term.pattern for term in terms],
            sources=searched,
            deadline_s=self._deadline_s,
        )
        reach = 2 * self._context
        clusters = [
            cluster for source, lines in found.files.items() for cluster in _clusters(source, lines, reach)
        ]
        matches = len(clusters)
        weights = [0.0] * len(terms)
        if clusters:
            files = count_files(self._root) if searched is None else len(searched)
            clusters, weights = self._ranked(clusters, terms, files, PERCENTILE if ranking == "bm25" else 0.0)
        kept = clusters[:limit]
        contents = {source: self.lines(source) for source in {cluster.source for cluster in kept}}
        passages = (self._passage(cluster, contents[cluster.source]) for cluster in kept)
        return GrepResult(
            passages=tuple(passage for passage in passages if passage is not None),
            terms=terms,
            weights=tuple(weights),
            matches=matches,
            files=len(found.files),
            notices=(*self._notices, *found.notices),
        )

    def _ranked(
        self, clusters: list[_Cluster], terms: Sequence[Term], files: int, percentile: float
    ) -> tuple[list[_Cluster], list[float]]:
        """Return the clusters at or above the percentile, sorted by score, and the IDF of each term."""
        scores, weights = _bm25(clusters, terms, files, self._context)
        floor = np.percentile(scores, percentile)
        order = np.lexsort((np.arange(len(clusters)), -scores))
        kept = [
            _Cluster(source=clusters[i].source, lines=clusters[i].lines, score=float(scores[i]))
            for i in order
            if scores[i] >= floor
        ]
        return kept, weights

    def lines(self, source: str) -> list[str]:
        """Return a file's lines without line ends; empty if the file does not exist or is behind a link."""
        try:
            text = read_beneath(self._root, source).decode("utf-8", "replace")
        except OSError:
            return []
        return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]

    def _passage(self, cluster: _Cluster, lines: list[str]) -> Passage | None:
        """Return the passage of a cluster; ``None`` if the file has become shorter since the search."""
        if cluster.lines[-1].number > len(lines):
            return None
        first = max(1, cluster.lines[0].number - self._context)
        last = min(len(lines), cluster.lines[-1].number + self._context)
        return Passage(
            source=cluster.source,
            line_start=first,
            line_end=last,
            text="\n".join(lines[first - 1 : last]),
            matched=tuple(line.number for line in cluster.lines),
            score=cluster.score,
        )


def _clusters(source: str, lines: Sequence[MatchedLine], reach: int) -> list[_Cluster]:
    """Group a file's matched lines; lines more than ``reach`` lines apart are in different clusters."""
    groups: list[list[MatchedLine]] = []
    for line in lines:
        if groups and line.number - groups[-1][-1].number <= reach:
            groups[-1].append(line)
        else:
            groups.append([line])
    return [_Cluster(source=source, lines=tuple(group)) for group in groups]


def _bm25(
    clusters: Sequence[_Cluster], terms: Sequence[Term], files: int, context: int
) -> tuple[Scores, list[float]]:
    """Return the BM25 score of each cluster, shape (clusters,), at least 0, and the IDF of each term.

    Every line that contains a term is a matched line, so terms are counted in matched lines only.
    """
    texts = ["\n".join(line.text for line in cluster.lines).lower() for cluster in clusters]
    ends = np.cumsum([len(text) + 1 for text in texts])
    whole = "\n".join(texts)  # terms contain no line breaks, so no match spans two clusters
    lengths = np.array([c.lines[-1].number - c.lines[0].number + 1 + 2 * context for c in clusters], float)
    _, source_of = np.unique([cluster.source for cluster in clusters], return_inverse=True)
    scores = np.zeros(len(clusters))
    weights = []
    saturation = K1 * (1 - B + B * lengths / lengths.mean())
    for term in terms:
        places = np.array(_occurrences(term, whole), dtype=np.intp)
        counts = np.bincount(np.searchsorted(ends, places, side="right"), minlength=len(clusters))
        holding = len(np.unique(source_of[counts > 0]))
        weights.append(math.log1p((max(files, holding) - holding + 0.5) / (holding + 0.5)))
        scores += weights[-1] * counts * (K1 + 1) / (counts + saturation)
    return scores, weights


def counts_of(terms: Sequence[Term], text: str) -> list[int]:
    """Return the number of matches of each term in a text."""
    lowered = text.lower()
    return [len(_occurrences(term, lowered)) for term in terms]


def _occurrences(term: Term, lowered: str) -> list[int]:
    """Return the offsets of a term's non-overlapping matches in a lower-case text, ascending."""
    literal = term.text.lower()
    found = []
    at = lowered.find(literal)
    while at >= 0:
        inside = term.kind == "word" and at > 0 and (lowered[at - 1].isalnum() or lowered[at - 1] == "_")
        if not inside:
            found.append(at)
        at = lowered.find(literal, at + (1 if inside else len(literal)))
    return found


def marked_lines(text: str, first: int, matched: Collection[int]) -> str:
    """Return ``text`` with line numbers, starting at ``first``, and ``>`` before each matched line."""
    lines = text.split("\n")
    width = len(str(first + len(lines) - 1))
    return "\n".join(
        f"{'>' if number in matched else ' '} {number:{width}} | {line}"
        for number, line in enumerate(lines, start=first)
    )
