"""What a comparison of two runs says: each changed setting, and each figure of the right run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.made_runs import Planned, make_questions, make_run, run_of

from branchrank.core.spec import Branch, System
from branchrank.run import Run
from branchrank.runs.directory import IndexFacts, PredictorRecord, RunRecord
from branchrank.runs.rows import Row
from branchrank.runs.run_comparison import compare_runs
from branchrank.scoring.comparison import CompareOptions
from branchrank.scoring.matching import JudgedHit

QUESTIONS = make_questions(2)


def made(*names: str, changes: Mapping[str, Any] | None = None) -> Run:
    """A run in memory whose predictors find nothing, with changes to its record."""
    rows = [Row(question_id=each.id, predictor=name, llm="none") for name in names for each in QUESTIONS]
    run = run_of(rows, QUESTIONS)
    given = dict(changes or {})
    settings = run.record.settings | given.pop("settings", {})
    return replace(run, record=msgspec.structs.replace(run.record, settings=settings, **given))


def changes(candidate: Run, baseline: Run) -> list[str]:
    return list(compare_runs(candidate, baseline, CompareOptions()).changes)


def test_a_predictor_that_only_one_run_has_is_named() -> None:
    one, two, three = made("a"), made("a", "b"), made("a", "b", "c")
    assert changes(one, one) == []
    assert changes(two, one) == ["only in the candidate run: b"]
    assert changes(one, three) == ["only in the baseline run: b, c"]
    assert changes(made("a"), made("d")) == [], "two single systems are compared with each other"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ({"corpus_digest": "1"}, {"corpus_digest": "2"}, ["corpus_digest: 1 -> 2"]),
        ({"top_k": 5}, {"top_k": 10}, ["top_k: 5 -> 10"]),
        ({"mode": "both"}, {"mode": "strict"}, ["mode: both -> strict"]),
        ({"seed": 2}, {"seed": 1}, ["seed: 2 -> 1"]),
        (
            {"settings": {"fusion": {"k": 60, "y": [1, 2]}, "old": {"k": 1}}},
            {"settings": {"fusion": {"k": 10, "x": 1}, "new": {}}},
            ["fusion.k: 60 -> 10", "fusion.y: [1, 2] -> None", "fusion.x: None -> 1"],
        ),
    ],
)
def test_each_changed_setting_is_told_with_the_baselines_value_first(
    old: dict[str, Any], new: dict[str, Any], said: list[str]
) -> None:
    assert changes(made("a", changes=new), made("a", changes=old)) == said


def facts(name: str, digest: str) -> IndexFacts:
    return IndexFacts(
        name=name,
        generation="1",
        digest=digest,
        embedder="e",
        model_revision="",
        dimension=2,
        vector_store="exact",
        chunks=1,
        nodes=1,
        build_seconds=1.0,
        bytes=1,
    )


def test_an_index_of_both_runs_that_was_built_again_is_named() -> None:
    old = made("a", changes={"indexes": (facts("main", "1"), facts("same", "1"))})
    new = made("a", changes={"indexes": (facts("main", "2"), facts("same", "1"), facts("new", "1"))})
    assert changes(new, old) == ["index main: another build"]


def test_a_changed_part_of_a_system_is_named_with_its_place_from_one() -> None:
    def of(*branches: Branch) -> Run:
        record = PredictorRecord(name="my-own", llm="none", system=System(name="my-own", branches=branches))
        return made("my-own", changes={"predictors": (record,)})

    bm25 = Branch(kind="bm25", options={"words": ["a", "b"]})
    far, near = Branch(kind="dense", threshold=0.2), Branch(kind="dense", threshold=0.1)
    old = of(bm25, near)
    assert changes(of(bm25, far), old) == ["my-own.branches.2.threshold: 0.1 -> 0.2"]
    shorter = of(msgspec.structs.replace(bm25, options={"words": ["a"]}), near)
    assert changes(shorter, old) == ["my-own.branches.1.options.words.2: b -> None"]
    gone, back = changes(of(bm25), old), changes(old, of(bm25))
    assert "my-own.branches.2.kind: dense -> None" in gone
    assert "my-own.branches.2.kind: None -> dense" in back
    named = made(
        "my-own", changes={"predictors": of(bm25).record.predictors, "settings": {"my_own": {"x": 1}}}
    )
    assert changes(named, old) == [], "its own section of settings tells it"


def test_each_figure_is_of_the_right_predictor_of_the_right_run() -> None:
    def run(name: str, *ranks: int) -> Run:
        """The gold of a question is at its rank among five hits of two lines; a rank of 0 has no hits."""

        def hit(rank: int, place: int) -> JudgedHit:
            gold = 0 if rank == place else None
            return JudgedHit(
                id=str(place),
                source="page-0.md",
                line_start=10 * place,
                line_end=10 * place + 1,
                characters=9,
                score=1.0,
                gain=2 if gold == 0 else 0,
                gold=gold,
                page=gold,
            )

        rows = [
            Row(
                question_id=each.id,
                predictor=name,
                llm="none",
                hits=tuple(hit(rank, place) for place in range(1, 6) if rank),
            )
            for each, rank in zip(QUESTIONS, ranks, strict=True)
        ]
        return run_of(rows, QUESTIONS)

    first, second = run("first", 3, 3), run("second", 1, 3)
    compared = compare_runs(second, first, CompareOptions(measures=("relaxed_hit@1", "MRR@5")))
    [pair] = compared.pairs
    found = {each.measure: (each.baseline, each.candidate) for each in pair.others}
    assert found == {"relaxed_hit@1": (0, 0.5), "MRR@5": (pytest.approx(1 / 3), pytest.approx(2 / 3))}
    assert (pair.won, pair.lost) == (("q0000",), ())
    assert (compared.questions, pair.comparison.n) == (2, 2)
    text = str(compared)
    assert "lines per hit: 2.0 -> 2.0" in text
    assert "won (1): q0000\nlost (0): none" in text
    nothing = str(compare_runs(run("none", 0, 0), first, CompareOptions()))
    assert "lines per hit: 2.0 -> 0.0" in nothing
    assert "won (0): none\nlost (0): none" in nothing


def test_a_cut_comparison_says_its_conditions_and_number_of_questions(tmp_path: Path) -> None:
    runs = [
        make_run(tmp_path / str(share), (Planned("local", share),), latency_sample=0) for share in (0.3, 0.9)
    ]
    old, new = (run.where("kind=lookup", "difficulty=hard") for run in runs)
    assert "only kind=lookup and difficulty=hard: 10 questions" in str(new.compare_with(old))
    assert "only " not in str(runs[1].compare_with(runs[0])).splitlines()[2]


@pytest.mark.parametrize(
    ("name", "allowed", "refused"),
    [("top_k", 1, 0), ("top_k", 100_000, 100_001), ("seed", 0, -1), ("recall", 0, -0.1), ("recall", 1, 1.1)],
)
def test_a_number_of_a_record_has_its_limits(name: str, allowed: float, refused: float) -> None:
    index = facts("main", "1")
    record = msgspec.structs.replace(made("a").record, indexes=(index,))
    of, kind = (index, IndexFacts) if name == "recall" else (record, RunRecord)
    values = msgspec.to_builtins(of)
    msgspec.convert(values | {name: allowed}, kind)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(values | {name: refused}, kind)
