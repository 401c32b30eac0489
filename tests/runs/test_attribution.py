"""Which stage lost the gold."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from support.made_runs import Planned, make_questions, make_run
from support.predictors import Scripted, passage

from branchrank.core.records import (
    UNPLACED,
    AgentLog,
    GoldItem,
    Question,
    Retrieval,
    Span,
    StageTrace,
    ToolStep,
)
from branchrank.runs.attribution import (
    gold_keys,
    gold_ranks,
    lost_at,
    lost_in,
    waterfall,
)
from branchrank.runs.bench.answering import answer
from branchrank.runs.bench.places import HitPlaces
from branchrank.runs.explanation import Explanation, short_id
from branchrank.runs.rows import Row
from branchrank.scoring.matching import JudgedHit

STAGES = ("dense", "mapping", "bm25", "fusion", "cap", "rerank", "passages")


@pytest.mark.parametrize(
    ("ranks", "lost"),
    [
        ({}, "retrieval"),
        ({"dense": 3}, "mapping"),
        ({"dense": 3, "mapping": 2, "fusion": 40}, "cap"),
        ({"dense": 3, "fusion": 9, "cap": 9, "rerank": 9}, "fusion"),
        ({"dense": 3, "fusion": 2, "cap": 2, "rerank": 9}, "rerank"),
        ({"dense": 3, "fusion": 2, "cap": 2}, "rerank"),
        ({"dense": 3, "fusion": 2, "cap": 2, "rerank": 5}, "passage"),
    ],
)
def test_the_first_stage_that_explains_the_loss_is_named(ranks: dict[str, int], lost: str) -> None:
    assert lost_at(STAGES, ranks, found=False) == lost


@pytest.mark.parametrize(
    ("branches", "ranks", "lost"),
    [
        ("agent", {}, "tools"),
        ("agent", {"shown": 7}, "citation"),
        ("agent", {"shown": 7, "agent": 8, "fusion": 8}, "citation order"),
        ("agent", {"agent": 8, "fusion": 8}, "citation order"),
        ("agent bm25", {"shown": 7}, "citation"),
        ("agent bm25", {"bm25": 7, "fusion": 9}, "fusion"),
        ("agent bm25", {"shown": 1, "agent": 1, "fusion": 9}, "fusion"),
        ("agent", {"shown": 1, "agent": 1, "fusion": 1, "rerank": 9}, "rerank"),
    ],
)
def test_an_agent_loses_gold_before_the_other_stages(branches: str, ranks: dict[str, int], lost: str) -> None:
    stages = ("shown", *branches.split(), "fusion", *(["rerank"] if "rerank" in ranks else []), "passages")
    assert lost_at(stages, ranks, found=False) == lost
    unanswered = lost_at(stages, ranks, found=False, answered=False)
    assert unanswered == ("citation" if lost == "citation order" else lost)


def test_an_agent_without_a_trace_has_the_stages_of_its_tools(tmp_path: Path) -> None:
    (tmp_path / "tea.md").write_text("# Tea\n\nboil it\n\nsteep it\n")
    steps = (
        ToolStep(turn=1, tool="read_file", shown=("tea.md:1-2", "tea.md:3-3")),
        ToolStep(turn=2, tool="read_file", shown=("tea.md:1-2",)),
    )
    found = Retrieval(hits=(passage("tea.md", 1, 1),), agent=AgentLog(steps=steps))
    gold = (
        GoldItem(source_file="tea.md", answer_quote="boil it"),
        GoldItem(source_file="tea.md", answer_line_start=5, answer_line_end=5),
    )
    asked = Question(id="q", question="?", gold=gold, needs=((0,), (1,)))
    row = answer(Scripted("mine", {"q": found}), asked, 5, places=HitPlaces(tmp_path))
    assert (row.stages, row.gold_ranks, row.lost) == (("shown", "agent"), {"shown": 2}, "citation")
    assert row.unseen == (2,)
    assert [stage.keys for stage in row.trace] == [("tea.md:1-2", "tea.md:3-3"), ("tea.md:1-1",)]


def test_gold_lost_in_the_passage_order_has_its_own_label() -> None:
    """The gold is past the first hits, and the passages of all candidates were ordered: another loss
    than a wrong passage of the right section."""
    stages = ("dense", "fusion", "passage order")
    assert lost_at(stages, {"dense": 3, "fusion": 8, "passage order": 9}, found=False) == "passage order"
    assert lost_at(stages, {"dense": 3, "fusion": 2, "passage order": 9}, found=False) == "passage order"
    assert lost_at(stages, {"dense": 3, "fusion": 2, "passage order": 4}, found=False) == "passage"
    reranked = (*stages, "rerank")
    assert lost_at(reranked, {"fusion": 2, "rerank": 1, "passage order": 9}, found=False) == "passage order"
    assert lost_at(reranked, {"fusion": 2, "rerank": 7, "passage order": 9}, found=False) == "rerank"


def test_rows_of_older_runs_get_the_label_too() -> None:
    old = row(("dense", "fusion", "passage order"), dense=3, fusion=8, **{"passage order": 9})
    assert lost_in(msgspec.structs.replace(old, lost="passage")) == "passage order"
    assert lost_in(msgspec.structs.replace(old, lost="cap")) == "cap"


@pytest.mark.parametrize(
    ("rank", "words"), [(4, "passage"), (9, "passage order (rank 9; the first 5 count)")]
)
def test_an_explanation_says_how_deep_gold_was_lost(rank: int, words: str) -> None:
    stages = {"dense": 3, "fusion": 2, "passage order": rank}
    lost = lost_at(tuple(stages), stages, found=False)
    told = msgspec.structs.replace(row(tuple(stages), **stages), lost=lost)
    asked = Question(id="q", question="which tea")
    deeper = Explanation(question=asked, rows=(told,), top=1, extended={"p": 25})
    assert "hits, extended to 25 lines" in str(deeper)
    assert (
        f"p: gold not among the hits; lost at {words}\n"
        in f"{Explanation(question=asked, rows=(told,), top=1)}\n"
    )


def test_an_explanation_lists_what_each_stage_returned() -> None:
    def hit(source: str, **judged: int) -> JudgedHit:
        return JudgedHit(
            id="x", source=source, line_start=3, line_end=9, characters=1, score=0.5, gain=0, **judged
        )

    gold = (
        GoldItem(source_file="tea.md", answer_line_start=4, answer_line_end=6),
        GoldItem(source_file="b.md"),
    )
    found = msgspec.structs.replace(
        row(("dense", "fusion"), dense=2),
        repeat=1,
        trace=(StageTrace(stage="dense", unit="chunk", keys=("x", "g", "y"), scores=(2.0, 0.12345, 0.1)),),
        hits=(
            hit(UNPLACED),
            hit("b.md", page=1),
            *[hit("c.md")] * 2,
            hit("tea.md", gold=0, page=0),
            hit("d.md"),
        ),
        missing=2,
        ambiguous=1,
        altered=1,
        fallbacks=("rerank: timeout",),
    )
    failed = Row(question_id="q", predictor="other", llm="none", status="failed", error="no answer")
    asked = Question(id="q", question="which tea", gold=gold)
    assert str(Explanation(question=asked, rows=(found, failed), top=2)).splitlines() == [
        "q: which tea",
        "gold: tea.md:4-6",
        "gold: b.md",
        "",
        "p, repeat 1: gold at rank 5",
        "  dense: gold at rank 2",
        "    1. x  2",
        "    2. g  0.1235  <- gold",
        "  fusion: gold absent",
        "  hits:",
        "    1. no place  0.5",
        "    2. b.md:3-9  0.5  (its page)",
        "    3. c.md:3-9  0.5",
        "    4. c.md:3-9  0.5",
        "    5. tea.md:3-9  0.5  <- gold",
        "  2 returned texts: not in the corpus",
        "  1 returned text: in the corpus at several places",
        "  1 returned text: not the text of the lines that the predictor named",
        "  fallback: rerank: timeout",
        "",
        "other: failed: no answer",
        "  hits:",
    ]
    deep = msgspec.structs.replace(found, hits=(*found.hits[:4], hit("d.md"), found.hits[4]))
    told = str(
        Explanation(question=msgspec.structs.replace(asked, gold=(), answerable=False), rows=(deep,), top=1)
    )
    assert "gold: none, the corpus has no answer\n" in told
    assert "p, repeat 1: gold at rank 6, below the first 5\n" in told


def test_gold_can_be_lost_when_chunks_are_grouped_by_document() -> None:
    assert lost_at(("dense", "fusion", "group"), {"dense": 1, "fusion": 1}, found=False) == "group"


@pytest.mark.parametrize(("line", "found"), [(1, set()), (2, {"own"}), (3, {"own"}), (4, set())])
def test_a_quote_without_lines_is_looked_for_in_the_raw_lines_of_a_chunk(line: int, found: set[str]) -> None:
    lines = ["one", "two", "three", "four"]
    lines[line - 1] = "[boil](https://kettle.example/temperature)"
    chunk = SimpleNamespace(id="own", span=Span(source="a.md", line_start=2, line_end=3), text="boil")
    unplaced = SimpleNamespace(id="group", own_span=None, text="https://kettle.example/temperature")
    index: Any = SimpleNamespace(
        chunks=SimpleNamespace(of_sources=lambda sources: [chunk]),
        tree=SimpleNamespace(of_sources=lambda sources: [unplaced]),
    )
    gold = GoldItem(source_file="a.md", answer_quote="https://kettle.example/temperature")
    assert gold_keys(Question(id="q", question="?", gold=(gold,)), index, lambda _: lines) == found


def test_the_best_rank_of_all_gold_keys_is_used() -> None:
    def stage(name: str, *keys: str) -> StageTrace:
        return StageTrace(stage=name, unit="chunk", keys=keys, scores=(1.0,) * len(keys))

    trace = [stage("dense", "x", "g2", "g1"), stage("bm25", "x"), stage("fusion", "g1")]
    assert gold_ranks(trace, frozenset({"g1", "g2"})) == {"dense": 2, "fusion": 1}


def row(stages: tuple[str, ...], **ranks: int) -> Row:
    return Row(question_id="q", predictor="p", llm="none", stages=stages, gold_ranks=ranks)


def test_a_question_is_named_by_its_shortest_own_prefix(tmp_path: Path) -> None:
    ids = ("q-1a2b3c", "q-1a2b4d", "q-99887766", "q-9")
    questions = make_questions(4)
    asked = [msgspec.structs.replace(each, id=key) for each, key in zip(questions, ids, strict=True)]
    made = make_run(tmp_path, [Planned("local", 0.5)], asked, latency_sample=0)
    assert [short_id(made, key) for key in ids] == ["q-1a2b3", "q-1a2b4", "q-998", "q-9"]


def test_a_waterfall_gives_the_ceiling_of_each_stage() -> None:
    stages = ("dense", "fusion")
    rows = [row(stages, dense=1, fusion=6), row(stages, dense=9), row(stages), row(stages, dense=2, fusion=5)]
    assert waterfall(rows) == [("dense", 0.75, 0.5), ("fusion", 0.5, 0.25)]


def test_a_stage_of_few_rows_is_listed_in_run_order() -> None:
    rows = [row(("step 1", "tree", "fusion")), row(("step 1", "step 2", "step 3", "tree", "fusion"))]
    assert [stage for stage, _, _ in waterfall(rows)] == ["step 1", "step 2", "step 3", "tree", "fusion"]
