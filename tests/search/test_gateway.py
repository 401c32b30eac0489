"""Recording, replaying and remembering: what is counted, what is asked once, and what is refused."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support import scripted_llm as scripted
from support.scripted_llm import Action, Script, ScriptedLLM

from branchrank.core.errors import ArtifactError, LLMError, StorageError, UsageError
from branchrank.core.settings import LLMSettings
from branchrank.search.llm.cassette import Cassette
from branchrank.search.llm.gateway import GatewayReply
from branchrank.search.llm.ledger import totals
from branchrank.search.llm.request import CallContext, LLMReply, LLMRequest, Message, ReplyError, Tool
from branchrank.search.llm.session import LLMSession

KEY = "sk-planted-agent-key-1"


def request(text: str = "hello", question: str = "q1", **context: Any) -> LLMRequest:
    return LLMRequest(
        stage="rerank",
        messages=(Message(role="user", content=text),),
        context=CallContext(question_id=question, predictor="hybrid", **context),
    )


def as_text(reply: LLMReply) -> str:
    if reply.text == "garbage":
        raise ReplyError("malformed reply")
    return reply.text


def echo(chat: scripted.Chat, number: int) -> Action:
    """Replies with the number of the request, so that a served call can be told from a new one."""
    return scripted.say(f"reply {number}")


def fails_first(chat: scripted.Chat, number: int) -> Action:
    return scripted.fail(500) if number == 1 else echo(chat, number)


def garbage_first(chat: scripted.Chat, number: int) -> Action:
    return scripted.say("garbage") if number == 1 else echo(chat, number)


@pytest.fixture
def server() -> Any:
    with ScriptedLLM(echo) as running:
        yield running


def run(
    server: ScriptedLLM | None, requests: list[LLMRequest], cache: Path | None = None, **settings: Any
) -> list[GatewayReply[str]]:
    """One run: a fresh session, the calls in order. Without a server nothing may be reachable."""
    url = server.base_url if server else "http://127.0.0.1:9/v1"
    options = LLMSettings(**({"retries": 0} | settings))
    with LLMSession(options, cache_path=cache, environment={}) as session:
        gateway = session.gateway(url, "scripted")
        return [gateway.ask(one, as_text) for one in requests]


def rows(answers: list[GatewayReply[str]]) -> bytes:
    """The calls as rows keep them."""
    return msgspec.json.encode([msgspec.structs.replace(answer.call, replayed=False) for answer in answers])


THREE = [request("a"), request("b", "q2"), request("a", "q3")]


@pytest.mark.parametrize("script", [fails_first, garbage_first])
def test_a_failure_is_replayed_as_recorded(tmp_path: Path, script: Script) -> None:
    cassette = str(tmp_path / "c.sqlite")
    with ScriptedLLM(script) as server:
        recorded = run(server, THREE, record=cassette)
        assert len(server.requests) == 2
    assert [answer.fault is None for answer in recorded] == [False, True, False]
    assert rows(run(None, THREE, replay=cassette)) == rows(recorded)


def conversation(url: str, cache: Path | None = None, **settings: Any) -> list[GatewayReply[LLMReply]]:
    """Calls with tools until the model uses none, each after an answer to the one before."""
    grep = Tool(name="grep", description="Search.", parameters={"type": "object"})
    messages = [Message(role="user", content="where?")]
    found: list[GatewayReply[LLMReply]] = []
    environment = {"BRANCHRANK_LLM_KEY": KEY}
    options = LLMSettings(**({"retries": 0} | settings))
    with LLMSession(options, cache_path=cache, environment=environment) as session:
        gateway = session.gateway(url, "scripted", explicit=True)
        while not found or (found[-1].value is not None and found[-1].value.tool_calls):
            step = LLMRequest(stage="agent", messages=tuple(messages), tools=(grep,), context=CallContext())
            found.append(gateway.ask(step, lambda reply: reply))
            if (reply := found[-1].value) is not None:
                messages.append(Message(role="assistant", content=reply.text, tool_calls=reply.tool_calls))
                messages += [
                    Message(role="tool", content=f"answer {call.arguments}", tool_call_id=call.id)
                    for call in reply.tool_calls
                ]
    return found


@pytest.mark.parametrize("refuses", [False, True])
def test_a_conversation_with_tools_is_recorded_cached_and_replayed_without_keys(
    tmp_path: Path, refuses: bool
) -> None:
    def script(chat: scripted.Chat, number: int) -> Action:
        heard = chat.headers["authorization"]
        if refuses and chat.format == "tools":
            return scripted.fail(400, "no tools")
        if chat.prompt.count("answer {") == 2:
            return scripted.say("done")
        if refuses:
            return scripted.say(json.dumps({"tool": heard, "arguments": {"key": heard}}))
        return scripted.use((heard, {"key": heard}), content=heard)

    cassette, cache = str(tmp_path / "c.sqlite"), tmp_path / "hybrid" / "cache" / "decisions.sqlite"
    with ScriptedLLM(script) as server:
        recorded = conversation(server.base_url, cache, record=cassette)
        asked = [chat for chat in server.requests if chat.format != "tools" or not refuses]
        assert len(asked) == len(recorded) == 3
        sent = scripted.USAGE["prompt_tokens"] + scripted.USAGE["completion_tokens"]
        assert sum(one.call.prompt_tokens + one.call.completion_tokens for one in recorded) == 3 * sent
        before = len(server.requests)
        cached = conversation(server.base_url, cache)
        assert len(server.requests) == before
    replayed = conversation("http://127.0.0.1:9/v1", replay=cassette)
    assert {one.call.served_by for one in cached} == {"cache"}
    for again in (cached, replayed):
        for one, other in zip(recorded, again, strict=True):
            assert one.value is not None
            assert other.value is not None
            assert other.value.tool_calls == one.value.tool_calls
            assert (other.value.text, other.call.completion_tokens) == (one.value.text, 7)
    calls = [call for one in recorded if one.value is not None for call in one.value.tool_calls]
    assert [(call.name, json.loads(call.arguments)) for call in calls] == [
        ("Bearer [key]", {"key": "Bearer [key]"})
    ] * 2
    assert len({call.id for call in calls}) == 2
    assert not any(KEY.encode() in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


def test_a_call_that_takes_too_long_has_a_fault_and_no_value() -> None:
    with ScriptedLLM(lambda chat, number: Action(silent_s=20.0)) as server:
        [answer] = run(server, [request()], deadline_s=0.2)
    assert (answer.value, answer.fault) == (None, "timeout")


def test_a_later_recording_repeats_failed_calls(tmp_path: Path) -> None:
    cassette = str(tmp_path / "c.sqlite")
    with ScriptedLLM(fails_first) as server:
        run(server, THREE, record=cassette)
        again = run(server, THREE, record=cassette)
        assert len(server.requests) == 3
    assert [answer.value for answer in again] == ["reply 3", "reply 2", "reply 3"]
    assert rows(run(None, THREE, replay=cassette)) == rows(again)


def test_cached_decisions_are_marked_as_cached(server: ScriptedLLM, tmp_path: Path) -> None:
    cache = tmp_path / "hybrid" / "cache" / "decisions.sqlite"
    first = run(server, THREE, cache)
    assert [answer.call.served_by for answer in first] == ["server", "server", "cache"]
    second = run(server, THREE, cache)
    assert [answer.call.served_by for answer in second] == ["cache"] * 3
    assert len(server.requests) == 2
    for one, other in zip(first, second, strict=True):
        assert one.value == other.value
        assert one.call.latency_ms == other.call.latency_ms
    sums = [totals(answer.call for answer in answers) for answers in (first, second)]
    assert (sums[0].calls, sums[0].tokens) == (sums[1].calls, sums[1].tokens)
    assert [part.cached_calls for part in sums] == [1, 3]


def test_links_in_the_workspace_are_not_followed_and_a_link_to_it_is(
    server: ScriptedLLM, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "workspace").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "workspace")
    run(server, [request()], tmp_path / "linked" / "hybrid" / "cache" / "decisions.sqlite")
    assert (tmp_path / "workspace" / "hybrid" / "cache" / "decisions.sqlite").exists()
    (tmp_path / "hybrid").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="symbolic links"):
        run(server, [request()], tmp_path / "hybrid" / "cache" / "decisions.sqlite")
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("script", [fails_first, garbage_first])
def test_failures_are_not_cached(tmp_path: Path, script: Script) -> None:
    cache = tmp_path / "decisions.sqlite"
    with ScriptedLLM(script) as server:
        answers = run(server, [request()], cache)
        with Cassette(cache) as kept:
            assert len(kept) == 0
        answers += run(server, [request()], cache)
    assert [answer.value for answer in answers] == [None, "reply 2"]


def test_a_recording_includes_cached_replies(server: ScriptedLLM, tmp_path: Path) -> None:
    cache, cassette = tmp_path / "d.sqlite", str(tmp_path / "c.sqlite")
    run(server, THREE, cache)
    recorded = run(server, [*THREE, request("c")], cache, record=cassette)
    assert len(server.requests) == 3
    assert [answer.call.served_by for answer in recorded] == ["cache", "cache", "cache", "server"]
    assert rows(run(None, [*THREE, request("c")], replay=cassette)) == rows(recorded)


def test_repeats_are_separate_calls(server: ScriptedLLM, tmp_path: Path) -> None:
    repeats = [request(repeat=number) for number in range(3)]
    recorded = run(server, repeats, record=str(tmp_path / "c.sqlite"))
    assert [answer.value for answer in recorded] == ["reply 1", "reply 2", "reply 3"]
    assert [answer.call.repeat for answer in recorded] == [0, 1, 2]
    assert [chat.body["seed"] for chat in server.requests] == [42, 43, 44]


def test_concurrent_equal_calls_reach_the_server_once(tmp_path: Path) -> None:
    def slow(chat: scripted.Chat, number: int) -> Action:
        return Action(content=echo(chat, number).content, silent_s=0.1)

    with ScriptedLLM(slow) as server:
        options = LLMSettings(record=str(tmp_path / "c.sqlite"), concurrency=8)
        with LLMSession(options, environment={}) as session:
            gateway = session.gateway(server.base_url, "scripted")
            answers = gateway.ask_all([(request(question=f"q{n}"), as_text) for n in range(8)])
    assert len(server.requests) == 1
    assert {answer.value for answer in answers} == {"reply 1"}
    assert [answer.call.question_id for answer in answers] == [f"q{n}" for n in range(8)]


@pytest.mark.parametrize(("concurrency", "calls"), [(1, 3), (2, 4), (8, 3)])
def test_independent_calls_are_made_together(concurrency: int, calls: int) -> None:
    """Each call waits for those that may be made with it, and more than these would be counted."""
    allowed = min(concurrency, calls)
    together, lock, running, most = threading.Barrier(allowed), threading.Lock(), 0, 0

    def script(chat: scripted.Chat, number: int) -> Action:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        try:
            together.wait(10)
            time.sleep(0.02)
        except threading.BrokenBarrierError:
            return scripted.fail(500)
        finally:
            with lock:
                running -= 1
        return scripted.say(chat.prompt)

    options = LLMSettings(concurrency=concurrency, retries=0)
    with ScriptedLLM(script) as server, LLMSession(options, environment={}) as session:
        gateway = session.gateway(server.base_url, "scripted")
        answers = gateway.ask_all([(request(f"text {n}"), as_text) for n in range(calls)])
    assert [answer.value for answer in answers] == [f"text {n}" for n in range(calls)]
    assert most == allowed


def test_an_interruption_is_not_cached(tmp_path: Path) -> None:
    with ScriptedLLM(lambda chat, n: Action(silent_s=30)) as server:
        cassette = str(tmp_path / "c.sqlite")
        with LLMSession(LLMSettings(record=cassette), environment={}) as session:
            gateway = session.gateway(server.base_url, "scripted")
            answers: list[GatewayReply[str]] = []
            thread = threading.Thread(target=lambda: answers.append(gateway.ask(request(), as_text)))
            thread.start()
            scripted.wait_until(lambda: bool(server.requests))
            gateway.cancel()
            thread.join(5)
        assert answers[0].fault == "interrupted"
        with pytest.raises(ArtifactError, match="is empty"):
            run(None, [request()], replay=cassette)


def test_a_used_up_budget_keeps_finished_calls(server: ScriptedLLM, tmp_path: Path) -> None:
    cassette = str(tmp_path / "c.sqlite")
    with pytest.raises(LLMError, match="1 LLM calls"):
        run(server, THREE, record=cassette, max_calls=1)
    resumed = run(server, THREE, record=cassette)
    assert [answer.value for answer in resumed] == ["reply 1", "reply 2", "reply 1"]
    assert len(server.requests) == 2


def test_record_and_replay_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="together"):
        LLMSession(LLMSettings(record="a", replay="b"), environment={})


def test_a_server_with_several_models_needs_a_model_name(tmp_path: Path) -> None:
    with (
        ScriptedLLM(echo, models=("one", "two")) as server,
        LLMSession(LLMSettings(), environment={}) as session,
    ):
        with pytest.raises(LLMError, match="has 2 models: one, two"):
            session.gateway(server.base_url, "")
        assert session.gateway(server.base_url, "two").model == "two"
        server.models = ("one",)
        assert session.gateway(server.base_url, "").model == "one"


def test_an_endpoint_that_does_not_answer_is_an_error_unless_calls_may_fall_back() -> None:
    nobody, told = "http://127.0.0.1:9/v1", []
    refuse, fall_back = (LLMSettings(on_failure=choice) for choice in ("refuse", "fallback"))
    for settings, allowed in ((fall_back, {}), (refuse, {"may_fall_back": True})):
        with (
            LLMSession(settings, environment={}, **allowed) as session,
            pytest.raises(LLMError, match="no LLM answers"),
        ):
            session.gateway(nobody, "m")
    with LLMSession(fall_back, environment={}, may_fall_back=True, notify=told.append) as session:
        assert session.gateway(nobody, "").model == "unknown"
        assert [session.gateway(nobody, "m").model for _ in range(2)] == ["m", "m"]
    assert len(told) == 2
    assert nobody in told[1]


def test_one_endpoint_is_recorded_under_all_its_names(server: ScriptedLLM, tmp_path: Path) -> None:
    with LLMSession(LLMSettings(record=str(tmp_path / "c.sqlite")), environment={}) as session:
        for name in ("", "scripted"):
            assert session.gateway(server.base_url, name).ask(request(), as_text).value == "reply 1"
        with ScriptedLLM(echo) as other, pytest.raises(UsageError, match="at two endpoints"):
            session.gateway(other.base_url, "scripted")
