"""Rankings don't depend on where a model's similarities lie, nor on how far they spread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import get_args

import numpy as np
import pytest
from support.squeezed import SqueezedEmbedder, install_squeezed
from support.worlds import PAGES, QUERIES, make_index, numbered_pages

from branchrank.core.settings import IndexSettings
from branchrank.core.settings.fields import with_values
from branchrank.core.spec import Branch, Fuse, FusionMethod, Rescore, System
from branchrank.index.embedders.fake import FakeEmbedder
from branchrank.index.embedders.protocol import QueryVectors, unit_rows
from branchrank.index.embedding import wanted_tokens
from branchrank.search.systems.builtin import AGENTS, BUILTIN, builtin_systems
from branchrank.search.systems.engine import Engine

#: Scores of the inner embedder that differ by less are a tie, which rounding of vectors can decide.
TIE = 1e-5
SQUEEZED = (1.0, 0.3, 0.1)
METHODS = tuple(method for method in get_args(FusionMethod) if method != "none")
TWO = (Branch(kind="dense", top_n=8), Branch(kind="bm25", top_n=8))


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[float | None, Engine]]:
    """One corpus, indexed with the fake embedder and with three that wrap it, by their factors."""
    pages = PAGES | dict(list(numbered_pages().items())[:12])
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        install_squeezed(patch)
        made: dict[float | None, Engine] = {}
        for a in (None, *SQUEEZED):
            folder = tmp_path_factory.mktemp("scale")
            index, settings = make_index(
                folder,
                pages,
                index__embedder="fake:64" if a is None else f"squeezed:{a}/fake:64",
                index__token_vectors="fp16",
                late_interaction__no_llm=True,
            )
            made[a] = stack.enter_context(Engine(stack.enter_context(index), folder / "docs", settings))
        yield made


def fused_by(method: str, system: System) -> System:
    """The predictor with another fusion; one branch alone has nothing to fuse."""
    return system if len(system.branches) == 1 else with_values(system, {"fuse.method": method})


def systems(engine: Engine) -> dict[str, System]:
    found = {
        f"{system.name} {method}": fused_by(method, system)
        for system in builtin_systems(tuple(name for name in BUILTIN if name not in AGENTS), engine.settings)
        for method in METHODS
        if system.name != "grep" or method == "rrf"
    }
    found["hybrid by scores"] = with_values(found["hybrid rrf"], {"passages.order": "scores"})
    found["semantic"] = with_values(found["sqlite rrf"], {"group.aggregate": "avg"})
    found["semantic"] = with_values(found["semantic"], {"branches.fts5.weight": 0.0, "fuse.method": "none"})
    found["late rrf"] = System(
        name="late", branches=TWO, fuse=Fuse(method="rrf"), rescore=Rescore(method="maxsim", weight=0.1)
    )
    found["late dense"] = System(
        name="late", branches=TWO[:1], fuse=Fuse(method="none"), rescore=Rescore(method="maxsim")
    )
    return found


@pytest.mark.parametrize("a", SQUEEZED)
def test_an_embedder_with_other_cosines_gives_the_same_rows(
    engines: dict[float | None, Engine], a: float
) -> None:
    for name, system in systems(engines[None]).items():
        for query in QUERIES:
            known = engines[None].retrieve(system, query, 8).hits
            scores = {hit.id: hit.score for hit in known}
            found = engines[a].retrieve(system, query, 8).hits
            assert len(found) == len(known), (name, query)
            for mine, theirs in zip(known, found, strict=False):
                score = scores.get(theirs.id, known[-1].score)
                assert score == pytest.approx(mine.score, abs=TIE), (name, query)


def test_the_spread_of_the_similarities_is_in_the_manifest(engines: dict[float | None, Engine]) -> None:
    inner = engines[None].index.manifest
    for a in SQUEEZED:
        manifest = engines[a].index.manifest
        for known, found in ((inner.cosines, manifest.cosines), (inner.maxsims, manifest.maxsims)):
            assert found.mean == pytest.approx(a * known.mean + 1 - a, abs=1e-4)
            assert found.deviation == pytest.approx(a * known.deviation, rel=1e-3)
        distances = (inner.distance, manifest.distance)
        assert distances[1].losing == distances[0].losing
        assert distances[1].threshold == pytest.approx(a * distances[0].threshold, abs=1e-4)


class EvenTokens(FakeEmbedder):
    """Token vectors without a large component, as those of most models."""

    def embed_query_and_tokens(self, text: str) -> QueryVectors:
        rows = np.random.default_rng(7).normal(size=(8, self.identity.dimension)).astype(np.float32)
        return QueryVectors(self.embed_query(text), unit_rows(rows, origin="a test"))


def test_auto_stores_token_vectors_as_fp16_where_int8_would_round_off_small_components() -> None:
    settings, inner = IndexSettings(embedder="squeezed"), EvenTokens(384)
    chosen = [wanted_tokens(settings, SqueezedEmbedder(inner, a), 10) for a in SQUEEZED]
    assert chosen == ["int8", "fp16", "fp16"]
