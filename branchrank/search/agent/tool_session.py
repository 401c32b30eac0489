"""What one agent did with its tools for one question: the steps, the lines that it saw, and its citations.

The loop of this package and the server of other agents' tools record the same steps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from branchrank.core.records import AgentLog, Record, Span, ToolStep
from branchrank.search.systems.toolbox import Citation, Toolbox, ToolReply

#: The number of characters of a call's arguments that a step keeps.
_ARGUMENTS = 1_000
#: The number of characters of an error that a step keeps.
_ERROR = 300
_CITED = re.compile(r"([^\s`'\"<>()\[\]{}|*,;]+):(\d{1,9})(?:[-\u2013](\d{1,9}))?(?!\d|:\d)")


class CheckedCitations(Record, frozen=True, kw_only=True):
    """The cited passages that exist, each once, in their order, and the number of citations that do not."""

    spans: tuple[Span, ...]
    invalid: int


class ToolSession:
    """The tools of one question. Not thread-safe.

    ``lines`` returns the number of lines of a document, or 0 if the corpus does not have the document.
    """

    def __init__(self, toolbox: Toolbox, lines: Callable[[str], int]) -> None:
        self.toolbox = toolbox
        self._lines = lines
        self.steps: list[ToolStep] = []
        #: The passages that tools showed, in the order of their first appearance.
        self.shown: dict[Span, None] = {}

    def call(self, name: str, arguments: str, turn: int) -> ToolReply:
        """Carry out one call of a tool, and record it."""
        reply = self.toolbox.call(name, arguments)
        self.record(name, arguments, turn, reply)
        return reply

    def record(self, name: str, arguments: str, turn: int, reply: ToolReply) -> None:
        """Record one call and its reply."""
        self.shown |= dict.fromkeys(reply.shown)
        step = ToolStep(
            turn=turn,
            tool=name[:100],
            arguments=arguments[:_ARGUMENTS],
            shown=tuple(span.citation for span in reply.shown),
            characters=reply.characters,
            cut=reply.cut,
            error=reply.text[:_ERROR] if reply.error else "",
        )
        self.steps.append(step)

    def checked(self, citations: Iterable[Citation]) -> CheckedCitations:
        """Check which cited lines exist in the corpus."""
        spans: dict[Span, None] = {}
        invalid = 0
        for cited in citations:
            path = cited.path.strip().removeprefix("./")
            if 1 <= cited.line_start <= cited.line_end <= self._lines(path):
                spans[Span(source=path, line_start=cited.line_start, line_end=cited.line_end)] = None
            else:
                invalid += 1
        return CheckedCitations(spans=tuple(spans), invalid=invalid)

    def cited_in(self, text: str) -> tuple[Span, ...]:
        """Return the citations ``path:line`` and ``path:first-last`` in a text whose lines exist."""
        found = (
            Citation(path=path, line_start=int(first), line_end=int(last or first))
            for path, first, last in _CITED.findall(text)
        )
        return self.checked(found).spans

    def unread(self, spans: Sequence[Span]) -> int:
        """Return of how many passages no tool has shown a line."""
        return sum(not any(map(span.overlap, self.shown)) for span in spans)

    def log(self, cited: CheckedCitations | None, text: str = "") -> AgentLog:
        """Return the record of this session. Without an answer, ``cited`` is ``None``."""
        return AgentLog(
            steps=tuple(self.steps),
            answered=cited is not None,
            unread=self.unread(cited.spans) if cited is not None else 0,
            invalid=cited.invalid if cited is not None else 0,
            text=text,
        )
