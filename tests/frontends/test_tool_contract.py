"""The tools of a model: what a call may contain, and what a wrong one gets."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp import Client

from branchrank.core.errors import ArtifactError, UsageError
from branchrank.frontends.serve.mcp import mcp_server
from branchrank.frontends.serve.service import Service, Workers
from branchrank.search.systems import search_tools
from branchrank.search.systems.search_tools import SearchTools
from branchrank.search.systems.toolbox import Citation, Toolbox, ToolReply, read_answer

QUERIES = {"grep_search": "query", "vector_search": "query", "hybrid_search": "semantic_query"}
LONG = "\n".join(f"line {number} ä" for number in range(1, 2_001)) + "\n"

#: A call with wrong arguments, and the argument that its error names.
WRONG: list[tuple[str, dict[str, Any], str]] = [
    *((tool, {}, query) for tool, query in QUERIES.items()),
    *((tool, {query: ""}, query) for tool, query in QUERIES.items()),
    *((tool, {query: "x" * 10_241}, query) for tool, query in QUERIES.items()),
    *((tool, {query: ["cache"]}, query) for tool, query in QUERIES.items()),
    *(
        (tool, {query: "cache", "limit": limit}, "limit")
        for tool, query in QUERIES.items()
        for limit in (0, 51, -1, 10**30, 2.5, "many", None, True)
    ),
    *(
        (tool, {query: "cache", "filters": filters}, "filters")
        for tool, query in QUERIES.items()
        for filters in (["title=x"], ["file_path="], ["cache.rst"], "source=a", ["source=a"] * 21, [3])
    ),
    *((tool, {query: "cache", "top_k": 3}, "top_k") for tool, query in QUERIES.items()),
    ("grep_search", {"query": "cache", "ranking": "--pre=sh"}, "ranking"),
    ("hybrid_search", {"semantic_query": "cache", "ranking": 3}, "ranking"),
    ("hybrid_search", {"exact_keywords": "cache"}, "semantic_query"),
    ("hybrid_search", {"semantic_query": "cache", "exact_keywords": "x" * 10_241}, "exact_keywords"),
    ("read_file", {}, "path"),
    ("read_file", {"path": None}, "path"),
    ("read_file", {"path": "x" * 4_097}, "path"),
    ("read_file", {"path": "cache.rst", "line_start": 0}, "line_start"),
    ("read_file", {"path": "cache.rst", "line_start": 10**400}, "line_start"),
    ("read_file", {"path": "cache.rst", "lines": 0}, "lines"),
    ("read_file", {"path": "cache.rst", "lines": "9" * 5_000}, "lines"),
    ("read_file", {"path": "cache.rst", "line": 3}, "line"),
]
#: A path that can't be read, and the code of the error.
REFUSED = {
    "none.rst": "NOT_FOUND",
    "http": "NOT_A_FILE",
    "../cache.rst": "ACCESS_DENIED",
    "/etc/passwd": "ACCESS_DENIED",
    ".env": "ACCESS_DENIED",
    "cache.rst\0": "ACCESS_DENIED",
}


@pytest.fixture(scope="module")
def tools(service: Service) -> SearchTools:
    return service.workspace.tools


@pytest.fixture(scope="module")
def toolbox(tools: SearchTools) -> Toolbox:
    return Toolbox(tools)


def call(toolbox: Toolbox, tool: str, **arguments: object) -> ToolReply:
    return toolbox.call(tool, json.dumps(arguments))


@pytest.mark.parametrize(("tool", "arguments", "named"), WRONG, ids=range(len(WRONG)))
def test_wrong_arguments_are_an_error_that_names_them(
    toolbox: Toolbox, tool: str, arguments: dict[str, Any], named: str
) -> None:
    reply = toolbox.call(tool, json.dumps(arguments))
    assert reply.error == "WRONG_ARGUMENTS"
    assert tool in reply.text
    assert named in reply.text
    assert reply.shown == ()
    assert len(reply.text) < 2_000
    known = next(each for each in toolbox.definitions if each.name == tool).parameters["properties"]
    for field in [named] if named in known else known:
        assert f'"{field}":' in reply.text


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "null", "3", '"cache"', '{"query": NaN}', '{"query": "\\ud800"}', '{"query": "\ud800"}',
     "[" * 200_000, '{"query": "a", "limit": 1e999}', "cache", "{'query': 'cache'}", ""],
    ids=range(13),
)  # fmt: skip
@pytest.mark.parametrize("tool", ["grep_search", "answer"])
def test_arguments_that_are_not_a_json_object_are_an_error(toolbox: Toolbox, tool: str, text: str) -> None:
    reply = toolbox.call(tool, text)
    assert reply.error == "WRONG_ARGUMENTS"
    assert tool in reply.text
    assert len(reply.text) < 2_000


async def test_over_mcp_the_tools_and_their_errors_are_the_same(service: Service, toolbox: Toolbox) -> None:
    async with Client(mcp_server(service, Workers(1, 8))) as client:
        offered = {each.name: each for each in (await client.list_tools()).tools}
        for each in toolbox.definitions[:-1]:
            made = offered[each.name]
            assert (made.description, made.input_schema) == (each.description, each.parameters)
            assert "$" not in json.dumps(made.output_schema)
        wrong = [(tool, arguments) for tool, arguments, _ in WRONG]
        wrong += [("read_file", {"path": path}) for path in REFUSED]
        for tool, arguments in wrong:
            result = await client.call_tool(tool, arguments)
            assert result.is_error, (tool, arguments)
            reply = call(toolbox, tool, **arguments)
            assert result.content[0].text.startswith(reply.text), (tool, arguments)
        for tool in ("nope", "answer"):
            assert (await client.call_tool(tool, {"query": "cache"})).is_error


@pytest.mark.parametrize("name", ["", "nope", "Grep_search", "grep_search ", "predictor_search", "x" * 10**6])
def test_an_unknown_tool_is_an_error_with_the_names_of_the_tools(toolbox: Toolbox, name: str) -> None:
    reply = toolbox.call(name, "{}")
    assert reply.error == "UNKNOWN_TOOL"
    assert all(each.name in reply.text for each in toolbox.definitions)
    assert max(len(reply.text), len(reply.status)) < 1_000


@pytest.mark.parametrize(("path", "code"), REFUSED.items(), ids=range(len(REFUSED)))
def test_a_refused_file_is_an_error_that_is_the_same_on_every_machine(
    toolbox: Toolbox, tools: SearchTools, path: str, code: str
) -> None:
    reply = call(toolbox, "read_file", path=path)
    assert reply.error == code
    assert reply.text.startswith(f"[ERROR: {code}]")
    assert str(tools.engine.sources.corpus_root) not in reply.text


def test_only_the_chosen_tools_are_offered_in_a_fixed_order(tools: SearchTools) -> None:
    made = Toolbox(tools, ("read_file", "grep_search"))
    assert [each.name for each in made.definitions] == ["grep_search", "read_file", "answer"]
    assert call(made, "vector_search", query="cache").error == "UNKNOWN_TOOL"
    assert [each.name for each in Toolbox(tools, ()).definitions] == ["answer"]
    with pytest.raises(UsageError, match="grep_search"):
        Toolbox(tools, ("grep_serch",))


def test_schemas_have_no_references(toolbox: Toolbox) -> None:
    for each in toolbox.definitions:
        assert each.description
        text = json.dumps(each.parameters)
        assert "$" not in text
        assert each.parameters["type"] == "object"
    citation = toolbox.definitions[-1].parameters["properties"]["citations"]["items"]
    assert [*citation["properties"]] == citation["required"] == ["path", "line_start", "line_end"]


def test_a_reply_is_the_answer_of_the_search_tool(toolbox: Toolbox, tools: SearchTools) -> None:
    for tool, query in QUERIES.items():
        direct = getattr(tools, tool)("clear the cache", limit=2)
        reply = call(toolbox, tool, **{query: "clear the cache", "limit": "2"})
        assert (reply.text, reply.status, reply.error) == (direct.text, direct.status.message, "")
        assert reply.shown == tuple(each.hit.span for each in direct.results) != ()
        assert reply.characters == direct.status.characters
        assert reply.cut == 0


@pytest.mark.parametrize("tool", QUERIES)
def test_a_small_answer_shows_and_counts_what_it_contains(
    tools: SearchTools, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = call(Toolbox(tools), tool, **{QUERIES[tool]: "cache"})
    for size in (60, 150, 250):
        monkeypatch.setattr(search_tools, "ANSWER_BYTES", size)
        reply = call(Toolbox(tools), tool, **{QUERIES[tool]: "cache"})
        assert reply.characters + reply.cut == whole.characters
        assert reply.cut > 0
        assert len(reply.shown) == reply.text.count("\n[") + reply.text.startswith("[")
        for span in reply.shown:
            assert f"[{span.citation}]\n" in reply.text


def test_an_internal_error_is_not_an_answer(toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise ArtifactError("damaged")

    monkeypatch.setattr(SearchTools, "grep_search", fail)
    with pytest.raises(ArtifactError):
        call(toolbox, "grep_search", query="cache")


@pytest.mark.parametrize(
    ("citation", "lines"),
    [
        ({"path": "a:b.md", "line_start": 3, "line_end": 5}, (3, 5)),
        ({"path": "a:b.md", "line_start": "3", "line_end": "5"}, (3, 5)),
        ({"path": "a:b.md", "line_start": 3}, (3, 3)),
        ({"path": "a:b.md", "line_start": 3, "line_end": None}, (3, 3)),
        ({"path": "a:b.md", "line_start": 3, "line_end": 5.0, "quote": "x"}, (3, 5)),
        ({"path": "a:b.md:3-5"}, (3, 5)),
        ("a:b.md:3-5", (3, 5)),
        ("[a:b.md:3-5]", (3, 5)),
        (" a:b.md:3 ", (3, 3)),
        ("a:b.md#L3-L5", (3, 5)),
    ],
    ids=range(10),
)
def test_citations_are_read_in_several_forms(citation: object, lines: tuple[int, int]) -> None:
    expected = Citation(path="a:b.md", line_start=lines[0], line_end=lines[1])
    for listed in (citation, [citation]):
        assert read_answer(json.dumps({"citations": listed})) == ((expected,), "")
    assert read_answer(json.dumps({"citations": [], "text": "none"})) == ((), "none")


@pytest.mark.parametrize(
    "listed",
    [
        "a, b.md:3-5, c.md:7",
        "[a, b.md:3-5]; [c.md:7]",
        "a, b.md:3-5\nc.md:7\n",
        '[{"path": "a, b.md", "line_start": 3, "line_end": 5}, "c.md:7"]',
        '["a, b.md:3-5", "c.md:7-7"]',
    ],
)
def test_a_text_can_have_all_citations(listed: str) -> None:
    citations, _ = read_answer(json.dumps({"citations": listed}))
    assert [(each.path, each.line_start, each.line_end) for each in citations] == [
        ("a, b.md", 3, 5),
        ("c.md", 7, 7),
    ]


@pytest.mark.parametrize(
    "citations",
    ["a.md", [3], [None], ["a.md"], [{"path": "a.md"}], [{"line_start": 3}],
     [{"path": "a.md", "line_start": 0}], ["a.md:3-99999999999"],
     [{"path": "a.md", "line_start": "x"}], [{"path": 3, "line_start": 1}], None],
    ids=range(11),
)  # fmt: skip
def test_an_answer_that_cites_no_lines_is_an_error(toolbox: Toolbox, citations: object) -> None:
    reply = call(toolbox, "answer", citations=citations)
    assert reply.error == "WRONG_ARGUMENTS"
    assert "citations" in reply.text


def test_a_right_answer_is_not_an_error(toolbox: Toolbox) -> None:
    assert call(toolbox, "answer", citations=["cache.rst:1-2"]).error == ""


class TestReadFile:
    @pytest.fixture
    def long(self, tools: SearchTools, monkeypatch: pytest.MonkeyPatch) -> SearchTools:
        """The text of ``cache.rst`` is long."""
        monkeypatch.setattr(type(tools.reader), "read", lambda *_: ("cache.rst", LONG))
        return tools

    @pytest.mark.parametrize("size", [100, 1_000, 32 * 1024])
    def test_a_long_file_is_read_in_parts(
        self, long: SearchTools, size: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(search_tools, "ANSWER_BYTES", size)
        toolbox = Toolbox(long)
        parts, start = [], 1901
        while start:
            reply = call(toolbox, "read_file", path="cache.rst", line_start=start)
            (span,) = reply.shown
            numbered = reply.text.partition(f"[{span.citation}]\n")[2]
            assert len(numbered.encode()) <= size
            parts += [line.partition(" | ")[2] for line in numbered.split("\n")]
            assert len(parts) == span.line_end - 1900
            assert reply.cut == len("\n".join(LONG.split("\n")[span.line_end :]))
            assert (f"line_start={span.line_end + 1}" in reply.text) == (span.line_end < 2_000)
            start = span.line_end + 1 if reply.cut else 0
        assert parts == LONG.split("\n")[1900:2000]

    def test_python_returns_exact_text(self, long: SearchTools) -> None:
        assert long.read_file("cache.rst") == LONG
        assert long.read_file("cache.rst", 2, 2) == "line 2 ä\nline 3 ä\n"
        assert long.read_file("cache.rst", 2001).startswith("[ERROR: NO_SUCH_LINE]")

    def test_a_line_that_does_not_fit_is_cut(
        self, tools: SearchTools, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(type(tools.reader), "read", lambda *_: ("cache.rst", f"{'ä' * 300}\r\nb\r\n"))
        monkeypatch.setattr(search_tools, "ANSWER_BYTES", 101)
        reply = call(Toolbox(tools), "read_file", path="cache.rst")
        assert (reply.characters, reply.cut) == (50, 255)
        assert "line_start=2" in reply.text
        reply = call(Toolbox(tools), "read_file", path="cache.rst", lines=1)
        assert "line_start" not in reply.text
        reply = call(Toolbox(tools), "read_file", path="cache.rst", line_start=2)
        assert reply.text.endswith("  2 | b")

    def test_an_empty_file_shows_no_lines(self, tools: SearchTools, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(type(tools.reader), "read", lambda *_: ("cache.rst", ""))
        reply = call(Toolbox(tools), "read_file", path="cache.rst")
        assert (reply.shown, reply.error) == ((), "")
        assert "empty" in reply.status
        assert call(Toolbox(tools), "read_file", path="cache.rst", line_start=2).error == "NO_SUCH_LINE"

    def test_a_file_has_one_name(self, toolbox: Toolbox, tools: SearchTools) -> None:
        root = tools.engine.sources.corpus_root
        for path in ("cache.rst", "./http/../cache.rst", str(root / "cache.rst")):
            (span,) = call(toolbox, "read_file", path=path, line_start=2, lines=3).shown
            assert (span.source, span.line_start, span.line_end) == ("cache.rst", 2, 4)
