import os
import pickle
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.counting import TEXTS, Counting
from support.redis_server import RedisServer

from branchrank.core.errors import MissingDependencyError
from branchrank.core.io import key_values
from branchrank.core.io.progress import Notify
from branchrank.index.embedders.cache import EmbeddingCache, cache_keys, cached_documents, open_cache
from branchrank.index.embedders.fake import FakeEmbedder

EXPECTED = FakeEmbedder().embed_documents(TEXTS)
KEYS = [f"branchrank:embedding:{key}" for key in cache_keys(FakeEmbedder().identity, "", TEXTS)]


@pytest.fixture
def notices() -> list[str]:
    return []


@pytest.fixture
def cache(redis_server: RedisServer, redis: object, notices: list[str]) -> Iterator[EmbeddingCache]:
    opened = redis_cache(redis_server.url, notify=notices.append)
    yield opened
    opened.close()


def redis_cache(url: str, notify: Notify | None = None) -> EmbeddingCache:
    return open_cache(Path("unused"), redis_url=url, notify=notify)


def asked(cache: EmbeddingCache) -> int:
    """How many of the texts had to be embedded; the rows must be right either way."""
    embedder = Counting()
    assert np.array_equal(cached_documents(embedder, cache, TEXTS), EXPECTED)
    return len(embedder.asked)


def test_an_entry_expires(cache: EmbeddingCache, redis) -> None:
    asked(cache)
    assert all(0 < redis.ttl(key) <= key_values.EXPIRY for key in KEYS)
    redis.pexpire(KEYS[0], 1)
    while redis.exists(KEYS[0]):
        time.sleep(0.001)
    assert asked(cache) == 1


class Canary:
    def __reduce__(self):
        return (os.abort, ())


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\0" * (16 + 64 * 4),
        b"\0" * (16 + 384 * 4),
        "text",
        pickle.dumps(Canary()),
        ["a", "list"],
        {"a": "hash"},
    ],
    ids=["empty", "wrong checksum", "wrong dimension", "text", "pickle", "list", "hash"],
)
def test_a_value_of_something_else_is_a_miss_and_is_replaced(
    cache: EmbeddingCache, redis, notices: list[str], value: object
) -> None:
    asked(cache)
    redis.delete(KEYS[3])
    if isinstance(value, list):
        redis.rpush(KEYS[3], *value)
    elif isinstance(value, dict):
        redis.hset(KEYS[3], mapping=value)
    else:
        redis.set(KEYS[3], value)
    assert asked(cache) == 1
    assert asked(cache) == 0
    assert notices == []


def test_a_full_server_gives_one_notice_and_embedding_continues(
    cache: EmbeddingCache, redis, notices: list[str]
) -> None:
    redis.config_set("maxmemory", 1)
    assert [asked(cache), asked(cache)] == [10, 10]
    assert len(notices) == 1
    assert "maxmemory" in notices[0]
    assert "SET" not in notices[0]


def test_a_slow_server_is_skipped_after_one_timeout_and_used_again_later(
    tmp_path: Path, notices: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_values, "TIMEOUT", 0.1)
    server = RedisServer(tmp_path)
    try:
        cache = redis_cache(server.url, notify=notices.append)
        assert [asked(cache), asked(cache)] == [10, 0]
        server.process.send_signal(signal.SIGSTOP)
        calls = []
        mget = cache._values.client.mget
        monkeypatch.setattr(cache._values.client, "mget", lambda names: calls.append(1) or mget(names))
        assert [asked(cache) for _ in range(5)] == [10] * 5
        assert len(calls) == 1
        assert len(notices) == 1
        server.process.send_signal(signal.SIGCONT)
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now + key_values.PAUSE + 1)
        assert asked(cache) == 0
        assert len(notices) == 1
        cache.close()
    finally:
        server.stop()


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(MissingDependencyError) as caught:
        redis_cache("redis://127.0.0.1")
    assert caught.value.remedy.endswith('pip install "redis>=5"')
