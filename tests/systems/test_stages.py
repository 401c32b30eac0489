"""What a system's record says of its answers is what the engine does."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from support.worlds import QUERIES, make_index

from branchrank.records import Placement
from branchrank.spec import Branch, Expand, Fuse, Group, System
from branchrank.systems.builtin import BUILTIN, builtin_systems
from branchrank.systems.checks import fits, fused_score, least_calls, least_hits, stages_of
from branchrank.systems.engine import Engine

K = 4


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("stages")
    index, settings = make_index(folder)
    with index, Engine(index, folder / "docs", settings) as opened:
        yield opened


@pytest.mark.parametrize("name", BUILTIN)
def test_every_built_in_system_answers_as_its_record_says(engine: Engine, name: str) -> None:
    [system] = builtin_systems((name,), engine.settings)
    for query in QUERIES:
        found = engine.retrieve(system, query, K)
        stages = tuple(dict.fromkeys(stage.stage for stage in found.trace))
        assert fits(system, stages), (stages, stages_of(system))
        assert len(found.hits) >= least_hits(system, K, len(engine.index.chunks))
        assert not found.calls
        assert least_calls(system, len(found.hits)) == 0
        for hit in found.hits:
            expected = fused_score(system, hit.branches)
            assert expected is None or expected == pytest.approx(hit.score, rel=1e-9)


BM25 = Branch(kind="bm25")
NEAR = Branch(kind="dense", top_n=3)


@pytest.mark.parametrize(
    ("system", "least"),
    [
        (System(name="words", branches=(BM25,)), 0),
        (System(name="near", branches=(NEAR,)), 3),
        (System(name="both", branches=(BM25, NEAR)), 3),
        (System(name="capped", branches=(NEAR,), fuse=Fuse(cap=2)), 2),
        (System(name="grouped", branches=(NEAR,), group=Group(by="document")), 1),
        (System(name="nodes", branches=(msgspec.structs.replace(NEAR, expand=Expand()),)), 1),
        (System(name="limited", branches=(msgspec.structs.replace(NEAR, threshold=0.5),)), 0),
        (System(name="doubled", branches=(msgspec.structs.replace(NEAR, doubled=True),)), 4),
        (System(name="off", branches=(BM25, msgspec.structs.replace(NEAR, weight=0.0))), 0),
    ],
    ids=lambda value: value.name if isinstance(value, System) else "",
)
def test_the_nearest_vectors_are_always_found(system: System, least: int) -> None:
    assert least_hits(system, K, chunks=100) == least
    assert least_hits(system, K, chunks=0) == 0


def test_stages_of_another_system_do_not_fit() -> None:
    system = System(name="words", branches=(BM25,), fuse=Fuse(cap=30))
    assert stages_of(system) == ("bm25(chunks)", "fusion", "cap", "passages")
    for stages in (
        (),
        ("bm25(chunks)", "cap", "fusion", "passages"),
        ("bm25(chunks)", "fusion", "passages"),
        ("tree step 1", "bm25(chunks)", "fusion", "cap", "passages"),
        ("bm25(chunks)", "fusion", "cap", "shown", "passages"),
    ):
        assert not fits(system, stages)


def test_a_score_follows_from_ranks_by_reciprocal_rank_fusion() -> None:
    system = System(name="both", branches=(BM25, msgspec.structs.replace(NEAR, weight=0.5)))
    placed = {
        "bm25(chunks)": Placement(rank=1, score=9.0),
        "dense(chunks)": Placement(rank=3, score=0.5),
    }
    assert fused_score(system, placed) == pytest.approx(1 / 61 + 0.5 / 63)
    assert fused_score(system, {"bm25(chunks)": placed["bm25(chunks)"]}) == pytest.approx(1 / 61)
    assert fused_score(msgspec.structs.replace(system, fuse=Fuse(method="dbsf")), placed) is None
