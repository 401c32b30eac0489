"""``branchrank questions label`` and ``agreement``: by pipe, on a terminal and by an LLM."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands import NO_LLM, QUESTIONS, benchmark, invoke, json_lines, make_project, write_lines
from support.pseudo_terminal import Terminal
from support.scripted_llm import ScriptedLLM, say

from branchrank.core.records import Question, Span
from branchrank.questions.labels import labels_of, with_label
from branchrank.questions.question_files import load_questions
from branchrank.run import Run
from branchrank.runs.passage_pools import pooled, to_label
from branchrank.runs.rows import Row
from branchrank.scoring.matching import JudgedHit

SHOWN = re.compile(r"(?m)^\[(\d+)/(\d+)\] (\S+):(\d+)-(\d+)  (.*)$")
ASKED = ("temperature", "espresso", "api")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A project and a run of two systems over a span, a page and no gold."""
    project = make_project(tmp_path_factory.mktemp("label"))
    asked = [line for line in QUESTIONS if line["id"] in ASKED]
    questions = write_lines(project / "asked.jsonl", asked)
    words = ("--predictor", "bm25", "--predictor", "local", "--questions", questions, *NO_LLM)
    return project, benchmark(project, *words)


@pytest.fixture
def label(made: tuple[Path, Path], tmp_path: Path):
    """Labels into a file of the test's own."""
    project, run = made

    def run_it(typed: str = "", *words: object, output: str = "gold.jsonl", who: str = "ada"):
        verb = ("questions", "label", run, "--data-dir", project / "data", "--output", tmp_path / output)
        return invoke(*verb, "--annotator", who, *words, typed=typed)

    return run_it


def questions_in(path: Path) -> dict[str, dict]:
    return {line["id"]: line for line in json_lines(path)}


def shown(output: str) -> list[tuple[str, int, int]]:
    return [(source, int(start), int(end)) for _, _, source, start, end, _ in SHOWN.findall(output)]


def test_the_pool_is_every_systems_first_hits_without_gold(made: tuple[Path, Path], label) -> None:
    run = Run.load(made[1])
    for depth in (1, 3):
        wanted = set()
        for row in run.rows:
            question = next(each for each in run.asked if each.id == row.question_id)
            for hit in row.hits[:depth]:
                page = any(item.source_file == hit.source for item in question.gold)
                if hit.gold is None and not (page and question.gold_level == "file"):
                    lines = (made[0] / "docs" / hit.source).read_text().split("\n")
                    start, end = hit.line_start, hit.line_end
                    while not lines[end - 1].strip():
                        end -= 1
                    wanted.add((row.question_id, hit.source, start, end))
        done = label("q\n", "--depth", depth)
        assert done.exit_code == 0, done.output
        assert f"{len(wanted)} passages to label" in done.stderr
    everything = label("s\n" * 99, "--depth", 3).stdout
    assert sorted(shown(everything)) == sorted(place[1:] for place in wanted)
    headings = {hit.node_id.partition("#")[2] for row in run.rows for hit in row.hits if hit.node_id}
    for found in SHOWN.finditer(everything):
        source, start, end, heading = found.group(3, 4, 5, 6)
        lines = (made[0] / "docs" / source).read_text().split("\n")[int(start) - 1 : int(end)]
        printed = "".join(f"\n{place:>6}  {line}" for place, line in enumerate(lines, int(start)))
        assert everything[found.end() :].startswith(printed)
        assert heading.replace(" > ", "/").replace(" ", "-") in headings


def test_systems_and_ranks_are_hidden_and_the_seed_sets_the_order(label) -> None:
    first, again, other = (label("s\n" * 99, "--seed", seed).stdout for seed in (1, 1, 2))
    assert first == again
    assert shown(first) != shown(other)
    assert sorted(shown(first)) == sorted(shown(other))
    for word in ("bm25", "local", "rank", "score", "dense"):
        assert word not in first


def test_a_yes_becomes_gold_and_the_rest_is_recorded(made: tuple[Path, Path], label, tmp_path: Path) -> None:
    done = label("y\np\nn\n", "--depth", 2)
    assert done.exit_code == 0, done.output
    before = {each.id: each for each in Run.load(made[1]).asked}
    after = {each.id: each for each in load_questions(tmp_path / "gold.jsonl")}
    labels = [each for question in after.values() for each in labels_of(question)]
    assert sorted(each.label for each in labels) == ["no", "partly", "yes"]
    assert {(each.annotator, each.by, each.model) for each in labels} == {("ada", "person", "")}
    added = {
        (key, item.source_file, item.answer_line_start)
        for key, question in after.items()
        for item in question.gold
        if item not in before[key].gold
    }
    (yes,) = [each for each in labels if each.label == "yes"]
    assert len(added) == 1
    assert {place[1] for place in added} == {yes.source_file}
    assert all(each.gold is None for each in labels if each.label != "yes")
    checked = invoke("questions", "check", tmp_path / "gold.jsonl", "--data-dir", made[0] / "data")
    assert checked.exit_code == 0, checked.output


def test_a_yes_makes_an_unanswerable_question_answerable(label, tmp_path: Path) -> None:
    label("y\n" * 99)
    question = questions_in(tmp_path / "gold.jsonl")["espresso"]
    assert question.get("answerable", True)
    assert question["answer_digest"]


def test_a_page_as_gold_gets_pages(label, tmp_path: Path) -> None:
    done = label("y\n" * 99, "--depth", 10)
    questions = questions_in(tmp_path / "gold.jsonl")
    lost = ["gold" not in each for line in questions.values() for each in line.get("labels", [])]
    assert done.stderr.count("added no gold") == sum(lost) > 0
    question = questions["api"]
    assert question["alternates"]
    assert all(set(item) == {"source_file"} for item in question["alternates"])
    sources = [question["source_file"], *(item["source_file"] for item in question["alternates"])]
    assert len(sources) == len(set(sources))


def test_a_yes_can_include_the_answering_lines(label, tmp_path: Path) -> None:
    place = shown(label("q\n").stdout)[0]
    start = place[1]
    done = label(f"y {start + 500}\nn {start}\nwhat\ny {start}\nq\n")
    for wrong in (f"lines {start + 500}-", "'n'", "'what'"):
        assert wrong in done.stderr
    labels = [each for line in json_lines(tmp_path / "gold.jsonl") for each in line.get("labels", [])]
    assert [(each["line_start"], each["gold"]) for each in labels] == [(start, [start, start])]


def test_an_interrupted_pass_resumes_where_it_stopped(label, tmp_path: Path) -> None:
    everything = shown(label("s\n" * 99).stdout)
    assert not (tmp_path / "gold.jsonl").exists(), "nothing was labeled"
    first = label("n\ny\nq\n")
    assert f"{len(everything) - 2} passages left" in first.stdout
    rest = label("n\n" * 99)
    assert shown(rest.stdout) == everything[2:]
    assert "; 0 passages left" in rest.stdout
    assert "0 passages left" in label("").stdout
    whole = label("n\ny\n" + "n\n" * 99, output="whole.jsonl")
    assert whole.exit_code == 0
    assert (tmp_path / "whole.jsonl").read_bytes() == (tmp_path / "gold.jsonl").read_bytes()


def test_two_annotators_see_the_same_passages(label) -> None:
    """What one made gold is shown to the other, in the same file and in another."""
    ada = label("y\n" * 99)
    assert shown(label("n\n" * 99, who="bob").stdout) == shown(ada.stdout)
    assert shown(label("n\n" * 99, who="bob", output="bob.jsonl").stdout) == shown(ada.stdout)


def test_invalid_labeling_inputs_are_refused(made: tuple[Path, Path], label, tmp_path: Path) -> None:
    project, run = made
    other = [{**line, "question": "another"} for line in QUESTIONS if line["id"] == "api"]
    write_lines(tmp_path / "other.jsonl", other)
    refused = label("y\n", output="other.jsonl")
    assert (refused.exit_code, "question 'api'" in refused.output) == (3, True)
    write_lines(tmp_path / "own.jsonl", [{**other[0], "question": "HTTP API", "labels": ["mine"]}])
    assert "'api': `labels`" in label("y\n", output="own.jsonl").output
    shutil.copytree(project, tmp_path / "edited", symlinks=True)
    (tmp_path / "edited" / "docs" / "install.rst").write_text("Changed\n=======\n\nAll of it.\n")
    verb = ("questions", "label", run, "--data-dir", tmp_path / "edited" / "data", "--annotator", "ada")
    edited = invoke(*verb, "--output", tmp_path / "x.jsonl", typed="y\n")
    assert (edited.exit_code, run.name in edited.output) == (3, True)
    assert label("", "--accept-proposals").exit_code == 2
    assert label("", who=" ").exit_code == 2


def test_passages_can_be_labeled_on_a_terminal(made: tuple[Path, Path], tmp_path: Path) -> None:
    project, run = made
    file = tmp_path / "gold.jsonl"
    verb = [
        sys.executable,
        "-m",
        "branchrank.frontends.cli.main",
        "questions",
        "label",
        str(run),
        "--annotator",
        "ada",
    ]
    terminal = Terminal([*verb, "--data-dir", str(project / "data"), "--output", str(file)])
    try:
        assert terminal.read_until(lambda: b"answers it? " in terminal.output)
        terminal.send(b"y\r")
        assert terminal.read_until(lambda: terminal.output.count(b"answers it? ") == 2)
        time.sleep(0.5)  # a signal between the prompt and the wait for input is noticed with the next line
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.read_until(lambda: terminal.process.poll() is not None)
    finally:
        terminal.close()
    assert terminal.process.returncode == 130
    assert b"Traceback" not in terminal.output
    assert sum(len(labels_of(each)) for each in load_questions(file)) == 1


def test_a_killed_process_keeps_each_label_and_leaves_no_file(
    made: tuple[Path, Path], label, tmp_path: Path
) -> None:
    project, run = made
    file = tmp_path / "killed.jsonl"
    verb = [
        sys.executable,
        "-m",
        "branchrank.frontends.cli.main",
        "questions",
        "label",
        run,
        "--annotator",
        "ada",
    ]

    def answer(place: str) -> str:
        return "ynp"[sum(place.encode()) % 3] + "\n"

    places = [match[0].partition("] ")[2] for match in SHOWN.finditer(label("s\n" * 99).stdout)]
    label("".join(map(answer, places)), output="whole.jsonl")
    before = 0
    for count in (1, 2):
        words = [*verb, "--data-dir", project / "data", "--output", file]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdin is not None
        assert process.stdout is not None
        seen = (match[0].partition("] ")[2] for match in map(SHOWN.match, process.stdout) if match)
        for number, place in enumerate(seen):
            assert place == places[before + number]
            if number == count:
                break
            process.stdin.write(answer(place))
            process.stdin.flush()
        process.kill()
        process.communicate()
        before += count
        assert sum(len(labels_of(each)) for each in load_questions(file)) == before
        (tmp_path / f".killed.jsonl.{count:016x}.tmp").touch()  # as of a process killed while it writes
    label("".join(map(answer, places[before:])), output="killed.jsonl")
    assert file.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["killed.jsonl", "whole.jsonl"]


@pytest.fixture
def llm() -> Iterator[ScriptedLLM]:
    """Says yes, partly, no in turn."""
    words = ("yes", "partly", "no")
    with ScriptedLLM(lambda chat, number: say(json.dumps({"label": words[number % 3]}))) as server:
        yield server


def test_proposals_are_shown_and_only_a_person_decides(label, llm: ScriptedLLM, tmp_path: Path) -> None:
    done = label("n\n" * 99, "--base-url", llm.base_url, "--model", "tiny")
    assert done.exit_code == 0, done.output
    assert "tiny proposes: yes" in done.stdout
    labels = [each for line in json_lines(tmp_path / "gold.jsonl") for each in line.get("labels", [])]
    assert {each["label"] for each in labels} == {"no"}
    assert {each["proposed"] for each in labels} == {"yes", "partly", "no"}
    assert {each["model"] for each in labels} == {"tiny"}
    assert not any("by" in each or "gold" in each for each in labels)


def test_accepted_proposals_are_marked_and_the_report_says_so(
    made: tuple[Path, Path], label, llm: ScriptedLLM, tmp_path: Path
) -> None:
    words = ("--base-url", llm.base_url, "--model", "tiny", "--accept-proposals")
    done = label("", *words, who="tiny")
    assert done.exit_code == 0, done.output
    file = tmp_path / "gold.jsonl"
    labels = [each for line in json_lines(file) for each in line.get("labels", [])]
    assert {each["by"] for each in labels} == {"llm"}
    made_gold = sum("gold" in each for each in labels)
    assert 0 < made_gold <= sum(each["label"] == "yes" for each in labels)
    run = benchmark(made[0], "--predictor", "bm25", "--questions", file, reports=tmp_path / "reports")
    text = (run / "report.md").read_text()
    assert f"Warning: {made_gold} of" in text
    assert "an LLM (tiny)" in text
    assert invoke("verify", run).exit_code == 0
    # A person says no to all of it: the LLM's gold goes.
    assert shown(label("n\n" * 99).stdout)
    before = {each.id: each.gold for each in Run.load(made[1]).asked}
    assert {each.id: each.gold for each in load_questions(file)} == before


def test_an_llm_that_fails_ends_the_pass_and_keeps_the_labels(label, tmp_path: Path) -> None:
    def script(chat, number):
        return say('{"label": "no"}' if number == 1 else "what a question")

    with ScriptedLLM(script) as server:
        words = ("--base-url", server.base_url, "--model", "tiny", "--accept-proposals")
        done = label("", *words)
    assert done.exit_code == 7
    assert "3 calls in" in done.output
    assert sum(len(line.get("labels", [])) for line in json_lines(tmp_path / "gold.jsonl")) == 1


def test_agreement_of_two_files(label, tmp_path: Path) -> None:
    count = len(shown(label("y\n" * 99).stdout))
    label("y\n" * (count - 2) + "n\np\n", who="bob", output="bob.jsonl")
    files = (tmp_path / "gold.jsonl", tmp_path / "bob.jsonl")
    done = invoke("questions", "agreement", *files)
    assert done.exit_code == 0, done.output
    assert f"{count} passages are labeled" in done.output
    assert f"they agree on {(count - 2) / count:.0%}" in done.output
    same = invoke("questions", "agreement", files[0], files[0])
    assert not re.search(r"kappa -?\d", same.output)
    assert "they agree on 100%" in same.output
    label("n\n" * 99, who="cy")  # a second annotator in the first file
    several = invoke("questions", "agreement", *files)
    assert (several.exit_code, "ada, cy" in several.output) == (2, True)
    named = invoke("questions", "agreement", *files, "--annotator", "ada", "--annotator", "bob")
    assert named.output == done.output
    wrong = invoke("questions", "agreement", *files, "--annotator", "ad", "--annotator", "bob")
    assert "did you mean `ada`?" in wrong.output


def test_the_pool_has_the_first_hits_without_blank_lines_at_their_ends() -> None:
    lines = {"a.md": ["# A", "", "one", " ", "two", "", ""], "b.md": ["", "x"]}

    def row(question: str, *spans: tuple[str, int, int]) -> Row:
        hits = [
            JudgedHit(id="x", source=source, line_start=first, line_end=last, characters=1, score=1.0, gain=0,
                      node_id=f"{source}#{first}")
            for source, first, last in spans
        ]  # fmt: skip
        return Row(question_id=question, predictor="p", llm="none", hits=tuple(hits))

    rows = [
        row("q1", ("a.md", 2, 6), ("a.md", 6, 7), ("b.md", 1, 2)),
        row("q1", ("a.md", 3, 5)),
        row("q2", ("a.md", 2, 2), ("a.md", 1, 1)),
    ]
    inner, other = (
        Span(source="a.md", line_start=3, line_end=5),
        Span(source="b.md", line_start=2, line_end=2),
    )
    title = Span(source="a.md", line_start=1, line_end=1)
    whole = {"q1": {inner: "a.md#2", other: "b.md#1"}, "q2": {title: "a.md#1"}}
    assert pooled(rows, 3, lines) == whole
    assert pooled(rows, 2, lines) == {"q1": {inner: "a.md#2"}, "q2": {title: "a.md#1"}}
    assert pooled(rows, 1, lines) == {"q1": {inner: "a.md#2"}}


def test_of_near_copies_the_longest_is_labeled() -> None:
    lines = {"a.md": [f"line {number}" for number in range(1, 60)]}
    asked = Question(id="q", question="what", answerable=False)

    def kept(*ends: tuple[int, int]) -> list[tuple[int, int]]:
        pool = [Span(source="a.md", line_start=first, line_end=last) for first, last in ends]
        return [(each.line_start, each.line_end) for each in to_label(asked, pool, "ada", lines)]

    assert kept((1, 3), (1, 4)) == [(1, 4)], "three quarters"
    assert kept((1, 3), (1, 5)) == [(1, 3), (1, 5)]
    assert kept((21, 24), (2, 5), (1, 4)) == [(21, 24), (2, 5), (1, 4)], "neither contains the other"


def test_lines_that_overlap_gold_add_no_gold(tmp_path: Path) -> None:
    lines = {"a.md": [f"line {number}" for number in range(1, 30)]}
    question = Question(id="q", question="what", answerable=False)
    for start, label in ((1, "partly"), (5, "yes"), (7, "yes"), (20, "yes"), (21, "no")):
        span = Span(source="a.md", line_start=start, line_end=start + 4)
        question = with_label(question, span, label, lines, annotator="ada")
    assert [item.answer_line_start for item in question.gold] == [5, 20]
    assert [each.gold for each in labels_of(question)] == [None, (5, 9), None, (20, 24), None]
    span = Span(source="a.md", line_start=5, line_end=9)
    question = with_label(question, span, "no", lines, annotator="ada")
    assert [item.answer_line_start for item in question.gold] == [20], "a person may change their mind"
