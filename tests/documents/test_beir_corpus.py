from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branchrank.core.errors import CorpusError
from branchrank.documents.ir_collections import entry_id, entry_source, is_beir, unpack_beir
from branchrank.documents.loading import load_corpus
from branchrank.documents.reading import read_document, suffix_of


@given(st.text(min_size=1, max_size=20))
def test_any_id_maps_to_a_plain_file_name_and_back(identifier: str) -> None:
    try:
        source = entry_source(identifier)
    except UnicodeEncodeError:
        return
    assert entry_id(source) == identifier
    assert suffix_of(source)
    assert not source.startswith(".")
    assert not {"/", "\\", "\0", " ", "\n"} & set(source)


def test_an_entry_is_one_section_of_plain_text() -> None:
    document = read_document("7.beir", b"White  tea\n*Cats* `chase`_ |mice|\n\n.. note:: # x\n")
    (section,) = document.sections
    assert (document.title, section.title) == ("White tea", "White tea")
    assert (section.line_start, section.own_line_end, section.line_end) == (1, 4, 4)
    assert [(block.text, block.line_start, block.line_end) for block in section.blocks] == [
        ("*Cats* `chase`_ |mice|", 2, 2),
        (".. note:: # x", 4, 4),
    ]
    assert document.references == ()


@pytest.mark.parametrize(
    ("content", "texts"), [(b"\nx y\n", ["x y"]), (b"Only\n\n", ["Only"]), (b"\n\n", []), (b"", [])]
)
def test_entries_without_title_or_text(content: bytes, texts: list[str]) -> None:
    document = read_document("7.beir", content)
    assert document.title == ""
    assert [block.text for block in document.sections[0].blocks] == texts


def corpus(folder: Path, *lines: str) -> Path:
    folder.mkdir()
    (folder / "corpus.jsonl").write_text("".join(f"{line}\n" for line in lines))
    (folder / "queries.jsonl").write_text("")
    return folder


def test_unpacked_entries_are_a_corpus(tmp_path: Path) -> None:
    folder = corpus(
        tmp_path / "b",
        '{"_id": ".a", "title": "T\\nu", "text": "one\\u0000two"}',
        "",
        '{"_id": "x/../y", "title": null, "text": ""}',
    )
    assert is_beir(folder)
    assert not is_beir(tmp_path)
    documents = load_corpus(unpack_beir(folder, tmp_path / "made")).documents
    assert {entry_id(document.source) for document in documents} == {".a", "x/../y"}
    assert documents[0].title == "T u"
    assert documents[0].sections[0].blocks[0].text == "one two"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"_id": "a", "text": "again"}', "document 2: the `_id` 'a' is empty or used by an earlier"),
        ('{"_id": "", "text": "x"}', "document 2: the `_id` '' is empty"),
        ('{"_id": "b"}', ":2: .*`text`"),
        ("[1]", ":2: "),
        ("{", ":2: "),
    ],
)
def test_a_wrong_line_is_reported_and_no_files_are_left(tmp_path: Path, line: str, message: str) -> None:
    folder = corpus(tmp_path / "b", '{"_id": "a", "text": "x"}', line)
    with pytest.raises(CorpusError, match=message):
        unpack_beir(folder, tmp_path / "made")
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_a_folder_of_something_else_is_not_replaced(tmp_path: Path) -> None:
    folder = corpus(tmp_path / "b", '{"_id": "a", "text": "x"}')
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "diary.txt").write_text("dear")
    with pytest.raises(CorpusError, match="made"):
        unpack_beir(folder, tmp_path / "made")
    assert (tmp_path / "made" / "diary.txt").read_text() == "dear"
