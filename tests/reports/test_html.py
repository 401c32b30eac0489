"""``report.html`` in a real browser: it runs nothing of a document, and a reader can use it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest
from support.chromium import Chromium
from support.made_runs import Planned, luck, make_corpus, make_questions, make_run

from branchrank.core.io.printable import safe
from branchrank.core.records import GoldItem
from branchrank.reports.browser import browser_data
from branchrank.reports.writing import kept_passages, script_json, write_report
from branchrank.run import Run

_DO = "window.pwned=1"
_BASES = (
    f"<script>{_DO}</script>",
    f"</script><script>{_DO}</script>",
    f"<img src=x onerror={_DO}>",
    f'"><img src=x onerror="{_DO}">',
    f"'><svg onload={_DO}>",
    f"<svg><script>{_DO}</script></svg>",
    f"<iframe srcdoc='<script>parent.{_DO}</script>'></iframe>",
    f"<a href=javascript:{_DO} autofocus onfocus={_DO}>x</a>",
    f"[x](javascript:{_DO})",
    f"<details open ontoggle={_DO}>",
    f"<body onload={_DO}>",
    f"<style>@import 'javascript:{_DO}'</style>",
    f"<!--<script>{_DO}//-->",
    f"<math><mtext><img src=x onerror={_DO}></mtext></math>",
    f"<object data='javascript:{_DO}'></object>",
    f"<meta http-equiv=refresh content='0;url=javascript:{_DO}'>",
    f"</textarea></title></style><script>{_DO}</script>",
    f"\\u003cscript\\u003e{_DO}\\u003c/script\\u003e",
    f"${{{_DO}}} $title {{{{{_DO}}}}}",
    f"]]><input autofocus onfocus={_DO}>",
)
_FORMS = (
    lambda text: text,
    lambda text: f'"{text}\n{text}',
    lambda text: f"`{text}` --> {text}",
    lambda text: f"{text}\u2028{text}",
    lambda text: text.replace("script", "ScRiPt").replace("img", "IMG"),
)
PAYLOADS = tuple(form(base) for base in _BASES for form in _FORMS)


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Run:
    loaded = make_run(
        tmp_path_factory.mktemp("usual"),
        (Planned("local", 0.6), Planned("hybrid", 0.5), Planned("reranked", 0.7, llm="tiny")),
        make_questions(60, unanswerable=2),
    )
    write_report(loaded)
    return loaded


def page_of(loaded: Run) -> Path:
    return loaded.directory / "report.html"


def choose(browser: Chromium, name: str, value: str) -> None:
    browser.run(
        f"(() => {{ const field = document.querySelector('[name={name}]'); field.value = {json.dumps(value)};"
        "field.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )


OPEN_ALL = """(async () => {
  for (let round = 0; round < 2; round++) {
    document.querySelectorAll('details').forEach((each) => { each.open = true; });
    await new Promise((done) => setTimeout(done, 60));
  }
})()"""


_HANDLERS = """[...document.querySelectorAll('*')]
  .filter((each) => [...each.attributes].some((attribute) => /^on/.test(attribute.name))).length"""
_LINKS = """[...document.links].filter((each) => !each.getAttribute('href').startsWith('#')).length"""


@pytest.mark.parametrize("step", [2, pytest.param(1, marks=pytest.mark.full)])
def test_payloads_make_no_active_node(browser: Chromium, tmp_path: Path, step: int) -> None:
    """Half of the hundred payloads have every base and every form."""
    assert len(PAYLOADS) == 100
    payloads = PAYLOADS[::step]
    count, pages = len(payloads), -(-len(payloads) // 20)
    root = make_corpus(tmp_path / "docs", count)
    questions = []
    for number, (question, payload) in enumerate(zip(make_questions(count), payloads, strict=True)):
        page = root / f"page-{number}.md"
        page.write_text(
            page.read_text()
            .replace("line 5\n", f"line 5 {payload}\n", 1)
            .replace("line 26\n", f"{payload}\n")
        )
        gold = msgspec.structs.replace(question.gold[0], answer_quote=payload)
        questions.append(
            msgspec.structs.replace(
                question,
                id=f"{number} {payload}",
                question=payload,
                gold=(gold, GoldItem(source_file=f"{payload}.md", answer_quote=payload)),
                kind=payload,
                difficulty=payload[:30],
            )
        )
    arms = [
        Planned(PAYLOADS[0], 0.5),
        Planned(PAYLOADS[12], 0.6, llm=PAYLOADS[7], fails=questions[0].id),
        Planned("</script>", 0.4),
    ]
    loaded = make_run(
        tmp_path,
        arms,
        questions,
        experiment=PAYLOADS[5],
        command=PAYLOADS[6],
        baseline=PAYLOADS[0],
        latency_sample=2,
    )
    write_report(loaded)
    browser.requests.clear()
    browser.console.clear()
    browser.open(page_of(loaded))
    for page in range(pages):
        browser.run(OPEN_ALL)
        assert browser.run("window.pwned") is None
        assert browser.run("document.querySelectorAll('script').length") == 4
        active = (
            "iframe, object, embed, img, base, link, math, svg script, [autofocus], input:not([name=words])"
        )
        assert browser.run(f"document.querySelectorAll({json.dumps(active)}).length") == 0
        assert browser.run(_HANDLERS) == 0
        assert browser.run(_LINKS) == 0
        assert browser.run("document.querySelectorAll('.passage mark').length") > 0
        if page < pages - 1:
            browser.run("document.querySelector('#pager button:last-child').click()")
    assert browser.run("document.getElementById('count').textContent") == f"{count} of {count} questions"
    shown = browser.run("[...document.querySelectorAll('.question .text')].map((each) => each.textContent)")
    assert len(shown) == count - 20 * (pages - 1)
    assert set(shown) <= {safe(payload) for payload in payloads}
    assert browser.dialogs == []
    assert browser.console == []
    assert browser.requests == [page_of(loaded).resolve().as_uri()]


def test_the_content_security_policy_blocks_injected_scripts(
    browser: Chromium, usual: Run, tmp_path: Path
) -> None:
    page = page_of(usual).read_text(encoding="utf-8")
    planted = tmp_path / "planted.html"
    planted.write_text(page.replace("</main>", f"<script>{_DO}</script><img src=x onerror={_DO}></main>"))
    browser.open(planted)
    assert browser.run("window.pwned") is None
    assert any("Content Security Policy" in text for text in browser.console)
    browser.console.clear()


def test_filters_narrow_the_questions_and_their_rates(browser: Chromium, usual: Run) -> None:
    browser.open(page_of(usual))
    count = "document.getElementById('count').textContent"
    assert browser.run(count) == "62 of 62 questions"
    choose(browser, "predictor", "0")
    choose(browser, "outcome", "0")
    right = [q for q in make_questions(60) if luck("local", q.id, 0) < 0.6]
    assert browser.run(count) == f"{len(right)} of 62 questions"
    figures = browser.run(
        "[...document.querySelectorAll('#tally tbody tr:first-child td')].map((e) => e.textContent)"
    )
    assert figures == [str(len(right)), "100.0%", "100.0%", "100.0%"]
    choose(browser, "slice0", "lookup")
    lookups = [question for question in right if question.kind == "lookup"]
    assert browser.run(count) == f"{len(lookups)} of 62 questions"
    choose(browser, "words", "q0003")
    assert browser.run(count) == f"{sum(q.id == 'q0003' for q in lookups)} of 62 questions"
    for name in ("predictor", "slice0", "words"):
        choose(browser, name, "")
    choose(browser, "outcome", "disagree")
    assert 0 < int(browser.run(count).split()[0]) < 60


def test_the_gold_is_marked_in_its_context(browser: Chromium, usual: Run) -> None:
    browser.open(page_of(usual))
    choose(browser, "words", "q0001")
    browser.run(OPEN_ALL)
    first = "document.querySelector('.passage')"
    lines = browser.run(f"[...{first}.querySelectorAll('span')].map((e) => [e.dataset.line, e.textContent])")
    assert [int(number) for number, _ in lines] == [3, 4, 5, 6, 7, 8, 9, 10]
    assert lines[2][1] == "kettle 1 line 5"
    marked = browser.run(f"[...{first}.querySelectorAll('mark span')].map((e) => e.dataset.line)")
    assert marked == ["5", "6", "7", "8"]


def test_the_page_stays_small_with_many_questions(browser: Chromium, tmp_path: Path) -> None:
    questions = [
        msgspec.structs.replace(
            question, gold=(msgspec.structs.replace(question.gold[0], source_file="page-0.md"),)
        )
        for question in make_questions(60)
    ]
    make_corpus(tmp_path / "docs", 1)
    loaded = make_run(tmp_path, (Planned("local", 0.6), Planned("hybrid", 0.5)), questions, latency_sample=0)
    write_report(loaded)
    browser.open(page_of(loaded))
    assert browser.run("document.querySelectorAll('.question').length") == 20
    assert browser.run("document.querySelectorAll('#browser *').length") < 700
    browser.run("document.querySelector('#pager button:last-child').click()")
    _, found = browser_data(loaded, with_quotes=True)
    found.sort(key=lambda question: question[6])
    assert browser.run("document.querySelector('.question .id').textContent") == found[20][0]


def test_a_changed_corpus_adds_no_text_to_the_report(tmp_path: Path) -> None:
    loaded = make_run(tmp_path, (Planned("local", 0.6),), make_questions(3), latency_sample=0)
    (tmp_path / "docs" / "page-0.md").write_text("# Other\n\nkettle 0 line 5 moved\n")
    write_report(loaded)
    assert kept_passages(page_of(loaded).read_text(encoding="utf-8")) is None


def test_control_characters_of_a_run_are_escaped(tmp_path: Path) -> None:
    questions = [
        msgspec.structs.replace(question, kind=f"kind\x1b]0;title\x07\u202e\x00{number % 2}")
        for number, question in enumerate(make_questions(4))
    ]
    about, found = browser_data(make_run(tmp_path, [Planned("local", 0.6)], questions), with_quotes=True)
    assert not re.search(r"\\u001b|\\u0007|\\u202e|\\u0000", json.dumps([about, found]))
    slices = dict(about["slices"])
    assert {question[2][list(slices).index("kind")] for question in found} == set(slices["kind"])


@pytest.mark.parametrize("text", ["</script>", "<!--", "\u2028", "a & b", '"'])
def test_json_in_the_page_holds_no_markup_and_reads_back(text: str) -> None:
    written = script_json([text])
    assert not re.search("[<>&\u2028\u2029]", written)
    assert json.loads(written) == [text]
