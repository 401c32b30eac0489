"""Expansion by arrays against the definition, walked node by node, on trees of any shape."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branchrank.core.ranked_lists import ranked
from branchrank.core.records import Node, Scored
from branchrank.documents.tree_nodes import Tree
from branchrank.search.ranking.expansion import (
    CHILD_SHARE,
    FILE_ROOT_SHARE,
    PARENT_SHARE,
    SIBLING_SHARE,
    expand,
)


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """A folder of files whose sections nest at random; sections start in order."""
    parents: dict[str, str] = {"docs": ""}
    starts: dict[str, int] = {}
    for number in range(draw(st.integers(1, 3))):
        source = f"docs/{number}.md"
        parents[source] = "docs"
        starts[source] = line = 1
        members = [source]
        for section in range(draw(st.integers(0, 12))):
            line += draw(st.integers(1, 3))
            identifier = f"{source}#s{section:02d}"
            parents[identifier] = draw(st.sampled_from(members))
            starts[identifier] = line
            members.append(identifier)
    return Tree(
        Node(
            id=identifier,
            parent_id=parent,
            children=tuple(child for child, above in parents.items() if above == identifier),
            depth=0,
            kind="section" if "#" in identifier else "file" if identifier in starts else "folder",
            title=identifier,
            source=identifier.partition("#")[0] if identifier in starts else "",
            line_start=starts.get(identifier),
            line_end=1000 if identifier in starts else None,
            own_line_end=starts.get(identifier),
        )
        for identifier, parent in [("", None), *parents.items()]
    )


def neighbors(tree: Tree, key: str, siblings: int) -> dict[str, float]:
    """Who is passed which share, by the words of the definition."""
    parent = tree.parent(key)
    assert parent is not None
    shares = {child.id: CHILD_SHARE for child in tree.children(key)}
    if parent.source:
        here = tree.node(key).line_start or 0
        near = sorted(
            (child for child in tree.children(parent.id) if child.id != key),
            key=lambda other: (abs((other.line_start or 0) - here), -(other.line_start or 0)),
        )
        shares |= {other.id: SIBLING_SHARE for other in near[:siblings]}
        shares[parent.id] = PARENT_SHARE
    return shares


def walked(seeds: dict[str, float], tree: Tree, depth: int, siblings: int, file_roots: int) -> list[Scored]:
    scores = dict(seeds)
    frontier = dict(seeds)
    for _ in range(depth):
        reached: dict[str, float] = {}
        for key, score in frontier.items():
            for neighbor, share in neighbors(tree, key, siblings).items():
                passed = share * score
                if passed > scores.get(neighbor, 0.0):
                    scores[neighbor] = reached[neighbor] = passed
        frontier = reached
    files: dict[str, float] = {}
    for key, score in seeds.items():
        source = tree.node(key).source
        files[source] = max(files.get(source, 0.0), score)
    for source, score in ranked(files, file_roots if depth else 0):
        scores[source] = max(scores.get(source, 0.0), FILE_ROOT_SHARE * score)
    return list(ranked(scores))


@given(
    tree=trees(),
    data=st.data(),
    depth=st.integers(0, 4),
    siblings=st.integers(0, 5),
    file_roots=st.integers(0, 3),
)
def test_the_array_implementation_matches_the_definition(tree, data, depth, siblings, file_roots) -> None:
    identifiers = [node.id for node in tree.sections]
    levels = st.sampled_from([0.3, 0.5, 0.75, 1.0]) | st.floats(0.01, 1.0)
    seeds = data.draw(st.dictionaries(st.sampled_from(identifiers), levels))
    found = expand(ranked(seeds), tree, depth=depth, siblings=siblings, file_roots=file_roots)
    assert found == walked(seeds, tree, depth, siblings, file_roots)


def test_the_nearest_sibling_is_the_one_whose_heading_is_fewest_lines_away() -> None:
    """Of two that are equally near, it is the later."""
    starts = {"a.md": 1, "far": 2, "near": 26, "self": 30, "behind": 34}
    tree = Tree(
        Node(
            id=key,
            parent_id={"": None, "a.md": ""}.get(key, "a.md"),
            children={"": ("a.md",), "a.md": tuple(starts)[1:]}.get(key, ()),
            depth=0,
            kind="folder" if key == "" else "file" if key == "a.md" else "section",
            title=key,
            source="a.md" if key else "",
            line_start=starts.get(key),
            line_end=99 if key else None,
            own_line_end=starts.get(key),
        )
        for key in ("", *starts)
    )

    def beside(key: str, siblings: int) -> set[str]:
        found = expand([Scored(key, 1.0)], tree, depth=1, siblings=siblings, file_roots=0)
        return {entry.key for entry in found} - {key, "a.md"}

    assert [beside("self", siblings) for siblings in (1, 2)] == [{"behind"}, {"behind", "near"}]
    assert [beside("far", 1), beside("behind", 1)] == [{"near"}, {"self"}]
    shares = dict(expand([Scored("self", 1.0)], tree, depth=2, siblings=1, file_roots=0))
    # The file passes to its other sections what it was passed.
    passed = 0.75 * 0.7
    assert shares == pytest.approx({"self": 1.0, "a.md": 0.75, "behind": 0.6, "near": passed, "far": passed})
