"""Odd and hostile RST: the reader always yields a document whose spans hold."""

from __future__ import annotations

import re
from typing import Any

import pytest
from docutils import nodes
from docutils.core import publish_doctree
from hypothesis import given, settings
from hypothesis import strategies as st

from branchrank.corpus.chunking import chunk_document
from branchrank.corpus.document import Document
from branchrank.corpus.rst import read_rst

FRAGMENTS = [
    "Title\n=====", "=====\nOver\n=====", "Sub\n---", "Bad\n==", "====", "====\nOver\n===", ".. _label:",
    ".. _name: https://x.org", "__ https://x.org", ".. |s| replace:: t", ".. comment\n   more", "..",
    ".. note::", ".. note:: text\n   more", "   nested text", "      deeper",
    ".. code-block:: x\n\n   code", ".. x:: a\n   :opt: v", ".. toctree::\n\n   a\n   T <b>", "::",
    "para::", "    indented", "> quoted", "* item", "- * 1. x", "#. y", "A. Einstein was", "(i) roman",
    ":field: body", "| line", ">>> x", "+--+--+\n|a |b |\n+--+--+", "+--+\n|a",
    "=== ===\na   b\n=== ===", "=== ===\na b", "`open", ":ref:`a <b>` x", "``lit``", "*a **b",
    "|s| and |", "x_ y__ [1]_", ".. [1] foot", "\\", "\t tab", "word", "\x0c", "\r", "\u2028", "字 é",
]  # fmt: skip


def check(document: Document, line_count: int) -> None:
    """The contract of a document and of its chunks."""
    assert document.line_count == line_count
    covered: list[int] = []
    for section in document.sections:
        covered += range(section.line_start, section.own_line_end + 1)
        last = section.line_start - 1
        for block in section.blocks:
            assert last < block.line_start <= block.line_end <= section.own_line_end
            assert block.text.strip()
            assert block.text.count("\n") <= block.line_end - block.line_start
            last = block.line_end
    assert covered == list(range(1, line_count + 1))
    sections = {section.id: section for section in document.sections}
    last = 0
    for chunk in chunk_document(
        document,
        target_tokens=24,
        overlap_tokens=0,
        limit_tokens=24,
        count_tokens=lambda text: len(text.split()),
    ):
        own = sections[chunk.node_id]
        assert own.line_start <= chunk.line_start <= chunk.line_end <= own.own_line_end
        assert chunk.line_start > last
        last = chunk.line_end


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(FRAGMENTS), st.sampled_from(["\n", "\n\n", "\n   "])), max_size=25))
def test_any_mixture_of_constructs_gives_a_valid_document(parts: list[tuple[str, str]]) -> None:
    text = "".join(fragment + end for fragment, end in parts)
    check(read_rst("a.rst", text.encode()), max(1, text.count("\n") + (not text.endswith("\n"))))


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_give_a_valid_document(content: bytes) -> None:
    lines = content.count(b"\n") + (not content.endswith(b"\n"))
    check(read_rst("a.rst", content), max(1, lines))


@settings(derandomize=True, max_examples=100, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["First\n=====", "Second\n------", "Third\n~~~~~", "text", "- item", ".. _l:", "x::\n\n   code"]
        ),
        max_size=12,
    )
)
def test_headings_are_those_that_docutils_finds(parts: list[str]) -> None:
    text = "\n\n".join(parts) + "\n"
    overrides: dict[str, Any] = {"report_level": 5, "halt_level": 5, "doctitle_xform": False}
    tree = publish_doctree(text, settings_overrides=overrides)
    expected = [section[0].astext() for section in tree.findall(nodes.section)]
    blocks = [block for section in read_rst("a.rst", text.encode()).sections for block in section.blocks]
    found = [block.text for block in blocks if block.kind == "heading"]
    # docutils drops a heading that skips a level, and all the text below it; the reader keeps both.
    assert [title for title in found if title in expected] == found or len(found) > len(expected)


def test_latin_1_and_nul_bytes_are_read_with_a_note() -> None:
    document = read_rst("a.rst", "Café\n====\n\nnaïve".encode("latin-1"))
    assert document.title == "Café"
    assert document.notes == ("read as Latin-1, because byte 4 is not valid UTF-8",)
    document = read_rst("a.rst", b"a\0b\n")
    assert document.sections[0].blocks[0].text == "a b"
    assert document.notes == ("NUL bytes were read as spaces",)


def test_an_empty_file_is_one_empty_line() -> None:
    for content in (b"", b"\n", b"\xef\xbb\xbf"):
        document = read_rst("dir/name.rst.inc", content)
        assert (document.line_count, document.title, document.sections[0].blocks) == (1, "name", ())


def test_carriage_returns_do_not_shift_line_numbers() -> None:
    text = "A\n=\n\nB\n-\n\ntext::\n\n    code\n    more code\n"
    document = read_rst("a.rst", text.replace("\n", "\r\n").encode())
    assert [(s.title, s.line_start) for s in document.sections] == [("A", 1), ("B", 4)]
    assert document.sections == read_rst("a.rst", text.encode()).sections


def test_unicode_line_separators_do_not_shift_line_numbers() -> None:
    document = read_rst("a.rst", "one\u2028two\x0bthree\n\nB\n-\n\nC\n~\n".encode())
    assert document.sections[-1].line_start == 6


@pytest.mark.parametrize(
    "text",
    [
        "".join("  " * depth + ".. note::\n\n" for depth in range(300)) + "  " * 300 + "bottom",
        "".join("  " * depth + "* item\n\n" for depth in range(300)) + "  " * 300 + "bottom",
        "- " * 300 + "bottom",
        "".join("  " * depth + "term\n" for depth in range(300)) + "  " * 300 + "bottom",
    ],
)
def test_deeply_nested_text_is_read_completely(text: str) -> None:
    document = read_rst("a.rst", text.encode())
    assert document.sections[0].blocks[-1].text.endswith("bottom")
    assert document.sections[0].blocks[-1].line_end == document.line_count


@pytest.mark.parametrize(
    "text",
    [
        "Unclosed ``literal and `role and *star\n\nend",
        ".. code-block:: php\n\n    open\n\nend",
        "=== ===\na   b\n\nend",
        "+---+---+\n| a | b\n\nend",
        "=====\nOver\n\nend",
        ".. note::\nend",
        "::\n\nend",
        ".. |sub| replace::\n\nend",
        ".. toctree::\n   :glob:\n\nend",
    ],
)
def test_unclosed_constructs_end_with_their_lines(text: str) -> None:
    words = {word for section in read_rst("a.rst", text.encode()).sections for block in section.blocks
             for word in re.findall(r"\w+", block.text)}  # fmt: skip
    expected = {"Unclosed", "literal", "role", "star", "open", "a", "b", "Over", "end"} & set(
        re.findall(r"\w+", text)
    )
    assert expected <= words


def test_directives_that_read_files_insert_nothing(tmp_path: Any) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("canary")
    text = "\n\n".join(
        [
            f".. include:: {secret}",
            f".. literalinclude:: {secret}",
            f".. csv-table:: t\n   :file: {secret}",
            f".. raw:: html\n   :file: {secret}",
            f".. include:: {secret}\n   :literal:",
        ]
    )
    document = read_rst("a.rst", text.encode())
    assert "canary" not in repr(document)


def test_a_file_of_100_000_lines_is_read() -> None:
    text = "Title\n=====\n\n" + "- a *word* and ``code``\n" * 50_000 + "plain text\n" * 49_997
    document = read_rst("a.rst", text.encode())
    assert document.line_count == 100_000
    assert document.sections[0].blocks[-1].line_end == 100_000
    assert document.sections[0].blocks[1].text == "- a word and code"
