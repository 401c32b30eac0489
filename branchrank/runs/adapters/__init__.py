"""Adapters call the retrievers of other frameworks: LangChain, LlamaIndex, Haystack and PyTerrier.

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
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from branchrank.core.errors import MissingDependencyError, UsageError, or_else
from branchrank.core.records import NOT_REPORTED, Answer, Passage, Predictor
from branchrank.core.registry import Registry

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
