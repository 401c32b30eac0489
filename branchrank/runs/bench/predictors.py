"""Predictors wrap systems, classes and HTTP endpoints so that a benchmark can run them.

:class:`SystemPredictor` runs a system on an engine. :class:`ClassPredictor` wraps a user's own class that has
a method ``retrieve(query, k)``. :class:`ApiPredictor` queries an HTTP endpoint that answers ``POST
/retrieve``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import msgspec

from branchrank.core.errors import BranchRankError, UsageError
from branchrank.core.io.files import NOT_JSON
from branchrank.core.io.printable import bare_url, encodable, split_url, url_to_show
from branchrank.core.records import (
    NOT_REPORTED,
    UNPLACED,
    AgentLog,
    Hit,
    LLMCall,
    LLMUse,
    Passage,
    Predictor,
    Question,
    Record,
    Retrieval,
    Span,
)
from branchrank.core.spec import System
from branchrank.runs.adapters import Retriever, adapted, answer_of, checked_hit, made_by_user, tools_parameter
from branchrank.runs.attribution import gold_keys
from branchrank.runs.directory import DEFAULT_INDEX
from branchrank.scoring.matching import without_excluded
from branchrank.search.systems.engine import Engine
from branchrank.search.systems.query import Filter, Query

if TYPE_CHECKING:
    from branchrank.index.reader import Index
    from branchrank.runs.bench.child_process import ChildRetriever
    from branchrank.search.agent.tool_session import RecordedTools

_LARGEST_ANSWER = 64 * 1024 * 1024


class BenchmarkPredictor(Protocol):
    """A predictor that a benchmark can run."""

    name: str
    llm: str

    def predict(self, question: Question, k: int, repeat: int = 0) -> Retrieval:
        """Return at most ``k`` hits for the question, best first, without using the question's gold."""
        ...

    def gold_keys(self, question: Question) -> frozenset[str]:
        """Return the ids of chunks and nodes that cover the gold, or an empty set if there are no traces."""
        ...


def query_of(question: Question, **more: Any) -> Query:
    """Return the query of a question, without its gold."""
    return Query(text=question.question, excluded=question.excluded_spans, **more)


class SystemPredictor:
    """A system that runs on an engine; ``filters`` restrict every search."""

    def __init__(self, system: System, engine: Engine, filters: tuple[Filter, ...] = ()) -> None:
        self.system = system
        self.engine = engine
        self.filters = filters
        self.name = system.name
        self.llm = system.llm_label

    def predict(self, question: Question, k: int, repeat: int = 0) -> Retrieval:
        """Run the system. Candidates that overlap excluded spans are removed before ranking."""
        query = query_of(question, filters=self.filters, question_id=question.id, repeat=repeat)
        found = self.engine.retrieve(self.system, query, k)
        if found.incomplete:  # a partial result must not count as a complete result
            raise BranchRankError(
                found.incomplete,
                remedy="exclude large files from the corpus, or run the benchmark on a less busy machine",
            )
        return found

    def gold_keys(self, question: Question) -> frozenset[str]:
        """Return the ids of the chunks and nodes in the engine's index that cover the gold."""
        return self.engine.memo.get(
            ("gold keys", question.id),
            lambda: gold_keys(question, self.engine.index, self.engine.sources.lines),
        )


class OutsideAnswer(NamedTuple):
    """The checked hits of a predictor without a trace, the LLM calls that it reported, and its tool calls."""

    hits: Sequence[Hit | Passage]
    calls: Sequence[LLMUse] = ()
    agent: AgentLog | None = None


class Untraced:
    """Base class for predictors that do not return a trace (a user's class and an HTTP endpoint).

    Hits that overlap excluded spans are removed from the results. If the predictor is an agent, it gets the
    tools of the index ``index``, which search with ``engine``.
    """

    name: str
    index = ""
    engine: Engine
    #: The names of the environment variables that a program of the user gets.
    pass_env: tuple[str, ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        """Return what a worker needs, which opens the index again."""
        return {name: value for name, value in vars(self).items() if name != "engine"}

    def predict(self, question: Question, k: int, repeat: int = 0) -> Retrieval:
        """Return at most ``k`` hits; 10 more hits are requested if the question has excluded spans.

        Raises :class:`BranchRankError` if the answer is missing or invalid.
        """
        wanted = k + (10 if question.excluded_spans else 0)
        asked, calls, agent = self.ask(question, wanted)
        passages = {rank: each for rank, each in enumerate(asked, 1) if isinstance(each, Passage)}
        found = [
            unplaced(each, rank) if isinstance(each, Passage) else each for rank, each in enumerate(asked, 1)
        ]
        # Passages are placed, and removed if they are in an excluded span, outside of the measured time.
        kept = tuple(found[:wanted]) if passages else without_excluded(found, question)[:k]
        removed = 0 if passages else len(found[:k]) - len(without_excluded(found[:k], question))
        return Retrieval(
            hits=kept,
            passages=passages,
            removed=removed,
            calls=tuple(
                LLMCall(
                    predictor=self.name,
                    question_id=question.id,
                    stage="retrieve",
                    attempt=number,
                    repeat=repeat,
                    served_by="server",
                    **msgspec.structs.asdict(call),
                )
                for number, call in enumerate(calls, start=1)
            ),
            agent=agent,
        )

    def open(
        self, corpus: Path, indexes: Callable[[], Sequence[Index]], questions: Sequence[Question]
    ) -> None:
        """Prepare for these questions over ``corpus``, whose indexes ``indexes`` opens."""

    def ask(self, question: Question, k: int) -> OutsideAnswer:
        """Return the checked hits for a question's text."""
        raise NotImplementedError

    def cited(self, tools: RecordedTools, k: int) -> list[Hit]:
        """Return at most ``k`` passages that an agent has cited, best first."""
        spans = tools.cited.spans[:k] if tools.cited else ()
        lines = self.engine.sources.lines
        return [hit_at(span, lines(span.source), 1.0 / rank) for rank, span in enumerate(spans, start=1)]

    def gold_keys(self, question: Question) -> frozenset[str]:
        """Return an empty set, because this predictor does not return a trace."""
        return frozenset()


class ClassPredictor(Untraced):
    """A user's own predictor.

    The predictor's name is the object's attribute ``name``, or else the ``name`` argument. ``origin`` is the
    string ``module:Class`` if the user passed such a string, and otherwise the dotted name of the object's
    class or of the function. Only runs in which all classes were passed as ``module:Class`` can be resumed.
    Without an attribute ``llm``, it is not known what the predictor spends on LLMs. A ``retrieve`` with a
    parameter for tools gets those of ``index``.
    """

    def __init__(
        self,
        name: str,
        wrapped: Predictor | Retriever | ChildRetriever,
        *,
        origin: str = "",
        index: str = DEFAULT_INDEX,
    ) -> None:
        from branchrank.runs.bench.child_process import ChildRetriever

        self.name = str(getattr(wrapped, "name", name))
        #: The name of the parameter that gets the tools, or "".
        self.tools = (
            wrapped.tools if isinstance(wrapped, ChildRetriever) else tools_parameter(wrapped.retrieve)
        )
        self.index = index if self.tools else ""
        self.llm = str(getattr(wrapped, "llm", NOT_REPORTED))
        self.wrapped = wrapped
        self.origin = origin
        #: The digest of the module's source, and the time of an empty round trip, for a class in a process of
        #: its own.
        self.digest = str(getattr(wrapped, "digest", ""))
        self.overhead_ms = float(getattr(wrapped, "overhead_ms", 0.0))

    def limit(self, timeout_s: float) -> None:
        """Set the time limit for a query, in seconds. A class in this process has no limit."""
        from branchrank.runs.bench.child_process import ChildRetriever

        if isinstance(self.wrapped, ChildRetriever):
            self.wrapped.timeout_s = timeout_s

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle only the name of the class, so that each worker creates its own instance."""
        if ":" in self.origin:
            return load_class_predictor, (self.origin, self.name, self.llm, self.index)
        return ClassPredictor, (self.name, self.wrapped)

    def ask(self, question: Question, k: int) -> OutsideAnswer:
        """Call the method ``retrieve``."""
        from branchrank.search.agent.tool_session import CheckedCitations, RecordedTools

        tools = RecordedTools.of(self.engine, query_of(question)) if self.index else None
        given = {} if tools is None else {self.tools: tools}
        try:
            answer = answer_of(self.wrapped.retrieve(question.question, k, **given))
        except UsageError as error:
            raise UsageError(f"{self.name}: {error.message}", remedy=error.remedies) from error
        except Exception as error:
            if tools is not None:
                error.agent = tools.session.log(None)  # type: ignore[attr-defined] # for the failed row
            raise
        if tools is None:
            return OutsideAnswer(answer.hits, answer.calls)  # type: ignore[arg-type]
        hits = answer.hits or self.cited(tools, k)
        spans = tuple(hit.span for hit in hits[:k] if isinstance(hit, Hit))
        invalid = tools.cited.invalid if tools.cited and not answer.hits else 0
        log = tools.session.log(CheckedCitations(spans=spans, invalid=invalid))
        return OutsideAnswer(hits, answer.calls, log)  # type: ignore[arg-type]


class UnopenedPredictor(Untraced):
    """A user's own predictor in a plan that is estimated and not run. Its code is not imported."""

    def __init__(self, origin: str, name: str, llm: str) -> None:
        self.origin, self.name, self.llm = origin, name or origin, llm or NOT_REPORTED


def hit_at(span: Span, lines: Sequence[str], score: float, key: str = "") -> Hit:
    """Return the hit with the text of a span of a document that consists of ``lines``."""
    text = "\n".join(lines[span.line_start - 1 : span.line_end])
    return Hit(id=key or span.citation, text=text, score=score, **msgspec.structs.asdict(span))


def unplaced(passage: Passage, rank: int) -> Hit:
    """Return the hit of a passage without a place in the corpus, which holds its rank."""
    return Hit(
        id=passage.id,
        source=UNPLACED,
        line_start=rank,
        line_end=rank,
        text=passage.text,
        score=float(passage.score),
    )


def load_class_predictor(
    origin: str, name: str = "", llm: str = "", index: str = DEFAULT_INDEX
) -> ClassPredictor:
    """Open ``module:Class``, or a retriever such as ``langchain:module:retriever``, in a process of its own.

    ``name`` and ``llm`` replace the name and the LLM that the class gives. Raises the errors of
    :func:`~branchrank.runs.adapters.load_retriever`.
    """
    from branchrank.runs.bench.child_process import ChildRetriever

    made = ClassPredictor(origin, ChildRetriever(origin), origin=origin, index=index)
    made.name, made.llm = name or made.name, llm or made.llm
    return made


def predictor_of(thing: object) -> BenchmarkPredictor:
    """Return a predictor that wraps a class, an object or a function.

    ``thing`` is an object with ``retrieve(query, k)``, a class whose constructor needs no arguments, or a
    function ``f(query, k)`` that returns hits, or a framework's retriever. A :class:`BenchmarkPredictor` is
    returned unchanged. The default name of the predictor is the name of the class or function. A pair
    ``(name, thing)`` names it.

    Raises:
        UsageError: ``thing`` can't be used as a predictor, or its class needs arguments.
    """
    remedy = "use a name, a System, or an object or class with retrieve(query, k)"
    if isinstance(thing, tuple) and len(thing) == 2:
        named = predictor_of(thing[1])
        named.name = str(thing[0])
        return named
    if isinstance(thing, type):
        name = thing.__qualname__
        return predictor_of(made_by_user(name, thing, remedy=f"pass an object: {name}(...)"))
    if callable(getattr(thing, "predict", None)) and callable(getattr(thing, "gold_keys", None)):
        return cast("BenchmarkPredictor", thing)
    if (found := adapted(thing)) is not None:
        first = thing[0] if isinstance(thing, list) else thing
        return ClassPredictor(_title(first), found, origin=_dotted(type(first)))
    if callable(getattr(thing, "retrieve", None)):
        return ClassPredictor(type(thing).__name__, cast("Predictor", thing), origin=_dotted(type(thing)))
    if callable(thing):
        wrapped = SimpleNamespace(
            retrieve=thing, name=_name_of(thing), llm=getattr(thing, "llm", NOT_REPORTED)
        )
        return ClassPredictor("", cast("Predictor", wrapped), origin=_dotted(thing))
    raise UsageError(f"{thing!r} is not a predictor", remedy=remedy)


def _title(thing: object) -> str:
    """Return the name that a framework's object was given, or the name of its class."""
    own = vars(thing).get("name") if hasattr(thing, "__dict__") else None
    return own if isinstance(own, str) and own else type(thing).__name__


def _name_of(thing: object) -> str:
    return str(getattr(thing, "__name__", type(thing).__name__))


def _dotted(thing: object) -> str:
    """Return the dotted name of a class or function, such as ``module.Class``, for the run's record."""
    return f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', _name_of(thing))}"


class _ApiAnswer(Record, frozen=True, kw_only=True):
    hits: tuple[dict[str, Any], ...]


#: The fields of a hit that are read from an answer, with the defaults of those that may be left out.
_DEFAULTS = {"id": "", "score": 0.0, "text": ""}
_LINES = {"source", "line_start", "line_end"}
_READ = {*_DEFAULTS, *_LINES, "plain", "node_id", "breadcrumb", "distance", "fallback"}


class ApiPredictor(Untraced):
    """An endpoint that answers ``POST /retrieve {"query", "top_k"}`` with ``{"hits": [...]}``.

    ``token`` is sent to the endpoint as a bearer token. ``timeout_s`` is the time limit in seconds for one
    whole request.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        target: str = "",
        token: str = "",
        timeout_s: float = 30.0,
        name: str = "api",
        llm: str = NOT_REPORTED,
    ) -> None:
        url = split_url(endpoint)
        if url.scheme not in ("http", "https"):
            raise UsageError(
                f"--api-endpoint {url_to_show(endpoint)!r} is not an HTTP URL",
                remedy="use a URL such as http://127.0.0.1:8000/retrieve",
            )
        if url.username or url.password:
            raise UsageError(
                "--api-endpoint contains a user name or a password",
                remedy="set BRANCHRANK_API_TOKEN to a token",
            )
        self.endpoint = endpoint
        self.target = target
        self.origin = f"{endpoint} {target}".rstrip()
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.timeout_s = timeout_s
        self.name = name
        self.llm = llm

    def check(self) -> None:
        """Check the endpoint with one query before any work starts.

        Raises :class:`UsageError` if the endpoint does not return a valid answer. A server error (5xx) is
        ignored, because other queries may succeed.
        """
        from httpx2 import HTTPError, HTTPStatusError

        try:
            self._answer("documentation", 1)
        except (HTTPError, *NOT_JSON) as error:
            if isinstance(error, HTTPStatusError) and error.response.status_code >= 500:
                return
            raise UsageError(
                f"--api-endpoint {bare_url(self.endpoint)}: {error}",
                remedy="start or correct it, or set BRANCHRANK_API_TOKEN and BRANCHRANK_API_TOKEN_HOST",
            ) from error

    def ask(self, question: Question, k: int) -> OutsideAnswer:
        """Post the query. Raises :class:`BranchRankError` if the answer is missing or invalid."""
        from httpx2 import HTTPError

        shown = bare_url(self.endpoint)
        try:
            answer = self._answer(question.question, k)
        except (HTTPError, *NOT_JSON) as error:
            raise BranchRankError(f"{shown}: {error}", remedy="check that the endpoint is running") from error
        try:
            return OutsideAnswer([checked_hit(hit, rank) for rank, hit in enumerate(answer, start=1)])
        except (ValueError, OverflowError) as error:
            raise BranchRankError(f"{shown}: {error}", remedy="correct the endpoint") from error

    def _answer(self, query: str, top_k: int) -> list[Hit | Passage]:
        """Post one query and return the hits; raises ``HTTPError`` or an error in ``NOT_JSON``."""
        from branchrank.core.io.http_client import send

        body = {"query": encodable(query), "top_k": top_k} | (
            {"predictor": self.target} if self.target else {}
        )
        content = send(
            self.endpoint, body, headers=self.headers, deadline_s=self.timeout_s, limit_bytes=_LARGEST_ANSWER
        )
        read: list[Hit | Passage] = []
        for hit in msgspec.json.decode(content, type=_ApiAnswer).hits:
            known = {name: value for name, value in hit.items() if name in _READ and value is not None}
            if known.keys() >= _LINES:
                read.append(msgspec.convert(_DEFAULTS | known, Hit))
            else:
                read.append(msgspec.convert(known, Passage))
        return read
