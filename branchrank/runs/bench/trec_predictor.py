"""A TREC run file as a predictor: the results that another program wrote for these questions.

1. Each question's documents are ranked as in trec_eval: by score, and ties by descending id. The ranks in the
   file are ignored.
2. An id is a source of the corpus (the hit is the whole document), ``source:start-end``, or the id of a chunk
   or a node of the workspace's index. As in exported files, characters can be percent-encoded.
3. The file says neither how long the queries took nor what they spent on LLMs, so neither is measured.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from branchrank.core.errors import InputError
from branchrank.core.io.files import digest_file
from branchrank.core.records import NOT_REPORTED, Hit, Passage, Question, Span
from branchrank.documents.ir_collections import entry_source
from branchrank.documents.reading import document_lines
from branchrank.index.reader import Index
from branchrank.runs.bench.predictors import OutsideAnswer, Untraced, hit_at
from branchrank.runs.directory import TREC

_SPAN = re.compile(r"(?P<source>.+):(?P<start>[1-9]\d{0,8})-(?P<end>[1-9]\d{0,8})(~\d+)?", re.DOTALL)


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
