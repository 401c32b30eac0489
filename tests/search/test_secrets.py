"""Keys: which host gets which, and every spelling in which one must not be seen."""

from __future__ import annotations

import base64
import json
import logging
import shlex
from urllib.parse import quote, quote_plus

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import scripted_llm as scripted
from support.scripted_llm import ScriptedLLM

from branchrank.core.errors import UsageError
from branchrank.core.io.keys import Endpoint, open_endpoint
from branchrank.core.io.printable import Redactor, hide_credentials, scrubbed
from branchrank.core.records import Record
from branchrank.core.settings import LLMSettings
from branchrank.runs.bench.record import IDENTITY
from branchrank.search.llm.client import ChatClient
from branchrank.search.llm.request import LLMRequest, Message

KEY = "sk-plänted/key+42=="
OPENAI = {"OPENAI_API_KEY": "sk-openai-own"}


@pytest.mark.parametrize(
    ("url", "environment", "explicit", "header"),
    [
        ("https://api.openai.com/v1", OPENAI, False, "Bearer sk-openai-own"),
        ("http://api.openai.com/v1", OPENAI, True, None),
        ("https://api.openai.com.evil.example/v1", OPENAI, True, None),
        ("https://evil.example/v1?host=api.openai.com", OPENAI, True, None),
        ("https://api.openai.com@evil.example/v1", {"OPENAI_API_KEY": "sk-openai-own"}, True, "Basic"),
        ("http://localhost:8080/v1", OPENAI, True, None),
        ("http://lan:8080/v1", {"BRANCHRANK_LLM_KEY": "own-key-1"}, True, "Bearer own-key-1"),
        ("http://lan:8080/v1", {"BRANCHRANK_LLM_KEY": "own-key-1"}, False, None),
        (
            "http://lan:8080/v1",
            {"BRANCHRANK_LLM_KEY": "own-key-1", "BRANCHRANK_LLM_KEY_HOST": "LAN"},
            False,
            "Bearer own-key-1",
        ),
        (
            "http://lan:8080/v1",
            {"BRANCHRANK_LLM_KEY": "own-key-1", "BRANCHRANK_LLM_KEY_HOST": "lan:8080"},
            False,
            "Bearer own-key-1",
        ),
        (
            "http://evil.example/v1",
            {"BRANCHRANK_LLM_KEY": "own-key-1", "BRANCHRANK_LLM_KEY_HOST": "lan"},
            True,
            None,
        ),
        ("https://user:pass-word@lan/v1", {}, False, "Basic " + base64.b64encode(b"user:pass-word").decode()),
    ],
)
def test_a_key_is_sent_to_its_own_host_only(
    url: str, environment: dict[str, str], explicit: bool, header: str | None
) -> None:
    sent = open_endpoint("LLM", url, environment, explicit=explicit).authorization
    if header == "Basic":
        assert sent is not None
        assert "sk-openai-own" not in base64.b64decode(sent.removeprefix("Basic ")).decode()
    else:
        assert sent == header


def test_an_endpoint_is_shown_without_credentials() -> None:
    endpoint = Endpoint(
        "https://user:pass-word@lan:81/v1/?api_key=query-key&api-version=2024", key="own-key-1"
    )
    assert repr(endpoint) == "Endpoint('https://lan:81/v1')"
    basic = base64.b64encode(b"user:pass-word").decode()
    assert set(endpoint.secrets) == {"own-key-1", "pass-word", "query-key", basic}
    assert endpoint.query == {"api_key": "query-key", "api-version": "2024"}


NO_ENDPOINT = ["", "localhost:8080", "file:///etc/passwd", "http://", "ftp://hunter22@host/"]
NO_ENDPOINT += ["me:hunter22@h", "http://me:hunter22@[h/v1?api_key=hunter22", "hunter22@h"]


@pytest.mark.parametrize("url", NO_ENDPOINT)
def test_a_value_that_is_not_an_endpoint_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(UsageError, match="base URL") as caught:
        Endpoint(url)
    assert "hunter22" not in f"{caught.value} {caught.value.remedy}"


@given(secret=st.text(st.characters(exclude_categories=("Cs",)), min_size=6, max_size=40))
def test_the_redactor_removes_a_key_as_it_is_in_a_url_or_in_json(secret: str) -> None:
    redact = Redactor([secret])
    encoded = (
        msgspec.json.encode(secret).decode(),
        json.dumps(secret),
        json.dumps(secret, ensure_ascii=False),
    )
    forms = (secret, quote(secret, safe=""), quote_plus(secret), *(text[1:-1] for text in encoded))
    assert [redact(f" {form} ") for form in forms] == [" [key] "] * len(forms)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "run --url 'http://h:1/v1?api_key=secret-1&v=2' -q",
            "run --url 'http://h:1/v1?api_key=[key]&v=2' -q",
        ),
        ('{"u":"https://me:secret-1@h/v1"}', '{"u":"https://h/v1"}'),
        ("http://secret-1@h", "http://h"),
        ("http://h?key=secret-1", "http://h?key=[key]"),
        ("HTTPS://h/a?v=2&Access_Token=secret-1#top", "HTTPS://h/a?v=2&Access_Token=[key]#top"),
        ("the key sk-openai-own itself", "the key [key] itself"),
        ("redis_url = redis://me:secret-1@h:6379/0", "redis_url = redis://h:6379/0"),
        ("rediss://:secret-1@h and qdrant+https://secret-1@h", "rediss://h and qdrant+https://h"),
        ("cannot reach redis://:se'cr<et>-\\\"1@h:6379/0 now", "cannot reach redis://h:6379/0 now"),
        ("mail me@host about http://h/p?page=2", "mail me@host about http://h/p?page=2"),
    ],
)
def test_urls_are_recorded_without_credentials(text: str, shown: str) -> None:
    assert hide_credentials(text, OPENAI) == shown


def test_the_redactor_does_not_change_other_text() -> None:
    assert Redactor([KEY, "", "abc"])("abc is no key; nothing changes") == "abc is no key; nothing changes"


class Recorded(Record, frozen=True, kw_only=True):
    """What a run records, in small."""

    command: str = ""
    settings: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    predictors: tuple[str, ...] = ()


ODD = st.text(st.sampled_from("aZ09\"'<>\\ \t:@/?#&=%$`|;äß☃"), min_size=6, max_size=16).filter(
    lambda password: password.strip() == password
)


@given(password=ODD)
def test_no_password_of_a_url_is_recorded(password: str) -> None:
    url = f"redis://:{password}@h:6379/0"
    words = ["b", "-u", url, f"--u={url}", f"-u{url}", "--corpus", "it's here"]
    run = Recorded(command=shlex.join(words), settings={"cache": {"url": url}})
    shown = scrubbed(run, {}, IDENTITY)
    bare = "redis://h:6379/0"
    assert shown.settings == {"cache": {"url": bare}}
    assert shlex.split(shown.command) == [word.replace(url, bare) for word in words]


@pytest.mark.parametrize(
    ("url", "elsewhere"),
    [
        ("redis://:hunter22@h", "hunter22"),
        ("redis://:hunter%2222@h", 'hunter"22'),
        ("https://token-1234@h/v1", "token-1234"),
        ("https://h/v1?v=2&api_key=hunter22", "hunter22"),
        ("https://me:hunter@22@h/v1", "hunter@22"),
    ],
)
def test_the_password_of_a_setting_is_redacted_everywhere(url: str, elsewhere: str) -> None:
    run = Recorded(
        command=f"b --note {shlex.quote(elsewhere)}",
        settings={"cache": {"redis_url": url}, "other": {"text": f"it is {elsewhere}."}},
        warnings=(f"{elsewhere} is wrong",),
    )
    shown = scrubbed(run, {}, IDENTITY)
    assert shown.command == "b --note '[key]'"
    assert shown.settings["other"] == {"text": "it is [key]."}
    assert shown.warnings == ("[key] is wrong",)


@pytest.mark.parametrize("form", ["--qdrant-url {}", "--qdrant-url={}", "--api-endpoint {}"])
@pytest.mark.parametrize(("url", "bare"), [("me:hunter22@h", "h"), ("http://me:hunter22@[h", "http://[h")])
def test_a_malformed_url_is_recorded_without_its_password(form: str, url: str, bare: str) -> None:
    run = Recorded(
        command=f"b {form.format(url)} --measure P:x@5",
        settings={"qdrant": {"url": url}, "other": {"text": "P:x@5"}},
        warnings=("hunter22 is wrong",),
    )
    shown = scrubbed(run, {}, IDENTITY)
    assert shown.command == shlex.join([*shlex.split(f"b {form}".format(bare)), "--measure", "P:x@5"])
    assert shown.settings == {"qdrant": {"url": bare}, "other": {"text": "P:x@5"}}
    assert shown.warnings == ("[key] is wrong",)


def test_a_password_equal_to_a_predictor_name_does_not_redact_the_name() -> None:
    run = Recorded(predictors=("hybrid",), settings={"cache": {"redis_url": "redis://:hybrid@h"}})
    assert scrubbed(run, {}, IDENTITY).predictors == ("hybrid",)


def test_values_without_credentials_are_recorded_unchanged() -> None:
    run = Recorded(
        command=shlex.join(["b", "--url", "http://h:1/v1?page=2", "it's", 'a "b"', "me@host", ""]),
        settings={"llm": {"base_url": "http://h:1/v1", "about": "ask me@host about http://h, or you@host"}},
    )
    assert scrubbed(run, OPENAI, IDENTITY) == run


@pytest.mark.parametrize("command", ["b --u 'redis://:hunter22@h", "b --u redis://:hun ter'22@h"])
def test_a_command_that_cannot_be_parsed_is_stored_without_its_password(command: str) -> None:
    shown = scrubbed(Recorded(command=command), {}, IDENTITY).command
    assert "hun" not in shown
    assert "22" not in shown


def test_a_key_that_the_server_echoes_is_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    key = "sk-planted-in-the-url-1234"

    def echo(chat: scripted.Chat, number: int) -> scripted.Action:
        heard = f"{chat.headers.get('authorization')} {chat.path}"
        if number == 1:
            return scripted.say(f"you sent {heard}", model=heard)
        return scripted.fail(400, f"wrong: {heard}", x_echo=heard)

    with ScriptedLLM(echo) as server:
        url = server.base_url.replace("http://", f"http://user:{key}@") + f"?api_key={key}"
        endpoint = Endpoint(url)
        with ChatClient(endpoint, "m", LLMSettings()) as client:
            request = LLMRequest(stage="s", messages=(Message(role="user", content="x"),))
            reply = client.complete(request).reply
            failed = client.complete(request)
    assert "api_key=" + key in server.requests[0].path
    assert base64.b64encode(f"user:{key}".encode()).decode() in server.requests[0].headers["authorization"]
    seen = [reply.text, reply.model, str(failed), repr(client), caplog.text]
    assert failed.outcome != "ok"
    core = base64.b64encode(b"xxuser:" + key.encode()).decode()[12:-4]
    for text in seen:
        assert key not in text
        assert core not in text
    assert "HTTP Request" in caplog.text
