"""Odd and hostile RST: the reader always yields a document whose spans hold."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.core import publish_doctree
from hypothesis import given, settings
from hypothesis import strategies as st

from branchrank.corpus.reading import read_document


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
    blocks = [block for section in read_document("a.rst", text.encode()).sections for block in section.blocks]
    found = [block.text for block in blocks if block.kind == "heading"]
    # docutils drops a heading that skips a level, and all the text below it; the reader keeps both.
    assert [title for title in found if title in expected] == found or len(found) > len(expected)


def test_carriage_returns_do_not_shift_line_numbers() -> None:
    text = "A\n=\n\nB\n-\n\ntext::\n\n    code\n    more code\n"
    document = read_document("a.rst", text.replace("\n", "\r\n").encode())
    assert [(s.title, s.line_start) for s in document.sections] == [("A", 1), ("B", 4)]
    assert document.sections == read_document("a.rst", text.encode()).sections


def test_unicode_line_separators_do_not_shift_line_numbers() -> None:
    document = read_document("a.rst", "one\u2028two\x0bthree\n\nB\n-\n\nC\n~\n".encode())
    assert document.sections[-1].line_start == 6


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
    document = read_document("a.rst", text.encode())
    assert "canary" not in repr(document)
