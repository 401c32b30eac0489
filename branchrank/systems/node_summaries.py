"""Summaries of tree nodes by an LLM, from the leaves up.

1. Nodes are taken by height: leaves first, then what stands above summarised nodes.
2. A node's prompt holds its title, the start of its own text and its children's summaries. The nodes of one
   height are asked for several at once.
3. Each call is remembered by its content as soon as it ends. So an interrupted pass goes on where it
   stopped, and after an edit only the edited section is asked for anew, and those above it as far as
   the summaries below them changed.
4. Where a call fails, the node keeps its extractive summary, and the failure is counted.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from branchrank.llm.gateway import Gateway
from branchrank.llm.ledger import Totals, totals
from branchrank.llm.parsing import read_text
from branchrank.llm.prompts import excerpt, summary_messages
from branchrank.llm.request import CallContext, LLMReply, LLMRequest
from branchrank.progress import Progress, no_progress
from branchrank.records import Node, Record
from branchrank.tree.navigate import Tree

STAGE = "summary"
_TEXT_CHARS = 4000
_CHILDREN = 20
_SUMMARY_CHARS = 600
_SUMMARY_TOKENS = 160


class Summarised(Record, frozen=True, kw_only=True):
    """The nodes with their summaries, in pre-order, and the cost; ``failed`` maps node ids to reasons."""

    nodes: tuple[Node, ...]
    failed: dict[str, str]
    totals: Totals


def summarise_nodes(
    tree: Tree, llm: Gateway, *, seed: int = 42, progress: Progress = no_progress
) -> Summarised:
    """Summarise every node but the root. ``progress`` is told the nodes done and all, after each height.

    Raises what :meth:`Gateway.ask` raises; what was finished is remembered by the gateway.
    """
    summaries: dict[str, str] = {}
    failed: dict[str, str] = {}
    calls = []
    count = len(tree.nodes) - 1
    for nodes in _by_height(tree):
        answers = llm.ask_all([(_request(tree, node, summaries, seed), _read) for node in nodes])
        for node, answer in zip(nodes, answers, strict=True):
            if answer.value is None:
                failed[node.id] = answer.call.outcome
            summaries[node.id] = node.summary if answer.value is None else answer.value
            calls.append(answer.call)
        progress("summaries", len(summaries), count)
    return Summarised(
        nodes=tuple(_with_summaries(tree.nodes.values(), summaries)),
        failed=failed,
        totals=totals(calls),
    )


def _by_height(tree: Tree) -> list[list[Node]]:
    """The nodes but the root, grouped by the levels below them, leaves first."""
    heights: dict[str, int] = {}
    for node in reversed(list(tree.nodes.values())):
        heights[node.id] = 1 + max((heights[child] for child in node.children), default=-1)
    groups: dict[int, list[Node]] = {}
    for node in tree.nodes.values():
        if node.parent_id is not None:
            groups.setdefault(heights[node.id], []).append(node)
    return [groups[height] for height in sorted(groups)]


def _request(tree: Tree, node: Node, summaries: dict[str, str], seed: int) -> LLMRequest:
    parts = [f"{child.title}: {summaries[child.id]}" for child in tree.children(node.id)[:_CHILDREN]]
    text = excerpt(node.text, _TEXT_CHARS)
    return LLMRequest(
        stage=STAGE,
        messages=summary_messages(node.title, text, parts),
        max_tokens=_SUMMARY_TOKENS,
        context=CallContext(question_id=node.id, predictor="summaries", seed=seed),
    )


def _read(reply: LLMReply) -> str:
    return excerpt(read_text(reply.text), _SUMMARY_CHARS)


def _with_summaries(nodes: Iterable[Node], summaries: dict[str, str]) -> list[Node]:
    return [
        msgspec.structs.replace(node, summary=summaries[node.id]) if node.id in summaries else node
        for node in nodes
    ]
