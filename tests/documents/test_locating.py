"""Anchoring: passages are found where they came from, whatever a splitter did to them, and never guessed."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.commands import ROOT

from branchrank.core.records import Passage
from branchrank.documents.locating import Anchor, Locator

SAMPLE = Locator.of(ROOT / "data" / "sample" / "corpus")
SOURCES = sorted(SAMPLE.documents)
#: What splitters and loaders do to a text, and whether they leave every word.
CHANGES = {
    "nothing": lambda text: text,
    "joined": lambda text: " ".join(text.split()),
    "upper case": str.upper,
    "no markup": lambda text: re.sub(r"(?m)[`*]|^#+", "", text).replace("|", " "),
    "half words": lambda text: text.strip()[1:-1],
    "title": lambda text: f"Some title of nowhere > Its xyzzy part\n\n{text}",
    "line feeds": lambda text: text.replace("\n", "\r\n"),
    "suffix": lambda text: f"{text}\n\nxyzzy plugh",
}


def words(text: str) -> int:
    return sum(any(map(str.isalnum, word)) for word in text.split())


@st.composite
def passages(draw: st.DrawFn) -> tuple[str, int, int]:
    """A source, and the first and last line of a passage of at least 12 words."""
    source = draw(st.sampled_from(SOURCES))
    lines = SAMPLE.documents[source]
    first = draw(st.integers(1, len(lines)))
    last = draw(st.integers(first, min(len(lines), first + 30)))
    while last < len(lines) and words("\n".join(lines[first - 1 : last])) < 12:
        last += 1
    return source, first, last


@pytest.mark.parametrize("change", CHANGES)
@given(passages())
def test_a_changed_passage_is_found_where_it_came_from(change: str, drawn: tuple[str, int, int]) -> None:
    source, first, last = drawn
    lines = SAMPLE.documents[source]
    while first < last and words(lines[first - 1]) < 2:
        first += 1
    while last > first and words(lines[last - 1]) < 2:
        last -= 1
    text = "\n".join(lines[first - 1 : last])
    if words(text) < 12:
        return
    found = SAMPLE.find(Passage(text=CHANGES[change](text), source=source))
    if isinstance(found, Anchor):
        assert found.source == source
        assert abs(found.line_start - first) <= 2
        assert abs(found.line_end - last) <= 2
    else:
        assert found == "ambiguous"
        assert "\n".join(lines).count(lines[first - 1]) > 1, "only a text that occurs twice is ambiguous"


@given(st.text(max_size=300))
def test_any_text_has_a_defined_result(text: str) -> None:
    found = SAMPLE.find(Passage(text=text))
    assert isinstance(found, Anchor) or found in ("missing", "ambiguous")
    if isinstance(found, Anchor):
        assert 1 <= found.line_start <= found.line_end <= len(SAMPLE.documents[found.source])


def test_several_places_are_ambiguous_unless_source_or_lines_decide() -> None:
    notice = ["Rinse the tank with cold water.", "Then wait for one hour."]
    locator = Locator({"a/one.md": [*notice, "", *notice], "b/two.md": notice})
    text = "\n".join(notice)
    assert locator.find(Passage(text=text)) == "ambiguous"
    assert locator.find(Passage(text=text, source="a/one.md")) == "ambiguous"
    assert locator.locate(text, "file:///srv/docs/b/two.md") == Anchor(
        source="b/two.md", line_start=1, line_end=2, similarity=1.0, how="exact"
    )
    claimed = locator.find(Passage(text=text, source="one.md", line_start=4, line_end=4))
    assert isinstance(claimed, Anchor)
    assert (claimed.source, claimed.line_start) == ("a/one.md", 4)
    assert locator.find(Passage(text="", source="b/two.md")) == "missing"
    assert locator.find(Passage(text="Rinse the cup and wait for two days", source="b/two.md")) == "missing"


@pytest.mark.parametrize(
    ("source", "content", "text"),
    [
        ("a.html", "<p>\nPress <b>the\nred</b> button&nbsp;now\n</p>", "Press the red button now"),
        ("a.ipynb", '["first\\n",\n"Press the \\"red\\"\\n",\n"button now"]', 'Press the "red" button now'),
        ("a.md", "x\n煮沸水后倒入茶壶中等待三分钟\ny", "沸水后倒入茶壶中等待三分"),
        (
            "a.rst",
            "x\n\nPress :ref:`the red <long-label-of-it>`\nbutton now, and wait",
            "Press the red\nbutton now, and wait",
        ),
    ],
)
def test_markup_and_scripts_without_spaces(source: str, content: str, text: str) -> None:
    found = Locator({source: content.split("\n")}).locate(text)
    assert found is not None
    assert found.similarity == 1.0
    assert found.line_start > 1


@pytest.mark.parametrize(
    ("given", "source"),
    [
        ("./guide/a.md", "guide/a.md"),
        ("docs/../docs/guide/a.md", "guide/a.md"),
        ("file:///srv/guide/two%20words.md#top", "guide/two words.md"),
        ("file://[x/guide/a.md", "guide/a.md"),
        ("C:\\docs\\guide\\a.md", "guide/a.md"),
        ("a.md", "guide/a.md"),
        ("more/index.md", "index.md"),
        ("two.md", ""),
        ("elsewhere.md", ""),
    ],
)
def test_a_source_means_one_document_or_none(given: str, source: str) -> None:
    names = ["guide/a.md", "guide/two words.md", "index.md", "sub/index.md", "x/two.md", "y/two.md"]
    assert Locator({name: ["tea"] for name in names}).source_of(given) == source


def test_dropped_code_between_two_parts_belongs_to_the_place() -> None:
    code = ["```", *(f"value_{number} = {number}" for number in range(60)), "```"]
    lines = ["Start the pump before you open the valve.", *code, "Close the valve when the lamp is green."]
    found = Locator({"a.md": lines}).locate(f"{lines[0]}\n\n{lines[-1]}")
    assert found is not None
    assert (found.line_start, found.line_end) == (1, len(lines))


def test_huge_lines_take_linear_work(tmp_path: Path) -> None:
    draw = random.Random(1)
    line = " ".join(f"w{draw.randrange(50)}" for _ in range(200_000))
    found = Locator({"a.md": [line, "the end of it"]}).find(Passage(text=line[5000:9000]))
    assert isinstance(found, Anchor)
    assert (found.line_start, found.line_end) == (1, 1)


def test_one_or_two_words_are_ambiguous_without_a_source() -> None:
    locator = Locator({"steps.md": ["Take it from the shelf."], "one.md": ["kettle"]})
    assert locator.find(Passage(text="kettle")) == "ambiguous"
    assert isinstance(locator.find(Passage(text="kettle", source="one.md")), Anchor)


Case = tuple[Mapping[str, Sequence[str]], str]


def one_word(size: int) -> Case:
    """A text of one word, with another word in the middle."""
    return {"a.md": ["tea " * size]}, f"{'tea ' * (size // 4)}zebra {'tea ' * (size // 4)}"


def equal_rows(size: int) -> Case:
    """A table with equal rows, and some of them with a word that the corpus lacks."""
    return {"a.md": ["| see the note |"] * (size // 3)}, "| see the note |\n" * (size // 6) + "zebra see the"


def steps(case: Case) -> int:
    """Return the number of steps to locate a text, without the index."""
    documents, text = case
    locator = Locator(documents)
    locator.locate("build the index")
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> object:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        locator.locate(text)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("case", [one_word, equal_rows])
def test_four_times_the_text_and_corpus_take_four_times_the_work(case: Callable[[int], Case]) -> None:
    assert steps(case(1600)) < 5 * steps(case(400))
