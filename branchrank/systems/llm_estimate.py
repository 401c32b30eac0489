"""Upper bounds on the calls and tokens of a system's LLM stages, computed from the system's settings.

Prompts and replies are assumed to have their maximum length. The bounds do not include retries, whereas
``--max-calls`` and ``--max-tokens`` limit all calls.
"""

from __future__ import annotations

from branchrank.llm.request import estimate_tokens
from branchrank.records import LLMCall, Record
from branchrank.spec import System
from branchrank.systems.llm_choice import BODY_CHARS, HEADING_CHARS, OVERHEAD_TOKENS
from branchrank.systems.rerank import POINTWISE_CHARS
from branchrank.systems.tree_steps import CONTEXT_TOKENS

_DEFAULT_POOL = 50


class Estimate(Record, frozen=True, kw_only=True):
    """Upper bounds on the LLM calls and tokens that one system needs for a number of queries."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def tokens(self) -> int:
        """The sum of prompt and completion tokens."""
        return self.prompt_tokens + self.completion_tokens

    def plus(self, calls: int, prompt: int, completion: int) -> Estimate:
        """Return this estimate plus ``calls`` calls, each with ``prompt`` and ``completion`` tokens."""
        return Estimate(
            calls=self.calls + calls,
            prompt_tokens=self.prompt_tokens + calls * prompt,
            completion_tokens=self.completion_tokens + calls * completion,
        )

    def as_call(self, model: str) -> LLMCall:
        """Return the estimate as a ledger row, so that a price table can compute the cost."""
        return LLMCall(
            predictor="",
            question_id="",
            stage="estimate",
            attempt=1,
            repeat=0,
            model=model,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            cached_tokens=0,
            reported=False,
            latency_ms=0.0,
            served_by="server",
            outcome="ok",
        )


def estimate(system: System, queries: int, completion_tokens: int = 512) -> Estimate:
    """Return the maximum numbers of LLM calls and tokens for ``queries`` queries.

    Each repeat of a question counts as a query. ``completion_tokens`` is the maximum number of tokens in one
    reply. All bounds are zero for a system without an LLM.
    """
    one = Estimate()
    for branch in system.branches:
        tree = branch.tree
        if tree is None:
            continue
        budget = CONTEXT_TOKENS - completion_tokens
        if tree.steps_by == "llm":
            # Prompts list more options when few calls are left, so assume that every prompt is full.
            one = one.plus(tree.max_steps, budget, completion_tokens)
        if tree.final_by == "llm":
            shown = max(tree.final_candidates, tree.beam * tree.depth)
            one = one.plus(1, _page(shown, budget), completion_tokens)
    pool = system.fuse.cap or _DEFAULT_POOL
    if system.rerank.method == "pointwise":
        one = one.plus(pool, OVERHEAD_TOKENS + _entry(POINTWISE_CHARS), 1)
    elif system.rerank.method == "llm":
        budget = system.rerank.context_tokens - completion_tokens
        whole = OVERHEAD_TOKENS + pool * _entry(BODY_CHARS[0])
        if whole <= budget:
            one = one.plus(1, whole, completion_tokens)
        else:
            one = one.plus(2, min(budget, _page(pool - pool // 2, budget)), completion_tokens)
    return Estimate(
        calls=one.calls * queries,
        prompt_tokens=one.prompt_tokens * queries,
        completion_tokens=one.completion_tokens * queries,
    )


def _entry(body_chars: int) -> int:
    """Return the maximum number of tokens in one option with its label, heading and text."""
    return estimate_tokens("x" * (HEADING_CHARS + body_chars + 24))


def _page(options: int, budget: int) -> int:
    """Return the maximum number of prompt tokens for one page of options."""
    return min(budget, OVERHEAD_TOKENS + options * _entry(BODY_CHARS[0]))
