"""Search down the tree from the root: a beam of nodes, chosen at each step by an LLM or lexically.

1. The frontier starts as the root. At each step the children of the frontier are collected; if there are at
   most ``beam``, all are followed.
2. A chooser picks up to ``beam`` of them: the LLM from titles, summaries and excerpts, else the lexical
   score of each child's subtree. The picked nodes are visited and become the frontier.
3. The walk ends after ``depth`` steps, at the leaves, or when nothing is picked.
4. Every visited section is a candidate with its own text. The LLM ranks them in a final call, or their
   own lexical score does. Visited sections that the LLM does not rank follow in lexical order.

If the call of a step fails, the step is chosen lexically and the reason is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from branchrank.llm.gateway import Gateway
from branchrank.llm.prompts import RANKED, rerank_messages
from branchrank.llm.request import CallContext
from branchrank.ranking.lists import ranked, rescore
from branchrank.records import LLMCall, Node, Record, Scored
from branchrank.spec import TreeSearch
from branchrank.systems.llm_choice import Option, Task, ask_pages, shuffled
from branchrank.systems.tree_search_llm import LLMChooser
from branchrank.systems.tree_steps import CONTEXT_TOKENS, Chooser, LexicalChooser, Scorer, TreeStep
from branchrank.tree.navigate import Tree

FINAL_STAGE = "tree final"


class TreeSearchResult(Record, frozen=True, kw_only=True):
    """Visited sections, best first, and how they were obtained.

    Scores are 1, 1/2, 1/3, ... if the LLM ranked, else the nodes' own lexical scores. ``fallbacks`` are texts
    such as ``"tree step 2: timeout"``.
    """

    ranking: tuple[Scored, ...]
    steps: tuple[TreeStep, ...] = ()
    calls: tuple[LLMCall, ...] = ()
    fallbacks: tuple[str, ...] = ()


def tree_search(
    tree: Tree,
    query: str,
    settings: TreeSearch,
    *,
    subtree_scores: Scorer,
    own_scores: Mapping[str, float],
    llm: Gateway | None = None,
    context: CallContext = CallContext(),  # noqa: B008  (a frozen record)
) -> TreeSearchResult:
    """Search the tree for the sections that answer the query.

    ``subtree_scores`` gives the best lexical score in each node's subtree, ``own_scores`` that of each
    node's own text (absent: 0). Raises what :meth:`Gateway.ask` raises.
    """
    lexical: Chooser = LexicalChooser(settings.beam, subtree_scores)
    chooser = lexical
    if llm is not None and settings.steps_by == "llm":
        chooser = LLMChooser(tree, query, settings, llm=llm, subtree_scores=subtree_scores, context=context)
    steps = walk(tree, settings, chooser)
    fallbacks = [f"tree step {n}: {step.fallback}" for n, step in enumerate(steps, start=1) if step.fallback]
    if chooser is not lexical and not visited(tree, steps):
        steps += walk(tree, settings, lexical)
        fallbacks.append("tree search: no section was chosen")
    calls = [call for step in steps for call in step.calls]
    found = visited(tree, steps)
    ranking = ranked({node.id: own_scores.get(node.id, 0.0) for node in found})
    if llm is not None and settings.final_by == "llm" and len(ranking) > 1:
        by_llm = any(step.by == "llm" for step in steps)
        shortlist = _shortlist(tree, steps, ranking, settings.final_candidates, by_llm=by_llm)
        order, call, fault = _final(shortlist, query, llm, context)
        calls.append(call)
        if fault is None:
            ranking = rescore(ranking, order)
        else:
            fallbacks.append(f"{FINAL_STAGE}: {fault}")
    return TreeSearchResult(
        ranking=tuple(ranking), steps=tuple(steps), calls=tuple(calls), fallbacks=tuple(fallbacks)
    )


def walk(tree: Tree, settings: TreeSearch, choose: Chooser) -> list[TreeStep]:
    """The steps down from the root."""
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
    """The picked nodes that have text of their own (folders do not)."""
    keys = dict.fromkeys(key for step in steps for key in step.picked)
    return [node for key in keys if (node := tree.node(key)).source]


def _shortlist(
    tree: Tree, steps: Sequence[TreeStep], ranking: Sequence[Scored], limit: int, *, by_llm: bool
) -> list[Node]:
    """The visited sections that the final call sees.

    If an LLM chose the steps, its preference decides and not lexical scores: the first pick of every step
    comes before any second pick. The first pick of each step, and nodes that were followed without a choice,
    are kept even above the limit.
    """
    keys = [entry.key for entry in ranking]
    if by_llm:
        place = {
            key: (0 if step.by == "all" else rank, -number)
            for number, step in enumerate(steps)
            for rank, key in enumerate(step.picked)
        }
        keys.sort(key=lambda key: place[key])
        limit = max(limit, sum(place[key][0] == 0 for key in keys))
    return [tree.node(key) for key in keys[:limit]]


def _final(
    nodes: Sequence[Node], query: str, llm: Gateway, context: CallContext
) -> tuple[list[str], LLMCall, str | None]:
    """Rank the shortlist in one call; return the order, the call, and the reason of a failure."""
    options = [
        Option(id=node.id, heading=node.breadcrumb or node.title, body=node.text)
        for node in shuffled(nodes, query, context)
    ]
    task = Task(
        stage=FINAL_STAGE,
        build=partial(rerank_messages, query),
        most=RANKED,
        budget_tokens=CONTEXT_TOKENS - llm.max_tokens,
    )
    (choice,) = ask_pages(llm, [options], task, context)
    return choice.ids or [], choice.call, choice.fault
