"""PageIndex's JSON for Markdown: what it writes, read back with exact spans."""

from __future__ import annotations

import json
from typing import Any

import pytest

from branchrank.core.errors import InputError
from branchrank.documents.pageindex_json import (
    ImportedDocument,
    encode_document,
    export_document,
    import_document,
    import_nodes,
)
from branchrank.documents.reading import read_document
from branchrank.documents.tree_build import build_nodes
from branchrank.documents.tree_nodes import check_nodes

MARKDOWN = b"pre\n\n# A `x`\n\nx \xc3\xa9\n\n### B\n\nt\n## C ##\n# D\n"

#: What pageindex 0.4.7 wrote for MARKDOWN in a file named `one.md`, with texts and without summaries.
WRITTEN = """{
  "doc_name": "one",
  "line_count": 12,
  "structure": [
    {
      "title": "A `x`",
      "node_id": "0000",
      "line_num": 3,
      "text": "# A `x`\\n\\nx é",
      "nodes": [
        {
          "title": "B",
          "node_id": "0001",
          "line_num": 7,
          "text": "### B\\n\\nt"
        },
        {
          "title": "C ##",
          "node_id": "0002",
          "line_num": 10,
          "text": "## C ##"
        }
      ]
    },
    {
      "title": "D",
      "node_id": "0003",
      "line_num": 11,
      "text": "# D"
    }
  ]
}"""


def tree(*nodes: dict[str, Any], line_count: int = 12) -> bytes:
    return json.dumps({"doc_name": "one", "line_count": line_count, "structure": nodes}).encode()


def imported(payload: bytes, content: bytes = MARKDOWN) -> ImportedDocument:
    result = import_document(payload, "one.md", content)
    nodes, _ = import_nodes([result], "x")
    assert check_nodes(nodes, {"one.md": result.document.line_count}) == []
    return result


def test_export_writes_the_format_of_pageindex() -> None:
    exported = export_document(read_document("docs/one.md", MARKDOWN), MARKDOWN)
    assert encode_document(exported).decode() == WRITTEN


def test_summaries_are_prefix_summaries_above_other_nodes() -> None:
    document = read_document("one.md", MARKDOWN)
    summaries = {node.id: node.summary for node in build_nodes([document], "x")[0]}
    exported = json.loads(
        encode_document(export_document(document, MARKDOWN, summaries=summaries, with_text=False))
    )
    parent = exported["structure"][0]
    assert list(parent) == ["title", "node_id", "line_num", "prefix_summary", "nodes"]
    assert list(parent["nodes"][0]) == ["title", "node_id", "line_num", "summary"]
    assert parent["prefix_summary"] == "x é Covers: B; C"


def test_import_computes_spans_again_and_keeps_all_text() -> None:
    document = imported(WRITTEN.encode()).document
    read = read_document("one.md", MARKDOWN)
    assert [(each.id, each.line_start, each.own_line_end, each.line_end) for each in document.sections] == [
        ("one.md", 1, 2, 11),
        ("one.md#a-x", 3, 6, 10),
        ("one.md#a-x/b", 7, 9, 9),
        ("one.md#a-x/c", 10, 10, 10),
        ("one.md#d", 11, 11, 11),
    ]
    assert document.sections == read.sections


def test_import_reports_the_preamble_that_the_format_dropped() -> None:
    notes = imported(WRITTEN.encode()).notes
    assert [note.split(",")[0] for note in notes] == ["one.md: lines 1-2"]


def test_import_reports_headings_that_the_tree_lacks() -> None:
    content = b"# A\n\ntext\n\nSetext\n------\n\nmore\n"
    result = imported(tree({"title": "A", "line_num": 1}, line_count=9), content)
    assert [section.id for section in result.document.sections] == ["one.md"]
    assert [block.text for block in result.document.sections[0].blocks] == ["A", "text", "Setext", "more"]
    (note,) = result.notes
    assert "'Setext' at line 5" in note


def test_import_reports_headings_that_the_file_lacks() -> None:
    content = b"# A\n\n~~~\nx\n# comment\ny\n~~~\n\n**bold**\n"
    result = imported(
        tree(
            {"title": "A", "line_num": 1, "nodes": [{"title": "comment", "line_num": 5}]},
            {"title": "bold", "line_num": 9},
            line_count=10,
        ),
        content,
    )
    assert [(s.title, s.line_start, s.own_line_end) for s in result.document.sections] == [
        ("one", 1, 0),
        ("A", 1, 4),
        ("comment", 5, 8),
        ("bold", 9, 9),
    ]
    assert [b.text for s in result.document.sections for b in s.blocks] == ["A", "x", "comment", "y", "bold"]
    first, second = result.notes
    assert "'comment' at line 5" in first
    assert "'bold' at line 9" in second


def test_import_takes_summaries_and_unknown_keys() -> None:
    result = imported(
        tree(
            {
                "title": "A",
                "node_id": "0007",
                "line_num": 3,
                "prefix_summary": "About A",
                "new": [1],
                "nodes": [
                    {"title": "B", "line_num": 7, "summary": "About B", "text": "t"},
                    {"title": "C", "line_num": 10},
                ],
            },
            {"title": "D", "line_num": 11},
        )
    )
    nodes, _ = import_nodes([result], "x")
    summaries = {node.id: node.summary for node in nodes}
    assert summaries["one.md#a-x"] == "About A"
    assert summaries["one.md#a-x/b"] == "About B"
    assert summaries["one.md#d"] == ""


def test_a_tree_of_another_version_of_the_file_is_noted() -> None:
    result = imported(tree({"title": "A", "line_num": 3}, {"title": "D", "line_num": 11}, line_count=20))
    assert "20 lines" in result.notes[0]
    assert "11 lines" in result.notes[0]


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b"", "not a PageIndex tree"),
        (b"{}", "doc_name"),
        (tree({"title": "P", "start_index": 1, "end_index": 2}), "line_num"),
        (tree({"title": "A", "line_num": 99}), "at line 99, but only the lines 1 to 11"),
        (tree({"title": "A", "line_num": 0}), "at line 0"),
        (
            tree({"title": "A", "line_num": 7, "nodes": [{"title": "B", "line_num": 7}]}),
            "at line 7, but only the lines 8 to 11",
        ),
        (
            b'{"doc_name": "a", "line_count": 1, "structure": '
            + b'[{"title": "", "line_num": 1, "nodes": ' * 50_000,
            "one.md",
        ),
    ],
    ids=["empty", "object", "pdf", "past the end", "zero", "not rising", "deep"],
)
def test_an_invalid_tree_is_refused(payload: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        import_document(payload, "one.md", MARKDOWN)
    assert caught.value.remedy
