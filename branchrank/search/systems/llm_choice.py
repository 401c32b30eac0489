"""Ask an LLM to choose from labeled options. The reply contains the labels of the chosen options.

1. The caller divides the options into pages, one for each prompt. The texts of a page's options are shortened
   until the page fits the token budget.
2. One LLM call is made for each page. The calls for several pages run concurrently.
3. Labels in a reply are mapped to ids, so only an option that was shown can be chosen.

:func:`estimate` returns upper bounds on the calls and tokens of a system. Prompts and replies are assumed to
have their maximum length. The bounds do not include retries, whereas ``--max-calls`` and ``--max-tokens``
limit all calls.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from branchrank.core.records import Record
from branchrank.core.spec import AGENT, System
from branchrank.search.llm.gateway import Gateway, GatewayReply
from branchrank.search.llm.prompts import Shown, excerpt, labels, labels_schema, read_labels
from branchrank.search.llm.request import CallContext, LLMReply, LLMRequest, Message, estimate_tokens

T = TypeVar("T")

#: Estimated number of tokens in a prompt without options (instructions and two copies of the query).
OVERHEAD_TOKENS = 400
HEADING_CHARS = 240
#: Maximum number of prompt and reply tokens for one LLM call in the tree search.
CONTEXT_TOKENS = 8000
#: Maximum number of characters of a candidate's text in a pointwise call.
POINTWISE_CHARS = 2000
#: Maximum lengths of an option's text in characters, in the order in which they are tried.
BODY_CHARS = (600, 400, 250, 120, 0)
#: The assumed number of candidates of a reranker without a candidate cap.
_DEFAULT_POOL = 50


class Option(Record, frozen=True, kw_only=True):
    """An option with the id, the heading and the text of a node or chunk."""

    id: str
    heading: str
    body: str


class ChoiceTask(Record, frozen=True, kw_only=True):
    """The parameters of LLM calls that choose options. Each call shows one page of options.

    ``build`` creates the prompt for a page. The LLM chooses at most ``most`` options from each page. Each
    prompt should have at most ``budget_tokens`` tokens. If ``may_be_empty`` is true, the LLM may choose no
    option.
    """

    stage: str
    build: Callable[[Sequence[Shown]], tuple[Message, ...]]
    most: int
    budget_tokens: int
    may_be_empty: bool = False


def shuffled(items: Sequence[T], query: str, context: CallContext) -> list[T]:
    """Return the items in a random order that is determined by the seed, the repeat and the query."""
    order = list(items)
    random.Random(f"{context.seed}/{context.repeat}/{query}").shuffle(order)  # noqa: S311  (no secret)
    return order


def entries(options: Sequence[Option], body_chars: int) -> list[Shown]:
    """Return the options as labeled entries of a prompt, in the given order."""
    names = labels(len(options))
    return [
        Shown(
            label=name,
            heading=excerpt(option.heading, HEADING_CHARS),
            body=excerpt(option.body, body_chars) if body_chars else "",
        )
        for name, option in zip(names, options, strict=True)
    ]


def fitted(options: Sequence[Option], budget_tokens: int) -> tuple[list[Shown], bool]:
    """Shorten the texts of the options until the prompt fits the budget, and return the prompt's entries.

    The second return value is false if the prompt exceeds the budget even without the texts of the options.
    """
    shown: list[Shown] = []
    for body_chars in BODY_CHARS:
        shown = entries(options, body_chars)
        if tokens(shown) <= budget_tokens:
            return shown, True
    return shown, False


def tokens(shown: Sequence[Shown]) -> int:
    """Return the estimated number of prompt tokens for a page, including the instructions."""
    return OVERHEAD_TOKENS + sum(entry.tokens for entry in shown)


def ask_pages(
    llm: Gateway, pages: Sequence[Sequence[Option]], task: ChoiceTask, context: CallContext
) -> list[GatewayReply[list[str]]]:
    """Ask the LLM to choose options from each page. Each prompt lists the options of one page.

    The value of an answer contains the ids of the chosen options, best first.
    """
    calls: list[tuple[LLMRequest, Callable[[LLMReply], list[str]]]] = []
    for page in pages:
        shown, _ = fitted(page, task.budget_tokens)
        ids = {entry.label: option.id for entry, option in zip(shown, page, strict=True)}
        most = min(task.most, len(page))
        request = LLMRequest(
            stage=task.stage,
            messages=task.build(shown),
            schema=labels_schema(list(ids), most, least=0 if task.may_be_empty else 1),
            max_tokens=llm.max_tokens,
            context=context,
        )
        calls.append((request, partial(_read, ids=ids, most=most, may_be_empty=task.may_be_empty)))
    return llm.ask_all(calls)


def _read(reply: LLMReply, *, ids: dict[str, str], most: int, may_be_empty: bool) -> list[str]:
    return [ids[label] for label in read_labels(reply.text, ids, may_be_empty=may_be_empty)][:most]


class CallBounds(Record, frozen=True, kw_only=True):
    """Upper bounds on the LLM calls and tokens that one system needs for a number of queries."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def tokens(self) -> int:
        """The sum of prompt and completion tokens."""
        return self.prompt_tokens + self.completion_tokens

    def plus(self, calls: int, prompt: int, completion: int) -> CallBounds:
        """Return this estimate plus ``calls`` calls, each with ``prompt`` and ``completion`` tokens."""
        return CallBounds(
            calls=self.calls + calls,
            prompt_tokens=self.prompt_tokens + calls * prompt,
            completion_tokens=self.completion_tokens + calls * completion,
        )


def estimate(system: System, queries: int, completion_tokens: int = 512) -> CallBounds:
    """Return the maximum numbers of LLM calls and tokens for ``queries`` queries.

    Each repeat of a question counts as a query. ``completion_tokens`` is the maximum number of tokens in one
    reply. All bounds are zero for a system without an LLM.
    """
    one = CallBounds()
    for branch in system.branches:
        if branch.kind == AGENT:
            agent = branch.agent
            one = one.plus(agent.max_steps, agent.context_tokens - completion_tokens, completion_tokens)
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
    method = system.rerank.method if system.reranks else "none"
    if method == "pointwise":
        one = one.plus(pool, OVERHEAD_TOKENS + _entry(POINTWISE_CHARS), 1)
    elif method == "llm":
        budget = system.rerank.context_tokens - completion_tokens
        whole = OVERHEAD_TOKENS + pool * _entry(BODY_CHARS[0])
        if whole <= budget:
            one = one.plus(1, whole, completion_tokens)
        else:
            one = one.plus(2, min(budget, _page(pool - pool // 2, budget)), completion_tokens)
    return CallBounds(
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
