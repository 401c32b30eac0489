"""The immutable records that the parts of BranchRank pass to each other.

Line numbers start at 1 and count the lines of the unprocessed file. A span includes its last line. Ranks
start at 1.

The records are :mod:`msgspec` structs. ``msgspec.json.decode(line, type=Node)`` validates a line while
parsing it. The error for an invalid line names the invalid field.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple, Protocol

import msgspec

NodeKind = Literal["root", "folder", "file", "section"]
GoldLevel = Literal["span", "file"]
Returns = Literal["passage", "section"]
ServedBy = Literal["server", "cache", "cassette"]

BREADCRUMB_SEPARATOR = " > "


#: Allowed ranges of numbers that are read from files. The numbers are checked, because other programs may
#: have written the files.
LineNumber = Annotated[int, msgspec.Meta(ge=1, le=2**31)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Rank = Annotated[int, msgspec.Meta(ge=1, le=2**53)]
Grade = Annotated[int, msgspec.Meta(ge=0, le=1_000)]
#: The default random seed of every draw.
SEED = 42
#: The source of a hit whose text is at no place of the corpus, or at several places.
UNPLACED = "unplaced"
_AS_TEXT: Any = msgspec.UNSET
#: The ``llm`` of a predictor that uses no LLM, and of one that does not say what it uses.
NO_LLM = "none"
NOT_REPORTED = "not reported"


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Base class of every record. Records are immutable, take only keyword arguments and compare by value."""


class Span(Record, frozen=True, kw_only=True, order=True):
    """Lines ``line_start..line_end`` (1-based, inclusive) of the file ``source``."""

    source: str
    line_start: int
    line_end: int

    @classmethod
    def of(cls, citation: str) -> Span:
        """Return the span of a text such as ``guide/install.md:3-8``. Raises ``ValueError`` for another."""
        source, _, lines = citation.rpartition(":")
        first, _, last = lines.partition("-")
        return cls(source=source, line_start=int(first), line_end=int(last))

    @property
    def lines(self) -> int:
        """The number of lines in the span, which is at least 1 for a valid span."""
        return self.line_end - self.line_start + 1

    @property
    def citation(self) -> str:
        """The span as text, such as ``guide/install.md:3-8``."""
        return f"{self.source}:{self.line_start}-{self.line_end}"

    def overlap(self, other: Span, ignored: Sequence[int] = ()) -> int:
        """Return the number of lines that the two spans share, which is 0 for spans in different files.

        Lines in ``ignored``, which must be sorted, are not counted.
        """
        if self.source != other.source:
            return 0
        first = max(self.line_start, other.line_start)
        last = min(self.line_end, other.line_end)
        return max(0, last - first + 1 - bisect_right(ignored, last) + bisect_left(ignored, first))


class Node(Record, frozen=True, kw_only=True):
    """A node in the PageIndex tree: a section, a file, a folder or the root.

    A node's own span, without subsections, is ``line_start..own_line_end``. The span of a node's whole
    subtree is ``line_start..line_end``. Folder and root nodes have an empty ``source`` and ``None`` as line
    numbers, and are never hits.
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
        """Whether the node has lines outside subsections. A node without lines of its own is never a hit."""
        return self.line_start is not None and (self.own_line_end or 0) >= self.line_start

    @property
    def own_span(self) -> Span | None:
        """The lines from the node's heading to the line before the first child's heading."""
        if self.line_start is None or self.own_line_end is None:
            return None
        return Span(source=self.source, line_start=self.line_start, line_end=self.own_line_end)


class Chunk(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of text from one document.

    Each chunk has one vector. ``id`` is ``<node id>@<n>``, where ``n`` numbers the chunks of the node from 1.
    A chunk from the default chunker is inside one node's own span. If a chunk overlaps the own spans of
    several nodes, ``node_ids`` contains all of these nodes in line order, and ``node_id`` is the node with
    which the chunk shares the most lines (the first of them, if several share the most).
    """

    id: str
    node_id: str
    source: str
    line_start: int
    line_end: int
    breadcrumb: str
    text: str
    node_ids: tuple[str, ...] = ()

    @property
    def span(self) -> Span:
        """The source file and the lines from which ``text`` was read."""
        return Span(source=self.source, line_start=self.line_start, line_end=self.line_end)


class GoldItem(Record, frozen=True, kw_only=True, omit_defaults=True):
    """Lines in a file that answer a question, or the whole file if the line numbers are ``None``.

    ``answer_digest`` is the digest of the gold lines, and is used to detect later changes to these lines.
    ``relevance`` is the item's grade (at least 1) for graded measures. A ``relevance`` of ``None`` means the
    default grade 2.
    """

    source_file: str
    answer_line_start: int | None = None
    answer_line_end: int | None = None
    answer_quote: str | None = None
    answer_digest: str | None = None
    relevance: int | None = None

    @classmethod
    def of(cls, span: Span, *, quote: str = "", digest: str | None = None) -> GoldItem:
        """Return the gold item with the lines of a span."""
        return cls(
            source_file=span.source,
            answer_line_start=span.line_start,
            answer_line_end=span.line_end,
            answer_quote=quote or None,
            answer_digest=digest,
        )

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

    @property
    def citation(self) -> str:
        """The gold as text, such as ``guide/install.md:3-8``, or the file alone for file-level gold."""
        return self.source_file if self.span is None else self.span.citation


#: The key of :attr:`Question.gold_state` in the question's JSON object.
GOLD_STATE = "gold_state"


class Question(Record, frozen=True, kw_only=True):
    """A question with its gold.

    A hit that matches any item in ``gold`` is correct. ``extra`` contains the keys of the question's JSON
    object that are not fields of this record.
    """

    id: str
    question: str
    gold: tuple[GoldItem, ...] = ()
    #: The groups of evidence that are needed together. Each group has the indices (in ``gold``) of its
    #: alternatives.
    needs: tuple[tuple[int, ...], ...] = ()
    #: How many items of ``gold`` precede those that only ``needs`` lists in a question file. ``None``: all.
    listed: int | None = None
    answerable: bool = True
    kind: str = ""
    difficulty: str = ""
    required_entity: str | None = None
    section_title: str | None = None
    gold_level: GoldLevel = "span"
    excluded_spans: tuple[Span, ...] = ()
    source_aliases: tuple[str, ...] = ()
    extra: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def gold_state(self) -> str:
        """``changed`` or ``gone`` if the text of the gold is not the text that was recorded, else empty.

        A run with ``reanchor`` sets it. The page of changed gold still exists, and that of gold that is gone
        does not.
        """
        state = self.extra.get(GOLD_STATE)
        return state if state in ("changed", "gone") else ""

    @property
    def is_scored(self) -> bool:
        """Whether rates include the question: it has an answer, and the place of its gold is known."""
        return self.answerable and not self.gold_state

    @property
    def unscored(self) -> str:
        """The outcome of a question that is not scored."""
        return f"gold {self.gold_state}" if self.gold_state else "unanswerable"

    def needed_for(self, number: int) -> str:
        """Return the groups of ``needs`` (counted from 1) with this gold item, such as "1", or "" if none."""
        return ", ".join(str(place) for place, group in enumerate(self.needs, start=1) if number in group)

    def with_gold(self, gold: Sequence[GoldItem]) -> Question:
        """Return the question with other gold. ``needs`` keeps its items that are still gold."""
        unlisted = () if self.listed is None else self.gold[self.listed :]
        ordered = sorted(gold, key=unlisted.__contains__)
        kept = (
            [ordered.index(item) for item in map(self.gold.__getitem__, group) if item in ordered]
            for group in self.needs
        )
        needs = tuple(map(tuple, filter(None, kept)))
        listed = sum(item not in unlisted for item in ordered) if needs else None
        return msgspec.structs.replace(self, gold=tuple(ordered), needs=needs, listed=listed)


class Scored(NamedTuple):
    """An entry in a ranked list: the id of a chunk or node (``key``), and a score (higher is better)."""

    key: str
    score: float


class Placement(Record, frozen=True, kw_only=True, gc=False):
    """A candidate's rank (from 1) and score in one branch's list."""

    rank: int
    score: float


class Hit(Record, frozen=True, kw_only=True):
    """A passage that a system returned.

    ``text`` contains exactly the lines ``line_start`` to ``line_end`` of the file ``source``. ``plain`` is
    the text without markup, which is embedded, shown and counted; it defaults to ``text``. ``branches`` maps
    the name of a branch to the hit's rank and score in the branch's list. For a branch that adds neighboring
    sections from the tree, ``branches`` contains the rank and score of the best chunk that this branch found
    in the hit's section. ``notes`` maps the name of a branch to the branch's explanation of its score for the
    hit. For a section that was added from the tree, the note tells whether the section was reached from a
    chunk in the same file or from a neighboring page. If a dense branch found the passage, ``distance`` is
    the squared L2 distance (0 to 4) between the vectors of the query and the passage. ``matched`` contains
    the numbers of the lines in which a branch found words from the query. If the system groups by document,
    ``members`` contains the best passages in the hit's document. ``fallback`` is the reason why a fallback
    ranked this hit, or ``None`` if no fallback was used.
    """

    id: str
    source: str
    line_start: int
    line_end: int
    text: str
    plain: str = _AS_TEXT
    score: float
    node_id: str | None = None
    breadcrumb: str = ""
    distance: float | None = None
    branches: dict[str, Placement] = msgspec.field(default_factory=dict)
    notes: dict[str, str] = msgspec.field(default_factory=dict)
    matched: tuple[int, ...] = ()
    members: tuple[Hit, ...] = ()
    fallback: str | None = None

    def __post_init__(self) -> None:
        if self.plain is _AS_TEXT:
            msgspec.structs.force_setattr(self, "plain", self.text)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Strings that describe how each branch contributed to the hit.

        A string such as ``bm25(nodes) #2`` gives the hit's rank in a branch's list. If a branch's list does
        not contain the hit, the branch's string consists of the branch's name and the branch's entry in
        ``notes``.
        """
        placed = [f"{name} #{place.rank}" for name, place in self.branches.items()]
        notes = [f"{name} {note}" for name, note in self.notes.items() if name not in self.branches]
        return tuple(sorted([*placed, *notes]))

    @property
    def span(self) -> Span:
        """The hit's file and line range."""
        return Span(source=self.source, line_start=self.line_start, line_end=self.line_end)


class Passage(Record, frozen=True, kw_only=True):
    """A text that your own retriever returned, before BranchRank has found its lines in the corpus.

    ``source`` is the document, if the retriever knows it: a path relative to the corpus, another path to the
    file, a ``file:`` URL, or a file name that occurs once in the corpus. If the retriever also knows the
    lines, they decide between several places with the same text.
    """

    text: str
    source: str | None = None
    line_start: int | None = None
    line_end: int | None = None
    score: float = 0.0
    id: str = ""


class StageTrace(Record, frozen=True, kw_only=True, gc=False):
    """The ranked list that one stage produced for one query, best first.

    The keys are chunk ids, node ids or, if ``unit`` is ``span``, strings such as ``source:start-end``.
    """

    stage: str
    unit: Literal["chunk", "node", "span"]
    keys: tuple[str, ...]
    scores: tuple[float, ...]


class LLMCall(Record, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One LLM call, as stored in a run's list of calls.

    ``reported`` is true if the server returned the token counts, and false if BranchRank estimated the token
    counts. ``outcome`` is ``"ok"`` or the reason for the fallback (``"timeout"``, ``"http 500"``, ...), and
    ``detail`` the start of the server's error message.
    ``replayed`` is true if a cassette answered the call. A run's rows omit ``replayed``, so that a replay
    writes the same rows as the recorded run.
    """

    predictor: str
    question_id: str
    stage: str
    attempt: int
    repeat: int
    model: str
    prompt_tokens: Count
    completion_tokens: Count
    cached_tokens: Count
    reported: bool
    latency_ms: float
    served_by: ServedBy
    outcome: str
    replayed: bool = False
    detail: str = ""

    @property
    def failure(self) -> str:
        """The outcome, with the server's error message."""
        return f"{self.outcome} ({self.detail!r})" if self.detail else self.outcome


class ToolStep(Record, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One call of a tool by an agent.

    ``turn`` is the number of the LLM call that asked for it, from 1. ``arguments`` is JSON text as the model
    wrote it, cut after 1,000 characters. ``shown`` has the citations (``path:first-last``) of the lines in
    the tool's answer, which has ``characters`` characters. ``cut`` is the number of characters that were left
    out, and ``error`` the text of an error that the model was given instead of an answer.
    """

    turn: Count
    tool: str
    arguments: str = ""
    shown: tuple[Annotated[str, msgspec.Meta(pattern=r":[1-9]\d{0,9}-[1-9]\d{0,9}\Z")], ...] = ()
    characters: Count = 0
    cut: Count = 0
    error: str = ""


#: The stage with the passages that tools showed an agent, in the order of their first appearance.
SHOWN = "shown"
#: The tool that ends an agent's search with its citations.
ANSWER = "answer"
#: The stage of the LLM call of a turn.
AGENT_STAGE = "agent step {}"


class AgentLog(Record, frozen=True, kw_only=True, omit_defaults=True):
    """What an agent did for one question.

    ``answered`` is false if the agent ended without an answer. ``unread`` is the number of cited passages of
    which no tool had shown a line, and ``invalid`` the number of citations of lines that do not exist.
    ``text`` is the answer in the agent's words, and ``remark`` says what is wrong with what it reported.
    """

    steps: tuple[ToolStep, ...] = ()
    answered: bool = True
    unread: Count = 0
    invalid: Count = 0
    text: str = ""
    remark: str = ""

    @property
    def shown(self) -> tuple[Span, ...]:
        """The passages that tools showed, each once, in the order of their first appearance."""
        return tuple(map(Span.of, dict.fromkeys(key for step in self.steps for key in step.shown)))


class AgentAnswer(AgentLog, frozen=True, kw_only=True, omit_defaults=False):
    """The answer of the agent ``system`` to a question, as :meth:`Workspace.ask` returns it.

    ``text`` is the answer in the words of the LLM, and ``citations`` are the passages that it cites, best
    first. If ``answered`` is false, ``fallbacks`` has the reason, and ``citations`` are the first passages
    that the tools returned, if the agent has tools. ``steps`` are the calls of tools, and ``calls`` the LLM
    calls. ``notices`` are messages for the user about the passages.
    """

    question: str
    system: str
    citations: tuple[Hit, ...]
    fallbacks: tuple[str, ...]
    notices: tuple[str, ...]
    calls: tuple[LLMCall, ...]


class LLMUse(Record, frozen=True, kw_only=True):
    """An LLM call of your own predictor, which returns it in an :class:`Answer`.

    ``reported`` is false if the token counts are estimates. ``outcome`` is ``"ok"`` or the name of an error.
    """

    model: str
    prompt_tokens: Count
    completion_tokens: Count
    cached_tokens: Count = 0
    reported: bool = True
    latency_ms: float = 0.0
    outcome: str = "ok"


class Answer(Record, frozen=True, kw_only=True):
    """The answer of your own predictor to one query, with the LLM calls that it made.

    A predictor that returns only a list of hits reports no calls. If an agent has called the tool ``answer``
    and returns no hits, its citations are the hits.
    """

    hits: Sequence[Hit | Passage | str]
    calls: Sequence[LLMUse] = ()


class Retrieval(Record, frozen=True, kw_only=True):
    """The result of one query: the hits (best first), and the trace and the time of each stage.

    ``stage_ms`` maps each stage to its time in milliseconds. ``fallbacks`` contains the stage and the reason
    of each fallback. ``calls`` contains the LLM calls. ``found`` maps each branch to the length of the
    branch's list before the list was cut. ``notices`` are messages for the user about the hits.
    ``incomplete`` is the reason why a part of the corpus was not searched, or an empty string if the whole
    corpus was searched. ``removed`` is the number of hits that were removed because they overlap an excluded
    span. For a system, these are the different entries among the first k of its branches' lists. ``passages``
    maps the rank of each hit whose lines are not known to what the predictor returned. ``agent`` has the
    steps of an agent.
    """

    hits: tuple[Hit, ...]
    passages: dict[int, Passage] = msgspec.field(default_factory=dict)
    trace: tuple[StageTrace, ...] = ()
    stage_ms: dict[str, float] = msgspec.field(default_factory=dict)
    calls: tuple[LLMCall, ...] = ()
    fallbacks: tuple[str, ...] = ()
    found: dict[str, int] = msgspec.field(default_factory=dict)
    notices: tuple[str, ...] = ()
    incomplete: str = ""
    removed: int = 0
    agent: AgentLog | None = None

    @property
    def remarks(self) -> tuple[str, ...]:
        """The notices, followed by the reason for an incomplete search (if the search was incomplete)."""
        return (*self.notices, *filter(None, [self.incomplete]))


class Predictor(Protocol):
    """A retriever of your own, which can be benchmarked together with the built-in systems.

    Any class with a method ``retrieve`` can be used, without a base class. The class can define two optional
    attributes. ``name`` is the predictor's name in tables (by default the name of the class), and ``llm`` is
    the name of the LLM that the predictor uses, or ``none`` (by default ``not reported``).

    If ``retrieve`` has a parameter ``tools``, or a third one that is required, it gets the search tools
    (:class:`~branchrank.search.agent.tool_session.RecordedTools`), and the run records its calls.
    """

    def retrieve(self, query: str, k: int) -> Sequence[Hit]:
        """Return at most ``k`` hits for ``query``, best first.

        If ``retrieve`` raises an exception, the question counts as a miss.
        """
        ...
