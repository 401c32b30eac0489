"""Build, show, check, import and export the PageIndex tree, and provide ``load_nodes`` to other scripts."""

from branchrank.cli.pageindex import command
from branchrank.tree.store import load_nodes

__all__ = ["load_nodes"]

if __name__ == "__main__":
    command()
