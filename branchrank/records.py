"""The frozen records that parts of BranchRank pass to each other.

Loaders return these records and not a raw ``dict``. Line numbers start at 1 and refer to the raw file; spans
include their last line. Ranks start at 1.

The records are :mod:`msgspec` structs. ``msgspec.json.decode(line, type=Node)`` validates a line while it
parses it, and its error names the wrong field.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

import msgspec

NodeKind = Literal["root", "folder", "file", "section"]
GoldLevel = Literal["span", "file"]
Returns = Literal["passage", "section"]
ServedBy = Literal["server", "cache", "cassette"]

BREADCRUMB_SEPARATOR = " > "


#: Allowed ranges of the numbers in files, which other programs may have written.
LineNumber = Annotated[int, msgspec.Meta(ge=1, le=2**31)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Rank = Annotated[int, msgspec.Meta(ge=1, le=2**53)]
Grade = Annotated[int, msgspec.Meta(ge=0, le=1_000)]


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Base class of every record. Records are immutable, keyword-only and compared by value."""


class Span(Record, frozen=True, kw_only=True, order=True):
    """Lines ``line_start..line_end`` (1-based, inclusive) of the file ``source``."""

    source: str
    line_start: int
    line_end: int

    @property
    def lines(self) -> int:
        """The number of lines, at least 1 for a valid span."""
        return self.line_end - self.line_start + 1

    def overlap(self, other: Span) -> int:
        """Return the number of lines that both spans contain; 0 if the sources differ."""
        if self.source != other.source:
            return 0
        first = max(self.line_start, other.line_start)
        last = min(self.line_end, other.line_end)
        return max(0, last - first + 1)


class Node(Record, frozen=True, kw_only=True):
    """A node of the PageIndex tree, which is a section, a file, a folder or the root.

    ``line_start..own_line_end`` is the own span, ``line_start..line_end`` the subtree span. Folder
    and root nodes have ``source == ""`` and no lines (all three fields are ``None``); these nodes are never
    hits.
    """

    id: str
    parent_id: str | None
    children: tuple[str, ...] = ()
    depth: int
    kind: NodeKind
    title: str
    summary: str = ""
    text: str = ""
    source: str = ""
    breadcrumb: str = ""
    line_start: int | None = None
    line_end: int | None = None
    own_line_end: int | None = None

    @property
    def has_lines(self) -> bool:
        """Whether the own span contains lines. Only a node with lines can be a hit."""
        return self.line_start is not None and (self.own_line_end or 0) >= self.line_start

    @property
    def own_span(self) -> Span | None:
        """The lines from the node's heading to the line before the first child's heading."""
        if self.line_start is None or self.own_line_end is None:
            return None
        return Span(source=self.source, line_start=self.line_start, line_end=self.own_line_end)


class Chunk(Record, frozen=True, kw_only=True):
    """A piece of one node's own span that gets one vector; ``id`` is ``<node id>@<number from 1>``."""

    id: str
    node_id: str
    source: str
    line_start: int
    line_end: int
    breadcrumb: str
    text: str

    @property
    def span(self) -> Span:
        """The lines of the file that ``text`` was read from."""
        return Span(source=self.source, line_start=self.line_start, line_end=self.line_end)


class GoldItem(Record, frozen=True, kw_only=True):
    """One place that answers a question, which is a span, or a whole file if the lines are ``None``.

    ``answer_digest`` is the digest of the gold lines, from which later edits of the lines are detected.
    ``relevance`` (at least 1, default 2) is the item's grade for graded measures.
    """

    source_file: str
    answer_line_start: int | None = None
    answer_line_end: int | None = None
    answer_quote: str | None = None
    answer_digest: str | None = None
    relevance: int | None = None

    @property
    def span(self) -> Span | None:
        """The gold lines, or ``None`` for file-level gold."""
        if self.answer_line_start is None or self.answer_line_end is None:
            return None
        return Span(
            source=self.source_file,
            line_start=self.answer_line_start,
            line_end=self.answer_line_end,
        )


class Question(Record, frozen=True, kw_only=True):
    """A question with its gold. A hit on any item of ``gold`` counts as correct.

    ``extra`` contains the additional keys of the question in its file.
    """

    id: str
    question: str
    gold: tuple[GoldItem, ...] = ()
    answerable: bool = True
    kind: str = ""
    difficulty: str = ""
    required_entity: str | None = None
    section_title: str | None = None
    gold_level: GoldLevel = "span"
    excluded_spans: tuple[Span, ...] = ()
    source_aliases: tuple[str, ...] = ()
    extra: dict[str, Any] = msgspec.field(default_factory=dict)


class Scored(NamedTuple):
    """One entry of a ranked list, which is a chunk or node id with its score (higher is better)."""

    key: str
    score: float


class Placement(Record, frozen=True, kw_only=True):
    """The rank (from 1) and the score of a candidate in the list of one branch."""

    rank: int
    score: float


class Hit(Record, frozen=True, kw_only=True):
    """One returned passage. ``text`` contains exactly the lines ``line_start`` to ``line_end`` of ``source``.

    ``branches`` maps the name of a branch to the hit's rank and score in the branch's list. For a branch that
    expands over the tree, ``branches`` has the rank and score of the section's best chunk in the branch's
    shortlist. ``notes`` maps a branch's name to an explanation of the score, or to the step of the expansion
    that added a section outside the shortlist. ``distance`` is the squared L2 distance of unit vectors (0 to
    4) if a dense branch found the passage. ``matched`` are the numbers of the lines in which a branch found
    the query's words. ``members`` are the best passages of the hit's document if the system groups by
    document. ``fallback`` is the reason why a fallback ranked this hit, or ``None``.
    """

    id: str
    source: str
    line_start: int
    line_end: int
    text: str
    score: float
    node_id: str | None = None
    breadcrumb: str = ""
    distance: float | None = None
    branches: dict[str, Placement] = msgspec.field(default_factory=dict)
    notes: dict[str, str] = msgspec.field(default_factory=dict)
    matched: tuple[int, ...] = ()
    members: tuple[Hit, ...] = ()
    fallback: str | None = None

    @property
    def reasons(self) -> tuple[str, ...]:
        """The hit's rank in each branch, such as ``bm25(nodes) #2``, or the branch's note."""
        placed = [f"{name} #{place.rank}" for name, place in self.branches.items()]
        notes = [f"{name} {note}" for name, note in self.notes.items() if name not in self.branches]
        return tuple(sorted([*placed, *notes]))

    @property
    def span(self) -> Span:
        """The lines that the hit returns."""
        return Span(source=self.source, line_start=self.line_start, line_end=self.line_end)


class StageTrace(Record, frozen=True, kw_only=True):
    """The ranked list that one stage of one query produced, best first.

    The keys are chunk ids, node ids or, for the ``unit`` ``span``, texts such as ``source:start-end``.
    """

    stage: str
    unit: Literal["chunk", "node", "span"]
    keys: tuple[str, ...]
    scores: tuple[float, ...]


class LLMCall(Record, frozen=True, kw_only=True, omit_defaults=True):
    """One logical LLM call, as a row of the ledger. Latency is in milliseconds.

    ``reported`` is true if the server returned the token counts, and false if BranchRank estimated them.
    ``outcome`` is ``"ok"`` or the reason for the fallback (``"timeout"``, ``"http 500"``, ...). ``replayed``
    is true if a cassette answered this call. The rows of a run do not contain ``replayed``, so that a replay
    writes the same rows as the recorded run.
    """

    predictor: str
    question_id: str
    stage: str
    attempt: int
    repeat: int
    model: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    reported: bool
    latency_ms: float
    served_by: ServedBy
    outcome: str
    replayed: bool = False


class Retrieval(Record, frozen=True, kw_only=True):
    """The result of one query, with hits (best first), the trace of every stage, and stage times in ms.

    ``fallbacks`` gives the stage and the reason of each fallback; ``calls`` lists the LLM calls. ``found`` is
    the number of entries that each branch matched before its list was cut. ``notices`` are messages for the
    user about the hits. ``incomplete`` is empty, or the reason why a part of the corpus was not searched.
    """

    hits: tuple[Hit, ...]
    trace: tuple[StageTrace, ...] = ()
    stage_ms: dict[str, float] = msgspec.field(default_factory=dict)
    calls: tuple[LLMCall, ...] = ()
    fallbacks: tuple[str, ...] = ()
    found: dict[str, int] = msgspec.field(default_factory=dict)
    notices: tuple[str, ...] = ()
    incomplete: str = ""

    @property
    def remarks(self) -> tuple[str, ...]:
        """The notices, and the reason why a part of the corpus was not searched, if any."""
        return (*self.notices, *filter(None, [self.incomplete]))
