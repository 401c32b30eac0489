"""PDFs: lines of the extracted text, sections of the outline or pages, and notes on what can't be read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from click.testing import CliRunner
from documents.invariants import problems_in
from hypothesis import given, settings
from hypothesis import strategies as st
from support.pdfs import Entry, assemble, pdf

from branchrank.core.errors import ArtifactError
from branchrank.documents import pdf as reader
from branchrank.documents import pdf_pages, reading, source_code
from branchrank.documents.document import Document
from branchrank.documents.loading import discover, load_corpus
from branchrank.documents.reading import TEXTS, document_digest, document_lines, document_text, read_document
from branchrank.frontends.cli.main import main
from branchrank.index.reader import open_index
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.run import Run
from branchrank.search.files.grep_search import Grep
from branchrank.search.files.read_file import FileReader

PAGES = [
    ["Tea Manual", "Brewing", "Fill the kettle (twice).", "2.1 Leaves", "Black or green."],
    [],
    ["Tea Manual", "Cleaning the inside", "of the pot", "Use vinegar.", "Descale it."],
]
OUTLINE: list[Entry] = [
    (0, "1 Brewing", 0),
    (1, "Leaves", 0),
    (0, "Cleaning the inside of the pot", 2),
    (1, "Scale", 2),
    (1, "Chalk", 2),
    (0, "Nowhere", None),
]


@pytest.mark.parametrize("name", ["tea.pdf", "tea.py"])
def test_a_process_that_parses_a_file_gets_no_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("BRANCHRANK_LLM_KEY", "sk-0123456789")
    monkeypatch.setenv("THEIR_PASSWORD", "sk-0123456789")
    parser = tmp_path / "parser.py"
    parser.write_text(f"import os\nopen({str(tmp_path / 'seen')!r}, 'w').write(repr(dict(os.environ)))\n")
    monkeypatch.setattr(pdf_pages, "__file__", str(parser))
    monkeypatch.setattr(source_code.code_outline, "__file__", str(parser))
    monkeypatch.setattr(source_code, "_OUTLINER", source_code._Outliner())
    read_document(name, b"%PDF-1.7 " + name.encode() if name == "tea.pdf" else b"x = 1\n")
    seen = (tmp_path / "seen").read_text()
    assert "sk-0123456789" not in seen
    assert "'PATH'" in seen


def sections(document: Document) -> list[tuple[str, int, int, int]]:
    return [(s.title, s.level, s.line_start, s.own_line_end) for s in document.sections]


def blocks(document: Document) -> list[tuple[str, str, int, int]]:
    return [(b.kind, b.text, b.line_start, b.line_end) for s in document.sections for b in s.blocks]


def read(content: bytes) -> Document:
    document = read_document("tea.pdf", content)
    assert problems_in(document, content, target_tokens=12, scan=False) == []
    return document


def test_outline_entries_are_sections_at_the_lines_of_their_titles() -> None:
    content = pdf(PAGES, OUTLINE, title="The book of tea")
    document = read(content)
    assert document_text("tea.pdf", content).split("\n") == [*PAGES[0], "", *PAGES[2], ""]
    assert sections(document) == [
        ("The book of tea", 0, 1, 1),
        ("1 Brewing", 1, 2, 3),
        ("Leaves", 2, 4, 7),
        ("Cleaning the inside of the pot", 1, 8, 11),
    ]
    assert blocks(document) == [
        ("prose", "Tea Manual", 1, 1),
        ("heading", "1 Brewing", 2, 2),
        ("prose", "Fill the kettle (twice).", 3, 3),
        ("heading", "Leaves", 4, 4),
        ("prose", "Black or green.", 5, 5),
        ("prose", "Tea Manual", 7, 7),
        ("heading", "Cleaning the inside of the pot", 8, 9),
        ("prose", "Use vinegar.\nDescale it.", 10, 11),
    ]
    lost, shared = document.notes
    assert lost.startswith("1 outline entry ")
    assert shared.startswith("line 9: 2 headings ")


def test_deep_outline_entries_are_sections() -> None:
    document = read(
        pdf([[f"Part {number}" for number in range(40)]], [(n, f"Part {n}", 0) for n in range(40)])
    )
    assert sections(document) == [(f"Part {n}", n, n + 1, n + 1) for n in range(40)]


def test_pages_without_an_outline_are_sections() -> None:
    document = read(pdf(PAGES))
    assert sections(document) == [("tea", 0, 1, 0), ("Page 1", 1, 1, 6), ("Page 3", 1, 7, 11)]
    assert [block[2:] for block in blocks(document)] == [(1, 5), (7, 11)]
    assert sections(read(pdf(PAGES[:1]))) == [("tea", 0, 1, 5)]


def _cyclic() -> bytes:
    content = pdf([["One"], ["Two"]], [(0, "One", 0), (0, "Two", 1)])
    return content.replace(b"/Title(Two)", b"/Title(Two)/Next 14 0 R/First 14 0 R")


def _laughs() -> bytes:
    """A form that shows another form ten times, which shows another one ten times, and so on."""
    calls = "/X Do " * 10
    objects = {1: "<</Type/Catalog/Pages 2 0 R>>", 2: "<</Type/Pages/Count 2/Kids[3 0 R 5 0 R]>>"}
    objects[3] = "<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 6 0 R/Resources<</Font<</F 7 0 R>>>>>>"
    objects[5] = (
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 10 0 R/Resources<</XObject<</X 11 0 R>>>>>>"
    )
    objects[6] = "<</Length 29>>stream\nBT /F 1 Tf 1 1 Td (Kept) Tj ET\nendstream"
    objects[7] = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
    objects[10] = f"<</Length {len(calls)}>>stream\n{calls}\nendstream"
    for number in range(11, 31):
        objects[number] = (
            f"<</Type/XObject/Subtype/Form/BBox[0 0 9 9]/Length {len(calls)}"
            f"/Resources<</XObject<</X {number + 1} 0 R>>>>>>stream\n{calls}\nendstream"
        )
    objects[31] = "<</Type/XObject/Subtype/Form/BBox[0 0 9 9]/Length 0>>stream\n\nendstream"
    return assemble(objects)


ENCRYPTED = (
    f"/Encrypt<</Filter/Standard/V 2/R 3/Length 128/P -4/O<{'41' * 32}>/U<{'42' * 32}>>>"
    f"/ID[<{'43' * 16}><{'43' * 16}>]"
)
EMPTY = [
    (b"", "not a PDF"),
    (b"<html>not a PDF</html>", "not a PDF"),
    (b"%PDF-1.7\n" + bytes(range(256)) * 9, "not a PDF"),
    (pdf(PAGES, trailer=ENCRYPTED), "encrypted"),
    (pdf([[], []]), "has no text"),
    (pdf([]), "damaged"),
    (pdf(PAGES, OUTLINE)[:900], "damaged"),
]


@pytest.mark.parametrize(("content", "why"), EMPTY)
def test_a_file_without_readable_text_has_a_note_and_no_text(content: bytes, why: str) -> None:
    document = read(content)
    assert blocks(document) == []
    (note,) = document.notes
    assert why in note


def test_the_rest_of_the_corpus_is_read_beside_files_that_can_not_be_read(tmp_path: Path) -> None:
    for number, (content, _) in enumerate(EMPTY):
        (tmp_path / f"{number}.pdf").write_bytes(content)
    (tmp_path / "tea.pdf").write_bytes(pdf(PAGES, OUTLINE))
    corpus = load_corpus(tmp_path)
    assert len(corpus.documents) == len(EMPTY) + 1
    assert corpus.documents[-1].title == "tea"
    assert len(corpus.documents[-1].sections) == 4


def test_an_outline_with_a_cycle_is_read_once() -> None:
    assert sections(read(_cyclic())) == [("tea", 0, 1, 0), ("One", 1, 1, 1), ("Two", 1, 2, 2)]


def test_a_large_outline_is_cut() -> None:
    content = pdf([["Tea"]] * 40, [(number % 3, f"Entry {number}", number % 40) for number in range(10_100)])
    document = read_document("tea.pdf", content)
    assert len(document.sections) == 41
    assert "10000 outline entries" in document.notes[0]


def test_a_page_that_never_ends_is_stopped_and_the_pages_before_it_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader, "CPU_SECONDS", 1)
    document = read(_laughs())
    assert blocks(document) == [("prose", "Kept", 1, 1)]
    (note,) = document.notes
    assert note.startswith("page 2: ")
    assert note.endswith(" 1 s")


def test_thousands_of_pages_are_read() -> None:
    document = read(pdf([[f"Page about tea {number}"] for number in range(2000)]))
    assert (document.line_count, document.notes) == (2000, ())
    assert len(document.sections) == 2001


@pytest.mark.full
def test_only_the_allowed_number_of_pages_is_read() -> None:
    content = pdf([["tea"]]).replace(
        b"/Count 1/Kids[10 0 R]", b"/Count 20100/Kids[" + b"10 0 R " * 20_100 + b"]"
    )
    document = read(content)
    assert document.line_count == pdf_pages.MAX_PAGES
    assert document.notes[0].startswith("page 20001: ")


@settings(max_examples=settings().max_examples // 5)
@given(
    st.lists(
        st.lists(st.sampled_from(["Tea", "1.2 Tea", "Pot", "", "the pot", "\\(x"]), max_size=5),
        min_size=1,
        max_size=4,
    ),
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["Tea", "Pot the pot", "x", " "]), st.integers(0, 3)),
        max_size=6,
    ),
    st.integers(0, 2000),
    st.binary(max_size=3),
)
def test_any_pdf_has_a_partition(
    pages: list[list[str]], entries: list[tuple[int, str, int]], place: int, change: bytes
) -> None:
    levels = 0
    outline: list[Entry] = []
    for level, title, page in entries:
        levels = min(level, levels + 1 if outline else 0)
        outline.append((levels, title, page % len(pages)))
    content = pdf(pages, outline)
    read(content)
    read(content[:place] + change + content[place + len(change) :])


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The extra is not installed."""
    monkeypatch.setattr(reading, "find_spec", lambda name: None)
    reading._missing_extra.cache_clear()
    yield
    reading._missing_extra.cache_clear()


@pytest.mark.usefixtures("no_library")
def test_without_the_extra_the_files_are_counted_with_the_command_that_installs_it(tmp_path: Path) -> None:
    (tmp_path / "tea.pdf").write_bytes(pdf(PAGES))
    (tmp_path / "a.md").write_text("# Tea\n")
    (note,) = discover(tmp_path).notes
    assert note.replace("uv ", "").startswith("indexed 1; skipped 1: 1 .pdf (pip install ")
    assert "pypdfium2" in note


@pytest.fixture
def indexed(tmp_path: Path) -> WorkspaceFolder:
    """A workspace with an index of a Markdown file and a PDF."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# Coffee\n\nNo espresso.\n")
    (tmp_path / "docs" / "tea.pdf").write_bytes(pdf(PAGES, OUTLINE))
    run("index", tmp_path / "docs", "--data-dir", tmp_path / "data", "--embedder", "fake:64")
    return WorkspaceFolder.open(tmp_path / "data", environment={"BRANCHRANK_INDEX_EMBEDDER": "fake:64"})


def test_another_version_of_the_library_makes_the_index_stale(
    indexed: WorkspaceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = document_digest("tea.pdf", pdf(PAGES))
    open_index(indexed).close()
    monkeypatch.setattr(reader.READER, "version", "pypdfium2 0")
    assert document_digest("tea.pdf", pdf(PAGES)) != digest
    with pytest.raises(ArtifactError, match=r"\.pdf .* pypdfium2 0, not pypdfium2 \d"):
        open_index(indexed)


def test_without_the_extra_the_index_is_stale(
    indexed: WorkspaceFolder, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue("no_library")
    with pytest.raises(ArtifactError, match=r"tea\.pdf .*\((uv )?pip install "):
        open_index(indexed)


def run(*arguments: object) -> str:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_an_index_stores_the_text_and_every_command_uses_its_lines(
    indexed: WorkspaceFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs, flags = indexed.corpus_root, ("--data-dir", indexed.data_dir, "--embedder", "fake:64")
    gold = {"scale": (10, 11), "kettle": (3, 3)}
    asked = {"scale": "descale with vinegar", "kettle": "fill the kettle"}
    lines = [
        {"id": name, "question": asked[name], "source_file": "tea.pdf"}
        | {"answer_line_start": first, "answer_line_end": last}
        for name, (first, last) in gold.items()
    ]
    questions = tmp_path / "questions.jsonl"
    questions.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def refuse(content: bytes) -> NoReturn:
        raise AssertionError("the text was extracted again")

    with monkeypatch.context() as patch:
        patch.setattr(reader, "_extract", refuse)
        assert "tea.pdf:8-11" in run("retrieve", "descale with vinegar", *flags)
        assert document_lines(docs, "tea.pdf")[9:] == ["Use vinegar.", "Descale it."]
        with open_index(indexed) as index:
            grep = Grep(
                docs, index.sources, texts=(index.directory / TEXTS, index.text_files), context_lines=0
            )
            found = {
                passage.span.citation: passage.text for passage in grep.search("espresso vinegar").passages
            }
            text = FileReader(docs, index.sources).text("tea.pdf")
        assert found == {"a.md:3-3": "No espresso.", "tea.pdf:10-10": "Use vinegar."}
        assert text.split("\n")[9] == "Use vinegar."
    reports = tmp_path / "reports"
    run("benchmark", *flags, "--questions", questions, "--reports", reports, "--predictor", "grep")
    (directory,) = reports.iterdir()
    assert Run.load(directory).summary["strict_hit@1"].tolist() == [1.0]
    assert "all numbers agree" in run("verify", directory, "--corpus", docs)
