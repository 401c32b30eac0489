"""Walking the tree, writing and loading it, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from branchrank.core.errors import ArtifactError
from branchrank.core.io.files import write_jsonl
from branchrank.core.records import Node, Span
from branchrank.documents.reading import read_document
from branchrank.documents.tree_build import build_nodes, load_nodes
from branchrank.documents.tree_nodes import Tree, check_nodes

FILES = {
    "a.md": "# A\n\nintro\n\n## One\n\ntext\n\n### Deep\n\ntext\n\n## Two\n\ntext\n",
    "b/c.md": "# C1\n\ntext\n\n# C2\n",
    "b/d.md": "",
}


def sample_nodes() -> list[Node]:
    documents = [read_document(source, text.encode()) for source, text in FILES.items()]
    return build_nodes(documents, "Sample")[0]


TREE = Tree(sample_nodes())


def ids(nodes: tuple[Node, ...]) -> list[str]:
    return [node.id for node in nodes]


def test_nodes_are_in_pre_order_whatever_the_order_given() -> None:
    sources = "/ a.md a.md#one a.md#one/deep a.md#two b/ b/c.md b/c.md#c1 b/c.md#c2 b/d.md"
    expected = sources.split()
    assert list(TREE.nodes) == expected
    assert list(Tree(reversed(sample_nodes())).nodes) == expected
    assert ids(TREE.sections) == [each for each in expected if each not in ("/", "b/")]


@pytest.mark.parametrize(
    ("source", "start", "end", "expected"),
    [
        ("a.md", 1, 1, ["a.md"]),
        ("a.md", 4, 6, ["a.md#one", "a.md"]),
        ("a.md", 1, 99, ["a.md", "a.md#one", "a.md#one/deep", "a.md#two"]),
        ("a.md", 12, 13, ["a.md#one/deep", "a.md#two"]),
        ("a.md", 99, 120, []),
        ("b/c.md", 1, 1, ["b/c.md#c1"]),
        ("b/d.md", 1, 1, ["b/d.md"]),
    ],
)
def test_overlapping_sections_come_with_the_most_shared_lines_first(
    source: str, start: int, end: int, expected: list[str]
) -> None:
    assert ids(TREE.overlapping(Span(source=source, line_start=start, line_end=end))) == expected


@given(st.lists(st.integers(1, 4), max_size=12), st.integers(1, 40), st.integers(0, 10))
def test_overlapping_agrees_with_looking_at_every_node(levels: list[int], start: int, length: int) -> None:
    text = "".join(f"{'#' * level} h{number}\n\nx\n" for number, level in enumerate(levels))
    nodes, _ = build_nodes([read_document("a.md", text.encode())], "x")
    span = Span(source="a.md", line_start=start, line_end=start + length)
    shared = [(node.own_span.overlap(span), node.id) for node in nodes if node.own_span]
    expected = [
        identifier for lines, identifier in sorted(shared, key=lambda each: (-each[0], each[1])) if lines
    ]
    assert ids(Tree(nodes).overlapping(span)) == expected


def test_a_written_tree_is_loaded_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "pageindex" / "nodes.jsonl"
    write_jsonl(path, sample_nodes())
    assert list(load_nodes(path).nodes.values()) == list(TREE.nodes.values())
    assert list(load_nodes(str(path)).nodes) == list(TREE.nodes)
    keys = list(msgspec.json.decode(path.read_bytes().split(b"\n")[0]))
    names = "id parent_id children depth kind title summary text source breadcrumb"
    assert keys == [*names.split(), "line_start", "line_end", "own_line_end"]


DAMAGE: list[tuple[str, dict[str, Any], str]] = [
    ("a.md#two", {"id": "a.md#one"}, "used twice"),
    ("a.md", {"parent_id": "nowhere"}, "does not exist"),
    ("a.md", {"parent_id": None}, "is already the root"),
    ("/", {"parent_id": "a.md"}, "needs one root"),
    ("a.md", {"children": ("a.md#one",)}, "does not list this node as a child"),
    ("a.md", {"children": ("a.md#one", "a.md#two", "a.md#three")}, "does not exist"),
    ("a.md", {"children": ("a.md#one", "a.md#two", "a.md#two")}, "the same child is listed twice"),
    ("b/", {"children": ("b/c.md", "b/d.md", "a.md")}, "is also a child of"),
    ("a.md#one/deep", {"children": ("/",)}, "is listed as a child of"),
    ("a.md#one", {"depth": 7}, "is not one more than the depth of the parent"),
    ("/", {"depth": 1}, "depth"),
    ("/", {"kind": "folder"}, "only the root"),
    ("b/", {"line_start": 1}, "can't have a source or lines"),
    ("a.md", {"line_start": None}, "needs a source and lines"),
    ("a.md", {"source": ""}, "needs a source and lines"),
    ("a.md", {"source": "z.md"}, "the id of a file must be its source"),
    ("a.md#two", {"source": "z.md"}, "with the same source"),
    ("a.md#one/deep", {"line_start": 12, "own_line_end": 3}, "are not possible"),
    ("a.md#one", {"own_line_end": 99}, "are not possible"),
    ("a.md", {"line_start": 0}, "are not possible"),
    ("a.md", {"line_start": 2}, "must start at line 1"),
    ("a.md#one/deep", {"line_start": 10}, "starts at line 10, not 9"),
    ("a.md#one/deep", {"line_start": 8}, "starts at line 8, not 9"),
    ("a.md#two", {"line_end": 14, "own_line_end": 14}, "ends at line 15"),
    ("a.md#two", {"breadcrumb": "A > Three"}, "the breadcrumb is"),
]


@pytest.mark.parametrize(("identifier", "changes", "message"), DAMAGE)
def test_damage_is_found_and_refused(
    tmp_path: Path, identifier: str, changes: dict[str, Any], message: str
) -> None:
    nodes = [
        msgspec.structs.replace(node, **changes) if node.id == identifier else node for node in sample_nodes()
    ]
    path = tmp_path / "nodes.jsonl"
    write_jsonl(path, nodes)
    assert any(message in problem for problem in check_nodes(nodes))
    with pytest.raises(ArtifactError, match=r"nodes\.jsonl:\d+: .*") as caught:
        load_nodes(path)
    assert caught.value.remedy


def test_two_nodes_that_are_each_others_parents_are_refused(tmp_path: Path) -> None:
    def loop(identifier: str, other: str) -> Node:
        return Node(
            id=identifier, parent_id=other, children=(other,), depth=1, kind="folder", title="", breadcrumb=""
        )

    path = tmp_path / "nodes.jsonl"
    write_jsonl(path, [*sample_nodes(), loop("x/", "y/"), loop("y/", "x/")])
    with pytest.raises(ArtifactError, match="depth"):
        load_nodes(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "truncated"),
        (b'{"id": 1}', "id"),
        (b"[]", "Expected `object`"),
        (b"\xff", "nodes.jsonl:12"),
        (b'{"id": "x", "parent_id": "/", "depth": 1, "kind": "page", "title": ""}', "kind"),
        (b"[" * 100_000, "nodes.jsonl:12"),
    ],
    ids=range(6),
)
def test_a_bad_line_is_reported(tmp_path: Path, line: bytes, message: str) -> None:
    path = tmp_path / "nodes.jsonl"
    write_jsonl(path, sample_nodes())
    path.write_bytes(path.read_bytes() + b"\n" + line + b"\n")
    with pytest.raises(ArtifactError, match=message) as caught:
        load_nodes(path)
    assert "nodes.jsonl:12" in caught.value.message


def test_missing_and_empty_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="No such file"):
        load_nodes(tmp_path / "nodes.jsonl")
    (tmp_path / "nodes.jsonl").write_bytes(b"\n")
    with pytest.raises(ArtifactError, match="contains no nodes"):
        load_nodes(tmp_path / "nodes.jsonl")
