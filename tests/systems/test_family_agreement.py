"""The family's predictors answer as the stores' own searches do: two paths, the same hits and scores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
from branchrank.stores.qdrant_hybrid import QdrantHybrid, chunk_points
from branchrank.systems.further_branches import further_branches
from support.worlds import QUERIES, make_index

from branchrank.index import Index
from branchrank.index.sqlite_index import open_search
from branchrank.records import Hit, Retrieval
from branchrank.settings import GrepSettings, QdrantSettings, Resolved, RetrievalSettings, Settings
from branchrank.spec import problems
from branchrank.stores.qdrant_embedded import EmbeddedCollection
from branchrank.systems.builtin import builtin_systems
from branchrank.systems.engine import Engine
from branchrank.systems.memo import QueryMemo
from branchrank.systems.search_tools import SearchTools

World = tuple[Index, Path, Resolved]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("family")
    index, settings = make_index(folder, embedding__model="fake:64")
    with index:
        yield index, folder / "docs", settings


def answers(world: World, predictor: str, part: Settings, k: int = 50) -> list[Retrieval]:
    """What the predictor under these settings retrieves for each query."""
    index, root, base = world
    resolved = msgspec.structs.replace(base, parts={**base.parts, part.section: part})
    (system,) = builtin_systems((predictor,), resolved)
    assert problems(system) == []
    with ExitStack() as opened:
        further = further_branches(index, root, [system], resolved, opened)
        engine = Engine(index, memo=QueryMemo(), further=further)
        return [engine.retrieve(system, query, k) for query in QUERIES]


def pairs(hits: tuple[Hit, ...] | list[Hit]) -> list[tuple[str, float]]:
    return [(hit.id, pytest.approx(hit.score, abs=1e-12)) for hit in hits]


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.6, 1.0])
@pytest.mark.parametrize("options", [{}, {"group_by": "none"}, {"doc_agg": "avg", "max_chunks_per_doc": 2}])
def test_the_predictor_sqlite_and_the_search_command(world: World, alpha: float, options: dict) -> None:
    settings = RetrievalSettings(hybrid_alpha=alpha, final_limit=50, **options)
    index, _, resolved = world
    search = open_search(index, resolved.parts["embedding"])
    try:
        own = [search.search(query, mode="hybrid", settings=settings) for query in QUERIES]
    finally:
        search.close()
    found = answers(world, "sqlite", settings)
    assert any(own)
    for mine, theirs in zip(found, own, strict=True):
        assert [(hit.id, hit.score) for hit in mine.hits] == pairs([result.hit for result in theirs])
        assert all(0 <= hit.score <= 1 for hit in mine.hits)


@pytest.mark.parametrize("weight", [0.0, 0.25, 0.5, 1.0])
def test_the_predictor_qdrant_and_the_store(world: World, tmp_path: Path, weight: float) -> None:
    index, _, _ = world
    chunks = list(index.chunks.values())
    collection = EmbeddedCollection.create(tmp_path / "points", index.manifest.embedder.dimension)
    collection.upsert(chunk_points(chunks, [index.exact_vectors.vector(chunk.id) for chunk in chunks]))
    search = QdrantHybrid(collection, index.embedder)
    try:
        own = [search.search(query, 5, fusion_weight=weight).ranking for query in QUERIES]
    finally:
        search.close()
    found = answers(world, "qdrant", QdrantSettings(fusion_weight=weight), k=5)
    for mine, theirs in zip(found, own, strict=True):
        assert [(hit.id, hit.score) for hit in mine.hits] == [
            (key, pytest.approx(score, abs=1e-12)) for key, score in theirs
        ]


def test_the_predictor_grep_and_the_tool(world: World) -> None:
    """The order is the same; the tool keeps the vectors' own scores where grep finds nothing."""
    settings = GrepSettings(vector_score_threshold=4.0)
    tools = SearchTools(world[0], world[1], settings=settings)
    own = [tools.hybrid_search(query, ranking="bm25", limit=50).results for query in QUERIES]
    found = answers(world, "grep", settings)
    assert any(stage.stage == "grep" and stage.keys for answer in found for stage in answer.trace)
    for mine, theirs in zip(found, own, strict=True):
        assert [hit.id for hit in mine.hits] == [each.hit.id for each in theirs]
        if any("grep" in hit.branches for hit in mine.hits):
            assert [(hit.id, hit.score) for hit in mine.hits] == pairs([each.hit for each in theirs])


@pytest.mark.parametrize(
    ("predictor", "part", "absent"),
    [
        ("sqlite", RetrievalSettings(hybrid_alpha=0.0), {"embed", "dense(chunks)"}),
        ("sqlite", RetrievalSettings(hybrid_alpha=1.0), {"fts5"}),
        ("qdrant", QdrantSettings(fusion_weight=0.0), {"embed", "qdrant-dense"}),
        ("qdrant", QdrantSettings(fusion_weight=1.0), {"qdrant-sparse"}),
    ],
)
def test_a_branch_of_weight_0_is_not_run(
    world: World, predictor: str, part: Settings, absent: set[str]
) -> None:
    for answer in answers(world, predictor, part):
        assert not absent & set(answer.stage_ms)
        assert not absent & {stage.stage for stage in answer.trace}
        assert all(not absent & hit.branches.keys() for hit in answer.hits)


def test_a_system_whose_branches_all_weigh_nothing_is_refused(world: World) -> None:
    (system,) = builtin_systems(("local",), world[2])
    idle = tuple(msgspec.structs.replace(branch, weight=0.0) for branch in system.branches)
    nothing = msgspec.structs.replace(system, branches=idle)
    assert problems(nothing) == ["system 'local' has no branch of a weight above 0"]
