"""The navigation files of generators give the tree its order."""

from __future__ import annotations

from pathlib import Path

import pytest

from branchrank.documents.loading import load_corpus
from branchrank.documents.navigation import navigation_digest
from branchrank.documents.tree_build import build_nodes

PAGES = ("zoo.md", "guide/a.md", "guide/b.md", "guide/index.md", "about.md", "index.md")
MKDOCS = """site_name: !ENV [NAME, x]
nav:
  - zoo.md
  - Guide:
      - guide/index.md
      - B: guide/b.md
      - https://example.org
      - gone.md
  - index.md
danger: !!python/object/apply:os.system ["touch hacked"]
"""
SIDEBARS = """// the order
/** @type {import('x')} */
const sidebars = {
  docs: ['zoo', {type:'category', label: 'It\\'s', link: {type: 'doc', id: 'guide/index'}, items: [
    'guide/b', {type: 'doc', id: "about"},
  ]}, {Old: ['index']}],
};
module.exports = sidebars;
"""
LIST = """# Summary

- [Zoo](zoo.md)
- [Guide](guide/index.md)
    - [B](<guide/b.md>)
    - [About](about.md#us)
"""


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    for page in PAGES:
        path = tmp_path / "docs" / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {page}\n\ntext\n")
    return tmp_path / "docs"


def tree(root: Path) -> tuple[list[str], tuple[str, ...]]:
    """The pages and folders in pre-order, indented by depth, and the notes of the corpus."""
    corpus = load_corpus(root)
    nodes, notes = build_nodes(corpus.documents, "docs")
    assert notes == []
    return [" " * (node.depth - 1) + node.id for node in nodes if node.depth], corpus.notes


def test_a_nav_above_the_corpus_sorts_pages_and_folders(docs: Path) -> None:
    (docs.parent / "mkdocs.yml").write_text(MKDOCS)
    found, notes = tree(docs)
    assert found == [
        "zoo.md",
        "guide/",
        " guide/index.md",
        " guide/b.md",
        " guide/a.md",
        "index.md",
        "about.md",
    ]
    assert notes == ("../mkdocs.yml: no document matches 1 of the entries, such as 'gone.md'",)
    assert not Path("hacked").exists()


@pytest.mark.parametrize(
    ("name", "text"), [("../sidebars.js", SIDEBARS), ("SUMMARY.md", LIST), ("_sidebar.md", LIST)]
)
def test_pages_below_a_page_become_its_children(docs: Path, name: str, text: str) -> None:
    (docs / name).write_text(text)
    found, _ = tree(docs)
    assert [each for each in found if "ar" not in each and "SUM" not in each][:5] == [
        "zoo.md", "guide/", " guide/index.md", "  guide/b.md", "  about.md",
    ]  # fmt: skip


def test_prefix_and_suffix_chapters_keep_their_place(docs: Path) -> None:
    (docs / "SUMMARY.md").write_text("# Summary\n\n[Zoo](zoo.md)\n\n- [B](guide/b.md)\n\n[About](about.md)\n")
    found, _ = tree(docs)
    assert [each.strip() for each in found if each.strip() in ("zoo.md", "guide/b.md", "about.md")] == [
        "zoo.md", "guide/b.md", "about.md",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mkdocs.yml", "docs_dir: other\nnav: [zoo.md]"),
        ("../mkdocs.yml", "docs_dir: other\nnav: [zoo.md]"),
        ("../mkdocs.yml", "nav: " + "[" * 1_000),
        ("../mkdocs.yml", "a: &a [zoo.md, *a]\nnav: *a"),
        ("../mkdocs.yml", "a: &a [b, b]\nb: &b [*a, *a]\nnav: 2001-99-99"),
        ("../sidebars.json", '{"a": ['),
        ("../sidebars.js", "export default build('zoo')"),
        ("../sidebars.js", "const s = { a: `zoo` }"),
        ("../sidebars.js", "const s = { a: [" + "/*" * 50_000 + "'\\'" * 9_000),
    ],
)
def test_a_navigation_that_is_foreign_or_no_literal_changes_nothing(docs: Path, name: str, text: str) -> None:
    before, _ = tree(docs)
    (docs / name).write_text(text)
    found, notes = tree(docs)
    assert found == before
    assert all("can't be read" in note or "no document matches" in note for note in notes if name[:2] == "..")


def test_the_digest_changes_with_the_navigation(docs: Path) -> None:
    assert navigation_digest(docs) == ""
    (docs.parent / "mkdocs.yml").write_text(MKDOCS)
    first = navigation_digest(docs)
    (docs.parent / "mkdocs.yml").write_text(MKDOCS + " ")
    assert len({"", first, navigation_digest(docs)}) == 3
