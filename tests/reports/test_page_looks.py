"""What a reader sees of ``report.html``: wide and narrow, light and dark, on paper and by keyboard."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import msgspec
import pytest
from support.axe import violations
from support.chromium import LOOKS, Chromium
from support.made_runs import Planned, luck, make_questions, make_run

from branchrank.core.records import Question, Retrieval
from branchrank.reports.browser import OUTCOMES
from branchrank.reports.writing import write_report
from branchrank.run import Run

EXAMPLES = Path(__file__).parents[2] / "reports" / "examples"
NAMES = sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())
WIDTHS = (1400, 400)
HOSTILE = "<img src=x onerror=window.pwned=1>"


class Broken(Planned):
    """Fails every query."""

    def predict(self, question: Question, k: int, repeat: int = 0) -> Retrieval:
        raise RuntimeError("no kettle")


class Pages(dict[str, Path]):
    """The report of an example as it is written today, and of a run with everything that one can have."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def __missing__(self, name: str) -> Path:
        folder = self._folder / name
        if name in ("crowded", "few"):
            write_report(made := crowded(folder) if name == "crowded" else few(folder))
            self[name] = made.directory / "report.html"
        else:
            write_report(Run.load(EXAMPLES / name), into=folder)
            self[name] = folder / "report.html"
        return self[name]


def crowded(folder: Path) -> Run:
    arms = [
        Planned("local", 0.6, fails="q0003"),
        Planned("a system with a name that is longer than most", 0.55),
        Broken("broken", 0.5),
        Planned("reranked", 0.7, llm="meta-llama/Llama-3.3-70B-Instruct"),
        *(
            Planned(f"swept[rrf_k={k}, vector_weight={weight}]", 0.5)
            for k in (10, 60)
            for weight in (0.25, 1.0)
        ),
    ]
    made = make_run(folder, arms, make_questions(12, unanswerable=2))
    # The labels of the plot of quality and latency are where the times put them.
    names = [arm.name for arm in arms]
    timed = (
        msgspec.structs.replace(
            each, ms=2.5 * (1 + names.index(each.predictor)) * (1 + luck(each.question_id, each.stage) / 5)
        )
        for each in made.timed
    )
    return dataclasses.replace(made, timed=tuple(timed))


def few(folder: Path) -> Run:
    """Twenty questions that three systems answer, one with a hostile name."""
    arms = [Planned("local", 0.5), Planned(HOSTILE, 0.4, fails="q0003"), Planned("reranked", 0.6, llm="tiny")]
    return make_run(folder, arms, make_questions(20, unanswerable=2))


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    return Pages(tmp_path_factory.mktemp("pages"))


EVERY_PAGE = ["crowded", "few", *(pytest.param(name, marks=pytest.mark.full) for name in NAMES)]

#: Of the drawings that are shown: texts whose boxes meet a text or a point, and texts that leave them.
_COLLISIONS = """(() => {
  const found = [];
  const shown = [...document.querySelectorAll('.plot svg')].filter((each) => each.getClientRects().length);
  for (const drawing of shown) {
    const frame = drawing.getBoundingClientRect();
    const box = (each) => each.getBoundingClientRect();
    const texts = [...drawing.querySelectorAll('text')].filter((each) => each.textContent && box(each).width);
    const points = [...drawing.querySelectorAll('[aria-roledescription=point]')];
    const across = (a, b) => a.left < b.right - 1 && b.left < a.right - 1;
    const meets = (a, b) => across(a, b) && a.top < b.bottom - 2 && b.top < a.bottom - 2;
    texts.forEach((text, place) => {
      const own = box(text);
      const leaves = own.left < frame.left - 1 || own.right > frame.right + 1;
      if (leaves) found.push(`${text.textContent} leaves the drawing`);
      for (const other of texts.slice(place + 1)) {
        if (meets(own, box(other))) found.push(`${text.textContent} / ${other.textContent}`);
      }
      for (const point of points) if (meets(own, box(point))) found.push(`${text.textContent} / a point`);
    });
  }
  return found;
})()"""

_TEXTS = "[...document.querySelectorAll('%s')].map((each) => each.textContent)"

#: Captions of tables that are wider than their place, so that a reader has to scroll.
_CUT = """[...document.querySelectorAll('.table')].filter((each) => each.scrollWidth > each.clientWidth)
  .map((each) => each.getAttribute('aria-label'))"""

#: Drawings that a narrow screen shows smaller than they were drawn.
_SHRUNK = """[...document.querySelectorAll('.plot svg')].filter((each) => each.getClientRects().length)
  .map((each) => each.getBoundingClientRect().width / Number(each.getAttribute('width')))
  .filter((share) => share < 0.85)"""

#: Words of short names and headings, and dates, that are broken over two lines.
_BROKEN = """(() => {
  const found = [];
  const short = 'th, figcaption, h1, h2, .facts, .callout p, .cautions li, nav a';
  for (const cell of document.querySelectorAll(short)) {
    const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      for (const { 0: word, index } of node.textContent.matchAll(/[A-Za-z]{2,24}|[0-9-]{10}/g)) {
        const range = document.createRange();
        range.setStart(node, index);
        range.setEnd(node, index + word.length);
        const lines = new Set([...range.getClientRects()].map((each) => Math.round(each.top)));
        if (lines.size > 1) found.push(word);
      }
    }
  }
  return found;
})()"""

_UNFOLD = "document.querySelectorAll('.fold').forEach((each) => { each.open = true; })"

_OPEN_SOME = """(async () => {
  document.querySelectorAll('.fold').forEach((each) => { each.open = true; });
  for (let round = 0; round < 2; round++) {
    [...document.querySelectorAll('.question')].slice(0, 3).forEach((each) => {
      each.open = true;
      each.querySelectorAll('details').forEach((inner) => { inner.open = true; });
    });
    await new Promise((done) => setTimeout(done, 60));
  }
})()"""


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", EVERY_PAGE)
def test_nothing_overflows_overlaps_shrinks_or_breaks(
    browser: Chromium, pages: dict[str, Path], name: str, width: int
) -> None:
    browser.look(width)
    browser.open(pages[name])
    browser.run(_UNFOLD)
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert width < 1400 or browser.run(_CUT) == []
    assert browser.run("document.querySelectorAll('.plot').length") >= 2
    assert browser.run(_COLLISIONS) == []
    assert browser.run(_SHRUNK) == []
    assert browser.run(_BROKEN) == []


@pytest.mark.parametrize(
    ("name", "width", "dark"),
    [
        pytest.param(name, *look, marks=() if name == "few" and look in LOOKS[:2] else pytest.mark.full)
        for name in ("few", "crowded", *NAMES)
        for look in LOOKS
    ],
)
def test_axe_finds_no_violation(
    browser: Chromium, pages: dict[str, Path], name: str, width: int, dark: bool
) -> None:
    browser.look(width, dark=dark)
    browser.open(pages[name])
    browser.run(_OPEN_SOME)
    assert violations(browser) == []


def test_warnings_are_beside_the_recommendation_and_the_verdict(
    browser: Chromium, pages: dict[str, Path]
) -> None:
    browser.open(pages["crowded"])
    beside = browser.run(_TEXTS % ".callout .cautions li")
    assert any("under 50 questions" in each for each in beside)
    assert any("broken: all 14 queries failed" in each for each in beside)
    assert any("local: 1 of 14 queries failed" in each for each in beside)
    verdicts = browser.run(_TEXTS % "[aria-labelledby=statistics] .points li")
    assert len(verdicts) == 6
    assert all("Warning: local: 1 of 14 queries failed" in each for each in verdicts)
    assert not any("broken" in each for each in verdicts), "a failed system is not compared"
    assert ["reranked: " in each for each in verdicts].count(True) == 1


#: The sections by title, with whether each is folded, and those in sight.
_SECTIONS = """[...document.querySelectorAll('main section')].map((each) => [
  each.querySelector('h2').textContent,
  !!each.querySelector(':scope > .fold'), !!each.querySelector(':scope > .fold[open]')])"""


def test_a_small_report_opens_with_the_verdict_a_table_and_the_questions(
    browser: Chromium, pages: dict[str, Path]
) -> None:
    browser.look(1400)
    browser.open(pages["few"])
    sections = browser.run(_SECTIONS)
    assert sections[:2] == [["Result", False, False], ["Questions", False, False]]
    assert len(sections) > 10
    assert all(each[1:] == [True, False] for each in sections[2:])
    inside = "document.querySelectorAll('[aria-labelledby=result] %s').length"
    assert [browser.run(inside % part) for part in (".verdict p", ".table", ".plot")] == [3, 1, 0]
    browser.run("document.querySelector('nav a[href=\"#statistics\"]').click()")
    browser.wait("document.querySelector('[aria-labelledby=statistics] .fold').open")
    assert [title for title, _, is_open in browser.run(_SECTIONS) if is_open] == ["Statistics"]


#: Each question's id with the cells of its systems, as they are read, and the heading above it.
_GRID = """(() => {
  let above = '';
  return [...document.querySelectorAll('#list > *')].flatMap((each) => {
    if (each.matches('h3')) { above = each.textContent; return []; }
    return [[above, each.querySelector('.id').textContent,
      [...each.querySelectorAll('summary > .cell')]
        .map((cell) => cell.textContent.replace(/\\s+/g, ' ').trim())]];
  });
})()"""


def test_the_grid_has_the_rank_of_every_system_and_is_sorted_by_what_went_wrong(
    browser: Chromium, pages: dict[str, Path]
) -> None:
    browser.look(1400)
    browser.open(pages["few"])
    run = Run.load(pages["few"].parent)
    rows = {(row.question_id, row.predictor): row for row in run.rows}
    grid = browser.run(_GRID)
    assert len(grid) == 22
    for _, question, cells in grid:
        for name, cell in zip(run.predictors, cells, strict=True):
            rank, failed = rows[question, name].first_gold, rows[question, name].status == "failed"
            ranks = (
                {"✕ failed failed"}
                if failed
                else {f"{'●' if rank == 1 else '◐'} {rank} {OUTCOMES[rank > 1]}"}
                if rank
                else {"◔ page 1 same page", "– – unanswerable"}
            )
            assert cell.removeprefix(f"{name} ") in ranks, cell
    headings = [heading for heading, *_ in grid]
    assert headings == [each for each in dict.fromkeys(headings) for _ in range(headings.count(each))]
    assert all(heading.endswith(f"({headings.count(heading)})") for heading in headings)
    assert headings[0].startswith("A query failed")
    assert headings[-1].startswith("No answer")
    assert browser.run("window.pwned") is None


@pytest.mark.parametrize("width", WIDTHS)
def test_the_gold_is_open_beside_the_first_wrong_hit(
    browser: Chromium, pages: dict[str, Path], width: int
) -> None:
    browser.look(width)
    browser.open(pages["few"])
    browser.wait("document.querySelectorAll('.question[open] .passage').length >= 2")
    places = browser.run(
        "[...document.querySelectorAll('.question[open] .passage')].slice(0, 2).map((each) => "
        "[each.ariaLabel, each.getBoundingClientRect().left, each.getBoundingClientRect().top])"
    )
    [(gold, left, top), (wrong, right, below)] = places
    run = Run.load(pages["few"].parent)
    question = run.scores.questions["q0003"]
    assert gold == f"Text of {question.gold[0].citation}"
    assert wrong == f"Text of {run.scores.rows_of('local', 'q0003')[0].hits[0].span.citation}"
    assert (right > left + 300) == (width == 1400)
    assert (below > top + 100) == (width == 400)
    closed = "document.querySelectorAll('.question[open] .hit:not([open])').length"
    assert browser.run(closed) > 3, "only the first wrong hit of each answer is open"
    run = Run.load(pages["few"].parent)
    write_report(run, with_text=False, into=pages["few"].parent / "without")
    browser.open(pages["few"].parent / "without" / "report.html")
    browser.wait("document.querySelector('.question[open] .hit')")
    assert browser.run("document.querySelectorAll('.hit[open]').length") == 0


def test_a_narrow_table_has_a_cue_where_it_goes_on(browser: Chromium, pages: dict[str, Path]) -> None:
    """The shadow at an edge is covered by the table's own end, which scrolls with its content."""
    browser.look(400)
    browser.open(pages["few"])
    table = "document.querySelector('.table')"
    assert browser.run(f"{table}.scrollWidth > {table}.clientWidth")
    style = browser.run(f"getComputedStyle({table}).backgroundAttachment")
    assert style == "local, local, scroll, scroll"
    assert browser.run(f"getComputedStyle({table}.querySelector('td')).backgroundColor") == "rgba(0, 0, 0, 0)"


def test_the_numbers_of_the_differences_are_a_column(browser: Chromium, pages: dict[str, Path]) -> None:
    browser.look(1400)
    browser.open(pages["few"])
    browser.run(_UNFOLD)
    lefts, ends = browser.run("""(() => {
      const drawing = document.querySelector('[aria-labelledby=rates-and-differences] .plot svg');
      const box = (each) => each.getBoundingClientRect();
      const numbers = [...drawing.querySelectorAll('text')].filter((each) => / to /.test(each.textContent));
      const marks = [...drawing.querySelectorAll('.role-mark path, .role-mark line, .role-mark rect')];
      return [numbers.map((each) => Math.round(box(each).left)), marks.map((each) => box(each).right)];
    })()""")
    assert len(lefts) == 2
    assert len(set(lefts)) == 1
    assert lefts[0] > max(ends)


_TIP = "(() => { const tip = document.querySelector('.tip'); return tip.hidden ? '' : tip.textContent; })()"


def press(browser: Chromium, key: str) -> None:
    browser.run(
        "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', "
        f"{{ key: {json.dumps(key)}, bubbles: true, cancelable: true }}))"
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_the_keyboard_reaches_every_mark_of_a_plot(
    browser: Chromium, pages: dict[str, Path], width: int
) -> None:
    browser.look(width)
    browser.open(pages["crowded"])
    browser.run(_UNFOLD)
    shown = "[...document.querySelectorAll('.plot svg')].find((each) => each.getClientRects().length)"
    assert browser.run(f"{shown}.querySelectorAll('[tabindex=\"0\"]').length") == 1
    browser.run(f"{shown}.querySelector('[tabindex=\"0\"]').focus()")
    marks = browser.run(
        f"[...{shown}.querySelectorAll('[aria-roledescription=point]')].map((each) => "
        "[each.getBoundingClientRect().top, each.getAttribute('aria-label')])"
    )
    assert len(marks) == 6
    told = [browser.run(_TIP)]
    for _ in marks:
        press(browser, "ArrowDown")
        told.append(browser.run(_TIP))
    assert told == [label for _, label in sorted(marks)] + [min(marks)[1]]
    assert sum(each.startswith("reranked vs local: ") for each in told[:-1]) == 1
    assert browser.run(f"{shown}.querySelectorAll('[tabindex=\"0\"]').length") == 1
    inside = "(() => { const box = document.querySelector('.tip').getBoundingClientRect();"
    assert browser.run(f"{inside} return box.left >= 0 && box.right <= {width}; }})()")
    press(browser, "Escape")
    assert browser.run(_TIP) == ""


def test_the_pointer_finds_the_nearest_mark(browser: Chromium, pages: dict[str, Path]) -> None:
    browser.look(1400)
    browser.open(pages["crowded"])
    browser.run(_UNFOLD)
    move = """(async (dx) => {
      const mark = document.querySelector('.plot [aria-roledescription=point]');
      mark.scrollIntoView({ block: 'center', behavior: 'instant' });
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      const box = mark.getBoundingClientRect();
      mark.dispatchEvent(new PointerEvent('pointermove',
        { clientX: box.right + dx, clientY: box.top + 3, bubbles: true }));
    })(%d)"""
    browser.run(move % 10)
    assert browser.run(_TIP).startswith("swept[rrf_k=10, vector_weight=0.25] vs local")
    browser.run(move % 200)
    assert browser.run(_TIP) == ""


def test_print_shows_the_plots_and_hides_the_controls(browser: Chromium, pages: dict[str, Path]) -> None:
    browser.look(700, medium="print")
    browser.open(pages["crowded"])
    shown = "getComputedStyle(document.querySelector('%s')).display"
    assert browser.run(shown % ".plot svg") == "block"
    for hidden in ("nav", ".filters", ".pager"):
        assert browser.run(shown % hidden) == "none"
    browser.look(1400)
