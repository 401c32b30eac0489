"""One step of a tree search, and its lexical chooser."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol

from branchrank.ranking.lists import ranked
from branchrank.records import LLMCall, Node, Record

Scorer = Callable[[Sequence[Node]], Mapping[str, float]]

#: Prompt budget of one call of the tree search.
CONTEXT_TOKENS = 8000


class TreeStep(Record, frozen=True, kw_only=True):
    """One step down: the nodes shown in each call, the picked nodes (best first), and who picked them.

    ``fallback`` gives the reason if the LLM failed and the step, or one of its pages, was chosen lexically.
    """

    shown: tuple[tuple[str, ...], ...]
    picked: tuple[str, ...]
    by: Literal["llm", "lexical", "all"]
    fallback: str | None = None
    calls: tuple[LLMCall, ...] = ()


class Chooser(Protocol):
    """Picks the children to follow; ``step`` counts from 1."""

    def __call__(self, children: Sequence[Node], step: int) -> TreeStep: ...


class LexicalChooser:
    """Follows the children whose subtrees have the best lexical scores above 0."""

    def __init__(self, beam: int, subtree_scores: Scorer) -> None:
        self.beam = beam
        self.subtree_scores = subtree_scores

    def __call__(self, children: Sequence[Node], step: int) -> TreeStep:
        scores = self.subtree_scores(children)
        picked = tuple(entry.key for entry in ranked(scores, self.beam) if entry.score > 0)
        return TreeStep(shown=(tuple(scores),), picked=picked, by="lexical")
