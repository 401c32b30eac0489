"""Trees of any shape for tests: ids and titles say where a node stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from branchrank.core.records import Node
from branchrank.documents.tree_nodes import Tree


def grow(fans: Sequence[int], *, folders: bool = False) -> Tree:
    """A tree in which every node of level ``i`` has ``fans[i]`` children: ``n1``, ``n1.1``, ...

    With ``folders`` the first level are folders, which have no text.
    """
    nodes: list[Node] = []

    def add(key: str, parent: str | None, level: int) -> None:
        count = fans[level] if level < len(fans) else 0
        children = tuple(f"{key}.{n}" if parent is not None else f"n{n}" for n in range(1, count + 1))
        bare = parent is None or (folders and level == 1)
        kind = "root" if parent is None else "folder" if bare else "section"
        nodes.append(
            Node(
                id=key,
                parent_id=parent,
                children=children,
                depth=level,
                kind=kind,
                title=f"Title {key}",
                text="" if bare else f"Words of {key}",
                source="" if bare else f"{key.split('.')[0]}.rst",
                breadcrumb="" if bare else f"Path to {key}",
                line_start=None if bare else 1,
                line_end=None if bare else 1,
                own_line_end=None if bare else 1,
            )
        )
        for child in children:
            add(child, key, level + 1)

    add("root", None, 0)
    return Tree(nodes)


def subtree_best(tree: Tree, own: Mapping[str, float], key: str) -> float:
    """The best own score in a subtree, by definition."""
    below = [subtree_best(tree, own, child.id) for child in tree.children(key)]
    return max([own.get(key, 0.0), *below])
