"""A step of the tree search, and the chooser that picks nodes by lexical scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol

from branchrank.ranking.lists import ranked
from branchrank.records import LLMCall, Node, Record

Scorer = Callable[[Sequence[Node]], Mapping[str, float]]

#: Maximum number of prompt and reply tokens for one LLM call in the tree search.
CONTEXT_TOKENS = 8000


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


class Chooser(Protocol):
    """A function that picks the children to follow. ``step`` is counted from 1."""

    def __call__(self, children: Sequence[Node], step: int) -> TreeStep: ...


class LexicalChooser:
    """Picks the children whose subtrees have the best lexical scores. A child that scores 0 is not picked."""

    def __init__(self, beam: int, subtree_scores: Scorer) -> None:
        self.beam = beam
        self.subtree_scores = subtree_scores

    def __call__(self, children: Sequence[Node], step: int) -> TreeStep:
        scores = self.subtree_scores(children)
        picked = tuple(entry.key for entry in ranked(scores, self.beam) if entry.score > 0)
        return TreeStep(shown=(tuple(scores),), picked=picked, by="lexical")
