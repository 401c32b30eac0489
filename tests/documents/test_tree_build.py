"""Documents to nodes: who hangs below whom, ids, depths, texts and summaries."""

from __future__ import annotations

import random

import pytest

from branchrank.core.records import Node
from branchrank.documents.document import Document
from branchrank.documents.reading import read_document
from branchrank.documents.tree_build import MAX_PATTERNS, SUMMARY_LENGTH, build_nodes, summarize
from branchrank.documents.tree_nodes import check_nodes


def document(source: str, *toctree: str, text: str = "") -> Document:
    entries = "".join(f"    {entry}\n" for entry in toctree)
    title = source.removesuffix(".rst").removesuffix(".md")
    if source.endswith(".md"):
        return read_document(source, f"# {title}\n\n{text}\n".encode())
    tree = f".. toctree::\n\n{entries}\n" if toctree else ""
    return read_document(source, f"{title}\n{'=' * 60}\n\n{text}\n\n{tree}".encode())


def build(*documents: Document) -> tuple[dict[str, Node], list[str]]:
    nodes, notes = build_nodes(documents, "Corpus")
    assert check_nodes(nodes, {each.source: each.line_count for each in documents}) == []
    return {node.id: node for node in nodes}, notes


def parents(nodes: dict[str, Node]) -> dict[str, str | None]:
    return {node.id: node.parent_id for node in nodes.values()}


def test_folders_are_parents_of_files_outside_toctrees() -> None:
    nodes, notes = build(document("a.md"), document("b/c/d.md"), document("b/e.md"))
    assert parents(nodes) == {
        "/": None,
        "a.md": "/",
        "b/": "/",
        "b/c/": "b/",
        "b/c/d.md": "b/c/",
        "b/e.md": "b/",
    }
    assert list(nodes) == ["/", "a.md", "b/", "b/c/", "b/c/d.md", "b/e.md"]
    assert [node.depth for node in nodes.values()] == [0, 1, 1, 2, 3, 2]
    assert (nodes["/"].kind, nodes["/"].title, nodes["b/c/"].kind, nodes["b/c/"].title) == (
        "root",
        "Corpus",
        "folder",
        "c",
    )
    assert notes == []


def test_a_toctree_puts_documents_below_its_own_and_makes_folders_needless() -> None:
    nodes, _ = build(
        document("index.rst", "guide/b", "guide/a"), document("guide/a.rst"), document("guide/b.rst")
    )
    assert nodes["/"].children == ("index.rst",)
    assert nodes["index.rst"].children == ("guide/b.rst", "guide/a.rst")
    assert [node.depth for node in nodes.values()] == [0, 1, 2, 2]


def test_own_sections_come_before_the_documents_of_the_toctree() -> None:
    nodes, _ = build(document("index.rst", "a", text="Part\n----\n\ntext"), document("a.rst"))
    assert nodes["index.rst"].children == ("index.rst#part", "a.rst")
    assert nodes["index.rst#part"].breadcrumb == "index > Part"
    assert nodes["a.rst"].breadcrumb == "a"


@pytest.mark.parametrize(
    ("source", "entry", "target"),
    [
        ("x/index.rst", "a", "x/a.rst"),
        ("x/index.rst", "a.rst", "x/a.rst"),
        ("x/index.rst", "../y/a", "y/a.rst"),
        ("x/index.rst", "/y/a", "y/a.rst"),
        ("x/index.rst", "/a", "x/a.rst"),
        ("x/index.rst", "Title of it <a>", "x/a.rst"),
        ("x/index.rst", "page", "x/page.md"),
        ("x/index.rst", "odd.name", "x/odd.name.rst"),
        ("x/index.rst", "sub/*", "x/sub/b.rst"),
        ("x/index.rst", "**/b", "x/sub/b.rst"),
        ("x/index.rst", "sub/[ab]", "x/sub/b.rst"),
    ],
)
def test_entries_name_documents_in_many_ways(source: str, entry: str, target: str) -> None:
    sources = ["x/a.rst", "y/a.rst", "x/page.md", "x/odd.name.rst", "x/sub/b.rst", "x/sub/deep/c.rst"]
    nodes, notes = build(document(source, entry), *map(document, sources))
    assert [node.id for node in nodes.values() if node.parent_id == source] == [target]
    assert notes == []


@pytest.mark.parametrize("entry", ["missing", "../../outside", "nothing/*", "/x/missing"])
def test_an_entry_that_names_nothing_is_noted(entry: str) -> None:
    _, notes = build(document("x/index.rst", entry))
    assert notes == [f"x/index.rst: the toctree entry {entry!r} matches no document"]


@pytest.mark.parametrize("entry", ["self", "https://example.org", "Site <https://example.org>"])
def test_an_entry_that_is_not_a_path_is_skipped(entry: str) -> None:
    nodes, notes = build(document("index.rst", entry))
    assert (len(nodes), notes) == (2, [])


def test_a_page_in_several_toctrees_belongs_to_the_first_in_source_order() -> None:
    documents = [document("b.rst", "page"), document("a.rst", "page"), document("page.rst")]
    nodes, notes = build(*documents)
    assert parents(nodes)["page.rst"] == "a.rst"
    assert notes == []


def test_a_glob_takes_only_documents_that_have_no_parent_yet() -> None:
    nodes, _ = build(document("index.rst", "c", "*"), document("a.rst"), document("b.rst"), document("c.rst"))
    assert nodes["index.rst"].children == ("c.rst", "a.rst", "b.rst")


def test_cycles_are_broken_and_noted() -> None:
    nodes, notes = build(document("a.rst", "b"), document("b.rst", "c"), document("c.rst", "a", "c"))
    assert parents(nodes) == {"/": None, "a.rst": "/", "b.rst": "a.rst", "c.rst": "b.rst"}
    (note,) = notes
    assert note.startswith("c.rst: ")
    assert "'a'" in note


def test_the_order_of_the_documents_does_not_matter() -> None:
    documents = [
        document(f"{name}.rst", *toctree)
        for name, toctree in [("a", "bc"), ("b", "d"), ("c", "da"), ("d", "")]
    ]
    expected = build_nodes(documents, "x")
    random.Random(1).shuffle(documents)
    assert build_nodes(documents, "x") == expected


def test_a_nodes_text_is_that_of_its_own_blocks() -> None:
    nodes, _ = build(
        read_document("a.md", b"# T\n\np *q*\n\n- x\n- y\n\n| a | b |\n|-|-|\n| 1 | 2 |\n\n## S\n\nown\n")
    )
    assert nodes["a.md"].text == "T\n\np q\n\n- x\n- y\n\na | b\n1 | 2"
    assert nodes["a.md#s"].text == "S\n\nown"


def test_summaries_are_the_first_sentences_and_the_titles_below() -> None:
    nodes, _ = build(
        read_document("a.md", b"# T\n\n```\ncode\n```\n\nOne *two*.\n\n## S\n\n```\nonly code\n```\n\n## R\n")
    )
    assert nodes["a.md"].summary == "One two. Covers: S; R"
    assert nodes["a.md#s"].summary == "only code"
    assert nodes["a.md#r"].summary == ""
    assert nodes["/"].summary == "Covers: T"


def test_summaries_end_with_a_sentence_or_at_a_word() -> None:
    sentence = "This is a sentence of some length. "
    cut = summarize(sentence * 20, [])
    words = summarize("word " * 200, [])
    assert len(cut) <= SUMMARY_LENGTH
    assert cut.endswith("length.")
    assert len(words) <= SUMMARY_LENGTH
    assert words.endswith("word…")
    assert len(summarize("x" * 1000, ["y" * 1000, "z"])) <= 2 * SUMMARY_LENGTH + 10


def test_a_deep_chain_of_toctrees_is_no_problem() -> None:
    documents = [document(f"d{number:04}.rst", f"d{number + 1:04}") for number in range(1500)]
    nodes, notes = build(*documents, document("d1500.rst"))
    assert max(node.depth for node in nodes.values()) == 1501
    assert notes == []


def test_patterns_past_the_limit_of_a_corpus_are_ignored_and_noted() -> None:
    many = [f"guide/{number}*" for number in range(MAX_PATTERNS)]
    nodes, notes = build(
        document("index.rst", *many, "late/*", "plain"),
        document("guide/7a.rst"),
        document("late/b.rst"),
        document("plain.rst"),
    )
    assert nodes["index.rst"].children == ("guide/7a.rst", "plain.rst")
    assert [note for note in notes if "late/*" in note and str(MAX_PATTERNS) in note]
