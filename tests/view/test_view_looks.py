"""The page in a real browser: nothing overflows, axe is content, and hostile text stays text."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.axe import violations
from support.chromium import Chromium, looks
from support.http_server import Running
from support.local_page import READY

_OPEN_SOME = """(async () => {
  for (let round = 0; round < 3; round++) {
    for (const each of [...document.querySelectorAll('details')].slice(0, 9)) each.open = true;
    await new Promise((done) => setTimeout(done, 150));
  }
})()"""


def visit(browser: Chromium, page: Running, path: str) -> None:
    browser.visit(page.url + path)
    browser.wait(READY)


@pytest.mark.parametrize(
    ("path", "width", "dark"),
    looks("/", "/questions?both", "/compare?both", "/label?add=1", full=("/questions", "/label")),
)
def test_the_page_fits_is_accessible_and_shows_hostile_text_as_text(
    browser: Chromium, page: Running, made: Path, path: str, width: int, dark: bool
) -> None:
    browser.look(width, dark=dark)
    browser.requests.clear()
    keys = [path.name for path in sorted((made / "reports").iterdir())]
    visit(browser, page, path.replace("both", f"run={keys[1]}&against={keys[0]}"))
    browser.run(_OPEN_SOME)
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run("document.querySelectorAll('b, i, img, #view script').length") == 0
    shown = browser.run("document.body.textContent")
    assert "<b>bold</b>" in shown or path not in ("/", "/questions")
    assert "<i>second" in shown or path == "/label?add=1"
    assert "<img src=x" in shown or path in ("/", "/compare?both", "/label?add=1")
    assert "\x1b" not in shown
    assert browser.dialogs == browser.console == []
    assert browser.requests
    assert all(url.startswith((page.url, "data:")) for url in browser.requests)
    assert violations(browser) == []


def test_trends_are_drawn_and_reports_are_kept_apart(browser: Chromium, page: Running) -> None:
    visit(browser, page, "/")
    labels = browser.run(
        "[...document.querySelectorAll('.trend [role=img]')].map((each) => each.getAttribute('aria-label'))"
    )
    assert [label[:18] for label in labels[:3]] == [f"local, 2026-01-0{day} " for day in (1, 2, 3)]
    assert browser.run("document.querySelectorAll('.trend .line').length") == 2
    assert browser.run("document.querySelectorAll('.trend .break').length") == 2
    browser.run("[...document.querySelectorAll('.run a')].find((a) => a.textContent === 'Report').click()")
    browser.wait("document.querySelectorAll('.question').length")
    storage = "(() => { try { return Boolean(localStorage); } catch { return false; } })()"
    assert browser.run(storage) is False, "the token is there"
    assert browser.console == []
