"""The tree search by an LLM over real HTTP: what it picks is what comes out, on any tree."""

from __future__ import annotations

import re
from typing import Any

import pytest
from support import scripted_llm as scripted
from support.asking import Searched, Serve, searched
from support.scripted_llm import Action, Chat, Script
from support.trees import grow

from branchrank.core.spec import TreeSearch
from branchrank.documents.tree_nodes import Tree
from branchrank.search.llm.gateway import Gateway

_KEY = re.compile(r"\b(n[\d.]*\d)\b")


def place(text: str) -> str:
    """The node that an entry of a prompt shows."""
    found = _KEY.search(text)
    assert found is not None
    return found.group(1)


def above(key: str, gold: str) -> bool:
    return gold == key or gold.startswith(f"{key}.")


def oracle(gold: str, *, others: int = 0) -> Script:
    """Always picks the gold's ancestor; where there is none, the first ``others`` entries."""

    def script(chat: Chat, number: int) -> Action:
        on_path = [label for label, text in chat.entries.items() if above(place(text), gold)]
        exact = [label for label in on_path if place(chat.entries[label]) == gold]
        rest = [label for label in chat.entries if label not in on_path]
        return scripted.ids((exact or on_path) + rest[:others])

    return script


def search(
    tree: Tree, gateway: Gateway | None, own: dict[str, float] | None = None, **fields: Any
) -> Searched:
    spec = TreeSearch(**({"steps_by": "llm", "final_by": "llm"} | fields))
    return searched(tree, spec, own or {}, gateway)


@pytest.mark.parametrize("others", [0, 4])
@pytest.mark.parametrize(
    ("fans", "gold", "folders"),
    [
        ([3], "n2", False),
        ([6, 6, 6], "n3.4.2", False),
        ([6, 6, 6], "n3.4", False),
        ([6, 6, 6], "n5", False),
        ([8, 30], "n8.29", True),
        ([100], "n77", False),
        ([400, 3], "n399.2", False),
        ([30, 30], "n30.30", False),
        ([1, 1, 1, 1, 9], "n1.1.1.1.7", False),
        ([2] * 7, "n2.1.2.1.2.1.2", False),
    ],
)
def test_a_section_that_an_oracle_picks_ranks_first(
    serve: Serve, fans: list[int], gold: str, folders: bool, others: int
) -> None:
    """Wide levels, inner golds, distractors picked beside the gold: strict hit@1 is 1.0."""
    tree = grow(fans, folders=folders)
    server, gateway = serve(oracle(gold, others=others))
    misleading = {key: 9.0 for key in tree.nodes if not above(key, gold)}
    result = search(tree, gateway, misleading)
    assert result.ranking[0].key == gold
    assert result.fallbacks == ()
    steps = [call for call in result.calls if call.stage.startswith("tree step")]
    assert len(steps) <= 12
    assert len(server.requests) == len(result.calls)


def test_a_short_final_list_keeps_every_first_pick(serve: Serve) -> None:
    """The gold is an inner node, and the walk goes on below other picks."""
    _, gateway = serve(oracle("n3", others=2))
    result = search(grow([6, 6, 6]), gateway, {"n1.1.1": 9.0}, final_candidates=1)
    assert result.ranking[0].key == "n3"
    assert len(result.steps) == 3


def test_every_child_is_shown_with_its_summary_excerpt_and_contents(serve: Serve) -> None:
    server, gateway = serve(oracle("n9.1"))
    result = search(grow([30, 2]), gateway)
    shown = [key for page in result.steps[0].shown[:2] for key in page]
    assert sorted(shown) == sorted(f"n{n}" for n in range(1, 31))
    prompt = server.requests[0].prompt
    assert "Words of n" in prompt
    assert "Contains: Title n" in prompt


def test_a_level_wider_than_the_context_keeps_the_best_lexical_matches(serve: Serve) -> None:
    server, gateway = serve(oracle("n2999"))
    result = search(grow([3000]), gateway, {"n2999": 1.0})
    assert result.ranking[0].key == "n2999"
    assert result.fallbacks == ()
    assert all(len(chat.prompt.encode()) / 3 < 8000 for chat in server.requests)
    assert len(server.requests) <= 13


def test_the_call_budget_bounds_the_steps_and_the_rest_is_lexical(serve: Serve) -> None:
    tree = grow([9, 9, 9])
    server, gateway = serve(oracle("n3.3.3"))
    result = search(tree, gateway, {"n3.3.3": 1.0}, max_steps=1)
    assert [step.by for step in result.steps] == ["llm", "lexical", "lexical"]
    assert [mark.partition(":")[0] for mark in result.fallbacks] == ["tree step 2", "tree step 3"]
    assert result.ranking[0].key == "n3.3.3"
    assert len(server.requests) == 2


def test_a_failed_step_falls_back_to_lexical_with_a_reason(serve: Serve) -> None:
    _, gateway = serve(lambda chat, n: scripted.fail(500) if n == 2 else oracle("n3.3.3")(chat, n))
    result = search(grow([9, 9, 9]), gateway, {"n3.3.3": 1.0, "n3.3": 0.5})
    assert result.fallbacks == ("tree step 2: http 500",)
    assert [step.by for step in result.steps] == ["llm", "lexical", "llm"]
    assert result.ranking[0].key == "n3.3.3"
    assert [call.outcome for call in result.calls] == ["ok", "http 500", "ok", "ok"]


def test_a_dead_server_gives_the_lexical_result_with_reasons(serve: Serve) -> None:
    _, gateway = serve(lambda chat, n: Action(drop=True))
    own = {"n3.3.3": 1.0, "n3.1": 0.5}
    result = search(grow([9, 9, 9]), gateway, own)
    alone = search(grow([9, 9, 9]), None, own, steps_by="lexical", final_by="lexical")
    assert result.ranking == alone.ranking
    assert set(result.fallbacks) == {
        "tree step 1: connection",
        "tree step 2: connection",
        "tree step 3: connection",
        "tree final: connection",
    }


def test_picking_nothing_at_all_falls_back_to_the_lexical_walk(serve: Serve) -> None:
    _, gateway = serve(lambda chat, n: scripted.ids([]))
    result = search(grow([9, 9]), gateway, {"n3.3": 1.0})
    assert result.ranking[0].key == "n3.3"
    assert any(mark.startswith("tree search: ") for mark in result.fallbacks)


def test_the_llm_can_be_used_only_for_the_final_call(serve: Serve) -> None:
    server, gateway = serve(scripted.oracle(lambda text: place(text) == "n2.1"))
    own = {"n3.3": 3.0, "n2.1": 1.0}
    result = search(grow([9, 9]), gateway, own, steps_by="lexical")
    assert [step.by for step in result.steps] == ["lexical", "lexical"]
    assert [entry.key for entry in result.ranking[:2]] == ["n2.1", "n3.3"]
    assert [call.stage for call in result.calls] == ["tree final"]
    assert len(server.requests) == 1
