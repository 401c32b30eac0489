"""The places in the corpus of what outside predictors return, and TREC run files as predictors.

1. A passage without lines gets the lines of its text (:mod:`branchrank.documents.locating`). A passage that
   is at no place, or at several, stays in the list as a hit at :data:`~branchrank.core.records.UNPLACED`: it
   is a miss, and the hits after it don't move up.
2. The text of every other hit is read from its lines, and hits whose returned text differs are counted.

A TREC run file has the results that another program wrote for these questions.

1. Each question's documents are ranked as in trec_eval: by score, and ties by descending id. The ranks in the
   file are ignored.
2. An id is a source of the corpus (the hit is the whole document), ``source:start-end``, or the id of a chunk
   or a node of the workspace's index. As in exported files, characters can be percent-encoded.
3. The file says neither how long the queries took nor what they spent on LLMs, so neither is measured.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec
import numpy as np

from branchrank.core.errors import BranchRankError, InputError
from branchrank.core.io.files import digest_file
from branchrank.core.records import NOT_REPORTED, Hit, Passage, Question, Retrieval, Span
from branchrank.documents.ir_collections import entry_source
from branchrank.documents.lines import normalize
from branchrank.documents.reading import document_lines
from branchrank.runs.bench.predictors import OutsideAnswer, Untraced, hit_at
from branchrank.runs.directory import TREC
from branchrank.runs.words import plural

if TYPE_CHECKING:
    from branchrank.documents.locating import Anchor, Locator
    from branchrank.index.reader import Index

_WORD = re.compile(r"\w+")
_SPAN = re.compile(r"(?P<source>.+):(?P<start>[1-9]\d{0,8})-(?P<end>[1-9]\d{0,8})(~\d+)?", re.DOTALL)


class HitPlaces:
    """The documents below ``root``. ``min_similarity`` (0.5 to 1) is that of an anchor."""

    def __init__(self, root: Path, exclude: Sequence[str] = (), min_similarity: float = 0.9) -> None:
        self.root = root
        self.exclude = exclude
        self.min_similarity = min_similarity
        self._lines: dict[str, list[str]] = {}

    @cached_property
    def locator(self) -> Locator:
        """The locator, which reads the whole corpus when it is first used."""
        from branchrank.documents.locating import Locator

        return Locator.of(self.root, self.exclude, self.min_similarity)

    def placed(self, retrieval: Retrieval) -> tuple[tuple[Hit, ...], dict[str, Any]]:
        """Return the hits with their lines and the text of these lines, and the fields of a row about them.

        ``altered``, ``missing`` and ``ambiguous`` count the hits that need a remark. ``unknown`` has the
        source of each text whose source is not in the corpus.

        Raises :class:`BranchRankError` for lines that do not exist.
        """
        problems = Counter[str]()
        unknown: list[str] = []
        hits: list[Hit] = []
        altered = 0
        for rank, hit in enumerate(retrieval.hits, start=1):
            passage = retrieval.passages.get(rank)
            if passage is None:
                own, differs = self._with_own_text(hit)
                altered += differs
            else:
                found = self.locator.find(passage)
                if passage.source and not self.locator.source_of(passage.source):
                    unknown.append(passage.source)
                own = hit if isinstance(found, str) else self._anchored(hit, found)
                problems.update((found,) if isinstance(found, str) else ())
            hits.append(own)
        return tuple(hits), {"altered": altered, **problems, "unknown": tuple(unknown)}

    def lines(self, source: str) -> Sequence[str]:
        """Return a document's lines, or none if the corpus does not have the document."""
        try:
            return self._lines_of(source)
        except BranchRankError:
            return ()

    def _anchored(self, hit: Hit, anchor: Anchor) -> Hit:
        placed = msgspec.structs.replace(
            hit, source=anchor.source, line_start=anchor.line_start, line_end=anchor.line_end
        )
        return self._with_own_text(placed)[0]

    def _lines_of(self, source: str) -> list[str]:
        if source not in self._lines:
            try:
                self._lines[source] = document_lines(self.root, source)
            except OSError:
                raise BranchRankError(f"the corpus has no document {source!r}") from None
        return self._lines[source]

    def _with_own_text(self, hit: Hit) -> tuple[Hit, bool]:
        """Replace the text of a hit with its lines, and return whether the text differed.

        A text differs if fewer than three quarters of its words are words of the lines, or if it has no words
        and the lines have some. Case and markup are ignored, and the plain text of a section passes.
        ``plain`` is kept if it consists of words of the lines, in the same order, and has at least half of
        them.
        """
        try:
            lines = self._lines_of(hit.source)
        except BranchRankError:
            # Loaders store longer paths, and paths relative to the working directory.
            if not (source := self.locator.source_of(hit.source)):
                raise
            hit = msgspec.structs.replace(hit, source=source)
            lines = self._lines_of(source)
        if hit.line_end > len(lines):
            raise BranchRankError(
                f"lines {hit.line_start}-{hit.line_end} of {hit.source} do not exist, because the document "
                f"has {plural(len(lines), 'line')}"
            )
        text = "\n".join(lines[hit.line_start - 1 : hit.line_end])
        own = _WORD.findall(normalize(text))
        claimed = {each: _WORD.findall(normalize(each)) for each in (hit.text, hit.plain)}
        altered = bool(own and not claimed[hit.text]) or any(
            4 * (Counter(words) & Counter(own)).total() < 3 * len(words) for words in claimed.values()
        )
        words, rest = claimed[hit.plain], iter(own)
        is_plain = 2 * len(words) >= len(own) and all(word in rest for word in words)
        return msgspec.structs.replace(hit, text=text, plain=hit.plain if is_plain else text), altered


class TrecPredictor(Untraced):
    """The results in the TREC run file ``path``.

    Raises :class:`InputError` if the file can't be read or is not a TREC run.
    """

    def __init__(self, path: str, name: str = "", llm: str = "") -> None:
        from branchrank.runs.exchange import read_trec

        self.origin = TREC + path
        self.name = name or self.origin
        self.llm = llm or NOT_REPORTED
        self.path = Path(path)
        self.run = read_trec(self.path)
        self.digest = digest_file(self.path)
        self._corpus = Path()
        self._indexes: tuple[Index, ...] = ()
        self._sources: dict[str, str] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return what a worker needs, which opens the indexes again."""
        return {**self.__dict__, "_indexes": ()}

    def open(
        self, corpus: Path, indexes: Callable[[], Sequence[Index]], questions: Sequence[Question]
    ) -> None:
        """Use the indexes to find the places that ids name.

        Raises :class:`InputError` if the file has no line for any of the questions, or if none of the ids
        that it has for them is in the corpus.
        """
        self._corpus, self._indexes = corpus, tuple(indexes())
        from branchrank.runs.exchange import document_id

        self._sources = {document_id(source): source for each in self._indexes for source in each.sources}
        asked = [question for question in questions if self._ranked(question)]
        ids = [key for question in asked for key in self._ranked(question)]
        if not asked and questions:
            raise InputError(
                f"{self.path} has no results for the questions; a query in it is {next(iter(self.run), '')}",
                remedy="use the ids of the question file as query ids",
            )
        if ids and not any(map(self._span, ids)):
            raise InputError(
                f"{self.path}: no id, such as {ids[0]!r}, is in the corpus {corpus}",
                remedy="use sources, source:start-end, or the ids of the index's chunks or nodes",
            )

    def ask(self, question: Question, k: int) -> OutsideAnswer:
        """Return the first k results for the question. An id that names nothing is a passage without text."""
        return OutsideAnswer([self._hit(question, key) for key in self._ranked(question)[:k]])

    def _hit(self, question: Question, key: str) -> Hit | Passage:
        score, span = self._scores(question)[key], self._span(key)
        if span is None:
            return Passage(text="", id=key, score=score)
        return hit_at(span, document_lines(self._corpus, span.source), score, key)

    def _scores(self, question: Question) -> dict[str, float]:
        from branchrank.runs.exchange import trec_token

        return self.run.get(trec_token(question.id), {})

    def _ranked(self, question: Question) -> list[str]:
        """Return the ids for a question, best first."""
        scores = self._scores(question)
        with np.errstate(over="ignore"):  # as in trec_eval, scores are compared in single precision
            return sorted(scores, key=lambda key: (np.float32(scores[key]), key), reverse=True)

    def _span(self, key: str) -> Span | None:
        """Return the lines that an id names, or ``None`` if it names nothing in the corpus."""
        from branchrank.runs.exchange import document_id

        for name in dict.fromkeys((key, unquote(key))):
            place = _SPAN.fullmatch(name)
            given = place["source"] if place else name
            source = self._sources.get(given) or self._sources.get(document_id(entry_source(given)))
            lines = len(document_lines(self._corpus, source)) if source else 0
            start, end = (int(place["start"]), int(place["end"])) if place else (1, lines)
            if source and start <= end <= lines:
                return Span(source=source, line_start=start, line_end=end)
            for index in self._indexes:
                if name in index.chunks:
                    return index.chunks[name].span
                if name in index.nodes and index.nodes[name].has_lines:
                    return index.nodes[name].own_span
        return None
