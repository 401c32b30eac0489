"""One contract for both decision caches, and what Redis alone can meet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.redis_server import RedisServer
from support.scripted_llm import ScriptedLLM, say
from test_cassette import RECORDED, request

from branchrank.core.settings import LLMSettings
from branchrank.search.llm.cassette import Cassette, DecisionCache, RedisDecisions
from branchrank.search.llm.session import LLMSession

#: The endpoint of the calls.
AT = "http://127.0.0.1:1/v1"
PARAMETERS: dict[str, object] = {"max_tokens": 9, "schema": {}, "logprobs": 5}


@pytest.fixture(params=["sqlite", "redis"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., DecisionCache]]:
    """Opens the same cache anew at each call."""
    server = None
    if request.param == "redis":
        server, _ = map(request.getfixturevalue, ("redis_server", "redis"))
    with ExitStack() as stack:

        def open_cache(**how: object) -> DecisionCache:
            path = tmp_path / "decisions.sqlite"
            opened = RedisDecisions(server.url, **how) if server else Cassette(path, **how)
            stack.callback(opened.close)
            return opened

        yield open_cache


def test_stored_decisions_are_returned_after_reopening(opened: Callable[..., DecisionCache]) -> None:
    first = opened()
    assert first.get(request(), "m", AT) is None
    first.put(request(), "m", RECORDED, AT)
    assert first.get(request(), "m", AT) == RECORDED
    assert opened().get(request(), "m", AT) == RECORDED


def test_the_content_of_a_call_is_its_key_and_not_its_label(opened: Callable[..., DecisionCache]) -> None:
    cache = opened()
    cache.put(request(), "m", RECORDED, AT)
    assert cache.get(request(question="q2"), "m", AT) == RECORDED
    for other, model, endpoint in (
        (request("other"), "m", AT),
        (request(), "m2", AT),
        (request(repeat=1), "m", AT),
        (request(seed=1), "m", AT),
        *((replace(request(), **{name: value}), "m", AT) for name, value in PARAMETERS.items()),
        (request(), "m", "http://127.0.0.1:2/v1"),
        (request(), "m", ""),
    ):
        assert cache.get(other, model, endpoint) is None


def test_secrets_are_removed_before_storing(opened: Callable[..., DecisionCache], tmp_path: Path) -> None:
    cache = opened(redact=lambda text: text.replace("s01", "[key]"))
    leaky = request("my key is s01", question="s01")
    cache.put(leaky, "m", RECORDED, AT)
    found = cache.get(leaky, "m", AT)
    assert found is not None
    assert found.reply.text == '{"ids": ["[key]"]}\u202e'
    assert [path for path in tmp_path.iterdir() if b"s01" in path.read_bytes()] == []


def test_sessions_share_decisions_through_redis(
    tmp_path: Path, redis_server: RedisServer, redis: object
) -> None:
    """No file is written, and the second session asks no server."""
    cache = tmp_path / "hybrid" / "cache" / "decisions.sqlite"
    served = []
    with ScriptedLLM(lambda chat, number: say(f"reply {number}")) as model:
        for _ in range(2):
            with LLMSession(
                LLMSettings(), cache_path=cache, redis_url=redis_server.url, environment={}
            ) as session:
                answer = session.gateway(model.base_url, "scripted").ask(request(), lambda reply: reply.text)
                assert answer.value == "reply 1"
                served.append(answer.call.served_by)
        assert len(model.requests) == 1
    assert served == ["server", "cache"]
    assert not cache.exists()
