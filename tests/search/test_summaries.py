"""Summaries: bottom-up, remembered by content, and a failure costs no more than itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support import scripted_llm as scripted
from support.scripted_llm import Action, Chat, ScriptedLLM
from support.trees import grow

from branchrank.core.records import Node
from branchrank.core.settings import LLMSettings
from branchrank.documents.tree_nodes import Tree
from branchrank.search.llm.request import BudgetError
from branchrank.search.llm.session import LLMSession, LLMWork
from branchrank.search.systems.workspace_tree import Summarized, summarize_nodes

_TITLE = re.compile(r"^Title: (.*)$", re.MULTILINE)


def titled(chat: Chat) -> str:
    found = _TITLE.search(chat.prompt)
    assert found is not None
    return found.group(1)


def summary_of(chat: Chat, number: int) -> Action:
    """A summary that depends on the title and the words of the text alone."""
    words = chat.prompt.partition("Text:\n")[2].partition("\n")[0]
    return scripted.say(f"About {titled(chat)}:\n{words}")


@pytest.fixture
def server() -> Any:
    with ScriptedLLM(summary_of) as running:
        yield running


def summarized(server: ScriptedLLM, tree: Tree, cache: Path, **settings: Any) -> Summarized:
    with LLMSession(LLMSettings(retries=0, **settings), cache_path=cache, environment={}) as session:
        return summarize_nodes(tree, LLMWork(session.gateway(server.base_url, "m")))


def test_every_node_is_summarized_after_its_children(server: ScriptedLLM, tmp_path: Path) -> None:
    tree = grow([3, 3])
    result = summarized(server, tree, tmp_path / "c")
    summaries = {node.id: node.summary for node in result.nodes}
    assert [node.id for node in result.nodes] == list(tree.nodes)
    assert summaries["n2.1"] == "About Title n2.1: Words of n2.1"
    assert summaries["root"] == ""
    order = [titled(chat) for chat in server.requests]
    assert set(order[:9]) == {f"Title n{a}.{b}" for a in (1, 2, 3) for b in (1, 2, 3)}
    above = next(chat for chat in server.requests if titled(chat) == "Title n2")
    for child in (1, 2, 3):
        assert f"Title n2.{child}: About Title n2.{child}: Words" in above.prompt
    assert (len(server.requests), result.failed) == (12, {})


def test_an_interrupted_pass_resumes_where_it_stopped(server: ScriptedLLM, tmp_path: Path) -> None:
    with pytest.raises(BudgetError):
        summarized(server, grow([3, 3]), tmp_path / "c", max_calls=5, concurrency=1)
    assert len(server.requests) == 5
    whole = summarized(server, grow([3, 3]), tmp_path / "c")
    assert len(server.requests) == 12
    assert all(node.summary for node in whole.nodes if node.parent_id)


def test_a_failure_keeps_the_extractive_summary_and_is_counted(server: ScriptedLLM, tmp_path: Path) -> None:
    server.script = lambda chat, n: scripted.fail(500) if titled(chat) == "Title n1" else summary_of(chat, n)
    tree = Tree([with_summary(node, f"extract of {node.id}") for node in grow([2]).nodes.values()])
    result = summarized(server, tree, tmp_path / "c")
    summaries = {node.id: node.summary for node in result.nodes}
    assert summaries["n1"] == "extract of n1"
    assert summaries["n2"].startswith("About")
    assert result.failed == {"n1": "http 500"}


def with_summary(node: Node, summary: str) -> Node:
    return msgspec.structs.replace(node, summary=summary)
