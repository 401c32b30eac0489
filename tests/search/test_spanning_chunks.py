"""Chunks that overlap several sections: evidence for each, shown once, and extended within all of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import msgspec
import pytest
from support.commands import invoke, make_project
from support.worlds import PAGES, QUERIES, make_index

from branchrank.core.records import Chunk, GoldItem, Question
from branchrank.core.settings.fields import with_values
from branchrank.core.spec import System
from branchrank.index.adopted_files import GivenChunk
from branchrank.runs.attribution import gold_keys
from branchrank.scoring.matching import is_strict
from branchrank.search.systems.builtin import builtin_systems
from branchrank.search.systems.engine import Engine

FAMILY = ("local", "pageindex", "hybrid", "grep", "sqlite", "late-interaction")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("spanning")
    flags = {"hybrid__no_llm": True, "pageindex__no_llm": True, "grep__vector_score_threshold": 4.0}
    index, resolved = make_index(folder, index__chunker="window", index__chunk_tokens=32, **flags)
    with index, Engine(index, folder / "docs", resolved) as made:
        yield made


def system(engine: Engine, name: str, **values: object) -> System:
    (found,) = builtin_systems((name,), engine.settings)
    return with_values(found, {key.replace("__", "."): value for key, value in values.items()})


def spanning(engine: Engine) -> list[Chunk]:
    return [chunk for chunk in engine.index.chunks.values() if chunk.node_ids]


def test_a_chunk_names_the_sections_that_it_overlaps_and_counts_for_each(engine: Engine) -> None:
    assert spanning(engine)
    for chunk in engine.index.chunks.values():
        sections = engine.index.tree.overlapping(chunk.span)
        assert engine.sources.nodes_of(chunk.id) == (chunk.node_ids or (chunk.node_id,))
        assert {node.id for node in sections} == {*engine.sources.nodes_of(chunk.id)}
        shares = [chunk.span.overlap(node.own_span) for node in sections if node.own_span]
        own = engine.index.tree.node(chunk.node_id).own_span
        assert own is not None
        assert chunk.span.overlap(own) == max(shares)


@pytest.mark.parametrize("lines", [0, 9])
@pytest.mark.parametrize("name", FAMILY)
def test_a_spanning_passage_is_shown_once_with_its_lines_and_extended_within_its_sections(
    engine: Engine, name: str, lines: int
) -> None:
    for query in QUERIES:
        hits = engine.retrieve(system(engine, name, passages__lines=lines), query, 20).hits
        assert len({hit.id for hit in hits}) == len(hits)
        for hit in hits:
            assert hit.text == "\n".join(PAGES[hit.source].split("\n")[hit.line_start - 1 : hit.line_end])
            chunk = engine.index.chunks[hit.id]
            assert hit.breadcrumb == engine.index.tree.node(chunk.node_id).breadcrumb
            spans = [engine.index.tree.node(node).own_span for node in chunk.node_ids or (chunk.node_id,)]
            first = min(span.line_start for span in spans if span)
            last = max(span.line_end for span in spans if span)
            assert first <= hit.line_start <= hit.line_end <= last
            room = last - first + 1
            assert (
                not lines
                or any(other.source == hit.source for other in hits if other is not hit)
                or (hit.span.lines >= min(lines, room))
            )
        if lines:
            assert not any(one.span.overlap(other.span) for one, other in combinations(hits, 2))


def test_the_gold_is_in_every_section_and_chunk_that_overlaps_its_lines(engine: Engine) -> None:
    chunk = spanning(engine)[0]
    gold = GoldItem(
        source_file=chunk.source, answer_line_start=chunk.line_start, answer_line_end=chunk.line_end
    )
    question = Question(id="q", question="?", gold=(gold,))
    keys = gold_keys(question, engine.index, engine.sources.lines)
    assert {chunk.id, *chunk.node_ids} <= keys
    (hit, *_) = engine.retrieve(system(engine, "local"), chunk.text, 1).hits
    assert (hit.id, is_strict(hit, gold, question)) == (chunk.id, True)


def test_chunks_of_users_name_their_sections(engine: Engine, tmp_path: Path) -> None:
    tree = engine.index.tree
    fields = {"id": "c", "source": "guide/brewing.md", "text": "x"}
    over = GivenChunk(**fields, line_start=3, line_end=12).completed(tree)
    assert over.node_id == "guide/brewing.md#choosing-a-temperature"
    assert over.node_ids[:2] == ("guide/brewing.md", "guide/brewing.md#choosing-a-temperature")
    inside = GivenChunk(**fields, line_start=7, line_end=8, node_ids=("gone",)).completed(tree)
    assert (inside.node_id, inside.node_ids) == ("guide/brewing.md#choosing-a-temperature", ())
    tied = GivenChunk(**fields, line_start=4, line_end=5).completed(tree)
    assert tied.node_id == "guide/brewing.md", "the first of two sections with as many lines"
    own = GivenChunk(**fields, node_id="guide/brewing.md#errors", line_start=3, line_end=12).completed(tree)
    assert (own.node_id, own.node_ids) == ("guide/brewing.md#errors", over.node_ids)

    project = make_project(tmp_path)
    (project / "mine.jsonl").write_bytes(msgspec.json.encode(GivenChunk(**fields, line_start=3, line_end=12)))
    done = invoke("index", "--data-dir", project / "data", "--chunks", project / "mine.jsonl")
    assert done.exit_code == 0, done.output
    [line] = (project / "data" / "indexes").glob("*/current/chunks.jsonl")
    assert msgspec.json.decode(line.read_bytes(), type=Chunk).node_ids == over.node_ids
