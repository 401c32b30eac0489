"""Keys: which host gets which, and every spelling in which one must not be seen."""

from __future__ import annotations

import base64
import logging
import traceback
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import scripted_llm as scripted
from support.scripted_llm import ScriptedLLM

from branchrank.errors import UsageError
from branchrank.llm.client import ChatClient
from branchrank.llm.request import CallFailedError, LLMRequest, Message
from branchrank.llm.secrets import Endpoint, Redactor, hide_credentials, open_endpoint
from branchrank.settings import LLMSettings

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
def test_a_key_goes_to_its_own_host_alone(
    url: str, environment: dict[str, str], explicit: bool, header: str | None
) -> None:
    sent = open_endpoint(url, environment, explicit=explicit).authorization
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
    assert set(endpoint.secrets) == {"own-key-1", "pass-word", "query-key"}
    assert endpoint.query == {"api_key": "query-key", "api-version": "2024"}


@pytest.mark.parametrize(
    "url", ["", "localhost:8080", "file:///etc/passwd", "http://", "ftp://key-1234@host/"]
)
def test_what_is_no_endpoint_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="not an endpoint") as caught:
        Endpoint(url)
    assert "key-1234" not in str(caught.value)


@settings(derandomize=True, max_examples=150, deadline=None)
@given(
    secret=st.text(st.characters(codec="ascii", categories=("L", "N", "P")), min_size=6, max_size=40),
    before=st.binary(max_size=4),
    after=st.binary(max_size=4),
)
def test_no_spelling_of_a_key_passes_the_redactor(secret: str, before: bytes, after: bytes) -> None:
    redact = Redactor([secret])
    for text in (secret, quote(secret, safe=""), f"x{secret}y"):
        assert secret not in redact(text)
        assert quote(secret, safe="") not in redact(text)
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        encoded = encode(before + secret.encode() + after).decode()
        shown = redact(encoded)
        assert shown != encoded
        core = len(secret) * 8 // 6 - 2
        longest = max(len(part) for part in shown.split("[key]"))
        assert longest <= len(encoded) - core


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
        ("mail me@host about http://h/p?page=2", "mail me@host about http://h/p?page=2"),
    ],
)
def test_urls_are_recorded_without_credentials(text: str, shown: str) -> None:
    assert hide_credentials(text, OPENAI) == shown


def test_the_redactor_leaves_other_text_alone() -> None:
    assert Redactor([KEY, "", "abc"])("abc is no key; nothing changes") == "abc is no key; nothing changes"


def test_a_key_that_the_server_echoes_is_seen_nowhere(
    caplog: pytest.LogCaptureFixture,
) -> None:
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
            reply = client.complete(request)
            with pytest.raises(CallFailedError) as caught:
                client.complete(request)
    assert "api_key=" + key in server.requests[0].path
    assert base64.b64encode(f"user:{key}".encode()).decode() in server.requests[0].headers["authorization"]
    seen = [reply.text, reply.model, str(caught.value), repr(client), caplog.text]
    seen.append("".join(traceback_text(caught.value)))
    core = base64.b64encode(b"xxuser:" + key.encode()).decode()[12:-4]
    for text in seen:
        assert key not in text
        assert core not in text
    assert caught.value.__context__ is None
    assert "HTTP Request" in caplog.text


def traceback_text(error: BaseException) -> list[str]:
    """The package's own frames with their variables, as a debugger would print them."""
    whole = traceback.TracebackException.from_exception(error, capture_locals=True)
    frames = [frame for frame in whole.stack if "branchrank" in Path(frame.filename).parts[-3:]]
    assert frames
    return [f"{frame.name} {frame.locals}" for frame in frames]
