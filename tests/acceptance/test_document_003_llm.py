"""Document 003, "Hybrid Retrieval Plan": what it says of the LLM, through the commands."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import scripted_llm as scripted
from support.commands import benchmark, invoke, make_project, table
from support.scripted_llm import Action, Chat, Script, ScriptedLLM

from branchrank.settings import HybridSettings

TEMPERATURE = "which temperature for green tea"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path)


@pytest.fixture
def serve() -> Iterator[Callable[[Script], ScriptedLLM]]:
    servers: list[ScriptedLLM] = []

    def start(script: Script) -> ScriptedLLM:
        servers.append(ScriptedLLM(script))
        return servers[-1]

    yield start
    for server in servers:
        server.__exit__()


def search(project: Path, *words: object) -> dict[str, Any]:
    result = invoke("hybrid", TEMPERATURE, "--data-dir", project / "data", "--json", "--quiet", *words)
    assert result.exit_code == 0, result.output
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def endpoint(server: ScriptedLLM, part: str = "hybrid") -> tuple[str, ...]:
    return (f"--{part}-base-url", server.base_url, f"--{part}-model", "m")


def places(answer: dict[str, Any]) -> list[str]:
    return [hit["node_id"] for hit in answer["hits"]]


def last_first(chat: Chat, number: int) -> Action:
    """A model with an opinion that no first stage shares."""
    order = sorted(chat.entries, key=lambda label: chat.entries[label], reverse=True)
    return scripted.ids(order)


class TestStageCLLMFinalRerank:
    def test_a_single_call_ranks_the_candidates(self, project: Path, serve: Any) -> None:
        server = serve(scripted.oracle(lambda text: "Steeping time" in text and "Herbal" not in text))
        answer = search(project, *endpoint(server))
        assert len(server.requests) == 1
        assert places(answer)[0] == "guide/brewing.md#steeping-time"

    def test_or_at_most_two_batched_calls(self, project: Path, serve: Any) -> None:
        server = serve(scripted.first_shown)
        search(project, *endpoint(server), "--hybrid-context-tokens", 1000)
        assert len(server.requests) == 2
        assert not set.intersection(*({*chat.entries.values()} for chat in server.requests))

    def test_prefers_concrete_how_to_sections(self, project: Path, serve: Any) -> None:
        server = serve(scripted.first_shown)
        search(project, *endpoint(server))
        assert "Prefer concrete how-to sections" in server.requests[0].prompt

    def test_returns_the_top_k_of_the_candidates(self, project: Path, serve: Any) -> None:
        server = serve(last_first)
        five, three = (search(project, *endpoint(server), *extra) for extra in ((), ("--top-k", 3)))
        assert len(five["hits"]) == 5
        assert places(three) == places(five)[:3]

    def test_no_more_candidates_than_the_cap_reach_the_llm(self, project: Path, serve: Any) -> None:
        assert HybridSettings().candidate_cap == 30
        docs = project / "docs"
        for number in range(12):
            sections = "".join(f"## Tea {number}.{part}\n\nGreen tea temperature.\n\n" for part in range(4))
            (docs / f"more{number}.md").write_text(f"# More {number}\n\n{sections}")
        invoke("index", docs, "--data-dir", project / "data", "--embedder", "fake", "--quiet")
        server = serve(scripted.first_shown)
        search(project, *endpoint(server), "--hybrid-candidate-cap", 20)
        assert len(server.requests[0].entries) == 20


class TestFallbackOrderIfTheLLMFails:
    @pytest.mark.parametrize(
        ("script", "reason"),
        [
            (lambda chat, number: scripted.fail(500), "http 500"),
            (lambda chat, number: scripted.say("no idea"), "malformed reply"),
            (lambda chat, number: scripted.ids(["x"]), "no known id"),
        ],
    )
    def test_first_the_fused_score(self, project: Path, serve: Any, script: Script, reason: str) -> None:
        without = search(project, "--no-llm")
        server = serve(script)
        fallen = search(project, *endpoint(server), "--llm-retries", 0)
        assert places(fallen) == places(without)
        assert fallen["fallbacks"] == [f"rerank: {reason}"]


class TestFlags:
    def test_no_llm_is_the_ablation(self, project: Path, serve: Any) -> None:
        server = serve(last_first)
        without = search(project, "--no-llm")
        same = search(project, "--hybrid-no-llm", *endpoint(server))
        assert server.requests == []
        assert places(same) == places(without) != places(search(project, *endpoint(server)))

    def test_without_an_endpoint_both_remedies_are_named(self, project: Path) -> None:
        result = invoke("hybrid", TEMPERATURE, "--data-dir", project / "data")
        assert result.exit_code != 0
        assert "--hybrid-base-url" in result.output
        assert "--hybrid-no-llm" in result.output

    def test_the_prompt_is_deterministic(self, project: Path, serve: Any) -> None:
        server = serve(lambda chat, number: scripted.fail(400))
        for _ in range(2):
            search(project, *endpoint(server), "--llm-retries", 0)
        bodies = [chat.body for chat in server.requests if chat.format == "json_schema"]
        assert len(bodies) == 2
        assert bodies[0] == bodies[1]
        assert bodies[0]["temperature"] == 0


class TestDecisionCache:
    def test_a_decision_is_kept_below_hybrid_cache(self, project: Path, serve: Any) -> None:
        server = serve(last_first)
        first = search(project, *endpoint(server))
        again = search(project, *endpoint(server))
        assert len(server.requests) == 1
        assert places(first) == places(again)
        assert list((project / "data" / "hybrid" / "cache").iterdir())


class TestEvaluation:
    def test_the_three_run_on_the_same_questions_and_report_calls_and_tokens(
        self, project: Path, serve: Any
    ) -> None:
        server = serve(scripted.first_shown)
        words = [*endpoint(server), *endpoint(server, "pageindex"), "--top-k", 5]
        made = benchmark(project, "--predictor", "all", "--sample-size", 5, "--sample-seed", 7, *words)
        rows = table(made / "summary.csv")
        assert [row["predictor"] for row in rows] == ["local", "pageindex", "hybrid"]
        calls = table(made / "llm_calls.csv")
        for row in rows:
            own = [call for call in calls if call["predictor"] == row["predictor"]]
            tokens = sum(int(call["prompt_tokens"]) + int(call["completion_tokens"]) for call in own)
            assert float(row["llm_calls_per_query"]) == pytest.approx(len(own) / 5)
            assert float(row["llm_tokens_per_query"]) == pytest.approx(tokens / 5)
        assert {call["served_by"] for call in calls} == {"server"}
        assert len(calls) == len(server.requests)
        assert len({call["question_id"] for call in calls if call["predictor"] == "hybrid"}) == 5
