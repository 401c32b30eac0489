"""Which passages of a pool of sections are returned: without an LLM, with one, with a broken one."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import pytest
from support import scripted_llm as scripted
from support.scripted_llm import Script, ScriptedLLM
from support.worlds import PAGES, QUERIES, make_index

from branchrank.core.records import Retrieval, StageTrace
from branchrank.core.settings import LLMSettings
from branchrank.core.settings.fields import with_values
from branchrank.core.spec import Branch, LLMEndpoint, Rerank, System
from branchrank.index.manifest import COSINE_SCALE
from branchrank.search.llm.session import LLMSession
from branchrank.search.systems.builtin import builtin_systems
from branchrank.search.systems.engine import Engine
from branchrank.search.systems.query import LLMStages

LONG = "\n\n".join(f"Step {number}: the boiler needs {number} liters of water." for number in range(1, 40))
MANY = {
    **PAGES,
    "long.md": f"# Boiler\n\n## Filling the boiler\n\n{LONG}\n\n## Draining the boiler\n\nOpen the valve.\n",
    "copy.md": "# Cleaning\n\nDescale the boiler with vinegar every month.\n",
}
ASKED = ("boiler water liters", *QUERIES)
FILLING = "long.md#filling-the-boiler"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("world")
    index, resolved = make_index(folder, MANY, index__chunk_tokens=32)
    with index, Engine(index, folder / "docs", resolved) as made:
        yield made


def hybrid(engine: Engine, **changes: object) -> System:
    (system,) = builtin_systems(("hybrid",), engine.settings)
    return with_values(system, changes)


def with_llm(engine: Engine, script: Script, query: str, k: int, **changes: object) -> Retrieval:
    """The predictor hybrid with an LLM that follows the script."""
    with ScriptedLLM(script) as server, LLMSession(LLMSettings(retries=0), environment={}) as session:
        gateway = session.gateway(server.base_url, "")
        system = msgspec.structs.replace(
            hybrid(engine, **changes),
            rerank=Rerank(method="llm"),
            llm=LLMEndpoint(base_url=server.base_url, model=gateway.model),
        )
        stages = LLMStages(lambda _: gateway)
        root, settings = engine.sources.corpus_root, engine.settings
        with Engine(engine.index, root, settings, llm_stages=stages) as asking:
            return asking.retrieve(system, query, k)


def stage(found: Retrieval, name: str) -> StageTrace:
    (only,) = (stage for stage in found.trace if stage.stage == name)
    return only


SCORES = {"passages.order": "scores"}


@pytest.mark.parametrize("query", ASKED)
def test_rrf_fuses_the_sections_rank_with_the_ranks_in_both_lists(engine: Engine, query: str) -> None:
    changes = {"fuse.k": 7, "branches.dense.weight": 0.5, "branches.bm25.weight": 2.0}
    found = engine.retrieve(hybrid(engine, **changes), query, 8)
    local = engine.retrieve(builtin_systems(("local",), engine.settings)[0], query, 8)
    dense, words = (
        {key: rank for rank, key in enumerate(stage(local, name).keys, start=1)}
        for name in ("dense(chunks)", "bm25(chunks)")
    )
    expected = {
        chunk.id: 1 / (7 + rank)
        + (0.5 / (7 + dense[chunk.id]) if chunk.id in dense else 0)
        + (2.0 / (7 + words[chunk.id]) if chunk.id in words else 0)
        for rank, section in enumerate(stage(found, "cap").keys, 1)
        for chunk in engine.index.chunks_of(section)
    }
    order = stage(found, "passage order")
    assert dict(zip(order.keys, order.scores, strict=True)) == pytest.approx(expected)
    assert order.keys == tuple(sorted(expected, key=lambda key: (-order.scores[order.keys.index(key)], key)))
    assert found.hits[0].id == order.keys[0]


@pytest.mark.parametrize("query", ASKED)
def test_scores_order_all_passages_by_cosine_and_bm25(engine: Engine, query: str) -> None:
    found = engine.retrieve(hybrid(engine, **SCORES), query, 8)
    index = engine.index
    pool = stage(found, "cap").keys
    chunks = {chunk.id for section in pool for chunk in index.chunks_of(section)}
    vector = index.embedder.embed_query(query).astype(np.float64)
    words = dict(zip(index.bm25_chunks.ids, index.bm25_chunks.scores(query).tolist(), strict=True))
    best = max(words[chunk] for chunk in chunks)
    expected = {
        chunk: index.manifest.cosines.convert(
            float(index.vectors.vector(chunk).astype(np.float64) @ vector), COSINE_SCALE
        )
        + (0.5 * words[chunk] / best if best else 0.0)
        for chunk in chunks
    }
    order = stage(found, "passage order")
    assert dict(zip(order.keys, order.scores, strict=True)) == pytest.approx(expected, abs=1e-6)
    assert list(order.scores) == sorted(order.scores, reverse=True)
    assert [hit.score for hit in found.hits] == sorted((hit.score for hit in found.hits), reverse=True)
    for hit in found.hits:
        assert (hit.span, hit.plain) == (index.chunks[hit.id].span, index.chunks[hit.id].text)
        assert hit.branches, "a hit names the branches that found its section"


def test_a_section_with_several_good_passages_returns_them(engine: Engine) -> None:
    hits = engine.retrieve(hybrid(engine), "boiler water liters", 5).hits
    assert [hit.node_id for hit in hits].count(FILLING) > 1
    one_each = engine.retrieve(
        hybrid(engine, **{"passages.order": "sections"}), "boiler water liters", 5
    ).hits
    assert [hit.node_id for hit in one_each].count(FILLING) == 1


@pytest.mark.parametrize("query", ASKED)
def test_sections_are_returned_in_the_order_of_the_pool(engine: Engine, query: str) -> None:
    found = engine.retrieve(hybrid(engine, returns="section"), query, 6)
    assert [hit.id for hit in found.hits] == list(stage(found, "cap").keys[:6])
    assert "passage order" not in [stage.stage for stage in found.trace]


@pytest.mark.parametrize("order", ["rrf", "scores"])
@pytest.mark.parametrize("fails", [False, True])
def test_sections_come_in_the_order_of_the_llm_and_further_passages_after_all_of_them(
    engine: Engine, order: str, fails: bool
) -> None:
    script = scripted.oracle(lambda text: "needs 7 liters" in text)
    broken: Script = lambda chat, number: scripted.fail(500)  # noqa: E731
    found = with_llm(engine, broken if fails else script, ASKED[0], 400, **{"passages.order": order})
    assert found.fallbacks == (("rerank: http 500",) if fails else ())
    sections = stage(found, "rerank").keys
    assert fails or sections[0] == FILLING
    by_score = stage(engine.retrieve(hybrid(engine, **SCORES), ASKED[0], 1), "passage order").keys
    best = {engine.index.chunks[chunk].node_id: chunk for chunk in reversed(by_score)}
    leading = tuple(best[section] for section in sections)
    plain = stage(
        engine.retrieve(hybrid(engine, **{"passages.order": order}), ASKED[0], 1), "passage order"
    ).keys
    rest = tuple(chunk for chunk in plain if chunk not in leading)
    assert stage(found, "passage order").keys == leading + rest
    assert [hit.node_id for hit in found.hits[:4]] == list(sections[:4])


@pytest.mark.parametrize("number", range(1, 40, 6))
def test_a_perfect_reranker_reaches_every_passage_of_the_pool(engine: Engine, number: int) -> None:
    """Whatever passage of the first section is the answer, it is a hit: nothing of the section is lost."""
    answer = f"Step {number}: the boiler needs {number} liters"
    found = with_llm(
        engine, scripted.oracle(lambda text: "needs 7 liters" in text), "boiler water liters", 400
    )
    assert any(answer in hit.text for hit in found.hits)


@pytest.mark.parametrize("query", ASKED)
def test_the_llms_answer_has_the_same_prefix_for_any_k(engine: Engine, query: str) -> None:
    script = scripted.oracle(lambda text: "boiler" in text)
    longer = with_llm(engine, script, query, 30).hits
    for k in (1, 3, 7):
        assert with_llm(engine, script, query, k).hits == longer[:k]


def test_lexical_systems_order_passages_only_by_words(engine: Engine) -> None:
    branch = Branch(kind="bm25", unit="node", top_n=30)
    system = with_values(System(name="words", branches=(branch,)), {"passages.order": "scores"})
    found = stage(engine.retrieve(system, "boiler water liters", 3), "passage order")
    assert found.scores[0] == 0.5
    assert min(found.scores) >= 0.0
