"""Score fusion on the engine: every candidate has its true score in every branch."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import pytest
from support.worlds import QUERIES, make_index

from branchrank.core.records import Scored
from branchrank.core.settings.fields import with_values
from branchrank.core.spec import System
from branchrank.index.manifest import COSINE_SCALE
from branchrank.search.systems.builtin import builtin_systems
from branchrank.search.systems.engine import Engine

KINDS = {"local": ("dense", "bm25"), "qdrant": ("qdrant-dense", "qdrant-sparse"), "sqlite": ("dense", "fts5")}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("world")
    index, settings = make_index(folder, hybrid__no_llm=True)
    with index, Engine(index, folder / "docs", settings) as made:
        yield made


def by_score(engine: Engine, name: str, **changes: object) -> System:
    """A predictor with score fusion, every branch of weight 1, its chunks not grouped."""
    (system,) = builtin_systems((name,), engine.settings)
    weights = {f"branches.{branch.kind}.weight": 1.0 for branch in system.branches}
    slots = {"fuse.method": "score", "fuse.unit_interval": False, "group.by": "none"}
    return with_values(system, {**slots, **weights, **changes})


def fused(engine: Engine, system: System, query: str, k: int = 5) -> dict[str, float]:
    """The fused list of a query."""
    trace = engine.retrieve(system, query, k).trace
    (stage,) = (stage for stage in trace if stage.stage == "fusion")
    return dict(zip(stage.keys, stage.scores, strict=True))


@pytest.mark.parametrize("query", QUERIES)
def test_the_score_is_the_scaled_cosine_and_half_the_share_of_bm25(engine: Engine, query: str) -> None:
    index = engine.index
    vector = index.embedder.embed_query(query).astype(np.float64)
    words = dict(zip(index.bm25_chunks.ids, index.bm25_chunks.scores(query).tolist(), strict=True))
    shallow = {"branches.dense.top_n": 4, "branches.bm25.top_n": 4}
    found = fused(engine, by_score(engine, "local", **shallow), query)
    assert 4 <= len(found) <= 8
    best = max(words.values())
    for key, score in found.items():
        cosine = float(index.vectors.vector(key).astype(np.float64) @ vector)
        scaled = index.manifest.cosines.convert(cosine, COSINE_SCALE)
        assert score == pytest.approx(scaled + (0.5 * words[key] / best if best else 0.0), abs=1e-6)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("query", QUERIES)
def test_a_score_does_not_depend_on_which_branch_found_the_candidate(
    engine: Engine, name: str, query: str
) -> None:
    system = by_score(engine, name)
    shallow = [msgspec.structs.replace(branch, top_n=3, doubled=False) for branch in system.branches]
    deep = [msgspec.structs.replace(branch, top_n=500, doubled=False) for branch in system.branches]
    few = fused(engine, msgspec.structs.replace(system, branches=tuple(shallow)), query)
    all_of_them = fused(engine, msgspec.structs.replace(system, branches=tuple(deep)), query)
    assert 3 <= len(few) < len(all_of_them)
    for key, score in few.items():
        assert score == pytest.approx(all_of_them[key], abs=1e-6)


def test_sections_are_fused_by_evidence_and_bm25(engine: Engine) -> None:
    found = engine.retrieve(by_score(engine, "hybrid"), "tea temperature", 5)
    lists = {stage.stage: dict(zip(stage.keys, stage.scores, strict=True)) for stage in found.trace}
    own = engine.sources.own_scores("tea temperature", engine.index.tree.nodes)
    best = max(own.values())
    assert lists["fusion"] == pytest.approx(
        {
            key: lists["expansion"].get(key, 0.0) + 0.5 * own.get(key, 0.0) / best
            for key in {*lists["expansion"], *lists["bm25(nodes)"]}
        }
    )


def test_the_unit_interval_holds_with_score_fusion(engine: Engine) -> None:
    plain = by_score(engine, "sqlite")
    scaled = with_values(plain, {"fuse.unit_interval": True})
    for query in QUERIES:
        scores = fused(engine, scaled, query)
        assert scores == pytest.approx(
            {key: max(0.0, score / 1.5) for key, score in fused(engine, plain, query).items()}
        )
        assert all(0.0 <= score <= 1.0 for score in scores.values())


def test_candidates_below_the_threshold_keep_their_cosine(engine: Engine) -> None:
    nearest = engine.index.vectors.search(engine.sources.embedding("tea temperature"), 3)
    cut = 2.0 - 2.0 * nearest[0].score + 1e-6
    system = by_score(engine, "local", **{"branches.dense.threshold": cut})
    assert fused(engine, system, "tea temperature") == pytest.approx(
        {
            key: score
            for key, score in fused(engine, by_score(engine, "local"), "tea temperature").items()
            if key in {nearest[0].key, *(entry.key for entry in words(engine, "tea temperature"))}
        }
    )


def words(engine: Engine, query: str) -> list[Scored]:
    """All chunks with a word of the query."""
    return engine.index.bm25_chunks.search(query, 500)
