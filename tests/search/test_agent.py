"""The agent against scripted servers: what it cites, what it is told, and what the rows record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import agent_policies as policies
from support import scripted_llm as scripted
from support.agent_policies import Policy, answer, call, turn
from support.commands import QUESTIONS, make_project, write_lines
from support.scripted_llm import Action, Chat, ScriptedLLM
from support.worlds import make_workspace

from branchrank import Workspace
from branchrank.core.errors import UsageError
from branchrank.core.records import AgentAnswer, Retrieval, Span
from branchrank.core.spec import Branch, Fuse, LLMEndpoint, System
from branchrank.index.index_build import build_index
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.search.agent.tool_session import ToolSession
from branchrank.search.systems.engine import Engine
from branchrank.search.systems.query import Query, open_llm, read_filters

TEA = "which temperature for green tea"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkspaceFolder]:
    workspace = make_workspace(tmp_path_factory.mktemp("agent"))
    with build_index(workspace):
        yield workspace


def system(base_url: str, unit: Any = "span", **options: Any) -> System:
    branch = Branch(kind="agent", unit=unit, top_n=10, options=options)
    return System(
        name="agent",
        branches=(branch,),
        fuse=Fuse(method="none"),
        llm=LLMEndpoint(base_url=base_url, model="scripted"),
    )


def asked(
    world: WorkspaceFolder, policy: Policy, unit: Any = "span", question: str | Query = TEA, **options: Any
) -> tuple[Retrieval, list[Chat]]:
    """What an agent returns for a question, and the requests of its conversation."""
    from branchrank.index.reader import open_index

    world.decisions_path.unlink(missing_ok=True)  # another test's server may have had the same port
    with ScriptedLLM(policy) as server, open_index(world) as index:
        one = system(server.base_url, unit, **options)
        with open_llm(world, [one.llm]) as stages, Engine(index, world.corpus_root, world.settings) as engine:
            engine.llm_stages = stages
            found = engine.retrieve(one, question, 5)
        return found, list(server.requests)


def cited(found: Retrieval) -> list[str]:
    return [hit.span.citation for hit in found.hits]


def test_an_agent_greps_reads_and_cites(world: WorkspaceFolder) -> None:
    found, chats = asked(world, policies.greps)
    assert found.agent is not None
    assert [(step.turn, step.tool, step.error) for step in found.agent.steps] == [
        (1, "grep_search", ""),
        (2, "read_file", ""),
    ]
    assert cited(found) == list(found.agent.steps[0].shown[:3])
    assert found.hits[0].source == "guide/brewing.md"
    assert "green tea wants 75 degrees" in found.hits[0].text.lower()
    assert (found.agent.answered, found.agent.unread, found.agent.invalid) == (True, 0, 0)
    assert found.fallbacks == ()
    assert [each.stage for each in found.calls] == [f"agent step {turn}" for turn in (1, 2, 3)]
    assert [each.prompt_tokens for each in found.calls] == [100, 100, 100]
    names = [tool["function"]["name"] for tool in chats[0].body["tools"]]
    assert names == ["grep_search", "vector_search", "hybrid_search", "read_file", "answer"]
    roles = [message["role"] for message in chats[2].body["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "tool"]


def test_several_calls_in_one_turn_are_carried_out_in_order(world: WorkspaceFolder) -> None:
    def policy(chat: Chat, number: int) -> Action:
        if policies.told(chat):
            return answer(("install.rst", 1, 4))
        return turn(
            call("grep_search", 1, query="kettle"),
            call("nowhere", 2),
            call("read_file", 3, path="install.rst"),
        )

    found, chats = asked(world, policy)
    assert found.agent is not None
    assert [(step.turn, step.tool, bool(step.error)) for step in found.agent.steps] == [
        (1, "grep_search", False),
        (1, "nowhere", True),
        (1, "read_file", False),
    ]
    told = [each for each in chats[1].body["messages"] if each["role"] == "tool"]
    assert [each["tool_call_id"] for each in told] == ["call_1", "call_2", "call_3"]
    assert cited(found) == ["install.rst:1-4"]


WRONG_CALLS = {
    "no JSON": {"name": "grep_search", "arguments": "{query"},
    "not an object": {"name": "grep_search", "arguments": "[]"},
    "no query": {"name": "grep_search", "arguments": "{}"},
    "wrong type": {"name": "grep_search", "arguments": '{"query": 1}'},
    "unknown field": {"name": "grep_search", "arguments": '{"query": "tea", "regex": true}'},
    "out of range": {"name": "vector_search", "arguments": '{"query": "tea", "limit": 100000}'},
    "unknown tool": {"name": "shell", "arguments": '{"command": "ls"}'},
    "outside": {"name": "read_file", "arguments": '{"path": "../../etc/passwd"}'},
    "no such file": {"name": "read_file", "arguments": '{"path": "nowhere.md"}'},
    "10 MB": {"name": "grep_search", "arguments": json.dumps({"query": "tea " * 300_000})},
    "no citations": {"name": "answer", "arguments": '{"text": "so"}'},
    "lines that do not exist": {
        "name": "answer",
        "arguments": '{"citations": [{"path": "index.rst", "line_start": 900, "line_end": 901}], "text": ""}',
    },
}


@pytest.mark.parametrize("wrong", WRONG_CALLS)
def test_a_wrong_call_is_answered_with_an_error(world: WorkspaceFolder, wrong: str) -> None:
    def policy(chat: Chat, number: int) -> Action:
        if policies.told(chat):
            return answer(("index.rst", 4, 4))
        return turn({"id": "a", "type": "function", "function": WRONG_CALLS[wrong]})

    found, chats = asked(world, policy)
    assert found.agent is not None
    (step,) = found.agent.steps
    assert step.error
    assert len(step.arguments) <= 1_000
    assert sum(len(str(message)) for message in chats[-1].body["messages"]) < 10_000
    assert policies.told(chats[-1])[0].startswith(step.error[:50])
    assert cited(found) == ["index.rst:4-4"]


def test_lines_that_no_tool_showed_are_kept_and_counted(world: WorkspaceFolder) -> None:
    def policy(chat: Chat, number: int) -> Action:
        lost = [("nowhere.md", 1, 1), ("install.rst", 9, 99)]
        return answer(("./index.rst", 4, 4), *lost, ("index.rst", 4, 4))

    found, _ = asked(world, policy)
    assert found.agent is not None
    assert cited(found) == ["index.rst:4-4"]
    assert (found.agent.unread, found.agent.invalid) == (1, 2)


def test_nothing_can_be_cited(world: WorkspaceFolder) -> None:
    found, _ = asked(world, lambda chat, number: answer())
    assert (found.hits, found.fallbacks) == ((), ())
    assert found.agent is not None
    assert found.agent.answered


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (None, "no answer after 3 steps"),
        (scripted.fail(400), "step 2: http 400"),
        (scripted.say(None, refusal="No."), "step 2: refusal"),
        (scripted.say(""), "step 2: empty reply"),
    ],
    ids=["loops", "fails", "refuses", "is empty"],
)
def test_without_an_answer_the_shown_passages_are_returned(
    world: WorkspaceFolder, second: Action | None, reason: str
) -> None:
    def policy(chat: Chat, number: int) -> Action:
        return policies.loops(chat, number) if second is None or number < 2 else second

    found, chats = asked(world, policy, max_steps=3)
    assert found.agent is not None
    assert not found.agent.answered
    assert found.fallbacks == (f"agent: {reason}",)
    assert cited(found) == list(found.agent.steps[0].shown[:5])
    assert found.hits[0].fallback == f"agent: {reason}"
    if reason.startswith("no answer"):
        assert [tool["function"]["name"] for tool in chats[-1].body["tools"]] == ["answer"]


def test_an_agent_without_tools_returns_only_what_it_cites(world: WorkspaceFolder) -> None:
    found, chats = asked(world, lambda chat, number: answer(("index.rst", 1, 4)), tools=[], fallback="none")
    assert [tool["function"]["name"] for tool in chats[0].body["tools"]] == ["answer"]
    assert cited(found) == ["index.rst:1-4"]
    silent, _ = asked(world, policies.loops, tools=[], fallback="none", max_steps=2)
    assert (silent.hits, silent.fallbacks) == ((), ("agent: no answer after 2 steps",))


@pytest.mark.parametrize("path", ["My Guide: part 1.md", "a (draft), 2.md", "täst/[slug].md", "plain.md"])
def test_a_printed_path_can_have_spaces_and_punctuation(path: str) -> None:
    session = ToolSession(None, lambda source: 5 * (source == path))  # type: ignore[arg-type]
    for words in (
        "In {}:3.",
        "`{}:3-3`",
        "[./{}:3\u20133], b.md:1",
        "a b:9 ({}:3)",
        "1.md:1: {}:3",
        "| {}:3 |",
        "See ./{}#L3-L3.",
        "{}#L3",
        "{}#L3C2-L3C9",
    ):
        found = session.cited_in(words.format(path))
        assert found is not None
        assert [span.citation for span in found.spans] == [f"{path}:3-3"], words
        assert found.invalid == 0
    for words in ("{}:3-8:2", "{}:3-4-5", "{}:3:1", "{}:31"):
        assert session.cited_in(words.format(path)) is None, words


def test_many_printed_places_are_read_in_bounded_time() -> None:
    asked: list[str] = []

    def lines(source: str) -> int:
        asked.append(source)
        return 0

    session = ToolSession(None, lines)  # type: ignore[arg-type]
    assert session.cited_in("".join(f"x y{number}:1 " for number in range(50_000))) is None
    assert len(asked) < 1_000_000


def test_citations_in_a_reply_without_calls_are_an_answer(world: WorkspaceFolder) -> None:
    found, _ = asked(
        world, lambda chat, number: scripted.say("See `install.rst:9-11`, index.rst#L900 and http://a.b:80/.")
    )
    assert cited(found) == ["install.rst:9-11"]
    assert found.agent is not None
    assert (found.agent.unread, found.agent.invalid) == (1, 1)
    ends = answer(("index.rst", 1, 1))
    talks, chats = asked(world, lambda chat, number: scripted.say("Well.") if number < 2 else ends)
    assert cited(talks) == ["index.rst:1-1"]
    assert chats[1].body["messages"][-1]["role"] == "user"


def test_the_oldest_answers_give_way_to_the_budget(world: WorkspaceFolder) -> None:
    def policy(chat: Chat, number: int) -> Action:
        if number < 6:
            return turn(call("read_file", number, path="guide/brewing.md"))
        return answer(("index.rst", 1, 1))

    found, chats = asked(world, policy, context_tokens=2600)
    assert found.agent is not None
    assert found.agent.answered
    told = policies.told(chats[-1])
    assert len(told) == 5
    assert "Green tea wants" not in told[0]
    assert "guide/brewing.md:1-" in told[0]
    assert "Green tea wants" in told[-1]
    again, repeated = asked(world, policy, context_tokens=2600)
    assert [chat.body for chat in chats] == [chat.body for chat in repeated]
    assert again.hits == found.hits
    spent, _ = asked(world, policy, context_tokens=1000)
    assert spent.fallbacks == ("agent: the context budget was spent before step 1",)


def test_cited_passages_stand_for_chunks_in_a_fusion(world: WorkspaceFolder) -> None:
    found, _ = asked(world, lambda chat, number: answer(("guide/brewing.md", 5, 12)), unit="chunk")
    assert {hit.source for hit in found.hits} == {"guide/brewing.md"}
    assert found.hits[0].line_start == 5
    assert all(hit.node_id for hit in found.hits)


@pytest.mark.parametrize("refusal", ["http 400", "http 404", "named"])
def test_a_server_without_tools_is_asked_for_one_object_a_step(world: WorkspaceFolder, refusal: str) -> None:
    def policy(chat: Chat, number: int) -> Action:
        if "tools" in chat.body:
            status = 404 if refusal == "http 404" else 400
            return scripted.fail(status, "unknown field tools" if refusal == "named" else "scripted")
        users = [each["content"] for each in chat.body["messages"] if each["role"] == "user"]
        if len(users) == 1:
            return scripted.say(json.dumps({"tool": "grep_search", "arguments": {"query": "green tea"}}))
        cites = [{"path": "guide/brewing.md", "line_start": 5, "line_end": 8}]
        return scripted.say(json.dumps({"tool": "answer", "arguments": {"citations": cites, "text": "So."}}))

    found, chats = asked(world, policy)
    assert found.agent is not None
    assert cited(found) == ["guide/brewing.md:5-8"]
    assert [step.tool for step in found.agent.steps] == ["grep_search"]
    assert found.agent.unread == 0
    assert sum("tools" in chat.body for chat in chats) == 1
    assert "grep_search" in chats[-1].body["messages"][0]["content"]


def test_an_agent_can_be_asked_for_json_from_the_start(world: WorkspaceFolder) -> None:
    """For servers that take tools and do not show them to the model."""
    from jsonschema import Draft202012Validator

    def policy(chat: Chat, number: int) -> Action:
        wanted = Draft202012Validator(chat.body["response_format"]["json_schema"]["schema"])
        cites = [{"path": "guide/brewing.md", "line_start": 5, "line_end": 8}]
        steps: list[dict[str, Any]] = [
            {"tool": "read_file", "arguments": {"path": "guide/brewing.md", "line_start": 2, "lines": 3}},
            {"tool": "answer", "arguments": {"citations": cites}},
        ]
        step = steps[number > 1]
        assert wanted.is_valid(step)
        assert not wanted.is_valid(step | {"tool": "shell"})
        assert not wanted.is_valid({"tool": "read_file", "arguments": {"citations": cites}})
        assert not wanted.is_valid({"tool": "answer", "arguments": {"citations": [{"path": "a.md"}]}})
        return scripted.say(json.dumps(step))

    found, chats = asked(world, policy, tool_calls="json")
    assert [chat.format for chat in chats] == ["json_schema", "json_schema"]
    assert "read_file" in chats[0].body["messages"][0]["content"]
    assert found.agent is not None
    assert [step.shown for step in found.agent.steps] == [("guide/brewing.md:2-4",)]
    assert cited(found) == ["guide/brewing.md:5-8"]
    native, _ = asked(world, lambda chat, number: answer(("index.rst", 4, 4)))
    assert cited(native) == ["index.rst:4-4"], "the replies to the other form are not used again"


@pytest.mark.parametrize(
    "options",
    [
        {"tools": ["shell"]},
        {"tool_calls": "xml"},
        {"max_steps": 0},
        {"context_tokens": "many"},
        {"steps": 3},
        {"prompt": 2},
    ],
    ids=str,
)
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    from branchrank.search.systems.system_checks import problems

    (problem,) = problems(system("http://127.0.0.1:9/v1", **options))
    assert "options of agent" in problem


@pytest.mark.parametrize("name", ["agent", "agent-grep", "agent-vector", "agent-memory"])
def test_without_an_endpoint_an_agent_is_refused(world: WorkspaceFolder, name: str) -> None:
    with pytest.raises(UsageError) as refused:
        Workspace.open(world.data_dir).system(name)
    assert [remedy.flags for remedy in refused.value.remedies] == ["--agent-base-url"]


ALL_TOOLS = [
    call("grep_search", 1, query="green tea temperature", limit=50),
    call("vector_search", 2, query="green tea temperature", limit=50),
    call("hybrid_search", 3, semantic_query="green tea temperature", limit=50),
    call("read_file", 4, path="guide/brewing.md"),
    call("read_file", 5, path="guide/brewing.md", line_start=7, lines=1),
]


def uses_all_tools(chat: Chat, number: int) -> Action:
    """Calls each tool once, and cites what is excluded and what is not."""
    if policies.told(chat):
        return answer(("guide/brewing.md", 5, 8), ("guide/brewing.md", 10, 12), ("reference/api.md", 7, 9))
    return turn(*ALL_TOOLS)


def test_tools_show_nothing_that_the_query_excludes(world: WorkspaceFolder) -> None:
    excluded = Span(source="guide/brewing.md", line_start=5, line_end=8)
    free, free_chats = asked(world, uses_all_tools)
    found, chats = asked(world, uses_all_tools, question=Query(text=TEA, excluded=(excluded,)))
    assert all("Green tea wants" in told for told in policies.told(free_chats[1]))
    assert not any("Green tea wants" in told for told in policies.told(chats[1]))
    assert free.agent is not None
    assert found.agent is not None
    assert free.agent.steps[3].shown == ("guide/brewing.md:1-20",)
    assert [step.shown for step in found.agent.steps[3:]] == [
        ("guide/brewing.md:1-4", "guide/brewing.md:9-20"),
        (),
    ]
    shown = [Span.of(each) for step in found.agent.steps for each in step.shown]
    assert not any(map(excluded.overlap, shown))
    assert {span.source for span in shown} > {"guide/brewing.md"}
    assert cited(found) == ["guide/brewing.md:10-12", "reference/api.md:7-9"]
    assert found.removed == 1
    assert chats[0].body == free_chats[0].body


def test_tools_stay_within_the_filters_of_the_query(world: WorkspaceFolder) -> None:
    filters = read_filters("file_path=reference/*")
    found, _ = asked(world, uses_all_tools, question=Query(text=TEA, filters=filters))
    assert found.agent is not None
    shown = [Span.of(each) for step in found.agent.steps for each in step.shown]
    assert {span.source for span in shown} == {"reference/api.md"}
    assert [step.error.split()[1] for step in found.agent.steps[3:]] == ["ACCESS_DENIED]"] * 2
    assert cited(found) == ["reference/api.md:7-9"]


def test_a_benchmark_hides_the_text_that_a_question_was_mined_from(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    page = {"source_file": "guide/brewing.md", "line_start": 5, "line_end": 8}
    mined = [{**line, "excluded_spans": [page]} for line in QUESTIONS if line["id"] == "stains"]
    questions = write_lines(tmp_path / "mined.jsonl", mined)
    with ScriptedLLM(uses_all_tools) as server, Workspace.open(project / "data") as workspace:
        settings = {"agent.base_url": server.base_url, "agent.model": "scripted"}
        run = workspace.benchmark(
            ["agent"], questions=questions, latency_sample=0, reports=tmp_path, settings=settings
        )
        told = policies.told(server.requests[1])
    assert len(told) == len(ALL_TOOLS)
    assert not any("Green tea wants" in each for each in told)
    (row,) = run.rows
    assert row.excluded == 1
    assert [hit.source for hit in row.hits] == ["guide/brewing.md", "reference/api.md"]


def test_a_question_to_a_workspace_is_answered_with_citations(world: WorkspaceFolder) -> None:
    told: list[str] = []
    with ScriptedLLM(policies.greps) as server:
        settings = {"agent.base_url": server.base_url, "agent.model": "scripted"}
        with Workspace.open(world.data_dir, settings=settings) as workspace:
            given = workspace.ask(TEA, "agent-grep", k=2, notify=told.append)
            found = workspace.search(TEA, "agent-grep")
    assert isinstance(given, AgentAnswer)
    assert (given.question, given.system, given.text, given.answered) == (TEA, "agent-grep", "So.", True)
    assert list(given.citations) == found[:2]
    assert [step.tool for step in given.steps] == ["grep_search", "read_file"]
    assert [line.split(":")[0] for line in told] == ["grep_search", "read_file"]
    assert len(given.calls) == 3
    with pytest.raises(AttributeError):
        given.text = ""  # type: ignore[misc]


def test_a_system_with_an_agent_among_its_branches_answers(world: WorkspaceFolder) -> None:
    with ScriptedLLM(policies.greps) as server, Workspace.open(world.data_dir) as workspace:
        agent = system(server.base_url, "chunk").branches
        fused = System(
            name="fused",
            branches=(*agent, Branch(kind="bm25")),
            llm=LLMEndpoint(base_url=server.base_url, model="scripted"),
        )
        given = workspace.ask(TEA, fused, k=3)
        assert (given.system, given.text, len(given.citations)) == ("fused", "So.", 3)
        assert {*given.citations[0].branches} == {"agent", "bm25(chunks)"}
        with pytest.raises(UsageError):
            workspace.ask(TEA, "bm25")
        with pytest.raises(UsageError):
            workspace.ask(TEA, fused, k=0)


@pytest.mark.parametrize("name", ["agent", "agent-vector"])
def test_an_agent_that_searches_vectors_is_refused_without_vectors(tmp_path: Path, name: str) -> None:
    plain = make_workspace(tmp_path, index__embedder="none")
    with ScriptedLLM(policies.greps) as server:
        settings = {"agent.base_url": server.base_url, "agent.model": "scripted", "index.embedder": "none"}
        with Workspace.open(plain.data_dir, settings=settings, rebuild=True) as workspace:
            with pytest.raises(UsageError) as refused:
                workspace.ask(TEA, name)
            assert not server.requests
            assert "agent-grep" in refused.value.remedy
            assert workspace.ask(TEA, "agent-grep").answered
