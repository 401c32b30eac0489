"""The client against a scripted server over real HTTP: every misbehavior, within the deadline."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from support import scripted_llm as scripted
from support.commands import program
from support.scripted_llm import Action, Chat, Script, ScriptedLLM

from branchrank.core.errors import LLMError, UsageError
from branchrank.core.io.keys import Endpoint
from branchrank.core.io.progress import no_notice
from branchrank.core.settings import LLMSettings
from branchrank.search.llm.client import ChatClient, UnreachableError
from branchrank.search.llm.request import (
    BudgetError,
    CallContext,
    CallResult,
    LLMRequest,
    Message,
    Tool,
    ToolCall,
    Usage,
)

SCHEMA = {"type": "object", "properties": {"ids": {"type": "array"}}, "required": ["ids"]}
Call = Callable[..., Any]


def request(text: str = "hello", **fields: Any) -> LLMRequest:
    messages = (Message(role="user", content=text),)
    return LLMRequest(stage="test", messages=messages, **({"max_tokens": 50} | fields))


@pytest.fixture
def serve() -> Any:
    """Starts a scripted server and a client of it; both are closed at the end."""
    opened: list[Any] = []

    def start(
        script: Script, *, url: Callable[[ScriptedLLM], str] | None = None, key: str = "", **settings: Any
    ):
        server = ScriptedLLM(script)
        opened.append(server)
        notify = settings.pop("notify", no_notice)
        options = LLMSettings(**({"deadline_s": 5.0, "retries": 2} | settings))
        endpoint = Endpoint(url(server) if url else server.base_url, key=key)
        client = ChatClient(endpoint, "scripted", options, first_wait_s=0.01, notify=notify)
        opened.append(client)
        return server, client

    yield start
    for thing in reversed(opened):
        thing.__exit__()


def always(action: Action) -> Script:
    return lambda chat, number: action


def failure(client: ChatClient, **fields: Any) -> CallResult:
    found = client.complete(request(**fields))
    assert found.outcome != "ok"
    return found


def test_sends_a_deterministic_request_and_reads_the_reply(serve: Call) -> None:
    usage = scripted.USAGE | {"prompt_tokens_details": {"cached_tokens": 40}}
    server, client = serve(always(scripted.say("hi", usage=usage)))
    reply = client.complete(request(schema=SCHEMA, context=CallContext(seed=7, repeat=2))).reply
    assert reply.text == "hi"
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens, reply.usage.cached_tokens) == (
        100,
        7,
        40,
    )
    assert reply.usage.reported
    assert reply.model == "scripted-1"
    assert reply.latency_ms > 0
    body = server.requests[0].body
    assert (body["temperature"], body["seed"], body["max_tokens"]) == (0, 9, 50)
    strict = {"name": "reply", "strict": True, "schema": SCHEMA}
    assert body["response_format"] == {"type": "json_schema", "json_schema": strict}


@pytest.mark.parametrize(
    "usage", [None, {"prompt_tokens": -5, "completion_tokens": 1}, {"prompt_tokens": "9"}, [], 3]
)
def test_missing_or_absurd_usage_is_estimated_and_marked(serve: Call, usage: Any) -> None:
    _, client = serve(always(scripted.say("four words of reply", usage=usage)))
    found = client.complete(request()).reply.usage
    assert not found.reported
    assert found.prompt_tokens == request().prompt_tokens
    assert found.completion_tokens > 0


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_temporary_errors_are_retried(serve: Call, status: int) -> None:
    server, client = serve(
        lambda chat, n: scripted.fail(status, retry_after="0.01") if n < 3 else scripted.say("ok")
    )
    assert client.complete(request()).reply.attempt == 3
    assert client.budget.calls == 3
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [400, 401, 404, 410, 424, 428, 501, 505, 307])
def test_permanent_errors_are_not_retried(serve: Call, status: int) -> None:
    server, client = serve(always(scripted.fail(status, location="http://127.0.0.1:9/elsewhere")))
    assert failure(client).outcome == f"http {status}"
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [400, 404, 415, 422, 501])
def test_every_reply_format_is_tried_if_the_server_may_not_support_it(serve: Call, status: int) -> None:
    server, client = serve(always(scripted.fail(status)))
    assert failure(client, schema=SCHEMA).outcome == f"http {status}"
    assert [chat.format for chat in server.requests] == ["json_schema", "json_object", "plain"]


@pytest.mark.parametrize(
    ("action", "outcome"),
    [
        (scripted.fail(401), "http 401"),
        (scripted.fail(403), "http 403"),
        (scripted.fail(400, "maximum context length is 10 tokens"), "context overflow"),
    ],
)
def test_another_reply_format_is_not_tried_after_an_error_that_has_another_cause(
    serve: Call, action: Action, outcome: str
) -> None:
    server, client = serve(always(action))
    assert failure(client, schema=SCHEMA).outcome == outcome
    assert [chat.format for chat in server.requests] == ["json_schema"]


def test_a_dropped_connection_is_retried_then_named(serve: Call) -> None:
    server, client = serve(always(Action(drop=True)))
    assert failure(client).outcome == "connection"
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    "action",
    [
        Action(content=scripted.say("x" * 300).content, drip_s=0.02),
        Action(silent_s=20.0),
        scripted.fail(429, retry_after="0.05"),
    ],
    ids=["drip", "silence", "endless 429"],
)
def test_no_call_exceeds_the_deadline(serve: Call, action: Action) -> None:
    _, client = serve(always(action), deadline_s=0.4, retries=10)
    started = time.monotonic()
    error = failure(client)
    assert error.outcome in ("timeout", "http 429")
    assert error.reply.latency_ms <= (time.monotonic() - started) * 1000
    assert error.reply.latency_ms < 4000  # ten times the deadline: the drip alone would take 10 s


def test_a_wait_past_the_deadline_fails_at_once(serve: Call) -> None:
    server, client = serve(always(scripted.fail(429, retry_after="3600")), deadline_s=30.0)
    assert failure(client).outcome == "http 429"
    assert len(server.requests) == 1


def test_waits_double_while_they_end_before_the_deadline(
    serve: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waits of 0.01, 0.02 and 0.04 s end 0.07 s after the start; the next would end at 0.15 s."""
    now, waits = 1000.0, []

    class Waited(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            nonlocal now
            waits.append(timeout)
            now += timeout or 0
            return self.is_set()

    server, client = serve(always(scripted.fail(503)), deadline_s=0.1, retries=10)
    monkeypatch.setattr(
        "branchrank.search.llm.client.threading", SimpleNamespace(Event=Waited, BoundedSemaphore=None)
    )
    monkeypatch.setattr("branchrank.search.llm.client.time", SimpleNamespace(monotonic=lambda: now))
    found = failure(client)
    assert (found.outcome, found.reply.attempt, len(server.requests)) == ("http 503", 4, 4)
    assert waits == pytest.approx([0.01, 0.02, 0.04])
    assert found.reply.latency_ms == pytest.approx(70)


def test_a_retry_has_only_the_time_that_is_left(serve: Call) -> None:
    def script(chat: Chat, number: int) -> Action:
        return scripted.fail(429, retry_after="1.2") if number == 1 else Action(silent_s=20.0)

    _, client = serve(script, deadline_s=1.5)
    found = failure(client)
    assert found.outcome == "timeout"
    assert 1500 <= found.reply.latency_ms < 2600  # with a new deadline it would be 2.7 s


def test_a_failed_call_spent_nothing_that_the_server_did_not_report(serve: Call) -> None:
    _, client = serve(always(scripted.fail(500)), retries=0)
    nothing = Usage(prompt_tokens=0, completion_tokens=0, cached_tokens=0, reported=False)
    assert failure(client).reply.usage == nothing
    _, client = serve(always(Action(silent_s=20.0)), deadline_s=0.2)
    sent = request().prompt_tokens
    assert failure(client).reply.usage == msgspec.structs.replace(nothing, prompt_tokens=sent)


def test_the_run_has_one_retry_budget(serve: Call) -> None:
    server, client = serve(always(scripted.fail(429, retry_after="0")), retries=10, retry_budget=4)
    for _ in range(5):
        assert failure(client).outcome == "http 429"
    assert len(server.requests) == 5 + 4


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        (Action(content=b"<html>busy</html>"), "malformed response"),
        (Action(content=b"[" * 100_000), "malformed response"),
        (Action(content=b'"text"'), "empty reply"),
        (scripted.say("x", choices=[]), "empty reply"),
        (scripted.say("x", choices="none"), "empty reply"),
        (scripted.say(None), "empty reply"),
        (scripted.say("  \n"), "empty reply"),
        (scripted.say(None, refusal="I can't"), "refusal"),
        (scripted.say("x", finish_reason="content_filter"), "content filter"),
        (Action(content=b"x" * (9 << 20)), "oversized reply"),
        (scripted.fail(400, "maximum context length is 10 tokens"), "context overflow"),
    ],
)
def test_an_unusable_reply_is_reported_without_a_retry(serve: Call, action: Action, reason: str) -> None:
    server, client = serve(always(action))
    assert failure(client).outcome == reason
    assert len(server.requests) == 1


def test_a_reply_of_nearly_eight_mebibytes_is_read(serve: Call) -> None:
    _, client = serve(always(scripted.say("x" * ((8 << 20) - 1000))))
    assert len(client.complete(request()).reply.text) == (8 << 20) - 1000


def test_the_client_remembers_the_supported_response_format(serve: Call) -> None:
    def script(chat: Chat, number: int) -> Action:
        return scripted.say("{}") if chat.format == "plain" else scripted.fail(400, "response_format")

    server, client = serve(script)
    assert client.complete(request(schema=SCHEMA)).reply.attempt == 3
    assert client.complete(request(schema=SCHEMA)).reply.attempt == 1
    assert [chat.format for chat in server.requests] == ["json_schema", "json_object", "plain", "plain"]


TOOLS = (
    Tool(name="grep_search", description="Search.", parameters={"type": "object", "properties": {}}),
    Tool(name="answer", description="End.", parameters={"type": "object"}),
)
STEP = {"tool": "grep_search", "arguments": {"pattern": "x"}}
#: A conversation after a step whose second call had a name and arguments that servers refuse.
LATER = (
    Message(role="system", content="Search."),
    Message(role="user", content="where?"),
    Message(
        role="assistant",
        content="First I search.",
        tool_calls=(
            ToolCall(id="c1", name="grep_search", arguments='{"pattern": "x"}'),
            ToolCall(id="c2", name="rm -rf", arguments='{"cut'),
        ),
    ),
    Message(role="tool", content="a.md:3", tool_call_id="c1"),
    Message(role="tool", content="no such tool", tool_call_id="c2"),
    Message(role="user", content="Answer now."),
)


def test_tools_and_tool_calls_are_sent_in_the_form_of_the_api(serve: Call) -> None:
    action = scripted.use(("grep_search", {"pattern": "x"}), ("answer", "{}"), content="Hm.")
    server, client = serve(always(action))
    reply = client.complete(request(tools=TOOLS, schema=SCHEMA)).reply
    assert (reply.text, reply.usage.reported) == ("Hm.", True)
    assert [(call.id, call.name, call.arguments) for call in reply.tool_calls] == [
        ("c1", "grep_search", '{"pattern": "x"}'),
        ("c2", "answer", "{}"),
    ]
    client.complete(msgspec.structs.replace(request(tools=TOOLS), messages=LATER))
    first, second = (chat.body for chat in server.requests)
    assert set(first) == {"model", "messages", "tools", "tool_choice", "max_tokens", "temperature", "seed"}
    assert first["messages"] == [{"role": "user", "content": "hello"}]
    assert first["tool_choice"] == "auto"
    assert first["tools"] == [{"type": "function", "function": msgspec.to_builtins(tool)} for tool in TOOLS]
    assert second["messages"][2:5] == [
        {
            "role": "assistant",
            "content": "First I search.",
            "tool_calls": [
                scripted.tool_call("grep_search", '{"pattern": "x"}', "c1"),
                scripted.tool_call("rm_-rf", "{}", "c2"),
            ],
        },
        {"role": "tool", "content": "a.md:3", "tool_call_id": "c1"},
        {"role": "tool", "content": "no such tool", "tool_call_id": "c2"},
    ]


def refusing(status: int, message: str, *, accepted: str = "json_schema") -> Script:
    """A server without tools, whose only format is ``accepted``. Its error's text is for tools alone."""

    def script(chat: Chat, number: int) -> Action:
        if chat.format == "tools":
            return scripted.fail(status, message)
        return scripted.say(json.dumps(STEP)) if chat.format == accepted else scripted.fail(400)

    return script


@pytest.mark.parametrize("accepted", ["json_schema", "json_object", "plain"])
@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "m does not support tools"),
        (400, '"auto" tool choice requires --enable-auto-tool-choice'),
        (404, "no endpoint that supports tool use"),
        (422, "extra inputs are not permitted: tool_choice"),
        (500, "tools param requires --jinja flag"),
        (501, "not implemented"),
        (200, "tools are not supported"),
    ],
)
def test_a_server_without_tools_gets_the_same_as_a_plain_chat(
    serve: Call, status: int, message: str, accepted: str
) -> None:
    notes: list[str] = []
    server, client = serve(refusing(status, message, accepted=accepted), retries=0, notify=notes.append)
    replies = [client.complete(request(tools=TOOLS)) for _ in range(2)]
    for found in replies:
        assert (found.outcome, found.reply.text) == ("ok", "")
        [call] = found.reply.tool_calls
        assert (call.name, json.loads(call.arguments)) == ("grep_search", {"pattern": "x"})
    tried = ["tools", "json_schema", "json_object", "plain"]
    tried = tried[: tried.index(accepted) + 1]
    assert [chat.format for chat in server.requests] == [*tried, accepted]
    assert replies[1].reply.attempt == 1
    assert client.budget.calls == len(server.requests)
    [note] = notes
    assert server.base_url in note
    assert "tools" in note


def test_a_plain_chat_has_the_tools_and_the_steps_so_far(serve: Call) -> None:
    server, client = serve(refusing(400, "no tools"))
    client.complete(msgspec.structs.replace(request(tools=TOOLS), messages=LATER))
    client.complete(request(tools=TOOLS))
    _, later, plain = (chat.body for chat in server.requests)
    system, user, assistant, answers = later["messages"]
    assert [message["role"] for message in later["messages"]] == ["system", "user", "assistant", "user"]
    assert system["content"].startswith("Search.\n")
    described = [json.loads(line) for line in system["content"].splitlines() if line.startswith('{"name"')]
    assert described == [msgspec.to_builtins(tool) for tool in TOOLS]
    assert user["content"] == "where?"
    said = assistant["content"].splitlines()
    assert said[0] == "First I search."
    assert [json.loads(line) for line in said[1:]] == [STEP, {"tool": "rm -rf", "arguments": None}]
    texts = ("grep_search", "a.md:3", "rm -rf", "no such tool", "Answer now.")
    places = [answers["content"].index(text) for text in texts]
    assert places == sorted(places)
    assert not {"tools", "tool_choice"} & later.keys()
    schema = later["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["tool"]["enum"] == ["grep_search", "answer"]
    assert [message["role"] for message in plain["messages"]] == ["system", "user"]


def test_a_request_without_tools_after_tool_calls_is_a_plain_chat(serve: Call) -> None:
    server, client = serve(always(scripted.say("done")))
    reply = client.complete(msgspec.structs.replace(request(), messages=LATER)).reply
    assert (reply.text, reply.tool_calls) == ("done", ())
    body = server.requests[0].body
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "user"]
    assert body["messages"][0]["content"] == "Search."
    assert "tools" not in body


@pytest.mark.parametrize("text", ["It is in a.md.", '{"path": "a.md"}', '{"tool": 7}', '{"tool": "gre'])
def test_a_reply_that_is_not_one_step_has_no_tool_calls(serve: Call, text: str) -> None:
    def script(chat: Chat, number: int) -> Action:
        return scripted.fail(400) if chat.format == "tools" else scripted.say(text)

    _, client = serve(script)
    reply = client.complete(request(tools=TOOLS)).reply
    assert (reply.text, reply.tool_calls) == (text, ())


def test_a_server_that_took_tools_is_not_asked_without_them(serve: Call) -> None:
    def script(chat: Chat, number: int) -> Action:
        if number == 1:
            return scripted.use(("answer", {}))
        return scripted.fail((400, 500)[number % 2], "tools: bad request")

    server, client = serve(script, retries=0)
    assert client.complete(request(tools=TOOLS)).outcome == "ok"
    assert [failure(client, tools=TOOLS).outcome for _ in range(2)] == ["http 400", "http 500"]
    assert [chat.format for chat in server.requests] == ["tools"] * 3


@pytest.mark.parametrize(
    ("action", "outcome"),
    [
        (scripted.fail(500, "out of memory"), "http 500"),
        (scripted.fail(401, "no tools for this key"), "http 401"),
        (scripted.fail(429, "too many tools at once"), "http 429"),
        (scripted.reply({"content": "", "tools": "tools"}), "empty reply"),
    ],
)
def test_an_error_with_another_cause_does_not_mean_that_tools_are_refused(
    serve: Call, action: Action, outcome: str
) -> None:
    server, client = serve(always(action), retries=0)
    assert failure(client, tools=TOOLS).outcome == outcome
    assert [chat.format for chat in server.requests] == ["tools"]


def test_refused_tools_and_a_refused_schema_are_remembered_apart(serve: Call) -> None:
    server, client = serve(refusing(400, "no tools"))
    for fields in ({"schema": SCHEMA}, {"tools": TOOLS}, {"schema": SCHEMA}, {"tools": TOOLS}, {}):
        client.complete(request(**fields))
    tried = ["json_schema", "tools", "json_schema", "json_schema", "json_schema", "plain"]
    assert [chat.format for chat in server.requests] == tried


def test_a_call_that_was_sent_before_the_format_was_known_uses_it(serve: Call) -> None:
    """Both calls are refused at once, and the slower one hears of it when the other has its reply."""
    answered = threading.Event()

    def script(chat: Chat, number: int) -> Action:
        if chat.format == "json_schema" and "slow" in chat.prompt:
            answered.wait(10)
        return scripted.say("{}") if chat.format == "plain" else scripted.fail(400)

    server, client = serve(script, concurrency=2)
    found: list[CallResult] = []
    slow = threading.Thread(target=lambda: found.append(client.complete(request("slow", schema=SCHEMA))))
    slow.start()
    scripted.wait_until(lambda: len(server.requests) == 1)
    assert client.complete(request(schema=SCHEMA)).outcome == "ok"
    answered.set()
    slow.join(10)
    assert found[0].outcome == "ok"
    formats = [chat.format for chat in server.requests if "slow" in chat.prompt]
    assert formats == ["json_schema", "plain"]


def test_caps_are_enforced_before_the_call(serve: Call) -> None:
    server, client = serve(always(scripted.say("x")), max_calls=2)
    client.complete(request())
    client.complete(request())
    with pytest.raises(BudgetError, match="2 LLM calls") as caught:
        client.complete(request())
    assert "--max-calls" in caught.value.remedy
    assert len(server.requests) == 2


def test_the_token_cap_counts_used_tokens(serve: Call) -> None:
    server, client = serve(always(scripted.say("x")), max_tokens=218)
    client.complete(request())
    client.complete(request())
    with pytest.raises(BudgetError, match="214 of 218"):
        client.complete(request())
    assert len(server.requests) == 2


def test_concurrency_is_bounded(serve: Call) -> None:
    running, most, lock = 0, 0, threading.Lock()

    def script(chat: Chat, number: int) -> Action:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.03)
        with lock:
            running -= 1
        return scripted.say("x")

    _, client = serve(script, concurrency=2)
    threads = [threading.Thread(target=client.complete, args=(request(),)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 2


def test_cancel_interrupts_a_call(serve: Call) -> None:
    server, client = serve(always(Action(silent_s=30.0)), deadline_s=30.0)
    caught: list[CallResult] = []
    thread = threading.Thread(target=lambda: caught.append(failure(client)))
    thread.start()
    scripted.wait_until(lambda: bool(server.requests))
    client.cancel()
    thread.join(5)
    assert caught[0].outcome == "interrupted"


#: Variables that the ``openai`` package reads, and what must stay out of a request.
SDK_VARIABLES = {
    "OPENAI_API_KEY": "sk-environment-openai",
    "OPENAI_ADMIN_KEY": "sk-environment-admin",
    "OPENAI_ORG_ID": "org-environment",
    "OPENAI_PROJECT_ID": "project-environment",
    "OPENAI_BASE_URL": "http://environment.invalid/v1",
    "OPENAI_CUSTOM_HEADERS": "Host: environment\nAuthorization: environment\nX-Secret: environment",
}
SENT = {"host", "connection", "accept", "accept-encoding", "user-agent", "content-type", "content-length"}


@pytest.mark.parametrize("key", ["", "own-key-1"])
def test_no_header_of_the_environment_or_the_machine_is_sent(
    serve: Call, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    for name, value in SDK_VARIABLES.items():
        monkeypatch.setenv(name, value)
    server, client = serve(always(scripted.say("x")), key=key)
    assert client.complete(request()).outcome == "ok"
    headers = server.requests[0].headers
    assert headers.keys() == SENT | ({"authorization"} if key else set())
    assert headers.get("authorization", "Bearer ") == f"Bearer {key}"
    assert headers["host"] == server.base_url.split("/")[2]
    assert headers["accept"] == headers["content-type"] == "application/json"
    assert headers["accept-encoding"] == "identity"
    assert headers["user-agent"].startswith("OpenAI/Python")
    assert "environment" not in str(headers)


@pytest.mark.full
def test_a_log_level_for_the_sdk_in_the_environment_writes_nothing(tmp_path: Path) -> None:
    """In a fresh process, because the package reads the variable when it is imported."""
    code = (
        "import logging\n"
        "from branchrank.core.io.keys import Endpoint\n"
        "from branchrank.search.llm.client import ChatClient, UnreachableError\n"
        "from branchrank.core.settings import LLMSettings\n"
        "with ChatClient(Endpoint('http://127.0.0.1:9/v1'), 'm', LLMSettings()) as client:\n"
        "    try:\n"
        "        client.probe()\n"
        "    except UnreachableError:\n"
        "        print(logging.root.handlers, logging.getLogger('openai').level)\n"
    )
    done = program("-c", code, cwd=tmp_path, environment={"OPENAI_LOG": "debug"}, fresh=True)
    assert (done.stdout, done.stderr) == ("[] 0\n", "")


@pytest.mark.parametrize(
    "url", ["http://h:x/v1", "http://h:99999/v1", "http://256.1.1.1/v1", "http://h\x01/v1"]
)
def test_a_url_that_cannot_be_used_is_reported(url: str) -> None:
    with pytest.raises(UsageError, match="is not") as caught:
        ChatClient(Endpoint(url), "m", LLMSettings())
    assert "127.0.0.1" in caught.value.remedy


def test_a_parameter_without_a_value_is_sent(serve: Call) -> None:
    server, client = serve(always(scripted.say("x")), url=lambda server: f"{server.base_url}?a=&b=1%2B")
    client.complete(request())
    assert server.requests[0].path == "/v1/chat/completions?a=&b=1%2B"


def test_probe_lists_models_and_reports_an_unreachable_endpoint(serve: Call) -> None:
    _, client = serve(always(scripted.say("x")))
    assert client.probe() == ("scripted",)
    dead = ChatClient(Endpoint("http://127.0.0.1:9/v1"), "m", LLMSettings())
    with dead, pytest.raises(LLMError, match=r"http://127\.0\.0\.1:9/v1"):
        dead.probe()
    for action, error, told in (
        (scripted.fail(503), UnreachableError, "HTTP 503"),
        (Action(status=401), LLMError, "HTTP 401"),
        (Action(status=403), LLMError, "HTTP 403"),
    ):
        server, client = serve(always(scripted.say("x")))
        server.models_action = action
        with pytest.raises(error, match=told):
            client.probe()
