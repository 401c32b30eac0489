"""Load the retrievers of users and of other frameworks, and check what they return.

Adapters call the retrievers of LangChain, LlamaIndex, Haystack and PyTerrier.

1. A predictor is named ``PREFIX:MODULE:NAME``, such as ``langchain:rag:retriever``, where the prefix selects
   the adapter, or is passed as an object, which an adapter recognizes. No framework is imported for this.
2. ``NAME`` is a retriever, or a class or a function without arguments that makes one. Options of the adapter
   follow as ``:KEY=VALUE``.
3. The adapter asks the framework for at least k results, and returns them as passages (with the source and
   the lines that their metadata names), with the LLM calls that the framework reported.

An installed package can add an adapter with an entry point in the group ``branchrank.adapters``. The entry
point's name is the prefix, and its value is an instance of :class:`Adapter`.
"""

from __future__ import annotations

import importlib
import inspect
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, cast

import msgspec

from branchrank.core.errors import MissingDependencyError, UsageError, or_else
from branchrank.core.records import NOT_REPORTED, Answer, Hit, LLMUse, Passage, Predictor
from branchrank.core.registry import Registry

MOST_HITS = 10_000
MOST_LINES = 10_000_000  # a hit beyond this line number is an error of the predictor
#: The keys of metadata under which loaders store where a text is from, the most complete path first.
SOURCES = ("source", "file_path", "path", "source_file", "url", "file_name", "filename", "docno")
#: The keys under which splitters store the first and the last line.
LINES = (("line_start", "line_end"), ("start_line", "end_line"))


class Retriever:
    """What an adapter makes of a framework's retriever. ``llm`` is the default of the column ``llm``."""

    llm = NOT_REPORTED

    def retrieve(self, query: str, k: int) -> Answer:
        """Return the passages for ``query``, best first, and the LLM calls that the framework reported."""
        raise NotImplementedError


class Adapter:
    """How the retrievers of one framework are recognized and called.

    ``name`` is the prefix in ``--predictor``. ``package`` is the package that the framework is imported from,
    and ``types`` are its classes of retrievers, as ``module:Class``. ``made_of`` says in an error what the
    adapter accepts.
    """

    name: str
    package: str
    types: tuple[str, ...]
    made_of: str

    def owns(self, thing: object) -> bool:
        """Return whether ``thing`` is an instance of one of the ``types``, of those already imported."""
        found = []
        for each in self.types:
            module, _, name = each.partition(":")
            kind = getattr(sys.modules.get(module), name, None)
            found += [kind] if isinstance(kind, type) else []
        return isinstance(thing, tuple(found))

    def wrap(self, thing: Any, options: Mapping[str, str]) -> Retriever:
        """Return a retriever that calls ``thing``. Raises :class:`UsageError` for an unknown option."""
        raise NotImplementedError


#: All adapters by the prefix of their predictors. The module of a built-in adapter is imported on first use.
ADAPTERS = Registry[Adapter](
    "adapter",
    "adapters",
    {
        "langchain": f"{__name__}.langchain:LANGCHAIN",
        "llamaindex": f"{__name__}.llamaindex:LLAMAINDEX",
        "haystack": f"{__name__}.haystack:HAYSTACK",
        "pyterrier": f"{__name__}.pyterrier:PYTERRIER",
    },
    kind=Adapter,
)


def adapted(thing: object) -> Retriever | None:
    """Return a retriever that calls an object of a framework, or ``None`` for any other object.

    Raises :class:`UsageError` if the adapter can't use the object.
    """
    for adapter in map(ADAPTERS.get, ADAPTERS.names):
        if adapter.owns(thing):
            return adapter.wrap(thing, {})
    return None


def load_retriever(text: str) -> Predictor | Retriever:
    """Import ``MODULE:NAME`` or ``PREFIX:MODULE:NAME[:KEY=VALUE...]``, and return an object to ask.

    Without a prefix, ``NAME`` is an object with ``retrieve(query, k)`` or one that an adapter recognizes, or
    a class or function without arguments that makes one.

    Raises :class:`UsageError` if the import or the constructor fails, or if the object is not a retriever,
    and :class:`MissingDependencyError` if the adapter's framework is not installed.
    """
    prefix, _, rest = text.partition(":")
    names = ADAPTERS.names
    if (":" in rest) != (prefix in names):
        wrong = "the module is missing" if prefix in names else f"unknown prefix{or_else(prefix, names)}"
        raise UsageError(
            f"predictor {text!r}: {wrong}",
            remedy="give a pipeline as PREFIX:MODULE:NAME, or a class of your own as MODULE:NAME",
        )
    chosen = ADAPTERS.get(prefix) if prefix in names else None
    module, _, rest = (rest if chosen else text).partition(":")
    name, *options = rest.split(":")
    wanted = f"{name}: {chosen.made_of}" if chosen else f"{name}.retrieve(query, k)"
    remedy = f"check that {module}.py is in the working directory or on PYTHONPATH, and defines {wanted}"

    def make() -> object:
        found = getattr(importlib.import_module(module), name)
        is_retriever = chosen.owns(found) if chosen else hasattr(found, "retrieve")
        return found() if isinstance(found, type) or (callable(found) and not is_retriever) else found

    try:
        made = made_by_user(repr(text), make, remedy)
    except UsageError as error:
        missing = getattr(error.__cause__, "name", "") if isinstance(error.__cause__, ImportError) else ""
        if chosen and (missing or "").partition(".")[0] == chosen.package:
            purpose = f"the predictor {text}"
            raise MissingDependencyError(chosen.package, purpose=purpose, extra=chosen.name) from error
        raise
    if chosen is not None and not chosen.owns(made):
        raise UsageError(
            f"predictor {text!r} is a {type(made).__name__}, not {chosen.made_of}", remedy=remedy
        )
    given = {key: value for key, _, value in (each.partition("=") for each in options)}
    found = chosen.wrap(made, given) if chosen else adapted(made)
    if found is None and not callable(getattr(made, "retrieve", None)):
        raise UsageError(f"predictor {text!r} has no method retrieve(query, k)", remedy=remedy)
    return found or cast("Predictor", made)


def made_by_user(name: str, make: Callable[[], object], remedy: str) -> object:
    """Return ``make()``. Raises :class:`UsageError` if a user's module or class raises an exception."""
    try:
        return make()
    except Exception as error:
        raise UsageError(f"predictor {name}: {type(error).__name__}: {error}", remedy=remedy) from error


def no_options(chosen: Adapter, options: Mapping[str, str], known: Sequence[str] = ()) -> None:
    """Raise :class:`UsageError` for the first option that is not ``known``."""
    for name in options:
        if name not in known:
            raise UsageError(
                f"the adapter {chosen.name} has no option {name!r}{or_else(name, known)}",
                remedy=f"options are {', '.join(known)}" if known else "remove the option",
            )


def unusable(returned: str, wanted: str) -> UsageError:
    """Return the error for a retriever that returned something other than what its framework defines."""
    return UsageError(f"the retriever returned {returned}, not {wanted}", remedy=f"return {wanted}")


def documents(found: object, field: str, name: str) -> list[Any]:
    """Return what a retriever returned as a list.

    Raises :class:`UsageError` if it is not a list of objects called ``name``, which have the ``field``.
    """
    if not isinstance(found, Iterable) or isinstance(found, str | Mapping):
        raise unusable(type(found).__name__, f"a list of {name}")
    listed = list(found)
    for each in listed:
        if not hasattr(each, field):
            raise unusable(f"a list of {type(each).__name__}", f"a list of {name}")
    return listed


def passage(text: str, metadata: Mapping[str, Any], *, score: object = None, key: object = "") -> Passage:
    """Return a document as a passage.

    A missing or invalid score is NaN, so that the rank counts. Lines that are not whole numbers are ignored.
    """
    named = (metadata.get(key) for key in SOURCES)
    source = next((str(each) for each in named if each is not None and str(each)), None)
    spans = [(metadata.get(first), metadata.get(last)) for first, last in LINES]
    start, end = next(((a, b) for a, b in spans if _is_line(a) and _is_line(b)), (None, None))
    return Passage(
        text=text,
        source=source,
        line_start=start,
        line_end=end,
        score=_number(score),
        id=str(key or ""),
    )


def _is_line(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(score: Any) -> float:
    try:
        return float(score)
    except (TypeError, ValueError):
        return math.nan


def answer_of(returned: Any) -> Answer:
    """Check what a user's ``retrieve`` returned, and return it as an :class:`Answer`.

    Raises :class:`UsageError` for anything that is not a list of hits, for more than :data:`MOST_HITS` hits,
    and for an invalid LLM call.
    """

    def wrong(what: str) -> UsageError:
        return UsageError(f"retrieve() returned {what}", remedy="return a list of Hit records")

    found, calls = (returned.hits, returned.calls) if isinstance(returned, Answer) else (returned, ())
    if not isinstance(found, Iterable) or isinstance(found, str):
        raise wrong(f"{type(found).__name__}, not a list of branchrank.core.records.Hit")
    hits = [Passage(text=hit) if isinstance(hit, str) else hit for hit in islice(found, MOST_HITS + 1)]
    if other := [each for each in hits if not isinstance(each, Hit | Passage)]:
        raise wrong(f"{type(other[0]).__name__}, not branchrank.core.records.Hit or Passage")
    if len(hits) > MOST_HITS:
        raise wrong(f"more than {MOST_HITS:,} hits")
    try:
        checked = [checked_hit(hit, rank) for rank, hit in enumerate(hits, start=1)]
        uses = msgspec.json.decode(msgspec.json.encode(list(calls)), type=tuple[LLMUse, ...])
    except (TypeError, ValueError) as error:
        raise wrong(f"an invalid hit or LLM call: {error}") from error
    return Answer(hits=checked, calls=uses)


def tools_parameter(retrieve: Callable[..., Any]) -> str:
    """Return the name of the parameter that gets the tools: ``tools``, or a third one that is required."""
    try:
        found = inspect.signature(retrieve).parameters
    except (TypeError, ValueError):
        return ""
    if "tools" in found:
        return "tools"
    third = [each for each in [*found.values()][2:3] if each.default is each.empty]
    return "".join(
        each.name for each in third if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    )


def checked_hit(hit: Hit | Passage, rank: int) -> Hit | Passage:
    """Return the hit with its numbers converted to plain Python types, so that a row can store the hit.

    A score that is not finite is replaced by ``1 / rank``. A passage becomes a hit if it names its source and
    lines, and a hit without lines becomes a passage. Raises ``ValueError`` or ``TypeError`` for an invalid
    hit. Raises ``OverflowError``, which makes only the current question fail, for a line number larger than
    ``MOST_LINES``.
    """
    if not isinstance(hit.text, str):
        raise TypeError(f"its text is {type(hit.text).__name__}, not str")
    score = float(hit.score)
    known = msgspec.structs.asdict(hit) | {"score": score if math.isfinite(score) else 1 / rank}
    if None in (hit.source, hit.line_start, hit.line_end):
        known = {name: known[name] for name in Passage.__struct_fields__}
        return msgspec.json.decode(msgspec.json.encode(known), type=Passage)
    known |= {"line_start": int(known["line_start"]), "line_end": int(known["line_end"])}
    if (distance := known.get("distance")) is not None:
        known["distance"] = None if math.isnan(distance) else float(distance)
    checked = msgspec.json.decode(msgspec.json.encode(known), type=Hit)
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
