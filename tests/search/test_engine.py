"""The engine over a small real index: prefixes, spans, exclusion, traces, shared work."""

from __future__ import annotations

import msgspec
import pytest
from support.worlds import PAGES, QUERIES, make_index

from branchrank.core.records import Span
from branchrank.core.spec import Branch, Expand, System
from branchrank.search.systems.branches import branch_kind
from branchrank.search.systems.builtin import builtin_systems
from branchrank.search.systems.engine import Engine
from branchrank.search.systems.memo import Memo
from branchrank.search.systems.query import Query

NAMES = ("local", "pageindex", "hybrid")
FAMILY = (*NAMES, "grep", "qdrant", "sqlite", "late-interaction")
FLAGS = {"hybrid__no_llm": True, "pageindex__no_llm": True, "grep__vector_score_threshold": 4.0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("world")


@pytest.fixture(scope="module")
def world(folder):
    index, resolved = make_index(folder, **FLAGS)
    with index:
        yield index, resolved


@pytest.fixture(scope="module")
def engine(world, folder):
    with Engine(world[0], folder / "docs", world[1]) as made:
        yield made


@pytest.fixture(params=FAMILY)
def system(request, world):
    return builtin_systems((request.param,), world[1])[0]


@pytest.mark.parametrize("query", QUERIES)
def test_a_hit_is_exactly_the_chunk_it_returns(engine, system, query) -> None:
    ungrown = msgspec.structs.replace(system, passages=msgspec.structs.replace(system.passages, lines=0))
    for hit in engine.retrieve(ungrown, query, 10).hits:
        chunk = engine.index.chunks[hit.id]
        assert (hit.plain, hit.span, hit.node_id) == (chunk.text, chunk.span, chunk.node_id)


def test_sections_return_their_own_span(engine, system) -> None:
    sections = msgspec.structs.replace(system, returns="section")
    hits = engine.retrieve(sections, "which temperature for green tea", 10).hits
    nodes = [hit for hit in hits if hit.id in engine.index.tree.nodes]
    assert bool(nodes) == (system.unit == "node")
    for hit in nodes:
        assert hit.span == engine.index.tree.node(hit.id).own_span


def test_hits_are_distinct_ordered_and_name_their_branches(engine, system) -> None:
    hits = engine.retrieve(system, "tea temperature", 30).hits
    assert len({hit.id for hit in hits}) == len(hits) > 0
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert all(hit.branches for hit in hits)


def test_the_matching_section_ranks_first(engine, system) -> None:
    hit = engine.retrieve(system, "baking soda tannin stains", 1).hits[0]
    assert hit.node_id == "guide/cleaning.md#removing-stains"


def test_nothing_inside_an_excluded_span_is_ranked(engine, system) -> None:
    before = engine.retrieve(system, "tea temperature", 30)
    banned = before.hits[0].span
    after = engine.retrieve(system, Query(text="tea temperature", excluded=(banned,)), 30)
    assert banned not in [hit.span for hit in after.hits]
    inside = {key for key, chunk in engine.index.chunks.items() if chunk.span.overlap(banned)}
    assert not any(inside & set(stage.keys) for stage in after.trace if stage.unit == "chunk")


def test_exclusion_does_not_shrink_the_pool(engine, world) -> None:
    local = builtin_systems(("local",), world[1])[0]
    shallow = tuple(msgspec.structs.replace(branch, top_n=3) for branch in local.branches)
    local = msgspec.structs.replace(local, branches=shallow)
    best = engine.retrieve(local, "tea temperature", 1).hits[0].span
    found = engine.retrieve(local, Query(text="tea temperature", excluded=(best,)), 5)
    assert {stage.stage: len(stage.keys) for stage in found.trace}["dense(chunks)"] == 3


def test_hits_that_overlap_an_excluded_span_are_replaced_and_counted(engine, system) -> None:
    first = engine.retrieve(system, "tea temperature", 1).hits[0]
    part = Span(source=first.source, line_start=first.line_start, line_end=first.line_start)
    whole = msgspec.structs.replace(system, returns="section" if system.unit == "node" else system.returns)
    for asked in (system, whole):
        found = engine.retrieve(asked, Query(text="tea temperature", excluded=(part,)), 3)
        assert len(found.hits) == 3
        assert not any(hit.span.overlap(part) for hit in found.hits)
    assert engine.retrieve(system, "tea temperature", 3).removed == 0
    assert 0 < engine.retrieve(system, Query(text="tea temperature", excluded=(part,)), 3).removed <= 3


@pytest.mark.parametrize("k", [1, 30])
def test_the_cap_bounds_the_candidates_whatever_k_is(engine, world, k) -> None:
    hybrid = builtin_systems(("hybrid",), world[1])[0]
    for cap in (3, 30):
        capped = msgspec.structs.replace(hybrid, fuse=msgspec.structs.replace(hybrid.fuse, cap=cap))
        found = engine.retrieve(capped, "tea temperature", k)
        lengths = {stage.stage: len(stage.keys) for stage in found.trace}
        assert lengths["cap"] == min(cap, lengths["fusion"])
        assert len(found.hits) == min(k, lengths["cap"])


def test_k_can_exceed_the_number_of_results(tmp_path) -> None:
    index, resolved = make_index(tmp_path, {"only.md": PAGES["guide/cleaning.md"]}, **FLAGS)
    with index, Engine(index, tmp_path / "docs", resolved) as engine:
        for system in builtin_systems(FAMILY, resolved):
            hits = engine.retrieve(system, "vinegar stains", 1000).hits
            assert 1 <= len(hits) <= len(index.chunks)


def test_cached_results_do_not_change_answers(world, folder, engine, system) -> None:
    with Engine(world[0], folder / "docs", world[1], memo=Memo(one_query=True)) as forgetful:
        for query in QUERIES * 2:
            assert forgetful.retrieve(system, query, 10).hits == engine.retrieve(system, query, 10).hits
        assert forgetful.memo.computed["embed"] in (0, 2 * len(QUERIES))


PART = {"grep": "grep", "sqlite": "retrieval", "qdrant": "qdrant"}


@pytest.mark.parametrize(
    ("predictor", "setting", "absent"),
    [
        ("sqlite", {"hybrid_alpha": 0.0}, {"embed", "dense(chunks)"}),
        ("sqlite", {"hybrid_alpha": 1.0}, {"fts5"}),
        ("qdrant", {"fusion_weight": 0.0}, {"embed", "qdrant-dense"}),
        ("qdrant", {"fusion_weight": 1.0}, {"qdrant-sparse"}),
    ],
)
def test_a_branch_of_weight_0_is_not_run(world, engine, predictor, setting, absent) -> None:
    section = PART[predictor]
    part = msgspec.structs.replace(world[1].parts[section], **setting)
    changed = msgspec.structs.replace(world[1], parts={**world[1].parts, section: part})
    (system,) = builtin_systems((predictor,), changed)
    for query in QUERIES:
        answer = engine.retrieve(system, query, 50)
        assert not absent & set(answer.stage_ms)
        assert not absent & {stage.stage for stage in answer.trace}
        assert all(not absent & hit.branches.keys() for hit in answer.hits)


def test_a_branch_is_opened_once_for_all_queries(world, folder, monkeypatch) -> None:
    (system,) = builtin_systems(("local",), world[1])
    opened = []
    for branch in system.branches:
        kind = branch_kind(branch.kind)
        first = kind.open
        monkeypatch.setattr(
            kind,
            "open",
            lambda opening, kind=kind, first=first: (opened.append(kind.name), first(opening))[1],
        )
    with Engine(world[0], folder / "docs", world[1]) as engine:
        for query in QUERIES:
            engine.retrieve(system, query, 5)
    assert sorted(opened) == ["bm25", "dense"]


def test_a_closed_engine_opens_its_branches_again(world, folder) -> None:
    engine = Engine(world[0], folder / "docs", world[1])
    for system in builtin_systems(FAMILY, world[1]):
        before = engine.retrieve(system, "tea", 5).hits
        engine.close()
        assert engine.retrieve(system, "tea", 5).hits == before
    engine.close()


def alone(kind: str, **fields: object) -> System:
    return System(name=kind, branches=(Branch(kind=kind, **fields),))


@pytest.mark.parametrize("expand", [None, Expand(depth=0, siblings=0, file_roots=0)])
def test_cache_keys_depend_on_the_whole_query(world, folder, engine, expand) -> None:
    """Keywords, options and a doubled depth change a branch's list, so each has a result of its own."""
    grep, doubled = alone("grep", expand=expand), alone("dense", doubled=True, expand=expand)
    filtered = alone("grep", expand=expand, options={"ranking": "bm25"})
    cases = [
        (system, k, keywords)
        for system in (grep, filtered, doubled)
        for k in (1, 6)
        for keywords in ("tea", "vinegar", "daemon temperature seconds")
    ]
    assert len({len(engine.retrieve(doubled, "tea", k).hits) for k in (1, 6)}) == 2
    for system, k, keywords in cases:
        with Engine(world[0], folder / "docs", world[1], memo=Memo(one_query=True)) as forgetful:
            expected = forgetful.retrieve(system, Query(text="which tea", keywords=keywords), k)
        found = engine.retrieve(system, Query(text="which tea", keywords=keywords), k)
        assert found.hits == expected.hits
        assert [(stage.stage, stage.keys) for stage in found.trace] == [
            (stage.stage, stage.keys) for stage in expected.trace
        ]
