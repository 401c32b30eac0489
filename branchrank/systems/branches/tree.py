"""The branch kind ``tree``, which searches the PageIndex tree for sections, from the root downwards."""

from __future__ import annotations

import msgspec

from branchrank.records import Scored
from branchrank.spec import Branch
from branchrank.systems.branches.protocol import BranchKind, BranchResult, Lookup, Opening, Search
from branchrank.systems.tree_search import tree_search


class TreeKind(BranchKind):
    """The tree search. Results are not reused, because an LLM's replies can differ between repeats."""

    name = "tree"
    units = ("node",)
    ranks_by = "words"
    remembered = False
    own_depth = True

    def problems(self, branch: Branch) -> list[str]:
        """Check that the branch has ``tree`` settings."""
        if branch.tree is None:
            return ["a branch of kind tree needs `tree` settings, such as tree = { beam = 4 }"]
        return super().problems(msgspec.structs.replace(branch, tree=None))

    def open(self, opening: Opening) -> Search:
        """Read the tree and return the function that searches it."""
        _ = opening.index.tree

        def search(lookup: Lookup) -> BranchResult:
            settings, sources, stages = lookup.branch.tree, lookup.sources, lookup.stages
            assert settings is not None
            text, filters = lookup.query.text, lookup.query.filters
            found = tree_search(
                sources.tree(filters),
                text,
                settings,
                subtree_scores=sources.subtree_scores(text, filters),
                own_scores=sources.own_scores(text),
                llm=stages.gateway,
                context=stages.context,
            )
            for number, step in enumerate(found.steps, start=1):
                stages.trace.add(f"tree step {number}", "node", [Scored(key, 0.0) for key in step.picked])
            stages.trace.calls += found.calls
            stages.trace.fallbacks += found.fallbacks
            lexical = settings.final_by == "lexical"
            ranking = [
                entry
                for entry in found.ranking
                if entry.key in sources.hittable and not (lexical and entry.score <= 0)
            ]
            return BranchResult(ranking)

        return search


TREE = TreeKind()
