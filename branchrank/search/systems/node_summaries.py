"""Summaries of tree nodes, written by an LLM from the leaves up.

1. The leaves are summarized first, then the nodes whose children are all summarized.
2. A node's prompt contains its title, the start of its own text and its children's summaries. The calls for
   nodes of equal height run concurrently.
3. Each finished call is cached under a digest of the request, so that an interrupted summarization can be
   resumed. After an edit, only nodes whose prompts changed are summarized again.
4. If a call fails, the node keeps its extractive summary, and the failure is counted.
"""

from __future__ import annotations

from branchrank.core.io.progress import Progress, no_progress
from branchrank.core.records import SEED, Node, Record
from branchrank.documents.tree.navigate import Tree
from branchrank.documents.tree.tree_build import with_summaries
from branchrank.search.llm.parsing import read_text
from branchrank.search.llm.prompts import excerpt, summary_messages
from branchrank.search.llm.request import CallContext, LLMReply, LLMRequest
from branchrank.search.llm.session import Asker, LLMWork

STAGE = "summary"
_TEXT_CHARS = 4000
_CHILDREN = 20
_SUMMARY_CHARS = 600
_SUMMARY_TOKENS = 160


class Summarized(Record, frozen=True, kw_only=True):
    """The nodes with their summaries, in pre-order.

    For each node whose LLM call failed, ``failed`` maps the node's id to the reason for the failure.
    """

    nodes: tuple[Node, ...]
    failed: dict[str, str]


def summarize_nodes(
    tree: Tree, work: LLMWork, *, seed: int = SEED, progress: Progress = no_progress
) -> Summarized:
    """Summarize every node except the root. ``progress`` is called after each group of nodes of equal height.

    Raises the same errors as :meth:`Gateway.ask`.
    """
    summaries: dict[str, str] = {}
    failed: dict[str, str] = {}
    asker = Asker(work, _read)
    count = len(tree.nodes) - 1
    for nodes in _by_height(tree):
        answers = asker.ask_all([_request(tree, node, summaries, seed) for node in nodes])
        for node, answer in zip(nodes, answers, strict=True):
            if answer.value is None:
                failed[node.id] = answer.call.outcome
            summaries[node.id] = node.summary if answer.value is None else answer.value
        progress("summaries", len(summaries), count)
    return Summarized(nodes=tuple(with_summaries(tree.nodes.values(), summaries)), failed=failed)


def _by_height(tree: Tree) -> list[list[Node]]:
    """Return the nodes except the root, grouped by height, leaves first."""
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
