"""What one agent did with its tools for one question: the steps, the lines that it saw, and its citations.

The loop of this package calls the tools of a :class:`ToolSession`. The agents of users get the same tools as
:class:`RecordedTools`: as an object, through the pipe of a child process, or over MCP.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import islice
from threading import Lock
from typing import Any

import msgspec

from branchrank.core.io.printable import encodable, safe_line
from branchrank.core.io.progress import Notify, no_notice
from branchrank.core.records import ANSWER, AgentLog, Record, Span, ToolStep
from branchrank.index.embedders.protocol import NONE
from branchrank.search.llm.request import Tool
from branchrank.search.systems.engine import Engine
from branchrank.search.systems.query import Query
from branchrank.search.systems.search_tools import SearchTools
from branchrank.search.systems.toolbox import (
    CITED_LINES,
    TOOLS,
    Citation,
    Toolbox,
    ToolReply,
    read_answer,
)

#: The number of characters of a call's arguments that a step keeps.
_ARGUMENTS = 1_000
#: The number of characters of an error that a step keeps.
_ERROR = 300
_CITED_LINES = re.compile(rf"(?<=\S){CITED_LINES}(?![-\u2013]?L?\d|:\d|C\d)")
# A path begins where a word begins, and can contain spaces and punctuation.
_PATH_START = re.compile(r"(?<![^\s`'\"<>()\[\]{}|*,;])\S")
#: The longest path of a citation in a text, in characters, and the citations that are read.
_LONGEST_PATH = 200
_MOST_CITED = 10_000
_NO_LINES = "None of the cited lines exists. Copy paths and line numbers from the answers of the tools."
#: The calls of one question that are answered for the agent of a user.
MOST_CALLS = 500


class CheckedCitations(Record, frozen=True, kw_only=True):
    """The cited passages that exist, each once, in their order, and the number of citations that do not."""

    spans: tuple[Span, ...]
    invalid: int


class ToolSession:
    """The tools of one question. Not thread-safe.

    ``lines`` returns the number of lines of a document, or 0 if the corpus does not have the document.
    ``notify`` is called with one line of text about each call.
    """

    def __init__(self, toolbox: Toolbox, lines: Callable[[str], int], notify: Notify = no_notice) -> None:
        self.toolbox = toolbox
        self._lines = lines
        self._notify = notify
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
        self._notify(safe_line(reply.status))
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

    def answer(self, arguments: str, turn: int) -> tuple[CheckedCitations, str] | ToolReply:
        """Return the checked citations and the text of an answer, or the recorded error of a wrong one."""
        reply = self.toolbox.call(ANSWER, arguments)
        if not reply.error:
            citations, text = read_answer(arguments)
            cited = self.checked(citations)
            if cited.spans or not citations:
                return cited, text
            reply = ToolReply(text=_NO_LINES, status=f"{ANSWER}: NO_LINES", error="NO_LINES")
        self.record(ANSWER, arguments, turn, reply)
        return reply

    def checked(self, citations: Iterable[Citation]) -> CheckedCitations:
        """Check which cited lines exist in the corpus."""
        spans: dict[Span, None] = {}
        invalid, lines = 0, cache(self._lines)
        for cited in citations:
            path = cited.path.strip().removeprefix("./")
            if 1 <= cited.line_start <= cited.line_end <= lines(path):
                spans[Span(source=path, line_start=cited.line_start, line_end=cited.line_end)] = None
            else:
                invalid += 1
        return CheckedCitations(spans=tuple(spans), invalid=invalid)

    def cited_in(self, text: str) -> CheckedCitations | None:
        """Return the citations of documents in a text, or ``None`` if none of their lines exists.

        They have the form ``path:line``, ``path:first-last`` or ``path#L3-L8``.
        """
        cited, lines = [], cache(self._lines)
        for found in islice(_CITED_LINES.finditer(text), _MOST_CITED):
            before = text[max(0, found.start() - _LONGEST_PATH) : found.start()].rpartition("\n")[2]
            paths = (before[each.start() :].removeprefix("./") for each in _PATH_START.finditer(before))
            first, last = int(found[1]), int(found[2] or found[1])
            if path := next(filter(lines, paths), ""):
                cited.append(Citation(path=path, line_start=first, line_end=last))
        checked = self.checked(cited)
        return checked if checked.spans else None

    def log(self, cited: CheckedCitations | None, text: str = "") -> AgentLog:
        """Return the record of this session. Without an answer, ``cited`` is ``None``.

        ``unread`` is the number of cited passages of which no tool has shown a line.
        """
        found = cited or CheckedCitations(spans=(), invalid=0)
        return AgentLog(
            steps=tuple(self.steps),
            answered=cited is not None,
            unread=sum(not any(map(span.overlap, self.shown)) for span in found.spans),
            invalid=found.invalid,
            text=text,
        )


class RecordedTools:
    """The tools of one question for the agent of a user. Thread-safe: one call is carried out at a time.

    ``definitions`` has the name, the description and the JSON schema of each tool. ``clean`` removes secrets
    from what an agent sends.
    """

    def __init__(self, session: ToolSession, clean: Callable[[str], str] = encodable) -> None:
        self.session = session
        self.definitions: tuple[Tool, ...] = session.toolbox.definitions
        #: The citations of the last call of ``answer``.
        self.cited: CheckedCitations | None = None
        self._clean, self._lock, self._calls = clean, Lock(), 0

    @classmethod
    def of(cls, engine: Engine, query: Query, clean: Callable[[str], str] = encodable) -> RecordedTools:
        """Return the tools of an engine, without what the query rejects.

        An index without vectors has no tools that search with vectors.
        """
        names = [*TOOLS]
        if engine.index.manifest.embedder.name == NONE:
            names = [name for name in names if name not in ("vector_search", "hybrid_search")]
        toolbox = Toolbox(SearchTools(engine).within(query), names)
        return cls(ToolSession(toolbox, engine.sources.line_count), clean)

    def call(self, name: str, arguments: str | Mapping[str, Any] = "") -> ToolReply:
        """Call a tool with its arguments, or with their JSON text. A wrong call is answered with an error."""
        text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
        name, text = self._clean(name), self._clean(text)
        with self._lock:
            self._calls += 1
            if self._calls > MOST_CALLS:
                error = f"more than {MOST_CALLS} calls"
                return ToolReply(text=error, status=f"{name}: {error}", error="TOO_MANY_CALLS")
            if name != ANSWER:
                return self.session.call(name, text, self._calls)
            given = self.session.answer(text, self._calls)
            if isinstance(given, ToolReply):
                return given
            self.cited = given[0]
            return ToolReply(text="The answer is recorded.", status=ANSWER)
