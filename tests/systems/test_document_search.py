"""Keyword, semantic and hybrid search of documents, through ``Workspace.search_documents``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.worlds import QUERIES, make_workspace

from branchrank.errors import UsageError
from branchrank.index.build import build_index
from branchrank.records import Hit
from branchrank.systems.document_systems import Mode
from branchrank.workspace import Workspace

MODES: tuple[Mode, ...] = ("keyword", "semantic", "hybrid")
#: One hit per chunk, all of them.
FLAT = {"retrieval__group_by": "none", "retrieval__final_limit": 1000}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_workspace(tmp_path_factory.mktemp("documents"))
    build_index(folder).close()
    return folder.data_dir


@pytest.fixture(scope="module")
def workspace(data_dir: Path) -> Iterator[Workspace]:
    with opened(data_dir) as made:
        yield made


def opened(data_dir: Path, **settings: object) -> Workspace:
    """The workspace with an ``[embedding]`` section; settings as ``retrieval__rrf_k``."""
    flags = {name.replace("__", "."): value for name, value in settings.items()}
    return Workspace.open(data_dir, settings={"embedding.model": "fake:64", **flags})


def found(data_dir: Path, query: str, mode: Mode, **settings: object) -> list[Hit]:
    with opened(data_dir, **settings) as workspace:
        return workspace.search_documents(query, mode)


def flat(data_dir: Path, query: str, mode: Mode, **settings: object) -> list[Hit]:
    """One hit per chunk."""
    return found(
        data_dir, query, mode, **{name.replace(".", "__"): v for name, v in FLAT.items()}, **settings
    )


def ids(hits: list[Hit]) -> list[str]:
    return [hit.id for hit in hits]


@pytest.mark.parametrize("mode", ["semantic", "hybrid"])
def test_a_model_other_than_that_of_the_index_is_refused(data_dir: Path, mode: Mode) -> None:
    with (
        Workspace.open(data_dir, settings={"embedding.model": "fake:32"}) as workspace,
        pytest.raises(UsageError, match=r"fake:32.*fake:64"),
    ):
        workspace.search_documents("tea", mode)


def test_the_semantic_score_is_the_cosine_clipped_at_zero(data_dir: Path, workspace: Workspace) -> None:
    index = workspace.index
    vector = index.embedder.embed_query("418 error")
    cosines = {key: float(index.vectors.vector(key) @ vector) for key in index.chunks}
    hits = flat(data_dir, "418 error", "semantic")
    assert {hit.id for hit in hits} == set(index.chunks)
    for hit in hits:
        assert hit.score == pytest.approx(max(0.0, cosines[hit.id]), abs=1e-6)
    assert min(cosines.values()) < 0, "no cosine was there to clip"


def test_the_keyword_score_is_the_fts5_score(data_dir: Path) -> None:
    for hit in flat(data_dir, "tea temperature", "keyword"):
        assert hit.score == hit.branches["fts5"].score
        bm25 = float(hit.notes["fts5"].removeprefix("BM25 ").partition(",")[0])
        exact = hit.notes["fts5"].endswith(", exact")
        assert hit.score == pytest.approx((exact + bm25 / (1 + bm25)) / 2, abs=1e-4)


def test_the_hybrid_score_is_rrf_scaled_to_one(data_dir: Path) -> None:
    for query in QUERIES:
        for hit in flat(data_dir, query, "hybrid"):
            expected = 0.0
            for name, weight in (("fts5", 0.4), ("dense(chunks)", 0.6)):
                if name in hit.branches:
                    expected += 61 * weight / (60 + hit.branches[name].rank)
            assert hit.score == pytest.approx(expected)
    best = flat(data_dir, "Baking soda removes tannin stains", "hybrid")[0]
    assert best.id == "guide/cleaning.md#removing-stains@1"
    assert best.score == pytest.approx(1.0)


def test_alpha_blends_from_keyword_to_semantic(data_dir: Path) -> None:
    query = "which temperature for tea"

    def blended(alpha: float) -> list[str]:
        return ids(flat(data_dir, query, "hybrid", retrieval__hybrid_alpha=alpha))

    keyword, semantic = (ids(flat(data_dir, query, mode)) for mode in ("keyword", "semantic"))
    assert blended(0.0) == keyword
    assert blended(1.0) == semantic
    assert set(blended(0.5)) == set(keyword) | set(semantic)
    assert len(blended(0.0)) < len(blended(0.5)), "a branch of weight 0 brought something in"


@pytest.mark.parametrize("mode", MODES)
def test_a_hit_is_its_documents_best_chunk(workspace: Workspace, mode: Mode) -> None:
    hits = workspace.search_documents("tea temperature", mode)
    assert hits
    assert len({hit.source for hit in hits}) == len(hits)
    for hit in hits:
        assert {member.source for member in hit.members} == {hit.source}
        assert (hit.id, hit.score) == (hit.members[0].id, hit.members[0].score)
        assert len(hit.members) <= 3
        scores = [member.score for member in hit.members]
        assert scores == sorted(scores, reverse=True)


def test_the_average_of_the_shown_chunks_and_their_limit(data_dir: Path) -> None:
    options = {"retrieval__doc_agg": "avg", "retrieval__max_chunks_per_doc": 2}
    hits = found(data_dir, "tea temperature brew", "hybrid", **options)
    assert any(len(hit.members) == 2 for hit in hits)
    for hit in hits:
        assert len(hit.members) <= 2
        assert hit.score == pytest.approx(sum(m.score for m in hit.members) / len(hit.members))


def test_limits_and_ties_by_id(tmp_path: Path) -> None:
    pages = {f"{n:03}.md": "# Same\n\nthe same words\n" for n in range(99, -1, -1)}
    folder = make_workspace(tmp_path, pages)
    build_index(folder).close()
    for mode in MODES:
        assert [hit.source for hit in found(folder.data_dir, "same words", mode)] == [
            f"{n:03}.md" for n in range(12)
        ]
    few = {
        "retrieval__candidate_k_keyword": 5,
        "retrieval__candidate_k_vector": 7,
        "retrieval__final_limit": 1000,
    }
    assert len(found(folder.data_dir, "same", "keyword", **few)) == 5
    assert len(found(folder.data_dir, "same", "semantic", **few)) == 7
    with opened(folder.data_dir) as workspace:
        assert len(workspace.search_documents("same", "keyword", limit=3)) == 3


@settings(derandomize=True, max_examples=60, deadline=None)
@given(query=st.text(max_size=60), mode=st.sampled_from(MODES))
def test_scores_lie_in_the_unit_interval_best_first(workspace: Workspace, query: str, mode: Mode) -> None:
    for text in (query, f"{query} tea"):
        scores = [hit.score for hit in workspace.search_documents(text, mode)]
        assert all(0.0 <= score <= 1.0 for score in scores)
        assert scores == sorted(scores, reverse=True)


def test_the_hybrid_mode_is_the_predictor_sqlite(workspace: Workspace) -> None:
    for query in QUERIES:
        assert workspace.search_documents(query, limit=5) == workspace.search(query, "sqlite", 5)
