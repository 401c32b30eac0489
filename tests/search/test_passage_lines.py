"""Hits that are grown: inside their sections, without overlaps, each text once, the same prefix for any k."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.commands import invoke, make_project
from support.worlds import PAGES, QUERIES, make_index

from branchrank.core.settings.fields import with_values
from branchrank.core.spec import Branch, Fuse, System
from branchrank.search.systems.builtin import builtin_systems
from branchrank.search.systems.engine import Engine

FAMILY = ("local", "pageindex", "hybrid", "grep", "qdrant", "sqlite", "late-interaction")
LONG = "\n\n".join(f"Step {number}: the boiler needs {number} liters of water." for number in range(1, 60))
MANY = {
    **PAGES,
    "long.md": f"# Boiler\n\n## Filling the boiler\n\n{LONG}\n\n## Draining the boiler\n\n{LONG}\n",
    "copy.md": "# Cleaning\n\nDescale the boiler with vinegar every month.\n",
    "latin.md": "# Caf\xe9\n\nTea is not coffee.\n\nOne line.\n\nAnother line.\n",
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("world")
    flags = {"hybrid__no_llm": True, "pageindex__no_llm": True, "grep__vector_score_threshold": 4.0}
    index, resolved = make_index(folder, MANY, index__chunk_tokens=32, **flags)
    with index, Engine(index, folder / "docs", resolved) as made:
        yield made


def grown(engine: Engine, name: str, lines: int) -> System:
    (system,) = builtin_systems((name,), engine.settings)
    return with_values(system, {"passages.lines": lines})


@pytest.mark.parametrize("name", FAMILY)
@pytest.mark.parametrize("query", ["boiler water liters", *QUERIES])
def test_a_grown_hit_is_the_lines_of_its_own_section(engine: Engine, name: str, query: str) -> None:
    hits = engine.retrieve(grown(engine, name, 9), query, 12).hits
    for hit in hits:
        chunk = engine.index.chunks[hit.id]
        section = engine.index.tree.node(chunk.node_id).own_span
        assert section is not None
        assert section.overlap(hit.span) == hit.span.lines
        raw = "\n".join(MANY[hit.source].split("\n")[hit.line_start - 1 : hit.line_end])
        assert (hit.text, hit.plain) == (raw, chunk.text if hit.span == chunk.span else raw)
        assert set(hit.matched) <= set(range(hit.line_start, hit.line_end + 1))
    assert not any(one.span.overlap(other.span) for one, other in combinations(hits, 2))
    texts = [" ".join(hit.plain.split()) for hit in hits]
    assert len(set(texts)) == len(texts)


def test_several_passages_of_one_section_are_returned(engine: Engine) -> None:
    hits = engine.retrieve(grown(engine, "local", 9), "boiler water liters", 6).hits
    assert len(hits) == 6
    assert len({hit.node_id for hit in hits}) < 6
    assert all(hit.span.lines >= 9 for hit in hits if hit.source == "long.md")


def test_duplicate_text_is_returned_once(engine: Engine) -> None:
    def times(lines: int) -> int:
        hits = engine.retrieve(grown(engine, "local", lines), "descale boiler vinegar month", 40).hits
        return sum("Descale the boiler" in hit.text for hit in hits)

    assert (times(0), times(1)) == (2, 1)


WORDS = st.lists(
    st.sampled_from(("tea", "boiler", "water", "liters", "418", "stains", "vinegar")), max_size=4
)


@pytest.mark.parametrize("name", [name for name in FAMILY if name != "qdrant"])
@settings(derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=WORDS, k=st.integers(1, 8), more=st.integers(1, 30), lines=st.sampled_from([0, 1, 7, 25]))
def test_the_top_k_is_a_prefix_of_the_top_k_plus_n(
    engine: Engine, name: str, words: list[str], k: int, more: int, lines: int
) -> None:
    system = grown(engine, name, lines)
    query = " ".join(words)
    shorter = engine.retrieve(system, query, k).hits
    longer = engine.retrieve(system, query, k + more).hits
    assert longer[:k] == shorter
    assert len(longer) <= k + more


def test_spans_of_grep_are_not_grown(engine: Engine) -> None:
    spans = System(name="spans", branches=(Branch(kind="grep", unit="span"),), fuse=Fuse(method="none"))
    plain = engine.retrieve(spans, "boiler", 50).hits
    found = engine.retrieve(with_values(spans, {"passages.lines": 40}), "boiler", 5).hits
    assert found
    assert all(any(hit.span.overlap(each.span) == hit.span.lines for each in plain) for hit in found)


def test_documents_that_changed_after_indexing_are_not_read_past_their_end(tmp_path: Path) -> None:
    index, resolved = make_index(tmp_path, MANY, index__chunk_tokens=32)
    with index, Engine(index, tmp_path / "docs", resolved) as engine:
        (tmp_path / "docs" / "long.md").unlink()
        hits = engine.retrieve(grown(engine, "local", 9), "boiler water liters", 6).hits
        assert hits
        assert not any(one.span.overlap(other.span) for one, other in combinations(hits, 2))
        for hit in hits:
            assert hit.source != "long.md" or hit.span == engine.index.chunks[hit.id].span


def test_the_flag_of_the_commands(tmp_path: Path) -> None:
    project = make_project(tmp_path)

    def spans(*flags: str) -> list[int]:
        words = ["retrieve", "--data-dir", str(project / "data"), "--json", *flags, "tea temperature"]
        hits = json.loads(invoke(*words).stdout)["hits"]
        return [hit["line_end"] - hit["line_start"] + 1 for hit in hits]

    assert max(spans("--passage-lines", "0")) == max(spans())
    assert sum(spans("--passage-lines", "9")) > sum(spans())
