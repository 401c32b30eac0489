"""The search of ``view`` and ``serve``: any predictor, marked words, and questions from hits."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.axe import violations
from support.chromium import Chromium, looks
from support.http_server import CLIENT, Running, running
from support.local_page import READY, page_of
from support.local_page import TOKEN as PAGE_TOKEN
from support.small_index import DOCUMENTS, small_workspace
from support.worlds import write_pages

from branchrank.core.io.keys import Access
from branchrank.frontends.serve.http_api import application
from branchrank.frontends.serve.service import Service, Workers
from branchrank.index.index_build import build_index
from branchrank.questions.question_files import load_questions
from branchrank.search.systems.builtin import AGENTS, BUILTIN
from branchrank.workspace import Workspace

HOSTILE = "<b>bold</b> <img src=x onerror=alert(1)>"
OWN = {"x-branchrank": "page"}
TOKEN = "correct-horse-battery"
SAID = "document.getElementById('said').textContent"


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with an index and without runs. One of its documents has a hostile name and text."""
    folder = tmp_path_factory.mktemp("searched")
    made = small_workspace(folder)
    write_pages(folder / "docs", {"<i>evil.md": f"# {HOSTILE}\n\nTeapots {HOSTILE} \x1b[31m 茶壺\n"})
    build_index(made).close()
    (folder / "reports").mkdir()
    return folder


@pytest.fixture(scope="module")
def page(searched: Path) -> Iterator[Running]:
    with page_of(searched) as started:
        yield started


@pytest.fixture(scope="module")
def served(searched: Path) -> Iterator[tuple[Service, Workers]]:
    with Workspace.open(searched / "data") as workspace:
        yield Service(workspace, ("sqlite", "bm25")), Workers(2, 8)


@pytest.fixture(scope="module")
def server(served: tuple[Service, Workers]) -> Iterator[Running]:
    with running(application(*served, Access())) as started:
        yield started


def search(at: Running, **query: str) -> Any:
    answer = CLIENT.get(f"{at.url}/api/search", params=query, headers=OWN)
    return answer.json() if answer.status_code == 200 else answer.json()["error"]["code"]


@pytest.mark.parametrize("predictor", ["", *(each for each in BUILTIN if each not in AGENTS)])
def test_every_predictor_of_the_workspace_finds_text(page: Running, searched: Path, predictor: str) -> None:
    found = search(page, query="how is a request retried", predictor=predictor)
    assert {*found["predictors"]} == {*BUILTIN} - {*AGENTS}
    assert found["refused"].keys() == AGENTS.keys(), "they need an LLM"
    assert found["predictor"] == (predictor or found["predictors"][0])
    for hit in found["hits"]:
        lines = (searched / "docs" / hit["source"]).read_text().replace("\x1b", "�").split("\n")
        assert ["".join(parts) for parts in hit["lines"]] == lines[hit["first"] - 1 : hit["last"]]
        assert hit["section"][0] <= hit["first"] <= hit["last"] <= hit["section"][1]
    assert "http/client.rst" in {hit["source"] for hit in found["hits"]}


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("retrying", {"Retrying", "max_retries"}),
        ("the requests of a server", {"request", "requests", "Requests", "server", "servers"}),
        ("ChainAdapter", {"ChainAdapter", "adapter"}),
        ("teapot 茶壺", {"Teapots", "茶壺"}),
        ("zzz", set()),
    ],
)
def test_words_of_the_query_are_marked_as_the_index_reads_them(
    page: Running, query: str, words: set[str]
) -> None:
    hits = search(page, query=query, predictor="bm25")["hits"]
    marked = {word for hit in hits for line in hit["lines"] for word in line[1::2]}
    assert marked == words


@pytest.mark.parametrize("query", ["", "  ", "the", "😀 \x00", "\u202e", '"', "a" * 10_000])
def test_any_query_is_answered(page: Running, server: Running, query: str) -> None:
    for at in (page, server):
        assert len(search(at, query=query)["hits"]) <= 10


def test_a_search_that_the_page_does_not_send_is_refused(page: Running, server: Running) -> None:
    for at in (page, server):
        assert CLIENT.get(f"{at.url}/api/search", params={"query": "a"}).status_code == 403
        assert search(at, query="a" * 10_241) == "invalid"
        assert search(at, query="a", predictor="nothing") in ("refused", "predictor")
        foreign = {**OWN, "origin": "http://evil.example"}
        assert CLIENT.get(f"{at.url}/api/search", headers=foreign).status_code == 403


def test_serve_answers_with_the_search_and_writes_nothing(server: Running) -> None:
    answer = CLIENT.get(server.url)
    assert answer.headers["content-type"].startswith("text/html")
    assert "default-src 'none'; script-src 'self'" in answer.headers["content-security-policy"]
    for path in ("labels", "edits", "label", "questions", "runs", "document", "documents"):
        for method in ("GET", "POST"):
            assert CLIENT.request(method, f"{server.url}/api/{path}", headers=OWN).status_code == 404
    assert CLIENT.post(f"{server.url}/").status_code == 405
    assert CLIENT.get(f"{server.url}/label").status_code == 404


def test_a_token_protects_the_search_but_not_the_page(served: tuple[Service, Workers]) -> None:
    with running(application(*served, Access(token=TOKEN))) as at:
        assert [CLIENT.get(at.url + path).status_code for path in ("/", "/page/search.js")] == [200, 200]
        assert search(at, query="cache") == "no_token"
        named = {**OWN, "authorization": f"Bearer {TOKEN}"}
        assert CLIENT.get(f"{at.url}/api/search", headers=named).status_code == 200
        assert CLIENT.get(at.url, headers={"host": "evil.example"}).status_code == 421


def test_a_workspace_without_an_index_has_the_command_and_is_opened_once_it_is_built(tmp_path: Path) -> None:
    made = small_workspace(tmp_path)
    with page_of(tmp_path) as at:
        answer = CLIENT.get(f"{at.url}/api/search", params={"query": "cache"}, headers=OWN)
        assert f"branchrank index --data-dir {made.data_dir}" in answer.json()["error"]["message"]
        build_index(made).close()
        assert search(at, query="cache")["hits"]


@pytest.mark.parametrize(
    ("path", "width", "dark"),
    looks("search?query=teapot&predictor=bm25", "questions", "", "label", "compare"),
)
def test_the_pages_of_a_workspace_without_runs_fit_and_are_accessible(
    browser: Chromium, page: Running, path: str, width: int, dark: bool
) -> None:
    browser.look(width, dark=dark)
    visit(browser, f"{page.url}/{path}")
    look_over(browser, width)
    assert browser.run("document.querySelector('header .button').pathname") == "/label"
    assert ("<i>evil.md" in browser.run("document.body.textContent")) == path.startswith("search")


@pytest.mark.parametrize(("path", "width", "dark"), looks(""))
def test_the_page_of_serve_searches_and_links_to_no_other_view(
    browser: Chromium, server: Running, path: str, width: int, dark: bool
) -> None:
    browser.look(width, dark=dark)
    browser.requests.clear()
    visit(browser, server.url + path)
    for key in [*"teapot", "Enter"]:
        browser.press(key)
    browser.wait(f"{READY} && document.querySelector('.match')?.textContent === 'Teapots'")
    look_over(browser, width)
    assert browser.run("document.querySelectorAll('a:not(.skip), nav').length") == 0
    assert all(url.startswith((server.url, "data:")) for url in browser.requests)


def test_the_page_of_serve_asks_for_the_token(browser: Chromium, served: tuple[Service, Workers]) -> None:
    with running(application(*served, Access(token=TOKEN))) as at:
        visit(browser, f"{at.url}/?query=cache")
        browser.run("document.querySelector('[type=password]').focus()")
        for key in [*TOKEN, "Enter"]:
            browser.press(key)
        browser.wait(f"{READY} && document.querySelectorAll('.found-list li').length > 0")
    browser.console.clear()


def visit(browser: Chromium, url: str) -> None:
    browser.visit(url)
    browser.wait(READY)


def look_over(browser: Chromium, width: int) -> None:
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run("document.querySelectorAll('b, i, img').length") == 0
    assert "\x1b" not in browser.run("document.body.textContent")
    assert browser.dialogs == browser.console == []
    assert violations(browser) == []


def test_a_hit_becomes_a_question_whose_gold_is_the_section(
    browser: Chromium, searched: Path, tmp_path: Path
) -> None:
    own = Path(shutil.copytree(searched, tmp_path / "own", symlinks=True))
    with page_of(own) as at:
        visit(browser, f"{at.url}/search?query=chainadapter&predictor=bm25#token={PAGE_TOKEN}")
        browser.click("document.querySelector('.found-list .actions a')")
        browser.wait(f"{READY} && document.querySelector('[name=text]')")
        browser.run("document.querySelector('[name=text]').focus()")
        for key in [*" for what", "Enter"]:
            browser.press(key)
        browser.wait(f"{READY} && document.querySelector('.golds mark')?.textContent === 'Pools'")
        assert browser.run(f"{SAID}.startsWith('Saved: ')")
    [added] = load_questions(own / "data" / "benchmark" / "questions.jsonl")
    [gold] = added.gold
    lines = DOCUMENTS["cache.rst"].splitlines()
    assert added.question == "chainadapter for what"
    assert lines[gold.answer_line_start - 1 : gold.answer_line_end] == lines[lines.index("Pools") :]  # type: ignore[operator]


def test_an_empty_folder_has_three_steps_that_are_done_one_after_another(
    browser: Chromium, tmp_path: Path
) -> None:
    def steps() -> list[bool]:
        return [each[2] for each in CLIENT.get(f"{at.url}/api/runs").json()["steps"]]

    with page_of(tmp_path) as at:
        for width in (1400, 400):
            browser.look(width)
            visit(browser, at.url)
            look_over(browser, width)
            shown = browser.run(
                "[...document.querySelectorAll('.steps pre')].map((each) => each.textContent)"
            )
            assert [text.split()[1] for text in shown] == ["init", "questions", "benchmark"]
        assert steps() == [False, False, False]
        made = small_workspace(tmp_path)
        assert steps() == [False, False, False]
        build_index(made).close()
        assert steps() == [True, False, False]
        made.questions_path.parent.mkdir(exist_ok=True)
        made.questions_path.write_text(json.dumps({"question": "where?", "answerable": False}) + "\n")
        assert steps() == [True, True, False]
