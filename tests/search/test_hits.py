"""What a hit says of itself: its rank in each branch's own list, and its distance."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.worlds import QUERIES, make_index

from branchrank.core.settings import Resolved
from branchrank.core.spec import Branch, Fuse, System
from branchrank.index.reader import Index
from branchrank.search.systems.builtin import BUILTIN
from branchrank.search.systems.engine import Engine

DENSE = "dense(chunks)"
World = tuple[Index, Engine, Resolved]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The shortlist is shorter than the corpus, so that the expansion reaches more than it."""
    folder = tmp_path_factory.mktemp("hits")
    index, resolved = make_index(folder, hybrid__no_llm=True, hybrid__vector_top_n=3)
    with index, Engine(index, folder / "docs", resolved) as engine:
        yield index, engine, resolved


@pytest.mark.parametrize("query", QUERIES)
def test_a_section_has_the_rank_and_score_of_its_best_chunk_in_the_shortlist(
    world: World, query: str
) -> None:
    index, engine, resolved = world
    found = engine.retrieve(BUILTIN["hybrid"](resolved), query, 30)
    stages = {stage.stage: stage for stage in found.trace}
    shortlist = dict(zip(stages[DENSE].keys, stages[DENSE].scores, strict=True))
    assert len(shortlist) == 3
    ranks = {key: rank for rank, key in enumerate(shortlist, start=1)}
    for hit in found.hits:
        own = [chunk for chunk in shortlist if index.chunks[chunk].node_id == hit.node_id]
        if own:
            place = hit.branches[DENSE]
            assert (place.rank, place.score) == (min(ranks[c] for c in own), max(shortlist[c] for c in own))
        else:
            assert DENSE not in hit.branches


def test_a_section_from_the_expansion_names_its_seed(world: World) -> None:
    index, engine, resolved = world
    noted = 0
    for query in QUERIES:
        found = engine.retrieve(BUILTIN["hybrid"](resolved), query, 30)
        stages = {stage.stage: stage.keys for stage in found.trace}
        for hit in found.hits:
            reached = hit.node_id in stages["expansion"] and hit.node_id not in stages["mapping"]
            assert (DENSE in hit.notes) == reached
            if reached:
                ranks = [
                    rank
                    for rank, chunk in enumerate(stages[DENSE], start=1)
                    if index.chunks[chunk].source == hit.source
                ]
                came = f"its file's #{ranks[0]}" if ranks else "a neighboring page"
                assert hit.notes[DENSE] == f"reached from {came}"
                assert f"{DENSE} {hit.notes[DENSE]}" in hit.reasons
                noted += 1
    assert noted > 0


@pytest.mark.parametrize("query", QUERIES)
def test_the_distance_that_is_shown_is_the_one_that_the_threshold_compares(world: World, query: str) -> None:
    """To the last bit: a threshold at a hit's distance drops exactly that hit."""
    _, engine, _ = world

    def search(threshold: float) -> list[tuple[str, float | None]]:
        branch = Branch(kind="dense", threshold=threshold)
        system = System(name="near", branches=(branch,), fuse=Fuse(method="none"))
        return [(hit.id, hit.distance) for hit in engine.retrieve(system, query, 40).hits]

    everything = search(4.0)
    for place, (_, distance) in enumerate(everything):
        assert distance is not None
        nearer = [entry for entry in everything if (entry[1] or 0.0) < distance]
        assert search(distance) == nearer
        assert len(nearer) <= place
