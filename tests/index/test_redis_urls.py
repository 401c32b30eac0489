"""Which URLs of a Redis are taken, and what is said of those that are not; no server is needed."""

from __future__ import annotations

import pytest

from branchrank.core.errors import UsageError
from branchrank.core.io.key_values import TIMEOUT, RedisValues


def opened(url: str, notices: list[str] | None = None) -> RedisValues:
    notify = None if notices is None else notices.append
    return RedisValues(url, "prefix:", what="test", notify=notify)


@pytest.mark.parametrize(
    "url",
    [
        "redis://:s3cret/word@h:6379/0",
        "redis://:s3cret?word@h:6379/0",
        "redis://:s3cret#word@h:6379/0",
        "redis://:6379/s3cret-word@h",
        "redis://:s3cret-word",
        "redis://:s3cret[word@h:6379/0",
        "redis://me:s3cret@h:99999/0",
        "unix://:1/s3cret@/run/redis.sock",
        "http://:s3cret@h:6379/0?word=1",
        "s3cret",
    ],
)
def test_a_url_that_is_refused_is_not_shown(url: str) -> None:
    with pytest.raises(UsageError, match="Redis URL") as caught:
        opened(url)
    for part in ("s3cret", "word"):
        assert part not in str(caught.value).replace("password", "")
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize(
    "query", ["foo=1", "db=1&socket_timeout=3600", "password=s3cret", "ssl_cert_reqs=none"]
)
def test_another_option_is_refused(query: str) -> None:
    with pytest.raises(UsageError, match="option") as caught:
        opened(f"redis://127.0.0.1:1/0?{query}")
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "redis://127.0.0.1:1/3",
        "redis://127.0.0.1:1?db=3",
        "rediss://127.0.0.1:1/3?ssl_cert_reqs=none",
        "rediss://127.0.0.1:1/3?ssl_ca_certs=/none/ca.pem&ssl_cert_reqs=required",
        "rediss://127.0.0.1:1/3?ssl_cert_reqs=nonsense",
        "unix://me:s3cret@/none/redis.sock?db=3",
        "redis://me:s3cret%2Fword%40@127.0.0.1:1/3",
        f"redis://{'a' * 64}/3",
        "redis://a..b/3",
    ],
)
def test_an_unusable_server_only_disables_the_cache(url: str) -> None:
    notices: list[str] = []
    connection = opened(url, notices)
    settings = connection.client.connection_pool.connection_kwargs
    assert (settings["db"], settings["socket_timeout"]) == (3, TIMEOUT)
    assert connection.get_many(["a"]) == connection.get_many(["b"]) == {}
    connection.close()
    assert len(notices) == 1
    assert "s3cret" not in notices[0]
