"""One contract for both decision caches, and what Redis alone can meet."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
from support.redis_server import RedisServer
from support.scripted_llm import ScriptedLLM, say
from test_cassette import RECORDED, request

from branchrank.errors import UsageError
from branchrank.io.key_values import EXPIRY
from branchrank.llm.cassette import Cassette, DecisionCache, Recorded, RedisDecisions, call_key
from branchrank.llm.session import LLMSession
from branchrank.settings import LLMSettings

pytestmark = pytest.mark.skipif(
    shutil.which("redis-server") is None and not os.environ.get("CI"), reason="redis-server is not installed"
)
#: The endpoint of the calls.
AT = "http://127.0.0.1:1/v1"
KEY = f"branchrank:decision:{call_key(request(), 'm', AT)}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    running = RedisServer(tmp_path_factory.mktemp("redis"))
    yield running
    running.stop()


@pytest.fixture
def client(server: RedisServer) -> Iterator[object]:
    from redis import Redis

    with Redis.from_url(server.url) as connected:
        connected.flushall()
        yield connected


@pytest.fixture(params=["sqlite", "redis"])
def opened(
    request: pytest.FixtureRequest, tmp_path: Path, server: RedisServer, client: object
) -> Iterator[Callable[..., DecisionCache]]:
    """Opens the same cache anew at each call."""
    with ExitStack() as stack:

        def open_cache(**how: object) -> DecisionCache:
            if request.param == "sqlite":
                return stack.enter_context(Cassette(tmp_path / "decisions.sqlite", **how))
            return stack.enter_context(RedisDecisions(server.url, **how))

        yield open_cache


def test_stored_decisions_are_returned_after_reopening(opened: Callable[..., DecisionCache]) -> None:
    first = opened()
    assert first.get(request(), "m", AT) is None
    first.put(request(), "m", RECORDED, AT)
    assert first.get(request(), "m", AT) == RECORDED
    assert opened().get(request(), "m", AT) == RECORDED


def test_another_call_is_another_entry(opened: Callable[..., DecisionCache]) -> None:
    cache = opened()
    cache.put(request(), "m", RECORDED, AT)
    for other, model, endpoint in (
        (request("other"), "m", AT),
        (request(), "m2", AT),
        (request(repeat=1), "m", AT),
        (request(seed=1), "m", AT),
        (request(), "m", "http://127.0.0.1:2/v1"),
        (request(), "m", ""),
    ):
        assert cache.get(other, model, endpoint) is None


def test_the_newest_entry_of_a_call_is_returned(opened: Callable[..., DecisionCache]) -> None:
    cache = opened()
    cache.put(request(), "m", RECORDED, AT)
    newer = Recorded(reply=msgspec.structs.replace(RECORDED.reply, text="newer"))
    cache.put(request(), "m", newer, AT)
    assert cache.get(request(), "m", AT) == newer


def test_secrets_are_removed_before_storing(opened: Callable[..., DecisionCache]) -> None:
    cache = opened(redact=lambda text: text.replace("s01", "[key]"))
    cache.put(request(), "m", RECORDED, AT)
    found = cache.get(request(), "m", AT)
    assert found is not None
    assert "s01" not in found.reply.text
    assert "[key]" in found.reply.text


@pytest.mark.parametrize(
    "value",
    [b"", b"null", b"[]", b"\x80\x04.", b'["a","b","c","d","e","f"]', b"[" * 100_000, "other type"],
)
def test_a_foreign_value_is_a_miss_and_is_replaced(
    server: RedisServer, client: object, value: bytes | str
) -> None:
    if isinstance(value, str):
        client.rpush(KEY, value)
    else:
        client.set(KEY, value)
    notices: list[str] = []
    with RedisDecisions(server.url, notify=notices.append) as cache:
        assert cache.get(request(), "m", AT) is None
    with RedisDecisions(server.url) as cache:
        cache.put(request(), "m", RECORDED, AT)
        assert cache.get(request(), "m", AT) == RECORDED
    assert 0 < client.ttl(KEY) <= EXPIRY


def test_a_damaged_entry_is_never_returned(server: RedisServer, client: object) -> None:
    with RedisDecisions(server.url) as cache:
        cache.put(request(), "m", RECORDED, AT)
        intact = client.get(KEY)
        for place in range(0, len(intact), 7):
            client.set(KEY, intact[:place] + bytes([intact[place] ^ 1]) + intact[place + 1 :])
            assert cache.get(request(), "m", AT) is None, intact[:place]


def test_an_entry_of_another_call_is_never_returned(server: RedisServer, client: object) -> None:
    with RedisDecisions(server.url) as cache:
        cache.put(request("other"), "m", RECORDED, AT)
        client.set(KEY, client.get(f"branchrank:decision:{call_key(request('other'), 'm', AT)}"))
        assert cache.get(request(), "m", AT) is None


def test_an_unreachable_server_only_disables_the_cache(tmp_path: Path) -> None:
    notices: list[str] = []
    gone = RedisServer(tmp_path)
    gone.stop()
    with RedisDecisions(gone.url, notify=notices.append) as cache:
        cache.put(request(), "m", RECORDED, AT)
        assert cache.get(request(), "m", AT) is None
    assert len(notices) == 1
    assert f"the decision cache at 127.0.0.1:{gone.port}" in notices[0]


def test_a_url_that_is_not_a_redis_url_is_refused() -> None:
    with pytest.raises(UsageError, match="is not a Redis URL"):
        RedisDecisions("ftp://127.0.0.1/0")


def test_sessions_share_decisions_through_redis(tmp_path: Path, server: RedisServer, client: object) -> None:
    """No file is written, and the second session asks no server."""
    cache = tmp_path / "hybrid" / "cache" / "decisions.sqlite"
    served = []
    with ScriptedLLM(lambda chat, number: say(f"reply {number}")) as model:
        for _ in range(2):
            with LLMSession(LLMSettings(), cache_path=cache, redis_url=server.url, environment={}) as session:
                answer = session.gateway(model.base_url, "scripted").ask(request(), lambda reply: reply.text)
                assert answer.value == "reply 1"
                served.append(answer.call.served_by)
        assert len(model.requests) == 1
    assert served == ["server", "cache"]
    assert not cache.exists()
