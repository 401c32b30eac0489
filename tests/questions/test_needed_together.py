"""``needs``: evidence that is needed together, from the question file to the report."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.commands import benchmark, invoke, json_lines, make_project, table, write_lines

from branchrank.core.errors import QuestionError, UsageError
from branchrank.core.records import GoldItem, Question
from branchrank.documents.loading import corpus_lines
from branchrank.questions.labels import reanchor_with_labels, with_label
from branchrank.questions.question_checks import sources_of
from branchrank.questions.question_files import hashed, load_questions, question_line, without_absent
from branchrank.reports.browser import browser_data
from branchrank.run import Run


def at(source: str, first: int, last: int, **more: object) -> dict[str, Any]:
    return {"source_file": source, "answer_line_start": first, "answer_line_end": last, **more}


TEA, TEN = at("guide/brewing.md", 7, 8), at("install.rst", 9, 9)
MEMORY, STAINS = at("index.rst", 4, 4), at("guide/cleaning.md", 7, 7)
#: Gold that only ``needs`` lists; and gold beside it, of which one item is in a group.
ALONE = {"id": "alone", "question": "tea and memory", "needs": [[TEA], [TEN, MEMORY]]}
BESIDE = {
    "id": "beside",
    "question": "which temperature for green tea, and remove stains",
    **TEN,
    "alternates": [TEA],
    "needs": [[TEA], [STAINS, MEMORY]],
}
LINES = [ALONE, BESIDE, {"id": "usual", "question": "remove stains", **STAINS}]


def loaded(folder: Path, *lines: dict[str, Any]) -> list[Question]:
    return load_questions(write_lines(folder / "q.jsonl", list(lines)))


def places(question: Question) -> list[tuple[str, int | None]]:
    return [(item.source_file, item.answer_line_start) for item in question.gold]


def digestless(value: Any) -> Any:
    """A line without what ``reanchor`` and ``add`` write beside it."""
    return json.loads(
        json.dumps(value), object_hook=lambda item: {k: v for k, v in item.items() if k != "answer_digest"}
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("together"))


@pytest.fixture(scope="module")
def made(project: Path) -> Path:
    questions = write_lines(project / "together.jsonl", LINES)
    words = ("--predictor", "bm25", "--predictor", "dense", "--questions", questions)
    measures = ("--measure", "All@5", "--measure", "relaxed_All@1", "--measure", "R@5")
    return benchmark(project, *words, *measures)


def test_the_gold_is_the_union_of_all_fields_and_the_line_stays_the_same(tmp_path: Path) -> None:
    alone, beside, usual = questions = loaded(tmp_path, *LINES)
    assert places(alone) == [("guide/brewing.md", 7), ("install.rst", 9), ("index.rst", 4)]
    assert alone.needs == ((0,), (1, 2))
    assert places(beside) == [
        ("install.rst", 9),
        ("guide/brewing.md", 7),
        ("guide/cleaning.md", 7),
        ("index.rst", 4),
    ]
    assert beside.needs == ((1,), (2, 3))
    assert usual.needs == ()
    assert [question_line(each) for each in questions] == LINES
    assert sources_of(alone) == {"guide/brewing.md", "install.rst", "index.rst"}
    assert hashed(beside).needs == beside.needs


@pytest.mark.parametrize(
    "wrong",
    [
        {"needs": [[]]},
        {"needs": []},
        {"needs": [TEA]},
        {"needs": [[{"source_file": "a.md"}]]},
        {"needs": [[at("a.md", 9, 3)]]},
        {"needs": [[TEA]], "answerable": False},
        {
            "needs": [[TEA]],
            "excluded_spans": [{"source_file": "guide/brewing.md", "line_start": 1, "line_end": 7}],
        },
        {"need": [[TEA]], **TEA},
    ],
)
def test_wrong_needs_are_an_error_that_names_the_line(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(QuestionError) as caught:
        loaded(tmp_path, {"question": "?", **wrong})
    assert "q.jsonl:1: " in caught.value.message


def test_gold_that_goes_leaves_its_group(tmp_path: Path) -> None:
    alone, beside, _ = loaded(tmp_path, *LINES)
    first, *others = beside.gold
    assert question_line(beside.with_gold(others)) == {
        "id": "beside", "question": beside.question, **TEA, "needs": BESIDE["needs"]
    }  # fmt: skip
    new = GoldItem(source_file="new.md", answer_line_start=1, answer_line_end=2)
    added = question_line(alone.with_gold((*alone.gold[1:], new)))
    assert added == {
        "id": "alone",
        "question": "tea and memory",
        **at("new.md", 1, 2),
        "needs": [[TEN, MEMORY]],
    }
    assert beside.with_gold([first]).needs == ()
    whole = {
        "id": "w",
        "question": "?",
        "gold_level": "file",
        "needs": [[{"source_file": name}] for name in "ab"],
    }
    (asked,) = loaded(tmp_path, {**whole, "absent_gold": ["a"]})
    (present,), _ = without_absent([asked], {"b"})
    assert (places(present), present.needs) == ([("b", None)], ((0,),))


def test_check_and_split_and_reanchor_keep_needs(project: Path, tmp_path: Path) -> None:
    data = ("--data-dir", project / "data")
    questions = write_lines(tmp_path / "q.jsonl", LINES)
    assert invoke("questions", "check", questions, *data).exit_code == 0
    wrong = write_lines(tmp_path / "wrong.jsonl", [{**ALONE, "needs": [[TEA], [at("index.rst", 900, 901)]]}])
    checked = invoke("questions", "check", wrong, *data)
    assert checked.exit_code == QuestionError.exit_code
    assert "900-901" in checked.output
    assert invoke("questions", "reanchor", questions, *data).exit_code == 0
    written = json_lines(questions)
    assert [digestless(line) for line in written] == LINES
    assert all(item["answer_digest"] for line in written[:2] for group in line["needs"] for item in group)
    lines = corpus_lines(project / "docs")
    lines["index.rst"] = ["Added", "=====", "", *lines["index.rst"]]
    before = load_questions(questions)
    after = reanchor_with_labels(before, lines)
    assert [each.needs for each in after.questions] == [each.needs for each in before]
    assert question_line(after.questions[0])["needs"][1][1]["answer_line_start"] == 7
    page = {"id": "page", "question": "HTTP API", "source_file": "reference/api.md", "gold_level": "file"}
    split = invoke("questions", "split", write_lines(tmp_path / "q.jsonl", [*LINES, page]))
    assert split.exit_code == 0, split.output
    parts = [line for part in ("tuning", "test") for line in json_lines(tmp_path / f"q-{part}.jsonl")]
    assert sorted(parts, key=lambda line: line["id"]) == [*LINES[:2], page, LINES[2]]


def test_a_label_adds_gold_beside_needs(project: Path, tmp_path: Path) -> None:
    (alone, *_) = loaded(tmp_path, *LINES)
    lines = {"guide/cleaning.md": (project / "docs/guide/cleaning.md").read_text().split("\n")}
    span = GoldItem(**STAINS).span
    assert span is not None
    yes = with_label(alone, span, "yes", lines, annotator="ada")
    line = digestless(question_line(yes))
    assert {name: line[name] for name in STAINS} == STAINS
    assert line["needs"] == ALONE["needs"]
    no = with_label(yes, span, "no", lines, annotator="ada")
    assert digestless(question_line(no))["needs"] == ALONE["needs"]
    assert "source_file" not in question_line(no)


def test_add_writes_needs(project: Path, tmp_path: Path) -> None:
    def add(*words: object):
        where = (tmp_path / "q.jsonl", "--data-dir", project / "data", "--quiet")
        return invoke("questions", "add", *where, "--question", "tea and memory", *words)

    needs = ("--need", "guide/brewing.md:7-8", "--need", "install.rst:9,index.rst:4-4")
    done = add(*needs, "--id", "alone")
    assert done.exit_code == 0, done.output
    assert add("--source", "install.rst", "--lines", "9", *needs[:2], "--id", "beside").exit_code == 0
    alone, beside = map(digestless, json_lines(tmp_path / "q.jsonl"))
    assert alone == ALONE
    assert (beside["source_file"], beside["needs"]) == ("install.rst", [[TEA]])
    for wrong in ("guide/brewing.md", ":7-8", "guide/brewing.md:x", "a.md:5,"):
        assert add("--need", wrong).exit_code == UsageError.exit_code
    assert add(*needs, "--unanswerable").exit_code == UsageError.exit_code


def test_a_run_has_all_at_k_and_its_files_keep_needs(made: Path) -> None:
    run = Run.load(made)
    assert [each.needs for each in run.asked] == [((0,), (1, 2)), ((1,), (2, 3)), ()]
    for row in run.rows:
        question = run.scores.questions[row.question_id]
        found = {item for hit in row.hits[:5] for item in hit.credits}
        groups = question.needs or (tuple(range(len(question.gold))),)
        line = next(
            each
            for each in table(made / "questions.csv")
            if (each["question_id"], each["predictor"]) == (row.question_id, row.predictor)
        )
        assert float(line["All@5"]) == all(found & set(group) for group in groups)
        alone = [
            (item,)
            for item in range(len(question.gold))
            if not any(item in group for group in question.needs)
        ]
        items = [*question.needs, *alone]
        assert float(line["R@5"]) == pytest.approx(
            sum(bool(found & set(each)) for each in items) / len(items)
        )
    assert {float(line["All@5"]) for line in table(made / "questions.csv")} == {0.0, 1.0}
    assert invoke("verify", made).exit_code == 0
    assert "2 that need several passages together" in (made / "report.md").read_text()
    _, questions = browser_data(run, with_quotes=False)
    assert [[item[4:] for item in question[4]] for question in questions] == [
        [["1"], ["2"], ["2"]], [[""], ["1"], ["2"], ["2"]], [[]]
    ]  # fmt: skip
    assert "gold: index.rst:4-4 (need 2)" in invoke("explain", made, "alone").output


def test_exports_judge_every_item(made: Path, tmp_path: Path) -> None:
    assert invoke("export-trec", made, "--output", tmp_path).exit_code == 0
    qrels = [line.split() for line in (tmp_path / "qrels.txt").read_text().splitlines()]
    assert [document for key, _, document, gain in qrels if (key, gain) == ("alone", "2")] == [
        "gold-1",
        "gold-2",
        "gold-3",
    ]
    documents = tmp_path / "documents"
    assert invoke("export-trec", made, "--output", documents, "--ids", "document").exit_code == 0
    assert sum(line.startswith("alone ") for line in (documents / "qrels.txt").read_text().splitlines()) == 3


def test_power_reads_all_at_k_from_a_run(made: Path) -> None:
    assert invoke("power", "--run", made, "--measure", "All@5").exit_code == 0
    assert invoke("power", "--run", made, "--measure", "R@5").exit_code == UsageError.exit_code


def test_runs_with_different_needs_are_not_compared(made: Path, project: Path, tmp_path: Path) -> None:
    other = write_lines(tmp_path / "q.jsonl", [{**ALONE, "needs": [[TEA, TEN, MEMORY]]}, *LINES[1:]])
    run = benchmark(project, "--predictor", "bm25", "--questions", other, reports=tmp_path / "reports")
    result = invoke("compare", run, made, "--predictor", "bm25")
    assert result.exit_code != 0
    assert "alone" in result.output


def test_credits_that_the_lines_do_not_show_are_found(made: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(made, run)
    rows = [msgspec.json.decode(line) for line in (run / "rows.jsonl").read_bytes().splitlines()]
    hit = next(
        hit
        for row in rows
        for hit in row["hits"]
        if row["question_id"] == "alone" and hit["gold"] is not None
    )
    hit["also_gold"] = sorted({0, 1, 2} - {hit["gold"]})
    (run / "rows.jsonl").write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    assert "also_gold is" in invoke("verify", run).output
    hit["also_gold"] = [7]
    (run / "rows.jsonl").write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    assert invoke("show", run).exit_code != 0
