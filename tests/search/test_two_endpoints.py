"""Two servers that have different models under one name: neither answers in place of the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support import scripted_llm as scripted
from support.commands import benchmark, invoke, json_lines, make_project
from support.redis_server import RedisServer
from support.scripted_llm import Action, Chat, ScriptedLLM

from branchrank import Run
from branchrank.scoring.comparison import CompareOptions

#: What a question asks about -> the section that answers it.
GOLD = {
    "which temperature": "Choosing a temperature",
    "upgrade": "Upgrading",
    "stains": "Removing stains",
    "herbal": "Herbal tea",
}


def informed(chat: Chat, number: int) -> Action:
    """Names the right section."""
    return scripted.ids(right(chat) or list(chat.entries)[:1])


def misled(chat: Chat, number: int) -> Action:
    """Names every section but the right one."""
    return scripted.ids(label for label in chat.entries if label not in right(chat))


def right(chat: Chat) -> list[str]:
    wanted = [title for words, title in GOLD.items() if words in chat.prompt.partition("<sections>")[0]]
    return [label for label, text in chat.entries.items() if any(f"> {title}\n" in text for title in wanted)]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path)


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    running = RedisServer(tmp_path_factory.mktemp("redis"))
    yield running
    running.stop()


def words(server: ScriptedLLM) -> tuple[object, ...]:
    return ("--predictor", "hybrid", "--hybrid-base-url", server.base_url, "--hybrid-model", "m")


@pytest.mark.parametrize("kept_in", ["sqlite", "redis"])
def test_the_second_server_is_called_and_the_runs_differ(
    project: Path, kept_in: str, request: pytest.FixtureRequest
) -> None:
    cache: tuple[object, ...] = ()
    if kept_in == "redis":
        cache = ("--cache-redis-url", request.getfixturevalue("redis").url)
    with ScriptedLLM(informed) as one, ScriptedLLM(misled) as other:
        first = benchmark(project, *words(one), *cache)
        second = benchmark(project, *words(other), *cache)
        assert len(one.requests) == len(other.requests) == 8
        again = benchmark(project, *words(one), *cache, "--fresh")
        assert len(one.requests) == 8, "the first server's decisions are still known"
    compared = Run.load(second).compare_with(Run.load(first), CompareOptions(primary="strict_hit@1"))
    [difference] = [pair.comparison.difference for pair in compared.pairs]
    assert difference < -0.4
    hits = [[row["hits"] for row in json_lines(run / "rows.jsonl")] for run in (first, second, again)]
    assert hits[0] == hits[2] != hits[1]
    calls = {run: Run.load(run).calls.query("predictor == 'hybrid'") for run in (second, again)}
    assert set(calls[again]["served_by"]) == {"cache"}
    assert set(calls[second]["served_by"]) == {"server"}


def test_one_recording_for_two_endpoints_is_refused(project: Path, tmp_path: Path) -> None:
    """Its cassette could not tell the second server's answers from the first's."""
    with ScriptedLLM(informed) as one, ScriptedLLM(misled) as other:
        flags = ("--pageindex-base-url", other.base_url, "--pageindex-model", "m", "--predictor", "pageindex")
        result = invoke(
            "benchmark",
            "--data-dir",
            project / "data",
            "--reports",
            project / "reports",
            "--llm-record",
            tmp_path / "c.sqlite",
            *words(one),
            *flags,
        )
        assert result.exit_code == 2
        assert one.base_url in result.output
        assert other.base_url in result.output
        assert one.requests == other.requests == []
        assert not (project / "reports").exists()


def test_a_search_reports_which_model_answered(project: Path, tmp_path: Path) -> None:
    with ScriptedLLM(informed) as server:
        flags = ("--hybrid-base-url", server.base_url, "--hybrid-model", "m", "--data-dir", project / "data")
        asked, cached = (invoke("hybrid", "remove stains", *flags).stderr for _ in range(2))
        record, replay = (
            invoke("hybrid", "remove stains", *flags, flag, tmp_path / "c.sqlite").stderr
            for flag in ("--llm-record", "--llm-replay")
        )
    assert "LLM: 1 call, 107 tokens" in asked
    assert "LLM: 1 call (1 from the cache), 107 tokens" in cached
    assert "LLM: 1 call (1 from the cache), 107 tokens" in record
    assert "LLM: 1 call (1 from the cassette), 107 tokens" in replay
