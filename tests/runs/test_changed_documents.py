"""Runs over two states of the documents: which gold is followed, set apart or gone, and how runs compare."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import msgspec
import pytest
from support.commands import invoke, json_lines, write_lines

from branchrank import Run
from branchrank.core.errors import RunError
from branchrank.questions.anchoring import lines_digest
from branchrank.runs.question_changes import common_questions

NAMES = ("amber", "birch", "cedar", "dune", "ember", "fjord", "grove", "heath", "inlet", "jetty")


def text(name: str) -> str:
    return f"The {name} setting is read at start."


def page(*names: str) -> list[str]:
    return ["# Settings", *(line for name in names for line in ("", f"## About {name}", "", text(name)))]


def gold(name: str, source: str, line: int, *, digest: bool = True, **more: object) -> dict[str, object]:
    item = {"source_file": source, "answer_line_start": line, "answer_line_end": line, **more}
    return {**item, "answer_digest": lines_digest([text(name)])} if digest else item


#: For each question: its gold, and its kind in the comparison after the change.
QUESTIONS: dict[str, tuple[dict[str, object], str]] = {
    "moved": (gold("amber", "a.md", 5), "same"),
    "moved by its quote": (gold("birch", "a.md", 9, digest=False, answer_quote="birch setting is"), "same"),
    "moved to another page": (gold("cedar", "a.md", 13), "same"),
    "in a page that was renamed": (gold("dune", "b.md", 5), "same"),
    "its lines say something else": (gold("amber", "a.md", 5, digest=False), "gold changed"),
    "rewritten": (gold("ember", "c.md", 5), "gold changed"),
    "rewritten around its quote": (gold("ember", "c.md", 5, answer_quote="ember setting"), "gold changed"),
    "one of two passages is gone": (
        gold("heath", "e.md", 5, alternates=[gold("fjord", "d.md", 5)]),
        "gold changed",
    ),
    "gone": (gold("fjord", "d.md", 5), "gold gone"),
    "a page that was edited": ({"source_file": "c.md", "gold_level": "file"}, "same"),
    "a page that is gone": ({"source_file": "d.md", "gold_level": "file"}, "gold gone"),
    "a page that was renamed": ({"source_file": "b.md", "gold_level": "file"}, "gold gone"),
    "a page with another name for it": (
        {"source_file": "b.md", "gold_level": "file", "source_aliases": ["f.md"]},
        "same",
    ),
    "a page that is new": ({"source_file": "f.md", "gold_level": "file"}, "gold new"),
    "without an answer": ({"answerable": False}, "same"),
}
BEFORE = {
    "a.md": page("amber", "birch", "cedar"),
    "b.md": page("dune"),
    "c.md": page("ember"),
    "d.md": page("fjord", "grove"),
    "e.md": page("heath"),
}
AFTER = {
    "a.md": ["# Settings", *(["", "A line about nothing."] * 5), *page("amber", "birch")[1:]],
    "c.md": [*page("ember")[:-1], "The ember setting is ignored.", "", *page("cedar")[1:]],
    "e.md": page("heath"),
    "f.md": page("dune"),
}


def write(folder: Path, pages: dict[str, list[str]]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, lines in pages.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


RUN = ("benchmark", "--predictor", "bm25", "--questions", "questions.jsonl", "--latency-sample", 0, "--quiet")


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """A run before the change and one after it, also without the questions' text."""
    folder = tmp_path_factory.mktemp("states")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write(folder / "docs", BEFORE)
        lines = [{"id": key, "question": f"what of {key}", **item} for key, (item, _) in QUESTIONS.items()]
        write_lines(folder / "questions.jsonl", lines)
        assert invoke("index", "docs", "--embedder", "none", "--quiet").exit_code == 0
        for state, pages in (("before", BEFORE), ("after", AFTER)):
            write(folder / "docs", pages)
            for text_of in ("keep", "hash"):
                words = (*RUN, "--reanchor", "--question-text", text_of, "--reports", f"{state}-{text_of}")
                result = invoke(*words)
                assert result.exit_code == 0, result.output
                assert "--predictor local" in result.output  # a second system, not the only one
        refused = invoke(*RUN, "--reports", "refused")
        assert refused.exit_code == 3
        assert "--reanchor" in refused.output
        assert json_lines(folder / "questions.jsonl") == lines
    return {path.parent.name: Run.load(path) for path in folder.glob("*-*/2*")}


@pytest.mark.parametrize("key", QUESTIONS)
@pytest.mark.parametrize("kept", ["keep", "hash"])
def test_questions_of_two_states_are_matched_by_the_text_of_their_gold(
    states: dict[str, Run], kept: str, key: str
) -> None:
    found = common_questions(states[f"after-{kept}"], states[f"before-{kept}"])
    assert found.apart.get(key, "same") == QUESTIONS[key][1]
    assert (key in found.same) == (QUESTIONS[key][1] == "same")


def test_the_rates_leave_out_questions_whose_gold_changed_and_the_run_names_them(
    states: dict[str, Run],
) -> None:
    after = states["after-keep"]
    apart = {each.id: each.gold_state for each in after.asked if each.gold_state}
    assert set(apart) == {
        *(key for key, (_, kind) in QUESTIONS.items() if kind == "gold gone"),
        "rewritten",
        "rewritten around its quote",
        "one of two passages is gone",
    }
    assert not apart.keys() & set(after.scores.answerable)
    assert all(any(key in warning for warning in after.record.warnings) for key in apart)
    assert [
        warning for warning in after.record.warnings if "without a digest" in warning and ": 1;" in warning
    ]
    outcomes = after.questions.set_index("question_id")["outcome"]
    assert {key: outcomes[key] for key in apart} == {key: f"gold {state}" for key, state in apart.items()}
    assert outcomes["without an answer"] == "unanswerable"


def test_runs_with_and_without_text_compare_and_the_text_stays_out(states: dict[str, Run]) -> None:
    mixed = states["after-hash"].compare_with(states["before-keep"])
    [pair] = mixed.pairs
    assert pair.comparison.n == sum(kind == "same" for _, kind in QUESTIONS.values()) - 1
    assert {each.question for each in pair.questions} == {""}


def test_questions_whose_gold_changed_are_compared_by_page(states: dict[str, Run]) -> None:
    [pair] = states["after-keep"].compare_with(states["before-keep"]).pairs
    [change] = [each for each in pair.by_gold if each.gold == "changed"]
    assert change.measure == "relaxed_hit@1"
    assert change.difference.n == len(pair.ids("gold changed")) == 4


def test_a_run_is_verified_and_resumed_with_its_own_gold(states: dict[str, Run], tmp_path: Path) -> None:
    run = states["after-keep"]
    folder = tmp_path / "reports" / run.directory.name
    shutil.copytree(run.directory, folder)
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**record, "status": "running"}))
    rows = (folder / "rows.jsonl").read_text().splitlines(keepends=True)
    (folder / "rows.jsonl").write_text("".join(rows[:4]))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(run.directory.parents[1])
        for each in (run, states["after-hash"]):
            assert each.verify().findings == ()
        assert run.verify(rerun=len(QUESTIONS)).findings == ()
        result = invoke("resume", folder, "--quiet", "--trust")
    assert result.exit_code == 0, result.output
    assert Run.load(folder).asked == run.asked
    assert (folder / "questions.csv").read_text() == (run.directory / "questions.csv").read_text()


def test_runs_without_digests_of_the_gold_are_compared_line_by_line(states: dict[str, Run]) -> None:
    def older(run: Run) -> Run:
        facts = tuple(msgspec.structs.replace(each, digest="") for each in run.gold_facts)
        return dataclasses.replace(run, gold_facts=facts)

    before, after = states["before-keep"], states["after-keep"]
    assert before.compare_with(older(before)).questions == len(QUESTIONS) - 1
    with pytest.raises(RunError, match="moved"):
        after.compare_with(older(before))
