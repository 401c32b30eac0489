"""Let an LLM choose from a closed set: prompts show options under opaque labels, and replies name labels.

1. The options of each page are shuffled by seed and labelled; their texts are shortened until a page fits.
2. Each page is one call; the calls of several pages are concurrent.
3. Labels are mapped back to ids, so only an option that was shown can be chosen.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from branchrank.llm.gateway import Gateway
from branchrank.llm.parsing import read_labels
from branchrank.llm.prompts import Shown, excerpt, labels, labels_schema
from branchrank.llm.request import CallContext, LLMReply, LLMRequest, Message
from branchrank.records import LLMCall, Record

T = TypeVar("T")

#: Tokens of a prompt without its options: the instructions, and the query twice.
OVERHEAD_TOKENS = 400
HEADING_CHARS = 240
#: Characters of text shown with an option, in the order tried; 0 shows only the heading.
BODY_CHARS = (600, 400, 250, 120, 0)


class Option(Record, frozen=True, kw_only=True):
    """Something that can be chosen: a node's id, its heading and the text that describes it."""

    id: str
    heading: str
    body: str


class Choice(NamedTuple):
    """The result of one page: the chosen ids, best first, or ``None`` with the reason."""

    ids: list[str] | None
    shown: tuple[str, ...]
    call: LLMCall

    @property
    def fault(self) -> str | None:
        """The reason why nothing was chosen."""
        return None if self.ids is not None else self.call.outcome


class Task(Record, frozen=True, kw_only=True):
    """The task of a stage, the same for all of its pages."""

    stage: str
    build: Callable[[Sequence[Shown]], tuple[Message, ...]]
    most: int
    budget_tokens: int
    may_be_empty: bool = False


def shuffled(items: Sequence[T], query: str, context: CallContext) -> list[T]:
    """Shuffle the items by seed, repeat and query; the order is the same on every machine."""
    order = list(items)
    random.Random(f"{context.seed}/{context.repeat}/{query}").shuffle(order)  # noqa: S311  (no secret)
    return order


def entries(options: Sequence[Option], body_chars: int) -> list[Shown]:
    """The options in the form of a prompt, labelled in their order."""
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
    """The entries with as much text as the budget allows, and whether they fit at all."""
    shown: list[Shown] = []
    for body_chars in BODY_CHARS:
        shown = entries(options, body_chars)
        if tokens(shown) <= budget_tokens:
            return shown, True
    return shown, False


def tokens(shown: Sequence[Shown]) -> int:
    """Estimated prompt tokens of a page, instructions included."""
    return OVERHEAD_TOKENS + sum(entry.tokens for entry in shown)


def ask_pages(
    llm: Gateway, pages: Sequence[Sequence[Option]], task: Task, context: CallContext
) -> list[Choice]:
    """Ask for a choice from each page; options are shown in the given order."""
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
    answers = llm.ask_all(calls)
    return [
        Choice(answer.value, tuple(option.id for option in page), answer.call)
        for answer, page in zip(answers, pages, strict=True)
    ]


def _read(reply: LLMReply, *, ids: dict[str, str], most: int, may_be_empty: bool) -> list[str]:
    return [ids[label] for label in read_labels(reply.text, ids, may_be_empty=may_be_empty)][:most]
