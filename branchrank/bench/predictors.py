"""Predictors wrap systems, classes and HTTP endpoints so that a benchmark can run them.

:class:`SystemPredictor` runs a system on an engine. :class:`ClassPredictor` wraps a user's own class that has
a method ``retrieve(query, k)``. :class:`ApiPredictor` queries an HTTP endpoint that answers ``POST
/retrieve``.
"""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol, cast

import msgspec

from branchrank.corpus.lines import decode, normalize, split_lines
from branchrank.errors import BranchRankError, UsageError
from branchrank.io.files import NOT_JSON, read_beneath
from branchrank.io.printable import bare_url, encodable, split_url, url_to_show
from branchrank.measures.matching import without_excluded
from branchrank.records import Hit, Predictor, Question, Record, Retrieval
from branchrank.runs.attribution import gold_keys
from branchrank.runs.words import plural
from branchrank.spec import System
from branchrank.systems.engine import Engine
from branchrank.systems.query import Filter, Query

_LARGEST_ANSWER = 64 * 1024 * 1024
_WORD = re.compile(r"\w+")
MOST_LINES = 10_000_000  # a hit beyond this line number is an error of the predictor


_NO_LINES = "line_start or line_end is missing; hits are judged by their lines, and text is not searched for"


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
        query = Query(
            text=question.question,
            excluded=question.excluded_spans,
            filters=self.filters,
            question_id=question.id,
            repeat=repeat,
        )
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


class Untraced:
    """Base class for predictors that do not return a trace (a user's class and an HTTP endpoint).

    Hits that overlap excluded spans are removed from the results.
    """

    def predict(self, question: Question, k: int, repeat: int = 0) -> Retrieval:
        """Return at most ``k`` hits; 10 more hits are requested if the question has excluded spans.

        Raises :class:`BranchRankError` if the answer is missing or invalid.
        """
        found = self.hits(question.question, k + (10 if question.excluded_spans else 0))
        kept = without_excluded(found, question)[:k]
        return Retrieval(hits=kept, removed=len(found[:k]) - len(without_excluded(found[:k], question)))

    def hits(self, query: str, k: int) -> list[Hit]:
        """Return the hits for a query, after checking them."""
        raise NotImplementedError

    def gold_keys(self, question: Question) -> frozenset[str]:
        """Return an empty set, because this predictor does not return a trace."""
        return frozenset()


class ClassPredictor(Untraced):
    """A user's own predictor.

    The predictor's name is the object's attribute ``name``, or else the ``name`` argument. ``origin`` is the
    string ``module:Class`` if the user passed such a string, and otherwise the dotted name of the object's
    class or of the function. Only runs in which all classes were passed as ``module:Class`` can be resumed.
    """

    def __init__(self, name: str, wrapped: Predictor, *, origin: str = "") -> None:
        self.name = str(getattr(wrapped, "name", name))
        self.llm = str(getattr(wrapped, "llm", "none"))
        self.wrapped = wrapped
        self.origin = origin

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle only the name of the class, so that each worker creates its own instance."""
        if ":" in self.origin:
            return load_class_predictor, (self.origin,)
        return ClassPredictor, (self.name, self.wrapped)

    def hits(self, query: str, k: int) -> list[Hit]:
        """Call the method ``retrieve``."""
        returned = self.wrapped.retrieve(query, k)
        if not isinstance(returned, Iterable):
            raise self._wrong(f"{type(returned).__name__}, not a list of branchrank.records.Hit")
        hits = []
        for hit in returned:
            if not isinstance(hit, Hit):
                raise self._wrong(f"{type(hit).__name__}, not branchrank.records.Hit")
            try:
                hits.append(_checked(hit))
            except (TypeError, ValueError) as error:
                raise self._wrong(f"an invalid hit: {error}") from error
        return hits

    def _wrong(self, what: str) -> UsageError:
        return UsageError(f"{self.name}: retrieve() returned {what}", remedy="return a list of Hit records")


def _checked(hit: Hit) -> Hit:
    """Return the hit with its numbers converted to plain Python types, so that a row can store the hit.

    Raises ``ValueError`` or ``TypeError`` for an invalid hit. Raises ``OverflowError``, which makes only the
    current question fail, for a line number larger than ``MOST_LINES``.
    """
    for name in ("id", "source", "text", "plain"):
        if not isinstance(getattr(hit, name), str):
            raise TypeError(f"its {name} is {type(getattr(hit, name)).__name__}, not str")
    if hit.line_start is None or hit.line_end is None:
        raise ValueError(_NO_LINES)
    plain = msgspec.structs.replace(
        hit,
        line_start=int(hit.line_start),
        line_end=int(hit.line_end),
        score=float(hit.score),
        distance=None if hit.distance is None else float(hit.distance),
    )
    checked = msgspec.json.decode(msgspec.json.encode(plain), type=Hit)
    if not 1 <= checked.line_start <= checked.line_end:
        raise ValueError(
            f"lines {checked.line_start}..{checked.line_end} are not a valid span (1 <= start <= end)"
        )
    if checked.line_end > MOST_LINES:
        raise OverflowError(
            f"lines {checked.line_start}..{checked.line_end} of {checked.source!r}: "
            f"the last line number of a hit must be at most {MOST_LINES}"
        )
    return checked


def with_own_lines(hits: Sequence[Hit], corpus: Path) -> tuple[tuple[Hit, ...], int]:
    """Replace the text of each hit with its lines in the corpus, and count the hits whose text differed.

    A text differs if fewer than three quarters of its words are words of the lines. Case and markup are
    ignored, and the plain text of a section passes. ``plain`` is kept if it consists of words of the lines,
    in the same order, and has at least half of them. Raises :class:`BranchRankError` for lines that do not
    exist.
    """
    lines_of = cache(lambda source: split_lines(decode(read_beneath(corpus, source))[0]))
    read, altered = [], 0
    for hit in hits:
        try:
            lines = lines_of(hit.source)
        except OSError:
            raise BranchRankError(f"the corpus has no document {hit.source!r}") from None
        if hit.line_end > len(lines):
            raise BranchRankError(
                f"lines {hit.line_start}-{hit.line_end} of {hit.source} do not exist, because the document "
                f"has {plural(len(lines), 'line')}"
            )
        text = "\n".join(lines[hit.line_start - 1 : hit.line_end])
        own = _WORD.findall(normalize(text))
        claimed = {each: _WORD.findall(normalize(each)) for each in (hit.text, hit.plain)}
        altered += any(
            4 * (Counter(words) & Counter(own)).total() < 3 * len(words) for words in claimed.values()
        )
        words, rest = claimed[hit.plain], iter(own)
        is_plain = 2 * len(words) >= len(own) and all(word in rest for word in words)
        read.append(msgspec.structs.replace(hit, text=text, plain=hit.plain if is_plain else text))
    return tuple(read), altered


def _made(name: str, make: Callable[[], object], remedy: str) -> object:
    """Return ``make()``. Raises :class:`UsageError` if a user's module or class raises an exception."""
    try:
        return make()
    except Exception as error:
        raise UsageError(f"predictor {name}: {type(error).__name__}: {error}", remedy=remedy) from error


def load_class_predictor(name: str) -> ClassPredictor:
    """Import ``module:Class`` and instantiate the class without arguments.

    Raises :class:`UsageError` if the import or the constructor fails.
    """
    module_name, _, class_name = name.partition(":")
    remedy = (
        f"check that {module_name}.py is in the working directory or on PYTHONPATH, and defines "
        f"{class_name}.retrieve(query, k)"
    )
    made = _made(repr(name), lambda: getattr(importlib.import_module(module_name), class_name)(), remedy)
    if not callable(getattr(made, "retrieve", None)):
        raise UsageError(f"predictor {name!r} has no method retrieve(query, k)", remedy=remedy)
    return ClassPredictor(name, cast("Predictor", made), origin=name)


def predictor_of(thing: object) -> BenchmarkPredictor:
    """Return a predictor that wraps a class, an object or a function.

    ``thing`` is an object with ``retrieve(query, k)``, a class whose constructor needs no arguments, or a
    function ``f(query, k)`` that returns hits. A :class:`BenchmarkPredictor` is returned unchanged. The
    default name of the predictor is the name of the class or function.

    Raises:
        UsageError: ``thing`` can't be used as a predictor, or its class needs arguments.
    """
    remedy = "use a name, a System, or an object or class with retrieve(query, k)"
    if isinstance(thing, type):
        name = thing.__qualname__
        return predictor_of(_made(name, thing, remedy=f"pass an object: {name}(...)"))
    if callable(getattr(thing, "predict", None)) and callable(getattr(thing, "gold_keys", None)):
        return cast("BenchmarkPredictor", thing)
    if callable(getattr(thing, "retrieve", None)):
        return ClassPredictor(type(thing).__name__, cast("Predictor", thing), origin=_dotted(type(thing)))
    if callable(thing):
        wrapped = SimpleNamespace(retrieve=thing, name=_name_of(thing))
        return ClassPredictor("", cast("Predictor", wrapped), origin=_dotted(thing))
    raise UsageError(f"{thing!r} is not a predictor", remedy=remedy)


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

    name = "api"

    def __init__(self, endpoint: str, *, target: str = "", token: str = "", timeout_s: float = 30.0) -> None:
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
        self.llm = "none"

    def check(self) -> None:
        """Check the endpoint with one query before any work starts.

        Raises :class:`UsageError` if the endpoint does not return a valid answer. A server error (5xx) is
        ignored, because other queries may succeed.
        """
        from branchrank.io.http import HttpError, StatusError

        try:
            self._answer("documentation", 1)
        except (HttpError, *NOT_JSON) as error:
            if isinstance(error, StatusError) and error.response.status_code >= 500:
                return
            raise UsageError(
                f"--api-endpoint {bare_url(self.endpoint)}: {error}",
                remedy="start the endpoint, or correct --api-endpoint and --api-predictor",
            ) from error

    def hits(self, query: str, k: int) -> list[Hit]:
        """Post the query. Raises :class:`BranchRankError` if the answer is missing or invalid."""
        from branchrank.io.http import HttpError

        shown = bare_url(self.endpoint)
        try:
            answer = self._answer(query, k)
        except (HttpError, *NOT_JSON) as error:
            raise BranchRankError(f"{shown}: {error}", remedy="check that the endpoint is running") from error
        try:
            return [_checked(hit) for hit in answer]
        except (ValueError, OverflowError) as error:
            raise BranchRankError(f"{shown}: {error}", remedy="correct the endpoint") from error

    def _answer(self, query: str, top_k: int) -> list[Hit]:
        """Post one query and return the hits; raises ``HttpError`` or an error in ``NOT_JSON``."""
        from branchrank.io.http import send

        body = {"query": encodable(query), "top_k": top_k} | (
            {"predictor": self.target} if self.target else {}
        )
        content = send(
            self.endpoint,
            msgspec.json.encode(body),
            headers=self.headers,
            deadline_s=self.timeout_s,
            limit_bytes=_LARGEST_ANSWER,
        )
        hits = msgspec.json.decode(content, type=_ApiAnswer).hits
        if any(hit.get(name) is None for hit in hits for name in ("line_start", "line_end")):
            raise msgspec.ValidationError(_NO_LINES)
        read = [_DEFAULTS | {name: hit[name] for name in hit if name in _READ} for hit in hits]
        return msgspec.convert(read, list[Hit])
