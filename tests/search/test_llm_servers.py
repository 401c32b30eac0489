"""Servers that deviate from the API as real ones do: what is sent to them, read from them, and said of it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from support import scripted_llm as scripted
from support.commands import invoke, json_lines, make_project, table
from support.scripted_llm import Action, Chat, Script, ScriptedLLM, tool_call

from branchrank import Workspace
from branchrank.core.errors import LLMError
from branchrank.core.io.http_client import retry_after

QUESTION = "which temperature for green tea"
KEY = "sk-planted-server-key-1"
PLAIN = ("--hybrid-candidate-order", "fused", "--hybrid-passage-order", "sections")
TRUNCATED = "truncated: raise --llm-completion-tokens"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("servers"))


@pytest.fixture
def server() -> Iterator[ScriptedLLM]:
    with ScriptedLLM(scripted.first_shown) as running:
        yield running


@pytest.fixture
def search(project: Path, server: ScriptedLLM) -> Callable[..., dict[str, Any]]:
    """The answer of one search with the server's LLM, as JSON."""

    def run(script: Script, **settings: Any) -> dict[str, Any]:
        server.script = script
        words = ["--data-dir", project / "data", "--hybrid-base-url", server.base_url, "--hybrid-model", "m"]
        for name, value in ({"llm-retries": 0} | settings).items():
            words += [f"--{name}", value]
        result = invoke("hybrid", QUESTION, *words, *PLAIN, "--json")
        assert result.exit_code == 0, result.output
        found: dict[str, Any] = json.loads(result.stdout)
        return found

    return run


def answer(chat: Chat) -> str:
    """The last shown first, which no order without the reply is."""
    return json.dumps({"ids": list(chat.entries)[::-1]})


def draft(chat: Chat) -> str:
    labels = list(chat.entries)
    return f'The user wants a ranking. ["{labels[len(labels) // 2]}"]? No, {labels[0]} is off topic.'


@pytest.fixture(scope="module")
def expected(project: Path) -> list[str]:
    with ScriptedLLM(lambda chat, number: scripted.say(answer(chat))) as server:
        words = ("--hybrid-base-url", server.base_url, "--hybrid-model", "m", *PLAIN, "--json")
        result = invoke("hybrid", QUESTION, "--data-dir", project / "data", *words)
    found = json.loads(result.stdout)
    assert found["fallbacks"] == []
    return [hit["id"] for hit in found["hits"]]


#: A message of the assistant for a draft (reasoning) and an answer.
MESSAGES: dict[str, Callable[[str, str], dict[str, Any]]] = {
    "think": lambda d, a: {"content": f"<think>{d}</think>\n\n{a}"},
    "think in prose": lambda d, a: {
        "content": f"<think>{d}</think> Best: {', '.join(json.loads(a)['ids'])}."
    },
    "the prompt opens": lambda d, a: {"content": f"{d}\n</think>\n{a}"},
    "thinking after words": lambda d, a: {"content": f"Sure.\n<thinking>\n{d}</thinking>{a}"},
    "two blocks": lambda d, a: {"content": f"<think>{d}</think><think>{d}</think>{a}"},
    "a tag within": lambda d, a: {"content": f"<think>{d} <think> again {d}</think> and {d}</think>{a}"},
    "another name": lambda d, a: {"content": f"<seed:think>{d}</seed:think><answer>{a}</answer>"},
    "thought": lambda d, a: {"content": f"<Thought>{d}</Thought>\n```json\n{a}\n```"},
    "brackets": lambda d, a: {"content": f"[THINK]{d}[/THINK]{a}"},
    "triangles": lambda d, a: {"content": f"◁think▷{d}◁/think▷{a}"},
    "channel": lambda d, a: {"content": f"<|channel>thought\n{d}<channel|>{a}"},
    "tokens": lambda d, a: {"content": f"<|START_THINKING|>{d}<|END_THINKING|><|START_RESPONSE|>{a}"},
    "channels": lambda d, a: {
        "content": f"<|channel|>analysis<|message|>{d}<|end|><|start|>assistant<|channel|>final<|message|>{a}"
    },
    "channels without tokens": lambda d, a: {"content": f"analysis{d}assistantfinal{a}"},
    "a tag in the answer": lambda d, a: {"content": f'{a[:-1]}, "note": "close it with </think>"}}'},
    "reasoning_content": lambda d, a: {"content": a, "reasoning_content": d},
    "thinking parts": lambda d, a: {
        "content": [
            {"type": "thinking", "thinking": [{"type": "text", "text": d}]},
            {"type": "text", "text": a[:9]},
            {"type": "text", "text": a[9:]},
        ]
    },
    "parts of other kinds": lambda d, a: {
        "content": [
            {"type": "reasoning", "text": d},
            {"text": d, "thought": True},
            {"type": "output_text", "text": a, "annotations": []},
            7,
        ]
    },
    "parts with values": lambda d, a: {"content": [a[:3], {"type": "text", "text": {"value": a[3:]}}]},
    "tool call": lambda d, a: {"content": None, "tool_calls": [tool_call("reply", a)]},
    "tool call with words": lambda d, a: {"content": d, "tool_calls": [tool_call("reply", json.loads(a))]},
    "function call": lambda d, a: {"content": "", "function_call": {"name": "reply", "arguments": a}},
}


@pytest.mark.parametrize("kind", MESSAGES)
def test_the_answer_is_read_and_reasoning_is_not(
    search: Callable[..., dict[str, Any]], expected: list[str], kind: str
) -> None:
    found = search(lambda chat, number: scripted.reply(MESSAGES[kind](draft(chat), answer(chat))))
    assert found["fallbacks"] == []
    assert [hit["id"] for hit in found["hits"]] == expected


@pytest.mark.parametrize(
    ("message", "finish", "outcome"),
    [
        ({"content": None, "reasoning_content": "s01 s02"}, "length", TRUNCATED),
        ({"content": "<think>s01 is off topic, s02"}, "length", TRUNCATED),
        ({"content": '{"ids": ['}, "max_tokens", TRUNCATED),
        ({"content": "<think>s01 is off topic, s02"}, "stop", "empty reply"),
        ({"content": "", "reasoning": "s01"}, "stop", "empty reply"),
        ({"content": [{"type": "thinking", "thinking": "s01"}]}, "stop", "empty reply"),
        ({"content": [{"type": "refusal", "refusal": "no"}]}, "stop", "refusal"),
        ({"content": None, "tool_calls": [tool_call("reply", "")]}, "tool_calls", "empty reply"),
    ],
)
def test_a_reply_without_an_answer_falls_back(
    search: Callable[..., dict[str, Any]], message: dict[str, Any], finish: str, outcome: str
) -> None:
    found = search(lambda chat, number: scripted.reply(message, finish))
    assert found["fallbacks"] == [f"rerank: {outcome}"]


def test_reasoning_is_in_no_summary(server: ScriptedLLM, project: Path, tmp_path: Path) -> None:
    server.script = lambda chat, number: scripted.say(
        "<think>Okay, DRAFT.</think>\n\nExplains `<think>` tags."
    )
    where = ("--data-dir", project / "data", "--base-url", server.base_url, "--model", "m")
    made = tmp_path / "nodes.jsonl"
    assert invoke("pageindex", "summarize", made, *where).exit_code == 0
    summaries = {node["summary"] for node in json_lines(made) if node["kind"] != "root"}
    assert summaries == {"Explains `<think>` tags."}


REFUSALS = {
    "openai": lambda name: {"error": {"message": f"Unsupported parameter: '{name}'", "param": name}},
    "pydantic": lambda name: {
        "detail": [{"type": "extra_forbidden", "loc": ["body", name], "input": {"seed": 1}}]
    },
    "words": lambda name: {"error": {"message": f"Unrecognized request argument supplied: {name}"}},
    "text": lambda name: {"error": f"this model does not take messages with {name}=1"},
}


@pytest.mark.parametrize(
    ("status", "form"),
    [
        *((400, form) for form in REFUSALS),
        (422, "pydantic"),
        *(pytest.param(422, form, marks=pytest.mark.full) for form in ("openai", "words", "text")),
    ],
)
def test_a_refused_parameter_is_renamed_or_left_out_once_and_named_in_the_run(
    server: ScriptedLLM, project: Path, tmp_path: Path, status: int, form: str
) -> None:
    accepted = {"model", "messages", "response_format", "max_completion_tokens"}

    def script(chat: Chat, number: int) -> Action:
        refused = [name for name in chat.body if name not in accepted]
        if refused:
            body = json.dumps(REFUSALS[form](refused[0])).encode()
            return Action(status=status, content=body)
        return scripted.first_shown(chat, number)

    server.script = server.check = script
    words = ("--hybrid-base-url", server.base_url, "--hybrid-model", "m", "--latency-sample", 0, "--quiet")
    where = ("--data-dir", project / "data", "--reports", tmp_path)
    result = invoke("benchmark", "--predictor", "hybrid", *where, *words, "--llm-concurrency", 1)
    assert result.exit_code == 0, result.output
    assert [set(chat.body) - accepted for chat in server.checks] == [
        {"max_tokens", "temperature", "seed"},
        {"temperature", "seed"},
        {"seed"},
        set(),
    ]
    assert {chat.format for chat in server.requests} == {"json_schema"}
    assert all(chat.body["max_completion_tokens"] == 512 for chat in server.requests)
    [made] = tmp_path.iterdir()
    notes = json.loads((made / "run.json").read_text(encoding="utf-8"))["llm_notes"]
    assert [re.findall("max_completion_tokens|max_tokens|temperature|seed", note) for note in notes] == [
        ["max_tokens", "max_completion_tokens"],
        ["temperature"],
        ["seed"],
    ]
    report = (made / "report.md").read_text(encoding="utf-8")
    for note in notes:
        assert note.rpartition(" ")[2] in report
        assert note in result.stderr
    assert {row["outcome"] for row in table(made / "llm_calls.csv")} == {"ok"}
    assert invoke("verify", made).exit_code == 0


def test_a_limit_is_not_removed_because_it_is_too_large(
    search: Callable[..., dict[str, Any]], server: ScriptedLLM
) -> None:
    message = "max_tokens is too large: 512. This model supports at most 256 completion tokens."
    found = search(lambda chat, number: scripted.fail(400, message))
    assert found["fallbacks"] == ["rerank: http 400"]
    assert all(chat.body["max_tokens"] == 512 for chat in server.requests)
    assert any(message in notice for notice in found["notices"])


ERRORS: dict[str, tuple[dict[str, Any], str, int]] = {
    "code": ({"id": None, "choices": None, "error": {"message": "busy now", "code": 429}}, "http 429", 3),
    "text code": ({"error": {"message": "busy now", "code": "503"}}, "http 503", 3),
    "type": ({"error": {"message": "busy now", "type": "rate_limit_error"}}, "http 429", 3),
    "of a choice": (
        {"choices": [{"error": {"message": "busy now", "code": 502}, "finish_reason": "error"}]},
        "http 502",
        3,
    ),
    "permanent": ({"error": {"message": "busy now", "code": 402}}, "http 402", 1),
    "without a code": ({"error": "busy now"}, "server error", 1),
    "flat": ({"object": "error", "message": "busy now", "code": 40303}, "server error", 1),
}


@pytest.mark.parametrize("kind", ERRORS)
def test_an_error_with_status_200_has_its_own_status_and_text(
    search: Callable[..., dict[str, Any]], server: ScriptedLLM, kind: str
) -> None:
    body, outcome, attempts = ERRORS[kind]
    action = Action(content=json.dumps(body).encode(), headers={"Retry-After": "0"})
    found = search(lambda chat, number: action, **{"llm-retries": 2})
    assert found["fallbacks"] == [f"rerank: {outcome}"]
    assert found["notices"] == [f"LLM: {outcome} ('busy now')"]
    assert len(server.requests) == attempts


@pytest.mark.parametrize(
    "style", ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y"]
)
def test_a_date_to_retry_after_is_waited_for(style: str) -> None:
    for seconds, least, most in ((90, 88, 92), (-90, 0, 0)):
        text = datetime.fromtimestamp(time.time() + seconds, UTC).strftime(style)
        waited = retry_after({"retry-after": text})
        assert waited is not None
        assert least <= waited <= most
    assert retry_after({"retry-after": "Wed, 41 Oct 2026"}) is None


def test_a_call_is_repeated_after_the_date_of_the_server(
    search: Callable[..., dict[str, Any]], server: ScriptedLLM
) -> None:
    ready = time.time() + 1

    def script(chat: Chat, number: int) -> Action:
        return (
            scripted.ids(chat.entries)
            if time.time() >= ready
            else scripted.fail(429, Retry_After=formatdate(ready, usegmt=True))
        )

    assert search(script, **{"llm-retries": 1})["fallbacks"] == []
    assert len(server.requests) == 2


def missing(chat: Chat, number: int) -> Action:
    return (
        scripted.first_shown(chat, number)
        if chat.path.startswith("/v1/")
        else Action(status=404, content=b"no page")
    )


@pytest.mark.parametrize("listed", [True, False])
def test_the_path_v1_is_used_if_only_it_has_the_api(
    server: ScriptedLLM, project: Path, tmp_path: Path, listed: bool
) -> None:
    server.script = server.check = missing
    server.models_action = None if listed else Action(status=404, content=b"no page")
    base = server.base_url.removesuffix("/v1")
    words = ("--hybrid-base-url", base, "--hybrid-model", "m", "--latency-sample", 0, "--quiet")
    where = ("--data-dir", project / "data", "--reports", tmp_path)
    result = invoke("benchmark", "--predictor", "hybrid", *where, *words)
    assert result.exit_code == 0, result.output
    assert {chat.path for chat in server.requests} == {"/v1/chat/completions"}
    assert [chat.path for chat in server.checks] == ["/chat/completions", "/v1/chat/completions"]
    [made] = tmp_path.iterdir()
    [note] = json.loads((made / "run.json").read_text(encoding="utf-8"))["llm_notes"]
    assert f"{base}/v1" in note
    assert note in result.stderr
    assert "/v1" in (made / "report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("status", "url", "listed", "said"),
    [
        (404, "/v1", ("qwen", "llama"), "llama, qwen"),
        (404, "", ("qwen", "llama"), "llama, qwen"),
        (400, "/v1", ("qwen",), "qwen"),
        (404, "/v1", (), "--hybrid-base-url"),
        (404, "/v1", ("mm", "llama"), "llama, mm"),
        (405, "/api", (), "--hybrid-base-url"),
    ],
)
def test_what_does_not_answer_is_refused_before_question_1(
    server: ScriptedLLM,
    project: Path,
    tmp_path: Path,
    status: int,
    url: str,
    listed: tuple[str, ...],
    said: str,
) -> None:
    server.models = listed
    server.models_action = None if listed else Action(status=404)
    server.check = lambda chat, number: scripted.fail(
        status, f"no such thing, {chat.headers.get('authorization')}"
    )
    base = server.base_url.removesuffix("/v1") + url
    words = ("--hybrid-base-url", base, "--hybrid-model", "mm", "--latency-sample", 0, "--quiet")
    where = ("--data-dir", project / "data", "--reports", tmp_path / "reports")
    result = invoke("benchmark", "--predictor", "hybrid", *where, *words)
    assert result.exit_code == LLMError.exit_code == 7
    assert server.requests == []
    assert len(server.checks) == (1 if url == "/v1" else 2)
    assert not (tmp_path / "reports").exists()
    for text in (base, f"http {status}", "no such thing", "'mm'", said):
        assert text in result.stderr


def test_the_servers_text_is_in_the_run_and_the_report_without_the_key(
    server: ScriptedLLM, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRANCHRANK_LLM_KEY", KEY)
    server.script = lambda chat, number: scripted.fail(402, f"no credit for {chat.headers['authorization']}")
    words = ("--hybrid-base-url", server.base_url, "--hybrid-model", "m", "--latency-sample", 0, "--quiet")
    where = ("--data-dir", project / "data", "--reports", tmp_path / "reports")
    cassette = tmp_path / "c.sqlite"
    result = invoke("benchmark", "--predictor", "hybrid", *where, *words, "--llm-record", cassette)
    assert result.exit_code == 9
    [made] = (tmp_path / "reports").iterdir()
    said = "no credit for Bearer [key]"
    assert {row["detail"] for row in table(made / "llm_calls.csv")} == {said}
    assert {call["detail"] for row in json_lines(made / "rows.jsonl") for call in row["calls"]} == {said}
    for text in (result.stderr, result.stdout, *(page.read_text() for page in made.glob("report.*"))):
        assert "no credit for Bearer" in text
    assert not any(KEY.encode() in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    replay = (*words, "--llm-replay", cassette, "--reports", tmp_path / "again")
    assert (
        invoke("benchmark", "--predictor", "hybrid", "--data-dir", project / "data", *replay).exit_code == 9
    )
    [again] = (tmp_path / "again").iterdir()
    assert (again / "rows.jsonl").read_bytes() == (made / "rows.jsonl").read_bytes()


def test_the_check_is_no_call_of_the_budget(server: ScriptedLLM, project: Path) -> None:
    url = {"hybrid.base_url": server.base_url, "hybrid.model": "m", "llm.max_calls": 1}
    with Workspace.open(project / "data", settings=url) as workspace:
        assert {hit.fallback for hit in workspace.search(QUESTION, "hybrid")} == {None}
    assert (len(server.checks), len(server.requests)) == (1, 1)
