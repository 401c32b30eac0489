"""The branch kind ``tree``: a beam search of the PageIndex tree, from the root downwards.

1. The frontier is the list of nodes whose children the next step considers. The first frontier contains only
   the root.
2. Each step picks at most ``beam`` children of the nodes in the frontier. The picked children become the new
   frontier. An LLM picks children based on their titles, summaries and excerpts. Without an LLM, the children
   whose subtrees have the best lexical scores are picked.
3. The search ends after ``depth`` steps. A step that picks no node, or only nodes without children, ends the
   search early.
4. All picked sections are candidates for the final ranking. The candidates are ranked by a final LLM call, or
   by lexical scores. The lexical score of a section does not include the text of its subsections. Candidates
   that the LLM does not rank come last, sorted by lexical score.

If the LLM call for a step fails, nodes are picked by lexical scores, and the reason for the failure is
recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from branchrank.core.ranked_lists import RankedList, ranked, rescore
from branchrank.core.records import Node, Scored
from branchrank.core.spec import Branch, TreeSearch
from branchrank.documents.tree_nodes import Tree
from branchrank.search.llm.gateway import Gateway, GatewayReply
from branchrank.search.llm.prompts import RANKED, rerank_messages
from branchrank.search.llm.request import CallContext
from branchrank.search.systems.branches import BranchKind, BranchResult, Lookup, Opening, Search
from branchrank.search.systems.branches.tree_steps import (
    Chooser,
    LexicalChooser,
    LLMChooser,
    Scorer,
    TreeStep,
)
from branchrank.search.systems.llm_choice import CONTEXT_TOKENS, ChoiceTask, Option, ask_pages, shuffled
from branchrank.search.systems.query import Asked

FINAL_STAGE = "tree final"


def tree_search(
    tree: Tree, asked: Asked, settings: TreeSearch, *, subtree_scores: Scorer, own_scores: Scorer
) -> tuple[RankedList, list[TreeStep]]:
    """Search the tree for the sections that answer the query, and return them and the steps of the search.

    If an LLM ranked the sections, their scores are 1, 1/2, 1/3 and so on. Without an LLM ranking, a section's
    score is the lexical score of its own text. ``subtree_scores`` returns the best lexical score in each
    node's subtree. ``own_scores`` returns the lexical scores of the nodes' own texts, and may omit nodes that
    score 0. LLM calls raise the errors of :meth:`Gateway.ask`. The calls and the fallbacks, such as ``"tree
    step 2: timeout"``, are added to the trace.
    """
    query, llm, context, trace = asked.query.text, asked.gateway, asked.context, asked.trace
    lexical: Chooser = LexicalChooser(settings.beam, subtree_scores)
    chooser = lexical
    if llm is not None and settings.steps_by == "llm":
        chooser = LLMChooser(tree, query, settings, llm, subtree_scores, context)
    steps = walk(tree, settings, chooser)
    trace.fallbacks += [f"tree step {n}: {step.fallback}" for n, step in enumerate(steps, 1) if step.fallback]
    if chooser is not lexical and not visited(tree, steps):
        steps += walk(tree, settings, lexical)
        trace.fallbacks.append("tree search: no section was chosen")
    trace.calls += [call for step in steps for call in step.calls]
    found = visited(tree, steps)
    ranking = ranked(dict.fromkeys((node.id for node in found), 0.0) | dict(own_scores(found)))
    if llm is not None and settings.final_by == "llm" and len(ranking) > 1:
        by_llm = any(step.by == "llm" for step in steps)
        shortlist = _shortlist(tree, steps, ranking, settings.final_candidates, by_llm=by_llm)
        final = _final(shortlist, query, llm, context)
        trace.calls.append(final.call)
        if final.value is None:
            trace.fallbacks.append(f"{FINAL_STAGE}: {final.fault}")
        else:
            ranking = rescore(ranking, final.value)
    return ranking, steps


def walk(tree: Tree, settings: TreeSearch, choose: Chooser) -> list[TreeStep]:
    """Search the tree from the root downwards, and return the steps of the search."""
    steps: list[TreeStep] = []
    frontier = [tree.root]
    for number in range(1, settings.depth + 1):
        children = [child for node in frontier for child in tree.children(node.id)]
        if not children:
            break
        if len(children) <= settings.beam:
            picked = tuple(child.id for child in children)
            steps.append(TreeStep(shown=(picked,), picked=picked, by="all"))
        else:
            steps.append(choose(children, number))
        if not steps[-1].picked:
            break
        frontier = [tree.node(key) for key in steps[-1].picked]
    return steps


def visited(tree: Tree, steps: Sequence[TreeStep]) -> list[Node]:
    """Return the picked nodes that are not folders."""
    keys = dict.fromkeys(key for step in steps for key in step.picked)
    return [node for key in keys if (node := tree.node(key)).source]


def _shortlist(
    tree: Tree, steps: Sequence[TreeStep], ranking: Sequence[Scored], limit: int, *, by_llm: bool
) -> list[Node]:
    """Return the sections for the final LLM call.

    If ``by_llm`` is true, the sections that were ranked best in their search steps are returned. If
    ``by_llm`` is false, the sections with the best lexical scores are returned.
    """
    keys = [entry.key for entry in ranking]
    if by_llm:
        # Sections with rank 0 are always kept. In a step that follows all children, every child has rank 0.
        place = {
            key: (0 if step.by == "all" else rank, -number)
            for number, step in enumerate(steps)
            for rank, key in enumerate(step.picked)
        }
        keys.sort(key=lambda key: place[key])
        limit = max(limit, sum(place[key][0] == 0 for key in keys))
    return [tree.node(key) for key in keys[:limit]]


def _final(nodes: Sequence[Node], query: str, llm: Gateway, context: CallContext) -> GatewayReply[list[str]]:
    """Rank the nodes with one LLM call, whose value contains the ranked ids."""
    options = [
        Option(id=node.id, heading=node.breadcrumb or node.title, body=node.text)
        for node in shuffled(nodes, query, context)
    ]
    task = ChoiceTask(
        stage=FINAL_STAGE,
        build=partial(rerank_messages, query),
        most=RANKED,
        budget_tokens=CONTEXT_TOKENS - llm.max_tokens,
    )
    return ask_pages(llm, [options], task, context)[0]


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
            settings, sources, asked = lookup.branch.tree, lookup.sources, lookup.asked
            assert settings is not None
            text, filters = lookup.query.text, lookup.query.filters
            found, steps = tree_search(
                sources.tree(filters),
                asked,
                settings,
                subtree_scores=sources.subtree_scores(text, filters),
                own_scores=lambda nodes: sources.own_scores(text, (node.id for node in nodes)),
            )
            for number, step in enumerate(steps, start=1):
                asked.trace.add(f"tree step {number}", "node", [Scored(key, 0.0) for key in step.picked])
            lexical = settings.final_by == "lexical"
            ranking = [
                entry
                for entry in found
                if entry.key in sources.hittable and not (lexical and entry.score <= 0)
            ]
            return BranchResult(ranking)

        return search


TREE = TreeKind()
