"""Build, show, check, import and export the PageIndex tree, and provide ``load_nodes`` to other scripts."""

from branchrank.documents.tree_build import load_nodes
from branchrank.frontends.cli.index import tree

__all__ = ["load_nodes"]

if __name__ == "__main__":
    tree()
