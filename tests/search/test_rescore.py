"""The late-interaction stage of the engine: MaxSim of the first candidates, kept or computed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from support.worlds import QUERIES, make_index, make_workspace

from branchrank import System, Workspace
from branchrank.core.errors import UsageError
from branchrank.core.spec import Branch, Fuse, Rescore
from branchrank.index.embedders import token_embedder
from branchrank.index.index_build import build_index
from branchrank.index.manifest import MAXSIM_SCALE
from branchrank.index.maxsim import maxsim, quantize
from branchrank.index.stores.analyzer import embedded_text
from branchrank.search.systems.engine import Engine

FIRST = System(name="first", branches=(Branch(kind="dense"), Branch(kind="bm25")), fuse=Fuse(method="convex"))
QUERY = "which temperature for green tea"


def rescored(**slot: object) -> System:
    return msgspec.structs.replace(FIRST, name="second", rescore=Rescore(method="maxsim", **slot))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("late")


@pytest.fixture(scope="module")
def engine(folder: Path):
    index, resolved = make_index(folder)
    with index, Engine(index, folder / "docs", resolved) as made:
        yield made


def stage(engine: Engine, system: System, name: str, query: str = QUERY) -> dict[str, float]:
    (found,) = [each for each in engine.retrieve(system, query, 3).trace if each.stage == name]
    return dict(zip(found.keys, found.scores, strict=True))


@pytest.mark.parametrize(("candidates", "weight"), [(4, 1.0), (30, 0.25), (1, 2.0)])
def test_the_first_candidates_get_the_weighted_maxsim_on_top(
    engine: Engine, candidates: int, weight: float
) -> None:
    fused = stage(engine, FIRST, "fusion")
    assert len(fused) > 5
    found = stage(engine, rescored(candidates=candidates, weight=weight), "maxsim")
    first = list(fused)[:candidates]
    model = token_embedder(engine.index.embedder, "fake")
    texts = [embedded_text(engine.index.chunks[key]) for key in first]
    documents = [quantize(rows, "int8") for rows in model.embed_documents_and_tokens(texts).tokens]
    scores = maxsim(quantize(model.embed_query_and_tokens(QUERY).tokens, "int8"), documents)
    expected = [engine.index.manifest.maxsims.convert(score, MAXSIM_SCALE) for score in scores]
    assert found.keys() == fused.keys()
    assert [found[key] for key in first] == [
        pytest.approx(fused[key] + weight * score) for key, score in zip(first, expected, strict=True)
    ]
    assert set(list(found)[: len(first)]) == set(first)
    assert [found[key] for key in list(fused)[candidates:]] == [
        pytest.approx(score + weight * min(expected)) for score in list(fused.values())[candidates:]
    ]
    assert list(found.values()) == sorted(found.values(), reverse=True)


def test_the_model_reads_a_query_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    query, model = "descaling", token_embedder(engine.index.embedder, "fake")
    known, asked = model.embed_query_and_tokens(query), []
    monkeypatch.setattr(model, "embed_query", lambda text: pytest.fail("read once more"))
    monkeypatch.setattr(model, "embed_query_and_tokens", lambda text: asked.append(text) or known)
    engine.retrieve(rescored(), query, 3)
    assert asked == [query]


def test_a_query_without_words_keeps_the_order(engine: Engine) -> None:
    fused = stage(engine, FIRST, "fusion", "?!")
    assert list(stage(engine, rescored(), "maxsim", "?!")) == list(fused)


def test_vectors_kept_as_int8_and_computed_ones_give_the_same_scores(tmp_path: Path, engine: Engine) -> None:
    workspace = make_workspace(tmp_path, index__token_vectors="int8")
    with (
        build_index(workspace) as index,
        Engine(index, tmp_path / "docs", workspace.settings) as kept,
        Engine(
            index, tmp_path / "docs", workspace.settings, open_token_cache=workspace.open_token_cache
        ) as too,
    ):
        assert index.token_vectors is not None
        for query in QUERIES:
            expected = stage(engine, rescored(), "maxsim", query)
            assert stage(kept, rescored(), "maxsim", query) == expected
            assert stage(too, rescored(), "maxsim", query) == expected
    assert not (tmp_path / "data" / "hybrid" / "cache" / "token_vectors.sqlite3").exists()


def test_computed_vectors_are_cached_in_the_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_index(make_workspace(tmp_path)).close()
    with Workspace.open(tmp_path / "data") as workspace:
        first = workspace.search(QUERY, rescored(), k=5)
    assert (tmp_path / "data" / "hybrid" / "cache" / "token_vectors.sqlite3").exists()

    def fail(*_arguments: object) -> None:
        raise AssertionError("a candidate was embedded again")

    monkeypatch.setattr("branchrank.index.embedders.fake.FakeEmbedder.embed_documents_and_tokens", fail)
    with Workspace.open(tmp_path / "data") as workspace:
        assert workspace.search(QUERY, rescored(), k=5) == first


def test_an_embedder_behind_a_server_is_refused_before_any_work(
    folder: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"index.embedder": "ollama:nomic-embed-text"}
    with Workspace.open(folder / "data", settings=settings) as workspace:
        with pytest.raises(UsageError) as caught:
            workspace.search(QUERY, rescored())
        assert "all-MiniLM-L6-v2" in (caught.value.remedy or "")
        with pytest.raises(UsageError, match="token vectors"):
            workspace.benchmark([rescored()], questions=folder / "none.jsonl")
