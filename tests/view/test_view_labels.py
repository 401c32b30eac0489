"""Labels on the page: written at once, kept through a reload and a kill, refused where something changed."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from support.axe import violations
from support.chromium import Chromium
from support.commands import invoke
from support.http_server import CLIENT, Running
from support.local_page import READY, TOKEN, page_of

from branchrank.core.records import Question
from branchrank.questions.labels import labels_of
from branchrank.questions.question_files import (
    content_digest,
    hashed,
    load_questions,
    write_questions,
)


@pytest.fixture
def own(made: Path, tmp_path: Path) -> Path:
    """A copy of the runs and the workspace that a test may change."""
    return Path(shutil.copytree(made, tmp_path / "own"))


@pytest.fixture
def desk(own: Path) -> Iterator[Running]:
    with page_of(own) as started:
        yield started


def key_of(folder: Path) -> str:
    return sorted((folder / "reports").iterdir())[0].name


def state(server: Running, folder: Path, question: str = "") -> Any:
    query = {"run": key_of(folder), "question": question}
    return CLIENT.get(f"{server.url}/api/label", params=query).json()


def body_of(shown: Any, folder: Path, label: str = "yes", passage: int = 0, **more: Any) -> dict[str, Any]:
    chosen = shown["passages"][passage]
    places = {name: chosen[name] for name in ("source", "first", "last", "document")}
    given = {"run": key_of(folder), "question": shown["id"], "version": shown["version"], "label": label}
    return {**given, **places, **more}


def give(server: Running, body: dict[str, Any], **headers: str | None) -> httpx2.Response:
    sent = {"origin": server.url, "authorization": f"Bearer {TOKEN}", **headers}
    kept = {name.replace("_", "-"): value for name, value in sent.items() if value is not None}
    return CLIENT.post(f"{server.url}/api/labels", json=body, headers=kept)


def stored(folder: Path, question: str) -> Question:
    found = load_questions(folder / "data" / "questions.jsonl")
    return next(each for each in found if each.id == question)


def test_a_label_is_appended_at_once_and_nothing_else_changes(desk: Running, own: Path) -> None:
    path = own / "data" / "questions.jsonl"
    before = path.read_bytes().splitlines()
    shown = state(desk, own)
    answer = give(desk, body_of(shown, own, "partly"))
    assert answer.status_code == 200
    [label] = labels_of(stored(own, shown["id"]))
    assert (label.label, label.annotator, label.by) == ("partly", "ada", "person")
    after = path.read_bytes().splitlines()
    assert [a == b for a, b in zip(before, after, strict=True)].count(False) == 1
    assert answer.json()["passages"][0]["label"] == "partly"
    assert state(desk, own, shown["id"])["passages"] == answer.json()["passages"], "a reload keeps it"
    assert not list(path.parent.glob("*.tmp"))


def test_of_labels_sent_at_once_from_two_windows_one_is_refused(desk: Running, own: Path) -> None:
    shown = state(desk, own)
    with ThreadPoolExecutor(8) as windows:
        bodies = [body_of(shown, own, label) for label in ("yes", "partly", "no") * 4]
        codes = [answer.status_code for answer in windows.map(lambda body: give(desk, body), bodies)]
    assert sorted(codes) == [200, *[409] * 11]
    assert len(labels_of(stored(own, shown["id"]))) == 1


def test_a_run_with_digests_of_its_questions_is_labeled(desk: Running, own: Path) -> None:
    directory, shown = own / "reports" / key_of(own), state(desk, own)
    write_questions(directory / "questions.jsonl", map(hashed, load_questions(directory / "questions.jsonl")))
    assert state(desk, own) == shown


def places(shown: Any) -> list[tuple[str, int, int]]:
    return [(each["label"], each["first"], each["last"]) for each in shown["passages"]]


def asked_by_the_command(folder: Path) -> list[str]:
    """The lines of page-1.md that ``questions label`` shows to the same annotator."""
    file, data = folder / "data" / "questions.jsonl", folder / "data"
    words = ("--annotator", "ada", "--output", file, "--data-dir", data)
    done = invoke("questions", "label", folder / "reports" / key_of(folder), *words, typed="s\n" * 99)
    assert done.exit_code == 0, done.output
    return re.findall(r"\] page-1\.md:(\d+-\d+)", done.output)


def test_lines_that_overlap_gold_add_none_and_the_gold_is_named(desk: Running, own: Path) -> None:
    shown = state(desk, own, "q0001")
    assert (places(shown), shown["gold"]) == ([("", 35, 37)], [["page-1.md", 5, 8]])
    for label, lines, answer, overlaps in (
        ("yes", (35, 37), [35, 36], []),
        ("yes", (36, 38), None, [[["page-1.md", 35, 36], ["page-1.md", 35, 37]]]),
        ("no", (36, 38), None, []),
        ("yes", (7, 9), None, [[["page-1.md", 5, 8], None]]),
    ):
        more = {"first": lines[0], "last": lines[1], "answer": answer}
        shown = give(desk, body_of(shown, own, label, **more)).json()
        [card] = [each for each in shown["passages"] if (each["first"], each["last"]) == lines]
        assert (card["label"], card["answer"], card["overlaps"]) == (label, answer, overlaps)
    assert shown["gold"] == [["page-1.md", 5, 8], ["page-1.md", 35, 36]]


def test_passages_that_overlap_gold_are_shown_by_neither_page_nor_command(desk: Running, own: Path) -> None:
    shown = state(desk, own, "q0001")
    assert asked_by_the_command(own) == ["35-37"]
    shown = give(desk, body_of(shown, own, first=36, last=38)).json()
    assert places(shown) == [("yes", 36, 38)], "only the gold's own card"
    assert asked_by_the_command(own) == []
    shown = give(desk, body_of(shown, own, "no")).json()
    assert places(shown) == [("", 35, 37), ("no", 36, 38)]
    assert asked_by_the_command(own) == ["35-37"]


@pytest.mark.parametrize(("last", "same"), [(38, True), (39, False)])
def test_near_copies_are_asked_once(own: Path, last: int, same: bool) -> None:
    rows = own / "reports" / key_of(own) / "rows.jsonl"
    with page_of(own) as desk:
        before = state(desk, own, "q0001")
        found = rows.read_text().splitlines(keepends=True)
        longer = [line.replace('"line_end":37', f'"line_end":{last}') for line in found if '"hybrid"' in line]
        rows.write_text("".join([*(line for line in found if '"hybrid"' not in line), *longer]))
        shown = state(desk, own, "q0001")
        assert sorted(places(shown)) == [("", 35, 37), ("", 35, last)][same:]
        assert sorted(asked_by_the_command(own)) == ["35-37", f"35-{last}"][same:]
        after = give(desk, body_of(before, own, "partly")).json()
        assert sorted(places(after)) == [("", 35, last), ("partly", 35, 37)][same:], "the label still counts"
        assert asked_by_the_command(own) == [f"35-{last}"][same:]


def test_a_document_that_changed_is_refused(desk: Running, own: Path) -> None:
    shown = state(desk, own)
    before = (own / "data" / "questions.jsonl").read_bytes()
    assert give(desk, body_of(shown, own, document="0" * 64)).json()["error"]["code"] == "changed"
    (own / "docs" / shown["passages"][0]["source"]).write_text("# Other\n" * 60)
    assert give(desk, body_of(shown, own)).status_code in (409, 422)
    assert (own / "data" / "questions.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"authorization": None}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": TOKEN}, 401),
        ({"origin": None}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"host": "evil.example"}, 421),
        ({"content_type": "text/plain"}, 415),
    ],
)
def test_only_the_page_of_this_start_may_write(
    page: Running, made: Path, headers: dict[str, str | None], status: int
) -> None:
    before = (made / "data" / "questions.jsonl").read_bytes()
    answer = give(page, body_of(state(page, made), made), **headers)
    assert answer.status_code == status
    assert (made / "data" / "questions.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    "wrong",
    [
        {"label": "maybe"},
        {"first": 0},
        {"first": 30, "last": 20},
        {"last": 10_000},
        {"answer": [9, 5]},
        {"source": "../data/questions.jsonl"},
        {"source": "/etc/passwd"},
        {"question": "no such question"},
        {"question": "", "text": " "},
        {"question": "", "text": "new", "label": "no"},
        {"question": "", "text": " where does kettle 3 boil"},
        {"question": "", "text": "new", "first": 2, "last": 2},
        {"run": "../data"},
        {"path": "/tmp/x"},
    ],
)
def test_a_wrong_label_writes_nothing(page: Running, made: Path, wrong: dict[str, Any]) -> None:
    before = (made / "data" / "questions.jsonl").read_bytes()
    assert give(page, body_of(state(page, made), made) | wrong).status_code == 422
    assert (made / "data" / "questions.jsonl").read_bytes() == before


def test_a_new_question_is_added_as_the_command_would(desk: Running, own: Path) -> None:
    path = own / "data" / "questions.jsonl"
    before, shown = path.read_bytes().rstrip(b"\n"), state(desk, own)
    path.write_bytes(before)
    document = CLIENT.get(f"{desk.url}/api/document", params={"source": "page-40.md"}).json()["digest"]
    given = body_of(shown, own, question="", text=" how hot? ", source="page-40.md", document=document)
    given["answer"] = [23, 24]
    assert give(desk, given).json()["error"]["code"] == "changed"
    now = give(desk, {**given, "version": content_digest(path)}).json()
    assert path.read_bytes().startswith(before + b"\n")
    flags = "--question", "how hot?", "--source", "page-40.md", "--lines", "23-24", "--data-dir", own / "data"
    assert invoke("questions", "add", own / "new.jsonl", *flags).exit_code == 0
    [added] = load_questions(own / "new.jsonl")
    kept = stored(own, added.id)
    assert (kept.question, kept.gold, kept.answerable) == ("how hot?", added.gold, True)
    assert key_of(own) in now["note"]
    assert now["number"] == 33
    assert give(desk, body_of(now, own, "no")).json()["gold"] == [], "the label is corrected"
    assert len(labels_of(stored(own, added.id))) == 1
    path.unlink()
    assert state(desk, own)["id"] == ""
    assert give(desk, {**given, "run": "", "version": content_digest(path)}).json()["total"] == 1


def test_a_run_of_other_questions_adds_none_of_them(desk: Running, own: Path) -> None:
    path, (_, other, newest) = own / "data" / "questions.jsonl", sorted((own / "reports").iterdir())[:3]
    asked = newest / "questions.jsonl"
    asked.write_text(asked.read_text().replace("where does", "how does"))
    assert CLIENT.get(f"{desk.url}/api/documents").json()["newest"] == other.name
    shown = CLIENT.get(f"{desk.url}/api/label", params={"run": newest.name}).json()
    assert (shown["id"], shown["passages"], shown["total"], shown["with_gold"]) == ("q0000", [], 32, 30)
    assert shown["note"].endswith(f"not from {path}\n  fix: choose the run {other.name}")
    given = body_of(state(desk, own), own)
    assert give(desk, {**given, "run": newest.name}).status_code == 422
    path.write_bytes(path.read_bytes().partition(b"\n")[2])
    assert give(desk, {**given, "version": content_digest(path)}).status_code == 422, "it is not in the file"


def test_documents_are_found_by_name_and_heading(page: Running) -> None:
    for words, place in {"page-40.md": [1, ""], "PART 40": [21, "Part 40"]}.items():
        found = CLIENT.get(f"{page.url}/api/places", params={"words": words}).json()
        assert found == [["page-40.md", *place]]
    assert CLIENT.get(f"{page.url}/api/places", params={"words": "no such heading"}).json() == []


def test_without_a_workspace_the_reason_is_shown(own: Path) -> None:
    shutil.rmtree(own / "data")
    with page_of(own) as server:
        answer = CLIENT.get(f"{server.url}/api/label", params={"run": key_of(own)})
        assert answer.status_code == 422
        assert "--data-dir" in answer.json()["error"]["message"]
        runs = CLIENT.get(f"{server.url}/api/runs").json()["runs"]
        assert len(runs) == 4


def test_the_newest_run_of_the_workspace_is_opened_and_another_has_the_reason(own: Path) -> None:
    paths = sorted(
        (own / "reports").glob("*-*/run.json"), key=lambda path: json.loads(path.read_text())["created"]
    )
    assert len(paths) == 3
    for number, own_run in ((2, paths[1].parent.name), (1, paths[0].parent.name), (0, "")):
        other = {"corpus": "data/click-docs", "corpus_digest": "0" * 64}
        paths[number].write_text(json.dumps(json.loads(paths[number].read_text()) | other))
        with page_of(own) as desk:
            assert CLIENT.get(f"{desk.url}/api/documents").json()["newest"] == own_run
            query = {"run": paths[number].parent.name}
            message = CLIENT.get(f"{desk.url}/api/label", params=query).json()["note"]
        assert "data/click-docs" in message
        assert message.endswith(
            f"\n  fix: {f'choose the run {own_run}' if own_run else 'branchrank run experiment.toml'}"
        )


def open_desk(browser: Chromium, server: Running, folder: Path) -> None:
    browser.visit(f"{server.url}/label?run={key_of(folder)}#token={TOKEN}")
    browser.wait(READY)


def reload(browser: Chromium) -> None:
    browser.visit(browser.run("location.href"))
    browser.wait(READY)


SAID = "document.getElementById('said').textContent.includes('%s')"
SAVED = SAID % "Saved"
PICKED = "document.querySelectorAll('[aria-selected=true]')"


def test_lines_are_picked_and_labeled_with_the_mouse(browser: Chromium, desk: Running, own: Path) -> None:
    browser.look(1200)
    open_desk(browser, desk, own)
    shown = state(desk, own)
    first = shown["passages"][0]["first"]
    x, y = browser.place("document.querySelector('.card .own')")
    browser.mouse("mousePressed", (x, y))
    browser.mouse("mouseMoved", (x, y + 20))  # the next line
    browser.mouse("mouseReleased", (x, y + 20))
    assert browser.run(f"{PICKED}.length") == 2
    reload(browser)
    assert browser.run(f"{PICKED}.length") == 2, "a reload keeps it"
    assert "Only Yes" in browser.run("document.querySelector('.picked').textContent")
    browser.requests.clear()
    browser.run("for (const _ of [1, 2]) document.querySelector('.card [data-label=yes]').click()")
    browser.wait(SAVED)
    assert browser.requests == [f"{desk.url}/api/labels"], "a second click is not another label"
    [label] = labels_of(stored(own, shown["id"]))
    assert (label.label, label.gold) == ("yes", (first, first + 1))
    reload(browser)
    assert browser.run("document.querySelectorAll('[data-label=yes][aria-pressed=true]').length") == 1
    assert f"lines {first}-{first + 1} are gold" in browser.run("document.querySelector('.card').innerText")
    browser.click("[...document.querySelectorAll('button')].find((b) => b.textContent === 'Whole document')")
    browser.wait("document.querySelectorAll('.card .lines')[0].children.length === 40")
    x, y = browser.place("document.querySelector('.card [data-line=\"2\"]')")
    browser.mouse("mousePressed", (x, y))
    browser.mouse("mouseMoved", (x, y + 420))
    browser.wait(f"{PICKED}.length === 39")  # the box shows 20 lines, and scrolls while the mouse is below it
    browser.mouse("mouseReleased", (x, y + 420))
    assert "Only Yes" not in browser.run("document.querySelector('.picked').textContent")
    browser.run("document.getElementById('said').textContent = ''")
    browser.press("p")
    browser.wait(SAVED)
    partly = labels_of(stored(own, shown["id"]))[-1]
    assert (partly.label, partly.line_start, partly.line_end) == ("partly", 2, 40), "not the passage"
    browser.run("[...document.querySelectorAll('.card [data-label=yes]')].at(-1).click()")
    browser.wait(SAID % f":{first}-{first + 1} (change it on the card")
    assert "no lines became gold" in browser.run("[...document.querySelectorAll('.card')].at(-1).innerText")
    browser.run("scrollTo(0, 0)")
    assert browser.run("document.querySelector('.onward').getBoundingClientRect().bottom <= innerHeight")
    assert browser.console == []
    assert violations(browser) == []


def test_questions_are_labeled_in_a_row_with_the_keyboard(
    browser: Chromium, desk: Running, own: Path
) -> None:
    browser.look(400)
    open_desk(browser, desk, own)
    last = load_questions(own / "reports" / key_of(own) / "questions.jsonl")[-1].id
    earlier = state(desk, own, last)["earlier"]
    for number in range(1, 3):
        shown = state(desk, own)  # the first question that waits
        others = len(shown["passages"]) - 1
        assert browser.run("document.activeElement.getAttribute('role')") == "listbox"
        browser.press("ArrowDown")
        browser.press("ArrowDown", shift=True)
        for key in ("Enter", *"n" * others):
            browser.run("document.getElementById('said').textContent = ''")
            browser.press(key)
            browser.wait(SAVED)
        found = labels_of(stored(own, shown["id"]))
        assert [each.label for each in found] == ["yes", *["no"] * others]
        assert found[0].gold is not None
        assert found[0].gold[1] - found[0].gold[0] == 1
        assert f" 30 with gold, {number} with labels" in browser.run(
            "document.querySelector('.progress').textContent"
        )
        assert browser.run("document.activeElement.className") == "onward"
        browser.press("Enter")
        browser.wait(f"{READY} && !location.search.includes({json.dumps(shown['id'])})")
    browser.visit(f"{desk.url}/label?run={key_of(own)}&question={last}")
    browser.wait(READY)
    assert f" {earlier - 2} earlier questions" in browser.run("document.querySelector('.onward').textContent")
    spans = "[...document.querySelectorAll('.lines')].every((box) => box.scrollWidth <= box.clientWidth)"
    assert browser.run(spans), "lines wrap on a narrow screen"


def test_a_question_is_added_with_the_keyboard(browser: Chromium, desk: Running, own: Path) -> None:
    page, said = own / "docs" / "page-40.md", "document.getElementById('said').textContent"
    page.write_text(page.read_text().replace("40 line 24", "word " * 100))
    browser.look(400)
    open_desk(browser, desk, own)
    browser.run("document.querySelector('header .button').focus()")
    for keys, condition in (
        (["Enter"], f"{READY} && document.activeElement.name === 'text'"),
        (["Enter"], SAID % "pick the lines"),
        ([*"how hot?"], f"{said} === ''"),
        (["Tab", *"part 40", "Enter"], "document.querySelector('.places button')"),
        (["Tab", "Tab", "Enter"], "document.activeElement.getAttribute('role') === 'listbox'"),
        (["ArrowDown", "p"], SAID % "needs the lines"),
        (["ArrowDown", "ArrowDown"], f"{PICKED}.length"),
        (["Enter"], "location.search.includes('question=q-')"),
    ):
        if keys == ["Enter"]:
            browser.run(
                "document.querySelector('[name=text]')?.focus()"
            )  # where it saves the picked lines, too
        for key in keys:
            browser.press(key)
        browser.wait(condition)
    added = load_questions(own / "data" / "questions.jsonl")[-1]
    assert (added.question, labels_of(added)[0].gold) == ("how hot?", (23, 23))
    browser.wait(f"{READY} && document.activeElement.textContent === 'Add a question'")
    for width in (400, 1400):
        browser.look(width)
        assert browser.run(
            "[...document.querySelectorAll('.lines')].every((b) => b.scrollWidth <= b.clientWidth)"
        )
        browser.click("document.querySelector('.lines [data-line=\"24\"]')")  # in the middle of its rows
        assert browser.run(f"[...{PICKED}].map((line) => line.dataset.line)") == ["24"]
    browser.console.clear()
    assert violations(browser) == []


def test_a_changed_file_and_a_missing_server_lose_no_label(browser: Chromium, own: Path) -> None:
    path = own / "data" / "questions.jsonl"
    with page_of(own) as desk:
        open_desk(browser, desk, own)
        path.write_bytes(path.read_bytes() + b'{"id":"new","question":"new?","answerable":false}\n')
        theirs = path.read_bytes()
        browser.press("y")
        browser.wait(SAID % "Reload the page")
        assert path.read_bytes() == theirs
        reload(browser)
        browser.press("y")
        browser.wait(SAVED)
        assert b'"new?"' in path.read_bytes()
    browser.run("document.querySelector('.card [data-label=no]').click()")
    browser.wait(SAID % "start branchrank view again")
    browser.console.clear()


def test_an_imported_question_without_gold_waits_for_its_label(desk: Running, own: Path) -> None:
    (own / "log.csv").write_text("query,count,url\nhow loud,4,https://docs.example.com/gone.html\n")
    done = invoke("questions", "import", str(own / "log.csv"), "--data-dir", str(own / "data"))
    assert done.exit_code == 0, done.output
    [new] = [each for each in load_questions(own / "data" / "questions.jsonl") if each.question == "how loud"]
    shown = state(desk, own, new.id)
    assert (shown["question"], shown["gold"], shown["passages"]) == ("how loud", [], [])
    found = state(desk, own)
    body = body_of(found, own, question=new.id, version=shown["version"])
    assert give(desk, body).status_code == 200
    labeled = stored(own, new.id)
    assert (labeled.answerable, len(labeled.gold), labeled.extra["count"]) == (True, 1, 4)


def test_the_headings_above_a_passage_are_as_the_document_has_them(desk: Running, own: Path) -> None:
    shown = state(desk, own)["passages"]
    pages = [each["source"].removeprefix("page-").removesuffix(".md") for each in shown]
    assert [each["heading"] for each in shown] == [
        f"Page {page} > Part {page}" if each["first"] > 20 else f"Page {page}"
        for each, page in zip(shown, pages, strict=True)
    ]
    path = own / "docs" / shown[0]["source"]
    path.write_text(path.read_text().replace("# Page", "# `set_up()` of a C++", 1))
    with page_of(own) as server:
        given = body_of({"passages": shown, "id": "", "version": ""}, own, run="", text="what?")
        lines = CLIENT.get(f"{server.url}/api/document", params={"source": shown[0]["source"]}).json()
        version = content_digest(own / "data" / "questions.jsonl")
        given |= {"document": lines["digest"], "version": version}
        answer = give(server, given).json()
    assert answer["passages"][0]["heading"].startswith(f"set_up() of a C++ {pages[0]}")


def edit(server: Running, shown: Any, change: str, text: str = "", **more: Any) -> httpx2.Response:
    sent = {"origin": server.url, "authorization": f"Bearer {TOKEN}"}
    body = {"question": shown["id"], "version": shown["version"], "change": change, "text": text, **more}
    return CLIENT.post(f"{server.url}/api/edits", json=body, headers=sent)


def lines_of(folder: Path) -> list[bytes]:
    return (folder / "data" / "questions.jsonl").read_bytes().splitlines()


def test_a_question_is_edited_marked_unanswerable_and_deleted(desk: Running, own: Path) -> None:
    before = lines_of(own)
    give(desk, body_of(state(desk, own, "q0001"), own))
    with page_of(own) as other:  # what another page writes in between stays
        given = body_of(state(other, own, "q0002"), own, "partly")
        assert give(other, given).status_code == 200
    shown = state(desk, own, "q0001")
    assert edit(desk, shown, "text", "  where now?  ").status_code == 200
    changed = stored(own, "q0001")
    assert (changed.question, len(changed.gold), len(labels_of(changed))) == ("where now?", 2, 1)
    assert edit(desk, shown, "delete").json()["error"]["code"] == "changed", "it is not what the page showed"
    assert edit(desk, state(desk, own, "q0001"), "unanswerable").status_code == 200
    [label] = labels_of(changed := stored(own, "q0001"))
    assert (changed.answerable, changed.gold, label.label, label.gold) == (False, (), "yes", None)
    shown = state(desk, own, "q0001")
    assert (shown["answerable"], shown["gold_lines"], shown["labels"]) == (False, [], {"ada": 1})
    assert give(desk, body_of(shown, own)).json()["answerable"], "a label makes it answerable again"
    assert edit(desk, state(desk, own, "q0001"), "delete").status_code == 200
    assert lines_of(own)[:1] + lines_of(own)[2:] == before[:1] + before[3:]
    assert [each.label for each in labels_of(stored(own, "q0002"))] == ["partly"]
    (own / "data" / "questions.jsonl").write_bytes(lines_of(own)[0] + b"\n")
    assert edit(desk, state(desk, own), "delete").status_code == 200
    assert state(desk, own)["total"] == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"change": "other"},
        {"question": "nothing"},
        {"text": " "},
        {"text": "where does kettle 3 boil"},
        {"text": "x" * 10_001},
        {"version": ""},
        {"path": "/tmp/x"},
    ],
)
def test_a_wrong_edit_writes_nothing(page: Running, made: Path, wrong: dict[str, Any]) -> None:
    before = lines_of(made)
    answer = edit(page, state(page, made, "q0001"), **{"change": "text", "text": "new", **wrong})
    assert answer.status_code in (409, 422)
    assert lines_of(made) == before


def test_of_edits_sent_at_once_one_is_written(desk: Running, own: Path) -> None:
    shown = [state(desk, own, f"q{number:04}") for number in range(8)]
    with ThreadPoolExecutor(8) as windows:
        codes = [each.status_code for each in windows.map(lambda one: edit(desk, one, "delete"), shown)]
    assert sorted(codes) == [200, *[409] * 7]
    assert len(lines_of(own)) == 31


def test_the_gold_comes_first_and_changes_are_said(browser: Chromium, desk: Running, own: Path) -> None:
    browser.look(400)
    give(desk, body_of(state(desk, own, "q0001"), own, "no"))
    hostile = "why <b>bold</b> <img src=x onerror=alert(1)>?"
    open_desk(browser, desk, own)
    browser.visit(f"{desk.url}/label?run={key_of(own)}&question=q0001")
    browser.wait(READY)
    gold = "[...document.querySelectorAll('.golds mark')].map((mark) => mark.textContent)"
    docs = (own / "docs" / "page-1.md").read_text().replace("\x1b", "�").split("\n")
    assert browser.run(gold) == docs[4:8]
    order = "document.querySelector('.golds').compareDocumentPosition(document.querySelector('.cards'))"
    assert browser.run(order) == 4, "the gold is before the passages"
    browser.run("document.querySelector('.edit').open = true")
    browser.run(f"document.querySelector('[name=edited]').value = {json.dumps(hostile)}")
    browser.run("document.querySelector('.edit form button').click()")
    browser.wait(f"{READY} && document.querySelector('#view h2')?.textContent === {json.dumps(hostile)}")
    assert browser.run(SAID % "Saved: the new text of q0001")
    assert browser.run("document.querySelectorAll('b, img').length") == 0
    press = "document.querySelector('.edit').open = true; document.querySelector('.edit p button{}').click()"
    browser.run(press.format(""))
    browser.wait(f"{READY} && {SAID % 'counts as unanswerable'}")
    browser.run(press.format(".danger"))
    assert "1 by ada" in browser.run("document.querySelector('.danger').textContent")
    assert len(lines_of(own)) == 32, "the first press only asks"
    assert violations(browser) == []
    browser.run(press.format(".danger"))
    browser.wait(f"{READY} && {SAID % 'q0001 is deleted, with its labels (1 by ada)'}")
    assert len(lines_of(own)) == 31
    assert browser.run("location.search").endswith("question=q0002")
    assert browser.console == browser.dialogs == []
