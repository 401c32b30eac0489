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

An LLM picks the nodes of a step as follows.

1. The children are divided into pages of at most ``step_candidates`` children, and each prompt shows one
   page. A query may make only a limited number of LLM calls. If small pages would leave too few calls for the
   deeper levels of the tree, each page contains more children with less text per child. Children with the
   lowest lexical scores are omitted only if the titles alone exceed the model's context.
2. The LLM picks at most ``beam`` of the children that a prompt shows.
3. If more than ``beam`` children are picked in total, one more call chooses among the picked children. A
   child that the LLM ranks first in every call is always followed.
4. If the call for a page fails, the page's children with the best lexical scores are picked, and the reason
   is recorded. After the last allowed LLM call, the search continues with lexical scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import msgspec

from branchrank.core.ranked_lists import RankedList, ranked, rescore
from branchrank.core.records import LLMCall, Node, Record, Scored
from branchrank.core.spec import Branch, TreeSearch
from branchrank.documents.tree_nodes import Tree
from branchrank.search.llm.gateway import Gateway, GatewayReply
from branchrank.search.llm.prompts import RANKED, excerpt, rerank_messages, step_messages
from branchrank.search.llm.request import CallContext
from branchrank.search.systems.branches import BranchKind, BranchResult, Lookup, Opening, Search
from branchrank.search.systems.llm_choice import (
    CONTEXT_TOKENS,
    ChoiceTask,
    Option,
    ask_pages,
    fitted,
    shuffled,
)
from branchrank.search.systems.query import Asked

FINAL_STAGE = "tree final"


Scorer = Callable[[Sequence[Node]], Mapping[str, float]]

SPENT = "step calls are spent"
_SUMMARY_CHARS = 300
_EXCERPT_CHARS = 160
_CONTENTS_CHARS = 200
_CONTENTS = 8


class TreeStep(Record, frozen=True, kw_only=True):
    """One step of the tree search, with the nodes shown in each call and the picked nodes, best first.

    ``by`` is ``"all"`` if the step had at most ``beam`` children, which were all followed. ``fallback`` is
    the reason why lexical scores replaced an LLM call, or ``None``.
    """

    shown: tuple[tuple[str, ...], ...]
    picked: tuple[str, ...]
    by: Literal["llm", "lexical", "all"]
    fallback: str | None = None
    calls: tuple[LLMCall, ...] = ()


#: A function that picks the children to follow in a step. Steps are counted from 1.
Chooser = Callable[[Sequence[Node], int], TreeStep]


@dataclass
class LexicalChooser:
    """Picks the children whose subtrees have the best lexical scores. A child that scores 0 is not picked."""

    beam: int
    subtree_scores: Scorer

    def __call__(self, children: Sequence[Node], step: int) -> TreeStep:
        scores = self.subtree_scores(children)
        picked = tuple(entry.key for entry in ranked(scores, self.beam) if entry.score > 0)
        return TreeStep(shown=(tuple(scores),), picked=picked, by="lexical")


@dataclass
class LLMChooser:
    """Picks children with an LLM. Create one chooser per query, because a chooser counts its LLM calls."""

    tree: Tree
    query: str
    settings: TreeSearch
    llm: Gateway
    subtree_scores: Scorer
    context: CallContext

    def __post_init__(self) -> None:
        self.lexical = LexicalChooser(self.settings.beam, self.subtree_scores)
        self.calls_left = self.settings.max_steps
        self._budget = CONTEXT_TOKENS - self.llm.max_tokens

    def __call__(self, children: Sequence[Node], step: int) -> TreeStep:
        if self.calls_left < 1:
            chosen = self.lexical(children, step)
            return TreeStep(shown=chosen.shown, picked=chosen.picked, by="lexical", fallback=SPENT)
        beam = self.settings.beam
        pages = self._pages(children, step)
        answers = self._ask(pages, step)
        picks = [
            self._nodes(self.lexical(page, step).picked if answer.value is None else answer.value)
            for answer, page in zip(answers, pages, strict=True)
        ]
        merged = self._merged(picks)
        if len(merged) > beam and len(pages) > 1 and self.calls_left > 0:
            pages.append(shuffled(merged, self.query, self.context))
            answers += self._ask(pages[-1:], step)
            merged = self._nodes(answers[-1].value or ()) or merged
        faults = [answer.fault for answer in answers if answer.fault]
        return TreeStep(
            shown=tuple(tuple(node.id for node in page) for page in pages),
            picked=tuple(node.id for node in merged[:beam]),
            by="lexical" if len(faults) == len(answers) else "llm",
            fallback=faults[0] if faults else None,
            calls=tuple(answer.call for answer in answers),
        )

    def _nodes(self, keys: Sequence[str]) -> list[Node]:
        return [self.tree.node(key) for key in keys]

    def _pages(self, children: Sequence[Node], step: int) -> list[list[Node]]:
        """Shuffle the children, and divide them into pages of nearly equal size."""
        count = self._page_count(children, step)
        kept = list(children)
        while True:
            order = shuffled(kept, self.query, self.context)
            size = math.ceil(len(order) / count)
            pages = [order[start : start + size] for start in range(0, len(order), size)]
            options = ([self._option(node) for node in page] for page in pages)
            if len(kept) <= count or all(fitted(page, self._budget)[1] for page in options):
                return pages
            kept = self._nodes(ranked(self.subtree_scores(kept), len(kept) * 3 // 4).ids)

    def _page_count(self, children: Sequence[Node], step: int) -> int:
        """Return a number of pages that leaves enough calls for the deeper levels of the tree."""
        wanted = math.ceil(len(children) / self.settings.step_candidates)
        height = max(self.tree.height(node.id) for node in children)
        affordable = max(1, self.calls_left - min(height, self.settings.depth - step))
        # If there are several pages, one more call is needed to choose among the picks from all pages.
        return wanted if wanted == 1 or wanted + 1 <= affordable else max(1, affordable - 1)

    def _merged(self, picks: Sequence[Sequence[Node]]) -> list[Node]:
        """Return the picks from all pages, sorted by rank on the page, by lexical score and by id."""
        placed = [(rank, node) for page in picks for rank, node in enumerate(page)]
        if len(picks) == 1:
            return [node for _, node in placed]
        scores = self.subtree_scores([node for _, node in placed])
        placed.sort(key=lambda entry: (entry[0], -scores[entry[1].id], entry[1].id))
        return [node for _, node in placed]

    def _ask(self, pages: Sequence[Sequence[Node]], step: int) -> list[GatewayReply[list[str]]]:
        self.calls_left -= len(pages)
        beam = self.settings.beam
        task = ChoiceTask(
            stage=f"tree step {step}",
            build=partial(step_messages, self.query, beam=beam),
            most=beam,
            budget_tokens=self._budget,
            may_be_empty=True,
        )
        options = [[self._option(node) for node in page] for page in pages]
        return ask_pages(self.llm, options, task, self.context)

    def _option(self, node: Node) -> Option:
        """Return the entry that describes a node in a prompt.

        The entry contains the node's summary and the titles of the node's children. If the node has no
        summary, the entry contains the start of the node's text.
        """
        about = excerpt(node.summary, _SUMMARY_CHARS) or excerpt(node.text, _EXCERPT_CHARS)
        titles = "; ".join(child.title for child in self.tree.children(node.id)[:_CONTENTS])
        contents = f"Contains: {excerpt(titles, _CONTENTS_CHARS)}" if titles else ""
        body = " | ".join(part for part in (about, contents) if part)
        return Option(id=node.id, heading=node.breadcrumb or node.title, body=body)


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
