"""Embeddings and LLM decisions are cached behind every door, in SQLite files or in Redis.

Each door is used twice, opened anew each time. The second time no request reaches the embedding server and
no prompt reaches the LLM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from support import scripted_llm as scripted
from support.commands import benchmark, write_lines
from support.embedding_servers import EmbeddingServer, serving
from support.front_doors import Command, Http, Library, Mcp, make_indexed
from support.redis_server import RedisServer
from support.scripted_llm import ScriptedLLM

CONFIG = """
[embedding]
model = "ollama:nomic-embed-text"

[hybrid]
base_url = "{llm}"
model = "m"

[cache]
redis_url = "{redis}"
"""


class World(NamedTuple):
    """A project, the two servers that it asks, and whether its caches are in Redis."""

    project: Path
    ollama: EmbeddingServer
    llm: ScriptedLLM
    redis: bool


@pytest.fixture(scope="module")
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("caches")
    with ExitStack() as opened:
        url = ""
        if request.param == "redis":
            redis = RedisServer(folder)
            opened.callback(redis.stop)
            url = redis.url
        ollama = opened.enter_context(serving())
        llm = opened.enter_context(ScriptedLLM(scripted.first_shown))
        config = CONFIG.format(llm=llm.base_url, redis=url)
        index = {"embedder": "ollama:nomic-embed-text", "embedding_url": ollama.url}
        yield World(make_indexed(folder / "project", config=config, **index), ollama, llm, bool(url))


def retrieve(world: World, query: str) -> None:
    Command(world.project).hits("retrieve", query)


def hybrid(world: World, query: str) -> None:
    Command(world.project).hits("hybrid", query)


def search(world: World, query: str) -> None:
    assert Command(world.project)("search", query, "--mode", "semantic").exit_code == 0


def http(world: World, query: str) -> None:
    with ExitStack() as opened:
        assert Http(Library(world.project, opened), opened)(query, "hybrid")["hits"]


def mcp_predictor(world: World, query: str) -> None:
    with ExitStack() as opened:
        served = Mcp(Library(world.project, opened), opened)
        assert served("predictor_search", query=query, predictor="hybrid").results


def mcp_vectors(world: World, query: str) -> None:
    with ExitStack() as opened:
        assert not Mcp(Library(world.project, opened), opened)("vector_search", query=query).is_error


def library(world: World, query: str) -> None:
    with ExitStack() as opened:
        assert Library(world.project, opened).retrieve(query, "hybrid").hits


def run(world: World, query: str) -> None:
    question = {"id": "q", "question": query, "source_file": "guide/brewing.md", "gold_level": "file"}
    write_lines(world.project / "data" / "benchmark" / "questions.jsonl", [question])
    benchmark(world.project, "--predictor", "local", "--predictor", "hybrid", "--fresh")


#: The doors, and whether each asks the LLM.
DOORS: dict[Callable[[World, str], None], bool] = {
    retrieve: False,
    hybrid: True,
    search: False,
    http: True,
    mcp_predictor: True,
    mcp_vectors: False,
    library: True,
    run: True,
}


@pytest.mark.parametrize(
    ("world", "door", "asks_llm"),
    [
        pytest.param(
            cache,
            door,
            asks_llm,
            id=f"{cache}-{door.__name__}",
            marks=pytest.mark.full if cache == "redis" and door not in (hybrid, run) else (),
        )
        for cache in ("sqlite", "redis")
        for door, asks_llm in DOORS.items()
    ],
    indirect=["world"],
    scope="module",
)
def test_a_repeated_query_uses_the_caches(
    world: World, door: Callable[[World, str], None], asks_llm: bool
) -> None:
    query = f"which temperature for {door.__name__} tea"
    asked = []
    for _ in range(2):
        before = len(world.llm.requests)
        sent, embedded = len(world.ollama.requests), len(world.ollama.inputs())
        door(world, query)
        texts = world.ollama.inputs()[embedded:]
        asked.append((texts, len(world.ollama.requests) - sent > 0, len(world.llm.requests) - before))
    assert asked == [([f"search_query: {query}"], True, int(asks_llm)), ([], False, 0)]
    if asks_llm or world.redis:
        decisions = world.project / "data" / "hybrid" / "cache" / "decisions.sqlite"
        assert decisions.exists() is not world.redis
