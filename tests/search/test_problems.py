"""Impossible systems are refused before any query; every system that is accepted answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from support.commands import invoke, make_project
from support.worlds import QUERIES, make_index

from branchrank.core.spec import (
    Branch,
    Expand,
    Fuse,
    FusionMethod,
    Group,
    Passages,
    Rescore,
    System,
    TreeSearch,
)
from branchrank.search.systems.engine import Engine
from branchrank.search.systems.query import Query
from branchrank.search.systems.system_checks import problems

WRONG = {
    '{ kind = "fts5", unit = "node" }': "has a branch fts5 with the unit node, which must be chunk",
    '{ kind = "bm25", unit = "span" }': "has a branch bm25 with the unit span, which must be chunk or node",
    '{ kind = "tree", unit = "chunk", tree = {} }': "has a branch tree with the unit chunk, which must be",
    '{ kind = "tree", unit = "node" }': "needs `tree` settings",
    '{ kind = "dense", tree = {} }': "`tree` settings belong to a branch of kind tree",
    '{ kind = "bm25", threshold = 0.5 }': "`threshold` is a distance between vectors",
    '{ kind = "bm25", unit = "node", expand = {} }': "only chunks can be expanded",
    '{ kind = "densee" }': "did you mean `dense`?",
    '{ kind = "grep", options = { rank = "bm25" } }': "grep has no option 'rank'",
    '{ kind = "bm25", options = { k1 = 0.9 } }': "bm25 has no option 'k1'",
    '{ kind = "tree", unit = "node", tree = {}, threshold = 0.5 }': "`threshold` is a distance",
    '{ kind = "grep", options = { ranking = "best" } }': "option 'ranking' must be one of order, bm25, raw",
    '{ kind = "dense", weight = 0.0 }': "only branches with weight 0",
    '{ kind = "dense" }, { kind = "bm25", unit = "node" }': "fuses chunks with nodes",
    '{ kind = "dense", expand = {} }, { kind = "bm25" }': "fuses chunks with nodes",
    '{ kind = "dense" }, { kind = "dense", top_n = 5 }': "has the branch dense(chunks) twice",
    "": "has no branches",
}
SLOTS = {
    'branches = [{ kind = "dense" }, { kind = "bm25" }]\nfuse.method = "none"': "has 2 branches",
    'branches = [{ kind = "dense" }]\npassages.order = "scores"': "but its unit is chunk",
    'branches = [{ kind = "grep", expand = {} }]\npassages.order = "scores"': "no vector or keyword branch",
    'branches = [{ kind = "dense" }, { kind = "grep" }]\nfuse.method = "score"': "grep has no scores",
    'branches = [{ kind = "tree", unit = "node", tree = {} }]\nfuse.method = "score"': "tree has no scores",
    'branches = [{ kind = "grep", unit = "span" }]\nrerank.method = "cross-encoder"\n'
    'rerank.cross_encoder = "m"': "reranks spans",
    'branches = [{ kind = "dense" }]\nrerank.method = "cross-encoder"': "cross-encoder, but has no model",
    'branches = [{ kind = "dense" }]\nrerank.method = "llm"': "has no endpoint",
    'branches = [{ kind = "bm25", unit = "node" }]\ngroup.by = "document"': "groups by document",
    'branches = [{ kind = "bm25", unit = "node" }]\nrescore.method = "maxsim"': "rescores by maxsim",
}
CASES = {f"branches = [{branches}]": said for branches, said in WRONG.items()} | SLOTS


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("problems"))


@pytest.mark.parametrize("table", CASES)
def test_an_impossible_system_is_refused_before_any_query(
    project: Path, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise AssertionError("a query was run")

    monkeypatch.setattr(Engine, "retrieve", fail)
    path = project / "wrong.toml"
    path.write_text(f'name = "wrong"\ndata_dir = "{project / "data"}"\n[systems.wrong]\n{table}\n')
    result = invoke("run", path, "--reports", project / "none", "--quiet")
    assert result.exit_code == 2, result.output
    assert "wrong" in result.stderr
    assert CASES[table] in result.stderr
    assert not (project / "none").exists()


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("accepted")
    index, resolved = make_index(folder)
    with index, Engine(index, folder / "docs", resolved) as made:
        yield made


#: For each unit, how a branch comes to give it.
MAKES = {
    "chunk": ["dense", "bm25", "fts5", "grep", "qdrant-dense", "qdrant-sparse"],
    "node": ["bm25", "tree"],
    "span": ["grep"],
}
EXPANDS = st.builds(Expand, depth=st.integers(0, 3), siblings=st.integers(0, 3), file_roots=st.integers(0, 3))
WALKS = st.builds(TreeSearch, beam=st.integers(1, 3), depth=st.integers(1, 4))


@st.composite
def branches(draw: st.DrawFn) -> tuple[Branch, ...]:
    """Mostly possible branches of one unit; now and then a slot that does not fit."""
    unit = draw(st.sampled_from(["chunk", "chunk", "node", "node", "span"]))
    kinds = draw(st.lists(st.sampled_from(MAKES[unit]), min_size=1, max_size=3, unique=True))
    expanded = []
    if unit == "node":
        expanded = draw(st.lists(st.sampled_from(["dense", "grep", "fts5"]), max_size=2, unique=True))
    made = []
    for kind in [*kinds, *expanded]:
        expand = draw(EXPANDS) if kind in expanded else None
        takes = draw(st.booleans()) and kind in ("dense", "qdrant-dense")
        made.append(
            Branch(
                kind=kind,
                unit="chunk" if kind in expanded else unit,
                top_n=draw(st.integers(1, 60)),
                weight=draw(st.sampled_from([0.0, 0.5, 1.0, 3.0])),
                threshold=draw(st.sampled_from([0.5, 4.0])) if takes else None,
                doubled=draw(st.booleans()),
                expand=expand,
                tree=draw(WALKS) if kind == "tree" else None,
                options=draw(st.sampled_from([{}, {"ranking": "bm25"}])) if kind == "grep" else {},
            )
        )
    return tuple(made)


SYSTEMS = st.builds(
    System,
    name=st.just("any"),
    branches=branches(),
    fuse=st.builds(
        Fuse,
        method=st.sampled_from(get_args(FusionMethod)),
        k=st.integers(1, 60),
        cap=st.integers(0, 5),
        unit_interval=st.booleans(),
    ),
    rescore=st.builds(
        Rescore,
        method=st.sampled_from(["none", "none", "maxsim"]),
        candidates=st.integers(1, 9),
        weight=st.sampled_from([0.0, 1.0]),
    ),
    group=st.builds(
        Group,
        by=st.sampled_from(["none", "document"]),
        aggregate=st.sampled_from(["max", "avg"]),
        members=st.integers(1, 3),
    ),
    passages=st.builds(
        Passages, order=st.sampled_from(["sections", "scores"]), lines=st.sampled_from([0, 0, 5])
    ),
    returns=st.sampled_from(["passage", "section"]),
)


@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(
    system=SYSTEMS,
    query=st.sampled_from([*QUERIES, "", "\0", "🍵"]),
    k=st.integers(1, 20),
    keywords=st.sampled_from(["", "temperature"]),
)
def test_an_accepted_system_answers(
    engine: Engine, system: System, query: str, k: int, keywords: str
) -> None:
    assume(not problems(system))
    found = engine.retrieve(system, Query(text=query, keywords=keywords), k)
    assert len(found.hits) <= k
    assert [hit.score for hit in found.hits] == sorted((hit.score for hit in found.hits), reverse=True)
    for hit in found.hits:
        lines = engine.sources.lines(hit.source)
        assert 1 <= hit.line_start <= hit.line_end <= len(lines)


def test_a_group_of_predictors_is_not_a_system(project: Path) -> None:
    for group in ("all", "family"):
        result = invoke("retrieve", "--data-dir", project / "data", "--predictor", group, "tea")
        assert result.exit_code == 2
        assert group in result.stderr
