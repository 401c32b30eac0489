"""The search tools as a model sees them: names, descriptions, JSON schemas, and answers to its calls.

The MCP server and agents offer the same tools with the same arguments. Each tool's arguments are a record,
whose docstring is the description of the tool. Arguments come from a model or a stranger, so that wrong ones
are an error text that names the tool, the argument and the allowed values.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec
from msgspec import Meta

from branchrank.core.errors import InputError, UsageError, check_choice
from branchrank.core.records import ANSWER, LineNumber, Record, Span
from branchrank.core.settings import GrepRanking
from branchrank.search.files.read_file import FileRefused
from branchrank.search.llm.request import Tool
from branchrank.search.systems.query import read_filters
from branchrank.search.systems.search_tools import SearchTools, ToolAnswer

#: The most characters of a wrong value that an error text repeats.
_SHOWN = 200

#: The lines of a citation such as ``guide.md:3-8``, ``guide.md#L3-L8`` or ``guide.md#L3C1-L8C20``.
CITED_LINES = r"(?::|#L)(\d{1,9})(?:C\d{1,9})?(?:[-\u2013]L?(\d{1,9})(?:C\d{1,9})?)?"
#: Ends a citation in a text with several of them.
_BETWEEN = re.compile(r"(?<=\d)\]?\s*(?:[,;\n]\s*|$)(?!$)")

QueryText = Annotated[str, Meta(min_length=1, max_length=10_240)]
Limit = Annotated[int, Meta(ge=1, le=50, description="maximum number of results")]
FilterTexts = Annotated[
    tuple[Annotated[str, Meta(max_length=1_000)], ...],
    Meta(
        max_length=20,
        description="search only documents that match every filter of the form file_path=VALUE, "
        "where VALUE is a path or a glob",
    ),
]

T = TypeVar("T", bound=msgspec.Struct)


class CallRefused(InputError):
    """Error for a call of an unknown tool (``UNKNOWN_TOOL``), or with wrong arguments (``WRONG_ARGUMENTS``).

    The message is meant for the caller, and ``code`` is one of the two codes.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.brief = message


class ToolArguments(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base class of the arguments of a tool, whose fields are those of the method ``method``."""

    method: ClassVar[str]

    def __post_init__(self) -> None:
        try:
            read_filters(getattr(self, "filters", ()))
        except UsageError as error:
            raise ValueError(f"{error.message}; {error.remedy} - at `$.filters`") from None

    def run(self, tools: object) -> ToolAnswer:
        """Call the method of :class:`SearchTools`, or of another object."""
        answer: ToolAnswer = getattr(tools, self.method)(**msgspec.structs.asdict(self))
        return answer


class SearchArguments(ToolArguments, frozen=True, kw_only=True):
    """Base class of the arguments of a tool that takes a query."""

    query: QueryText
    limit: Limit = 10
    filters: FilterTexts = ()


class GrepArguments(SearchArguments, frozen=True, kw_only=True):
    """Return passages that contain the query's words, quoted strings or identifiers.

    Matched lines are marked. With ranking "order", passages are in BM25 order. With "bm25", the 25% of
    passages with the lowest BM25 scores are also dropped. With "raw", passages are ordered by file and line.
    """

    method = "grep_search"
    ranking: GrepRanking | None = None


class VectorArguments(SearchArguments, frozen=True, kw_only=True):
    """Return the passages that are nearest to the query in meaning and within the distance threshold."""

    method = "vector_search"


class HybridArguments(ToolArguments, frozen=True, kw_only=True):
    """Search with grep for exact_keywords and with vectors for semantic_query.

    The results of grep and vector search are combined with reciprocal rank fusion. Without exact_keywords,
    grep searches for the identifiers, quoted strings and content words of semantic_query.
    """

    method = "hybrid_search"
    semantic_query: QueryText
    exact_keywords: Annotated[str, Meta(max_length=10_240)] = ""
    ranking: GrepRanking | None = None
    limit: Limit = 10
    filters: FilterTexts = ()


class ReadArguments(ToolArguments, frozen=True, kw_only=True):
    """Return the lines of an indexed file with their numbers. Pass the file's path from a search result."""

    method = "file_lines"
    path: Annotated[str, Meta(max_length=4_096)]
    line_start: Annotated[LineNumber, Meta(description="first line")] = 1
    lines: Annotated[LineNumber, Meta(description="number of lines")] | None = None


class Citation(Record, frozen=True, kw_only=True):
    """The lines ``line_start..line_end`` of the file ``path``, which a model cites."""

    path: Annotated[str, Meta(max_length=4_096)]
    line_start: LineNumber
    line_end: LineNumber


class AnswerArguments(Record, frozen=True, kw_only=True):
    """Finish with an answer. Cite the passages that answer the question, the best one first."""

    citations: tuple[Citation, ...]
    text: str = ""


#: The tools by name, in the order in which they are offered.
TOOLS: dict[str, type[ToolArguments]] = {
    "grep_search": GrepArguments,
    "vector_search": VectorArguments,
    "hybrid_search": HybridArguments,
    "read_file": ReadArguments,
}


class ToolReply(Record, frozen=True, kw_only=True):
    """What a tool call returns to a model.

    ``shown`` contains the lines in ``text``, in their order, and ``cut`` is the number of characters that did
    not fit. ``status`` is one line for a person. ``error`` is the code of an error (``UNKNOWN_TOOL``,
    ``WRONG_ARGUMENTS``, or a code of ``read_file``), and ``text`` is then the error message.
    """

    text: str
    shown: tuple[Span, ...] = ()
    status: str
    characters: int = 0
    cut: int = 0
    error: str = ""


class Toolbox:
    """The tools that an agent may call. Thread-safe, and without a state."""

    def __init__(self, tools: SearchTools, names: Sequence[str] = tuple(TOOLS)) -> None:
        """Offer the tools in ``names`` and ``answer``."""
        for name in names:
            check_choice("tools", name, [*TOOLS])
        self._tools = tools
        self._kinds = {name: kind for name, kind in TOOLS.items() if name in names}
        kinds: dict[str, type[msgspec.Struct]] = {**self._kinds, ANSWER: AnswerArguments}
        self.definitions = tuple(definition(name, kind) for name, kind in kinds.items())

    def call(self, name: str, arguments: str) -> ToolReply:
        """Run a tool with arguments in JSON. What a model can do wrong is an error text, never an exception.

        The tool ``answer`` is only checked: :func:`read_answer` returns its arguments.
        """
        try:
            if name == ANSWER:
                read_answer(arguments)
                return ToolReply(text="", status=ANSWER)
            found = read_arguments(self._kinds, name, arguments, more=(ANSWER,)).run(self._tools)
        except (CallRefused, FileRefused) as refusal:
            failed = f"{name[:_SHOWN]}: {refusal.code}"
            return ToolReply(text=refusal.brief, status=failed, error=refusal.code)
        status = found.status
        return ToolReply(
            text=found.text,
            shown=found.shown,
            status=status.message,
            characters=status.characters,
            cut=status.cut,
        )


def definition(name: str, kind: type[msgspec.Struct]) -> Tool:
    """Return the tool whose arguments are records of type ``kind``."""
    return Tool(name=name, description=inspect.getdoc(kind) or "", parameters=json_schema(kind))


def json_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON schema of a record type, without references to other schemas."""
    (root,), known = msgspec.json.schema_components((kind,), ref_template="{name}")
    text = msgspec.json.encode(root).decode()
    while "$ref" in text:
        for name, node in known.items():
            kept = {key: value for key, value in node.items() if key not in ("title", "description")}
            text = text.replace(f'{{"$ref":"{name}"}}', msgspec.json.encode(kept).decode())
    schema: dict[str, Any] = msgspec.json.decode(text)
    return schema


def read_arguments(
    kinds: Mapping[str, type[T]], name: str, arguments: str | Mapping[str, Any], more: Sequence[str] = ()
) -> T:
    """Return the arguments of a call of the tool ``name`` as a record. Raises :class:`CallRefused`.

    ``kinds`` are the tools that can be called, and ``more`` names others that are offered.
    """
    if name not in kinds:
        known = ", ".join([*kinds, *more])
        raise CallRefused("UNKNOWN_TOOL", f"Unknown tool: {name[:_SHOWN]}; the tools are {known}")
    given = _parsed(name, arguments) if isinstance(arguments, str) else arguments
    return _checked(name, kinds[name], given)


def read_answer(arguments: str) -> tuple[tuple[Citation, ...], str]:
    """Return the citations and the text of a call of ``answer``. Raises :class:`CallRefused`.

    A citation can also be a text such as ``guide.md:3-8`` or ``guide.md#L3-L8``, and the list can be a text
    with several of them or with its JSON. Without a last line, a citation has one line.
    """
    given = _parsed(ANSWER, arguments)
    if isinstance(given, dict) and "citations" in given:
        listed = given["citations"]
        if isinstance(listed, str):
            is_json = listed.strip().startswith(("[{", '["', "{"))
            listed = _parsed(ANSWER, listed) if is_json else _BETWEEN.split(listed)
        given["citations"] = [*map(_spelled_out, listed if isinstance(listed, list) else [listed])]
    answer = _checked(ANSWER, AnswerArguments, given)
    return answer.citations, answer.text


def _spelled_out(citation: Any) -> Any:
    """Return a citation as a mapping with all three keys, if it is a text or lacks a line."""
    given = {"path": citation} if isinstance(citation, str) else citation
    if not isinstance(given, dict):
        return citation
    if "line_start" not in given and isinstance(given.get("path"), str):
        found = re.fullmatch(rf"\[?(.+){CITED_LINES}\]?", given["path"].strip(), re.DOTALL)
        if found:
            given = {"path": found[1], "line_start": found[2], "line_end": found[3]}
    if given.get("line_end") is None and "line_start" in given:
        given = {**given, "line_end": given["line_start"]}
    return given


def _parsed(name: str, arguments: str) -> Any:
    try:
        return msgspec.json.decode(arguments.strip() or "{}")
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise CallRefused(
            "WRONG_ARGUMENTS",
            f"Error executing tool {name}: the arguments are not a JSON object: {str(error)[:_SHOWN]}",
        ) from None


def _checked(name: str, kind: type[T], given: Any) -> T:
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        reason = str(error)
    fields = json_schema(kind)["properties"]
    field = re.search(r"(?:`\$\.|field `)(\w+)[^`]*`$", reason)
    wrong = {field[1]: fields[field[1]]} if field and field[1] in fields else fields
    if len(reason) > 2 * _SHOWN:
        reason = f"{reason[:_SHOWN]}...{reason[-_SHOWN:]}"
    allowed = msgspec.json.encode(wrong).decode()
    raise CallRefused("WRONG_ARGUMENTS", f"Error executing tool {name}: {reason}. Allowed: {allowed}")
