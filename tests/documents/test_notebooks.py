"""Notebooks: cells in order, with the lines of the JSON file."""

from __future__ import annotations

import json
from typing import Any

import pytest
from documents.invariants import problems_of
from hypothesis import given
from hypothesis import strategies as st

from branchrank.documents.document import Document
from branchrank.documents.reading import read_document


def notebook(*cells: tuple[str, str | list[str]], indent: int | None = 1, **fields: Any) -> bytes:
    made = [{"cell_type": kind, "outputs": [{"text": "hidden"}], "source": source} for kind, source in cells]
    return json.dumps({"cells": made, "nbformat": 4, **fields}, indent=indent).encode()


def blocks(document: Document) -> list[tuple[str, str, int, int]]:
    return [(b.kind, b.text, b.line_start, b.line_end) for s in document.sections for b in s.blocks]


def test_cells_have_the_lines_of_their_strings_in_the_file() -> None:
    content = notebook(
        ("markdown", ["# Tea\n", "\n", "A [link](b.md#x)\n", "and more"]),
        ("code", ["brew(\n", "    4)"]),
        ("markdown", "## Leaves\none string"),
    )
    document = read_document("tea.ipynb", content)
    line = {text: number for number, text in enumerate(content.decode().split("\n"), start=1)}
    first, code = line['    "# Tea\\n",'], line['    "brew(\\n",']
    last = line['   "source": "## Leaves\\none string"']
    assert [(s.title, s.line_start, s.own_line_end) for s in document.sections] == [
        ("Tea", 1, last - 1),
        ("Leaves", last, content.count(b"\n") + 1),
    ]
    assert blocks(document) == [
        ("heading", "Tea", first, first),
        ("prose", "A link\nand more", first + 2, first + 3),
        ("code", "brew(\n    4)", code, code + 1),
        ("prose", "Leaves one string", last, last),
    ]
    assert document.references[0].line == first + 2


def test_a_notebook_on_one_line_is_one_section() -> None:
    document = read_document(
        "a.ipynb", notebook(("markdown", "# A\n\n# B\n"), ("code", "x = 1"), indent=None)
    )
    assert [(s.title, s.line_start, s.line_end) for s in document.sections] == [("A", 1, 1)]
    assert blocks(document) == [("prose", "A B x = 1", 1, 1)]
    (note,) = document.notes
    assert note.startswith("line 1: 1 heading ")


@pytest.mark.parametrize("content", [b"[" * 100_000, b"{}", b'{"nbformat": 3, "cells": []}', b'{"a": "'])
def test_a_file_that_is_not_a_notebook_is_read_as_text(content: bytes) -> None:
    document = read_document("a.ipynb", content)
    assert [block[1] for block in blocks(document)] == [content.decode()]
    (note,) = document.notes
    assert "nbformat 4" in note


LINES = st.lists(
    st.sampled_from(["# a", "", "b", "```", "- c", "> d\n", '"\\', "{", "\ud800", "\0\r"]), max_size=5
)


@given(
    st.lists(
        st.tuples(st.sampled_from(["markdown", "code", "raw", "?"]), st.one_of(LINES, st.just("# x\ny")))
    ),
    st.sampled_from([None, 1]),
)
def test_any_cells_have_a_partition(cells: list[tuple[str, Any]], indent: int | None) -> None:
    assert problems_of("a.ipynb", notebook(*cells, indent=indent), target_tokens=10, scan=False) == []
