"""The question browser and two runs side by side: the same answers as the report, and only listed files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.chromium import Chromium
from support.http_server import CLIENT, Running
from support.local_page import READY

from branchrank.reports.browser import browser_data
from branchrank.run import Run
from branchrank.runs.run_comparison import compare_runs
from branchrank.runs.words import milliseconds, sentence, verdict_words
from branchrank.scoring.comparison import CompareOptions


def runs_of(folder: Path) -> list[Path]:
    """The finished runs, oldest first."""
    return sorted((folder / "reports").iterdir())[:3]


def ask(server: Running, path: str, **query: Any) -> Any:
    answer = CLIENT.get(f"{server.url}/api/{path}", params=query)
    return answer.json() if answer.status_code == 200 else answer.json()["error"]


def test_a_question_has_the_answers_of_the_report(page: Running, made: Path) -> None:
    run = Run.load(runs_of(made)[2])
    about, questions = browser_data(run, with_quotes=True)
    wanted = questions[3]
    [opened] = ask(page, "question", run=run.directory.name, id=wanted[0])
    assert opened["question"][:2] == wanted[:2]
    for mine, theirs in zip(opened["question"][5], wanted[5], strict=True):
        places = [[opened["run"]["sources"][hit[0]], *hit[1:]] for hit in mine[6]]
        assert places == [[about["sources"][hit[0]], *hit[1:]] for hit in theirs[6]]
        assert mine[:5] == theirs[:5]
    assert opened["documents"] is True
    source = opened["run"]["sources"][opened["question"][4][0][0]]
    assert "kettle" in str(opened["passages"][source])


@pytest.mark.parametrize(
    "filters",
    [
        {"outcome": "hit"},
        {"predictor": "hybrid", "outcome": "in top 5"},
        {"predictor": "local", "lost": "retrieval"},
        {"lost": "fusion"},
        {"slice:kind": "lookup"},
        {"slice:kind": "howto", "slice:difficulty": "hard", "outcome": "hit"},
        {"words": "kettle 7"},
        {"outcome": "disagree"},
    ],
)
def test_filters_select_what_the_report_would(page: Running, made: Path, filters: dict[str, str]) -> None:
    run = Run.load(runs_of(made)[0])
    about, questions = browser_data(run, with_quotes=False)
    slices = {label: place for place, (label, _) in enumerate(about["slices"])}

    def passes(question: list[Any]) -> bool:
        for name, value in filters.items():
            if name.startswith("slice:") and question[2][slices[name.removeprefix("slice:")]] != value:
                return False
        if not all(word in f"{question[0]} {question[1]}" for word in filters.get("words", "").split()):
            return False
        outcomes = {about["outcomes"][row[2]] == "hit" for row in question[5]}
        if filters.get("outcome") == "disagree":
            return len(outcomes) == 2
        return any(
            filters.get("predictor") in (None, about["predictors"][row[0]])
            and filters.get("outcome") in (None, about["outcomes"][row[2]])
            and filters.get("lost") in (None, row[3])
            for row in question[5]
        )

    found = ask(page, "questions", run=run.directory.name, **filters)
    assert found["found"] == len(list(filter(passes, questions)))
    wanted = [question[0] for question in filter(passes, questions)]
    assert [question[0] for question in found["questions"]] == wanted[:20]


def test_pages_hold_all_questions_once(page: Running, made: Path) -> None:
    key = runs_of(made)[0].name
    pages = [ask(page, "questions", run=key, page=number) for number in range(2)]
    ids = [question[0] for each in pages for question in each["questions"]]
    assert len(set(ids)) == len(ids) == 32
    assert ask(page, "questions", run=key, page=99)["page"] == 1


def test_a_comparison_has_the_verdicts_of_the_command(page: Running, made: Path) -> None:
    first, second, other = runs_of(made)
    found = ask(page, "compare", run=second.name, against=first.name)
    command = compare_runs(Run.load(second), Run.load(first), CompareOptions())
    for shown, pair in zip(found["systems"], command.pairs, strict=True):
        tested, rows = pair.comparison, (pair.candidate, pair.baseline)
        assert shown["system"] == pair.candidate.predictor
        assert (shown["words"], shown["sentence"]) == (verdict_words(tested), sentence(tested))
        assert shown["p50_ms"] == [milliseconds(each.latency_p50_ms) for each in rows]
        assert (shown["won"], shown["lost"]) == (list(pair.won), list(pair.lost))
        for change, ids in (("better", pair.won), ("worse", pair.lost)):
            filters = {"change": change, "predictor": shown["system"], "against": first.name}
            listed = ask(page, "questions", run=second.name, **filters)["questions"]
            assert [question[0] for question in listed] == list(ids)
    assert found["systems"][0]["lost"]
    assert found["systems"][1]["gap"].startswith("+0.0 (")
    assert found["changes"][0].endswith(": extra")
    assert found["changes"][1:] == list(command.changes[1:])
    both = {"run": other.name, "against": first.name}
    assert "different questions" in ask(page, "compare", **both)["problem"]
    assert "different questions" in ask(page, "questions", **both, change="any")["message"]
    assert all(len(question[2]) == 2 for question in ask(page, "questions", **both)["questions"])
    assert len(ask(page, "question", **both, id="q0001")) == 2


@pytest.mark.parametrize(
    "path",
    [
        "questions?run=../data",
        "questions?run=broken",
        "question?run=.&id=q0001",
        "compare?run=%2Fetc&against=%2Fetc",
        "document?source=../data/branchrank.toml",
        "document?source=/etc/passwd",
        "document?source=",
    ],
)
def test_nothing_outside_the_lists_is_opened(page: Running, path: str) -> None:
    answer = CLIENT.get(f"{page.url}/api/{path}")
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == "refused"


def test_documents_that_changed_are_not_shown_as_those_of_the_run(
    made: Path, tmp_path: Path, page: Running
) -> None:
    key = runs_of(made)[0].name
    [opened] = ask(page, "question", run=key, id="q0001")
    assert opened["documents"] is True
    changed = made / "docs" / "page-1.md"
    before = changed.read_bytes()
    try:
        changed.write_bytes(b"# Another text\n" * 50)
        [opened] = ask(page, "question", run=key, id="q0001")
        ask(page, "document", source="page-1.md")
        [opened] = ask(page, "question", run=key, id="q0001")
        assert opened["documents"] is False
    finally:
        changed.write_bytes(before)
        ask(page, "document", source="page-1.md")
    [opened] = ask(page, "question", run=key, id="q0001")
    assert opened["documents"] is True


def test_a_reader_filters_opens_and_reloads(browser: Chromium, page: Running, made: Path) -> None:
    browser.look(1200)
    browser.visit(f"{page.url}/questions?run={runs_of(made)[0].name}")
    browser.wait(READY)
    browser.run(
        "(() => { const select = document.querySelector('[name=outcome]'); select.value = 'hit';"
        "select.dispatchEvent(new Event('input', { bubbles: true })); })()"
    )
    browser.wait("document.getElementById('count').textContent !== '32 of 32 questions'")
    count = browser.run("document.getElementById('count').textContent")
    browser.visit(browser.run("location.href"))
    browser.wait(READY)
    assert browser.run("document.getElementById('count').textContent") == count
    browser.run("document.querySelector('.question summary').focus()")
    browser.press("Enter")
    browser.wait("document.querySelector('.question .hit')")
    browser.click("document.querySelector('.hits .hit summary')")
    browser.wait("document.querySelector('.hits .passage [data-line]')")
    browser.click("document.querySelector('.hits .hit .hit summary')")
    browser.wait("document.querySelector('.document .hitline')")
    assert browser.run("document.querySelectorAll('.document mark').length") > 0
    assert browser.console == []


def test_different_systems_are_compared_on_either_side(page: Running, made: Path) -> None:
    first, second, _ = runs_of(made)
    for keys, pair in (((second, first), ("extra", "local")), ((first, first), ("hybrid", "local"))):
        query = {"run": keys[0].name, "against": keys[1].name, "system": pair[0], "other": pair[1]}
        [shown] = ask(page, "compare", **query)["systems"]
        options = CompareOptions(predictor=pair[0], baseline=pair[1])
        [wanted] = compare_runs(*map(Run.load, keys), options).pairs
        assert (shown["system"], shown["baseline"]) == pair
        assert (shown["sentence"], shown["won"]) == (sentence(wanted.comparison), list(wanted.won))
        filters = {"change": "better", "predictor": pair[0], "other": pair[1]}
        listed = ask(page, "questions", run=keys[0].name, against=keys[1].name, **filters)["questions"]
        assert [question[0] for question in listed] == list(wanted.won)
    assert "no predictor" in ask(page, "compare", **{**query, "system": "nothing"})["problem"]


def test_side_by_side_starts_with_the_last_two_runs(browser: Chromium, page: Running, made: Path) -> None:
    browser.look(1400)
    browser.visit(f"{page.url}/compare")
    browser.wait(READY)
    chosen = "[...document.querySelectorAll('.picks select')].map((each) => each.value)"
    keys = [each.name for each in runs_of(made)]
    assert browser.run(chosen) == [keys[2], keys[1], ""]
    browser.visit(f"{page.url}/compare?run={keys[1]}&against={keys[0]}&system=extra")
    browser.wait(READY)
    assert browser.run(chosen) == [keys[1], keys[0], "extra", "local"]
    assert browser.run("document.querySelector('tbody th').textContent") == "extra vs local"
    change = (
        "(select) => { select.value = '<b>bold</b>';"
        " select.dispatchEvent(new Event('change', { bubbles: true })); }"
    )
    browser.visit(f"{page.url}/compare?run={keys[2]}&against={keys[2]}")
    browser.wait(READY)
    browser.run(f"({change})(document.querySelector('[name=other]'))")
    browser.wait(f"{READY} && document.querySelector('tbody th')?.textContent.endsWith(' vs <b>bold</b>')")
    assert browser.console == []


def test_two_filters_are_shown_and_the_others_are_under_more(
    browser: Chromium, page: Running, made: Path
) -> None:
    browser.look(1400)
    visible = (
        "[...document.querySelectorAll('form.filters :is(select, input)')]"
        ".filter((each) => each.checkVisibility()).map((each) => each.name)"
    )
    for query, names in (
        ("", {"words", "outcome"}),
        ("&predictor=local", {"words", "outcome", "predictor", "lost"}),
    ):
        browser.visit(f"{page.url}/questions?run={runs_of(made)[0].name}{query}")
        browser.wait(READY)
        shown = set(browser.run(visible))
        assert names <= shown
        assert (shown == names) == (not query)


def test_without_a_run_the_questions_of_the_workspace_are_listed(
    browser: Chromium, page: Running, made: Path
) -> None:
    found = ask(page, "questions", words="Q0007 KETTLE")
    assert [each[:2] for each in found["questions"]] == [["q0007", "where does kettle 7 boil"]]
    assert found["questions"][0][2] == [[["page-7.md", 5, 8]], True]
    assert [len(ask(page, "questions", page=number)["questions"]) for number in (0, 1, 99)] == [20, 12, 12]
    browser.visit(f"{page.url}/questions?run=")
    browser.wait(READY)
    assert browser.run("document.querySelectorAll('.own-question').length") == 20
    browser.run("document.querySelector('.own-question a').click()")
    browser.wait(f"{READY} && document.querySelector('#view h2')?.textContent === 'where does kettle 0 boil'")
