from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.worlds import write_pages

from branchrank.core.records import Span
from branchrank.documents.document import Document, Reference
from branchrank.documents.reading import read_document
from branchrank.frontends.cli.main import main
from branchrank.questions.links import Links, Target
from branchrank.questions.mining import Mined, is_release_note, mine_questions
from branchrank.questions.question_files import load_questions


def documents(pages: dict[str, str]) -> list[Document]:
    return [read_document(source, text.encode()) for source, text in pages.items()]


TEA = (
    "Tea\n===\n\nLeaves.\n\n.. _tea-steeping:\n\nSteeping time\n-------------\n\nThree minutes.\n\n"
    ".. _inner:\n\nMore.\n"
)


def mined(body: str, **others: str) -> Mined:
    """What a page with ``body`` gives beside a page on tea."""
    pages = {"tea.rst": TEA, "start.rst": f"Start\n=====\n\n{body}\n"}
    return mine_questions(documents(pages | {f"{name}.rst": text for name, text in others.items()}))


def reason(result: Mined) -> str:
    """The one reason that dropped something."""
    assert result.questions == []
    (name,) = [name for name, count in (result.dropped_links | result.dropped_queries).items() if count]
    return name


def test_a_label_at_a_heading_gives_the_sections_own_span() -> None:
    (question,) = mined("Read on :ref:`brewing for long <tea-steeping>`.").questions
    assert question.id == "mined-brewing-for-long"
    assert question.question == "brewing for long"
    assert [item.span for item in question.gold] == [Span(source="tea.rst", line_start=6, line_end=15)]
    assert question.excluded_spans == (Span(source="start.rst", line_start=1, line_end=4),)
    assert (question.kind, question.section_title, question.gold_level) == (
        "navigational",
        "Steeping time",
        "span",
    )
    assert question.extra == {"overlap": "paraphrase"}


def test_a_page_link_is_gold_at_file_level() -> None:
    (question,) = mined("See the :doc:`hot drinks of leaves </tea>`.").questions
    assert question.gold_level == "file"
    assert [item.source_file for item in question.gold] == ["tea.rst"]
    assert question.gold[0].span is None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("See :ref:`brewing for long <nowhere>`.", "unresolved: no such label"),
        ("See `brewing for long <tea.html#nowhere>`_.", "unresolved: no such label"),
        ("See :doc:`brewing for long <nowhere>`.", "unresolved: no such page"),
        ("See `brewing for long <nowhere.html>`_.", "unresolved: no such page"),
        ("See `brewing for long <v1.2/>`_.", "unresolved: no such page"),
        ("See `brewing for long <tea.zip>`_.", "unresolved: not a document"),
        ("See `brewing for long <{{base}}/tea>`_.", "unresolved: variable"),
        ("See :ref:`brewing for long <inner>`.", "inner label"),
        ("See :ref:`the steeping times section <tea-steeping>`.", "as its heading"),
        ("See :ref:`the steeped times <tea-steeping>`.", "as its heading"),
        ("See :ref:`brewing <tea-steeping>`.", "too few words"),
        ("See :ref:`more about the brewing <tea-steeping>`.", "too few words"),
        ("See :ref:`brewing leaves as shown above <tea-steeping>`.", "points"),
        ("See :ref:`this brewing guide <tea-steeping>`.", "points"),
        ("See :ref:`brew_seconds() method <tea-steeping>`.", "names code"),
        ("See :ref:`Kettle::boil() TeaPot.pour <tea-steeping>`.", "names code"),
        ("See :doc:`where this begins </start>`.", "leads into itself"),
    ],
)
def test_filters(body: str, expected: str) -> None:
    assert reason(mined(body)) == expected


@pytest.mark.parametrize(
    ("text", "overlap"),
    [("time for steeping", "subset"), ("long steeping", "partial"), ("brew strength", "paraphrase")],
)
def test_overlap_with_the_heading(text: str, overlap: str) -> None:
    result = mined(f"See :ref:`{text} <tea-steeping>`.")
    assert [question.extra["overlap"] for question in result.questions] == [overlap]
    assert result.overlaps[overlap] == 1


def test_equal_texts_are_one_question_and_all_linking_sections_are_excluded() -> None:
    result = mined(
        ":ref:`hot brew strength <tea-steeping>`\n\nPart\n----\n\n:ref:`Hot brew  strength <tea-steeping>`",
        other="Other\n=====\n\n:ref:`HOT BREW STRENGTH <nowhere>`, :ref:`hot brew strength <tea-steeping>`\n",
    )
    (question,) = result.questions
    assert question.question == "hot brew strength", "the most frequent spelling"
    assert [(span.source, span.line_start) for span in question.excluded_spans] == [
        ("other.rst", 1),
        ("start.rst", 1),
        ("start.rst", 6),
    ]
    assert result.links == 4
    assert result.queries == 1
    assert result.dropped_links["unresolved: no such label"] == 1


def test_two_golds_are_kept_and_three_are_ambiguous() -> None:
    page = "{0}\n=\n\n.. _{0}:\n\nKettle {0}\n--------\n\nText.\n"
    links = [f"See :ref:`boiling water <{name}>`." for name in ("x", "y", "z")]
    pages = {name: page.format(name) for name in ("x", "y", "z")}
    (question,) = mined("\n".join(links[:2]), **pages).questions
    assert [item.source_file for item in question.gold] == ["x.rst", "y.rst"]
    assert reason(mined("\n".join(links), **pages)) == "ambiguous"


def test_gold_that_would_be_excluded_makes_no_question() -> None:
    tea = TEA + "\nSee :ref:`brewing for long <start-part>`.\n"
    start = ".. _start-part:\n\nPart\n----\n\nSee :ref:`brewing for long <tea-steeping>`."
    pages = {"tea.rst": tea, "start.rst": f"Start\n=====\n\n{start}\n"}
    assert reason(mine_questions(documents(pages))) == "links itself"
    page = "Start\n=====\n\nSee :doc:`brewing for long <tea>`.\n\n.. _start-part:\n\nPart\n----\n\nText.\n"
    assert reason(mine_questions(documents({"tea.rst": tea, "start.rst": page}))) == "links itself"


def test_a_heading_without_text_covers_its_subsections() -> None:
    other = (
        "Cups\n====\n\n.. _cups:\n\nSizes\n-----\n\nSmall\n~~~~~\n\nTiny.\n\n"
        "Large\n~~~~~\n\nHuge.\n\nEnd\n---\n\nx\n"
    )
    (question,) = mined("See :ref:`cup volume <cups>`.", cups=other).questions
    assert question.gold[0].span == Span(source="cups.rst", line_start=4, line_end=18)


def test_copied_pages_are_aliases_and_make_no_questions_of_their_own() -> None:
    start = "Start\n=====\n\nSee :ref:`brewing for long <tea-steeping>`.\n"
    pages = {"b/start.rst": start, "a/start.rst": start, "tea.rst": TEA, "z/tea.rst": TEA}
    result = mine_questions(documents(pages))
    (question,) = result.questions
    assert result.links == 1
    assert question.source_aliases == ("z/tea.rst",)
    assert question.gold[0].source_file == "tea.rst"
    assert question.excluded_spans == (Span(source="a/start.rst", line_start=1, line_end=4),)


@pytest.mark.parametrize(
    ("source", "title", "expected"),
    [
        ("releases/5.2.txt", "Changes", True),
        ("CHANGELOG.md", "All", True),
        ("docs/whats_new.rst", "News", True),
        ("upgrade-2.0.md", "Upgrading", True),
        ("x/y.md", "Teapot 2.1 release notes", True),
        ("x/y.md", "v2.1.3", True),
        ("internals/release-process.txt", "How releases are made", False),
        ("guide/changing-filters.md", "Changing filters", False),
        ("guide/http2.md", "HTTP 2 and 3.1 clients", False),
    ],
)
def test_release_notes_are_known_by_path_or_title(source: str, title: str, expected: bool) -> None:
    assert is_release_note(read_document(source, f"# {title}\n\ntext\n".encode())) is expected


def test_links_into_release_notes_are_dropped() -> None:
    pages = {
        "tea.rst": TEA,
        "changelog.rst": "Changes\n=======\n\n.. _c2:\n\nFaster kettle\n-----\n\nText.\n",
        "start.rst": "Start\n=====\n\nSee :ref:`speed of boiling <c2>`.\n",
    }
    assert reason(mine_questions(documents(pages))) == "release notes"


def test_ids_are_distinct_and_the_order_of_documents_does_not_matter() -> None:
    body = "\n".join(
        f":ref:`{text} <tea-steeping>`" for text in ("hot brew", "hot/brew", "brew strength", "good cup")
    )
    pages = documents({"tea.rst": TEA, "start.rst": f"Start\n=====\n\n{body}\n", "o.rst": "O\n=\n\nx\n"})
    expected = mine_questions(pages)
    assert [question.id for question in expected.questions] == sorted(
        question.id for question in expected.questions
    )
    assert len({question.id for question in expected.questions}) == 3
    random.Random(3).shuffle(pages)
    assert mine_questions(pages) == expected


LINKED = {
    "docs/01-start/02-install.md": "# Install\n\n## On a ship {#ship}\n\nx\n\n## Set up\n\ny\n",
    "docs/02-guides/index.md": "# Guides\n\n## Set up\n\nx\n",
    "docs/02-guides/tea.md": "# Tea\n\nx\n\n## Set up\n\ny\n\n## Set up\n\nz\n",
    "docs/page.rst": "Page\n====\n\nPart one\n--------\n\nx\n",
}


@pytest.mark.parametrize(
    ("target", "source", "section"),
    [
        ("tea.md", "docs/02-guides/tea.md", 0),
        ("./tea", "docs/02-guides/tea.md", 0),
        ("../01-start/02-install.md#ship", "docs/01-start/02-install.md", 1),
        ("../start/install#set-up", "docs/01-start/02-install.md", 2),
        ("/docs/start/install", "docs/01-start/02-install.md", 0),
        ("/manual/docs/start/install/", "docs/01-start/02-install.md", 0),
        ("/guides#set-up", "docs/02-guides/index.md", 1),
        ("#set-up-1", "docs/02-guides/here.md", 2),
        ("../page.html#part-one", "docs/page.rst", 1),
        ("../page#Part%20one", None, 0),
        ("#nowhere", None, 0),
        ("../../etc/passwd", None, 0),
        ("/", None, 0),
    ],
)
def test_relative_urls(target: str, source: str | None, section: int) -> None:
    pages = {**LINKED, "docs/02-guides/here.md": "# Here\n\n## Set up\n\nx\n\n## Set up\n\ny\n"}
    links = Links(documents(pages))
    reference = Reference(role="link", text="t", target=target, line=1)
    if source is None:
        with pytest.raises(LookupError):
            links.target("docs/02-guides/here.md", reference)
    else:
        assert links.target("docs/02-guides/here.md", reference) == Target(source, section)


@pytest.mark.parametrize("source", ["here.md", "here.rst"])
@pytest.mark.parametrize(
    ("target", "found", "section"),
    [
        ("#boiling", "tea.md", 1),
        ("#Water%20Label", "water.rst", 1),
        ("#kettle-id", "tea.md", 2),
        ("#own", "here", 1),
        ("#both", None, 0),
        ("#steep-it", None, 0),
        ("#loose", "inner", 0),
    ],
)
def test_an_anchor_alone_can_be_a_label_of_one_other_page(
    target: str, found: str | None, section: int, source: str
) -> None:
    tea = (
        "# Tea\n\n(boiling)=\n## Boiling\n\n## Kettle {#kettle-id}\n\n(both)=\n## Steep it\n\n(loose)=\n\nx\n"
    )
    own = "# Here\n\n## Own\n" if source == "here.md" else "Here\n====\n\nOwn\n---\n"
    water = "Water\n=====\n\n.. _Water Label:\n\nBoil\n----\n\n.. _both:\n\nPour\n----\n"
    links = Links(
        documents({"tea.md": tea, "water.rst": water, source: own, "z.md": "# Z\n\n(own)=\n## Z\n"})
    )
    reference = Reference(role="link", text="t", target=target, line=1)
    if found is None or (source == "here.rst" and found != "here"):
        with pytest.raises(LookupError):
            links.target(source, reference)
    else:
        expected = None if found == "inner" else Target(source if found == "here" else found, section)
        assert links.target(source, reference) == expected


def test_a_written_label_comes_before_the_slug_of_a_heading() -> None:
    pages = {"a.md": "# A\n\n## Set up\n", "b.md": "# B\n\n## X\n\n(set-up)=\n## Y\n"}
    reference = Reference(role="ref", text="t", target="set-up", line=1)
    assert Links(documents(pages)).target("c.md", reference) == Target("b.md", 2)
    del pages["b.md"]
    assert Links(documents(pages)).target("c.md", reference) == Target("a.md", 1)


def test_a_path_names_the_file_of_that_path_before_any_other() -> None:
    pages = documents({"01-tea.md": "# A\n", "tea.md": "# B\n", "tea/index.md": "# C\n", "x/tea.md": "# D\n"})
    links = Links(pages)
    for target, source in (("tea", "tea.md"), ("01-tea", "01-tea.md"), ("tea/index", "tea/index.md")):
        reference = Reference(role="doc", text="t", target=target, line=1)
        assert links.target("start.md", reference) == Target(source, 0)


def test_the_command_writes_anchored_questions_and_reports_dropped_ones(tmp_path: Path) -> None:
    body = "See :ref:`brewing for long <tea-steeping>`, :ref:`so on <nowhere>`."
    write_pages(tmp_path / "docs", {"tea.rst": TEA, "start.rst": f"Start\n=====\n\n{body}\n"})
    output = tmp_path / "mined.jsonl"
    result = CliRunner().invoke(
        main,
        ["questions", "mine", str(tmp_path / "docs"), "--output", str(output), "--data-dir", str(tmp_path)],
    )
    assert result.exit_code == 0, result.output
    assert "2 cross-references" in result.output
    assert "1 unresolved: no such label" in result.output
    assert "0 subset, 0 partial, 1 paraphrase" in result.output
    (question,) = load_questions(output)
    assert question.gold[0].answer_digest
    assert question.extra["overlap"] == "paraphrase"


@pytest.mark.parametrize(
    ("source", "target", "found", "section"),
    [
        ("a.md", "/functions/relpermalink/", "functions/RelPermalink.md", 0),
        ("a.md", "/functions/", "functions/_index.md", 0),
        ("functions/_index.md", "relpermalink", "functions/RelPermalink.md", 0),
        ("functions/RelPermalink.md", "../to-upper/#usage", "functions/To Upper.md", 1),
        ("functions/RelPermalink.md", "/", "_index.md", 0),
        ("content/en/a.md", "~/functions/RelPermalink.md", "functions/RelPermalink.md", 0),
        ("content/en/a.md", "/b-c/d/", "content/en/B c/D/index.md", 0),
        ("a.md", "/cafe%CC%81/#cre%CC%80me", "caf\u00e9.md", 1),
        ("a.md", "cafe\u0301.md#cr\u00e8me", "caf\u00e9.md", 1),
        ("a.md", "nai\u0308f#cre\u0300me", "nai\u0308f.rst", 1),
        ("a.md", "na\u00efve#nai\u0308ve-idea", "nai\u0308ve.md", 1),
        ("a.md", "na\u00efve#na\u00efve-idea", "nai\u0308ve.md", 1),
    ],
)
def test_case_folder_pages_and_decomposed_letters(source: str, target: str, found: str, section: int) -> None:
    titles = {
        "functions/To Upper.md": "# T\n\n## Usage\n",
        "caf\u00e9.md": "# T\n\n## Cr\u00e8me\n",
        "nai\u0308f.rst": "T\n=\n\nCre\u0300me\n------\n",
        "nai\u0308ve.md": "# T\n\n## Nai\u0308ve idea\n",
    }
    sources = ("_index.md", "functions/_index.md", "functions/RelPermalink.md", "content/en/B c/D/index.md")
    links = Links(documents(dict.fromkeys(("a.md", "content/en/a.md", *sources), "# T\n") | titles))
    reference = Reference(role="link", text="t", target=target, line=1)
    assert links.target(source, reference) == Target(found, section)


def test_a_long_target_costs_no_more_than_its_length() -> None:
    links = Links(documents(LINKED))
    reference = Reference(role="link", text="t", target="a" + "." * 30_000, line=1)
    tracemalloc.start()
    try:
        with pytest.raises(LookupError):
            links.target("docs/02-guides/tea.md", reference)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


def test_a_corpus_without_cross_references_is_reported(tmp_path: Path) -> None:
    write_pages(tmp_path / "docs", {"tea.rst": TEA})
    output = tmp_path / "mined.jsonl"
    result = CliRunner().invoke(main, ["questions", "mine", str(tmp_path / "docs"), "--output", str(output)])
    assert result.exit_code == 3
    assert "no cross-reference" in result.output
    assert not output.exists()
