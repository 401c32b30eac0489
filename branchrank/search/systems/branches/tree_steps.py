"""The steps of the tree search, in which lexical scores or an LLM pick the nodes.

An LLM picks the nodes of a step as follows.

1. The children are divided into pages of at most ``step_candidates`` children, and each prompt shows one
   page. A query may make only a limited number of LLM calls. If small pages would leave too few calls for the
   deeper levels of the tree, each page contains more children with less text per child. Children with the
   lowest lexical scores are omitted only if the titles alone exceed the model's context.
2. The LLM picks at most ``beam`` of the children that a prompt shows.
3. If more than ``beam`` children are picked in total, one more call chooses among the picked children. A
   child that the LLM ranks first in every call is always followed.
4. If the call for a page fails, the page's children with the best lexical scores are picked. After the last
   allowed LLM call, the search continues with lexical scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from branchrank.core.ranked_lists import ranked
from branchrank.core.records import LLMCall, Node, Record
from branchrank.core.spec import TreeSearch
from branchrank.documents.tree_nodes import Tree
from branchrank.search.llm.gateway import Gateway, GatewayReply
from branchrank.search.llm.prompts import excerpt, step_messages
from branchrank.search.llm.request import CallContext
from branchrank.search.systems.llm_choice import (
    CONTEXT_TOKENS,
    ChoiceTask,
    Option,
    ask_pages,
    fitted,
    shuffled,
)

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
