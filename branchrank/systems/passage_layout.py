"""Extend the hits for one query within their sections, and drop hits that repeat an earlier hit."""

from __future__ import annotations

from collections import defaultdict

import msgspec

from branchrank.ranking.passage_growth import Lines, placed
from branchrank.records import Hit
from branchrank.systems.sources import Sources


class PassageLayout:
    """Extends the hits for one query, and drops repeated hits.

    The hits must be passed to :meth:`place` in order, best hit first. ``lines`` is the number of lines to
    which a hit is extended, or 0 if hits are not extended.
    """

    def __init__(self, sources: Sources, lines: int) -> None:
        self.sources = sources
        self.lines = lines
        self._above: defaultdict[str, list[Lines]] = defaultdict(list)
        self._texts: set[str] = set()

    def place(self, hit: Hit) -> Hit | None:
        """Return the extended hit, or ``None`` if earlier hits already show the same lines or text."""
        laid = self._grown(hit) if self.lines else hit
        if laid is None:
            return None
        text = " ".join(laid.text.split())
        if text in self._texts:
            return None
        self._texts.add(text)
        self._above[laid.source].append((laid.line_start, laid.line_end))
        return laid

    def _grown(self, hit: Hit) -> Hit | None:
        passage = (hit.line_start, hit.line_end)
        lines = placed(passage, self._section(hit), self._above[hit.source], self.lines)
        if lines is None or lines == passage:
            return hit if lines else None
        first, last = lines
        raw = self.sources.lines(hit.source)
        if len(raw) < last:  # the document was deleted or is shorter now
            return hit if first <= hit.line_start and hit.line_end <= last else None
        return msgspec.structs.replace(
            hit,
            line_start=first,
            line_end=last,
            text="\n".join(raw[first - 1 : last]),
            matched=tuple(line for line in hit.matched if first <= line <= last),
        )

    def _section(self, hit: Hit) -> Lines:
        """Return the range of lines within which a hit may be extended. The hit is inside this range."""
        node = self.sources.index.tree.nodes.get(hit.node_id or "")
        span = node.own_span if node is not None else None
        if span is None or span.overlap(hit.span) < hit.span.lines:
            return hit.line_start, hit.line_end
        return span.line_start, span.line_end
