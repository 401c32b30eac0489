"""Document 003, "Hybrid Retrieval Plan": what it says of the LLM, through the commands."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import scripted_llm as scripted
from support.commands import benchmark, table, write_lines
from support.front_doors import Command, Library, ids, make_indexed
from support.scripted_llm import Action, Chat, Script, ScriptedLLM

TEMPERATURE = "which temperature for green tea"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_indexed(tmp_path_factory.mktemp("document-003-llm"))
    write_lines(folder / "data" / "benchmark" / "questions.jsonl")
    return folder


@pytest.fixture(autouse=True)
def forgetful(project: Path) -> None:
    """No decision of one test answers in another."""
    shutil.rmtree(project / "data" / "hybrid" / "cache", ignore_errors=True)


@pytest.fixture
def serve() -> Iterator[Callable[[Script], ScriptedLLM]]:
    servers: list[ScriptedLLM] = []

    def start(script: Script) -> ScriptedLLM:
        servers.append(ScriptedLLM(script))
        return servers[-1]

    yield start
    for server in servers:
        server.__exit__()


def search(command: Command, *words: object) -> dict[str, Any]:
    return command.json("hybrid", TEMPERATURE, *words)


def endpoint(server: ScriptedLLM, part: str = "hybrid") -> tuple[str, ...]:
    return (f"--{part}-base-url", server.base_url, f"--{part}-model", "m")


def places(answer: dict[str, Any]) -> list[str]:
    return [hit["node_id"] for hit in answer["hits"]]


def last_first(chat: Chat, number: int) -> Action:
    """A model with an opinion that no first stage shares."""
    order = sorted(chat.entries, key=lambda label: chat.entries[label], reverse=True)
    return scripted.ids(order)


class TestStageCLLMFinalRerank:
    def test_a_single_call_ranks_the_candidates(self, command: Command, serve: Any) -> None:
        server = serve(scripted.oracle(lambda text: "Steeping time" in text and "Herbal" not in text))
        answer = search(command, *endpoint(server))
        assert len(server.requests) == 1
        assert places(answer)[0] == "guide/brewing.md#steeping-time"

    def test_a_large_pool_takes_at_most_two_batched_calls(self, command: Command, serve: Any) -> None:
        server = serve(scripted.first_shown)
        search(command, *endpoint(server), "--hybrid-context-tokens", 1000)
        assert len(server.requests) == 2
        assert not set.intersection(*({*chat.entries.values()} for chat in server.requests))

    def test_the_prompt_prefers_concrete_how_to_sections(self, command: Command, serve: Any) -> None:
        server = serve(scripted.first_shown)
        search(command, *endpoint(server))
        assert "Prefer concrete how-to sections" in server.requests[0].prompt

    def test_the_reranker_returns_the_top_k_candidates(self, command: Command, serve: Any) -> None:
        server = serve(last_first)
        five, three = (search(command, *endpoint(server), *extra) for extra in ((), ("--top-k", 3)))
        assert len(five["hits"]) == 5
        assert places(three) == places(five)[:3]

    @pytest.mark.parametrize(("flags", "cap"), [((), 30), (("--hybrid-candidate-cap", 20), 20)])
    def test_the_llm_gets_no_more_candidates_than_the_cap(
        self, tmp_path: Path, serve: Any, flags: tuple[object, ...], cap: int
    ) -> None:
        pages = {
            f"more{number}.md": f"# More {number}\n\n"
            + "".join(f"## Tea {number}.{part}\n\nGreen tea temperature.\n\n" for part in range(4))
            for number in range(12)
        }
        server = serve(scripted.first_shown)
        search(Command(make_indexed(tmp_path, pages)), *endpoint(server), *flags)
        assert len(server.requests[0].entries) == cap

    def test_a_fusion_weight_of_0_gives_the_order_without_a_reranker(
        self, command: Command, serve: Any
    ) -> None:
        server = serve(last_first)
        words = ("--top-k", 30, "--hybrid-candidate-cap", 30)
        without = search(command, "--no-llm", *words)
        assert search(command, *endpoint(server), *words)["hits"] != without["hits"]
        asked = len(server.requests)
        found = search(command, *endpoint(server), "--hybrid-rerank-fusion-weight", 0, *words)
        assert (found["hits"], len(server.requests)) == (without["hits"], asked)


class TestFallbackOrderIfTheLLMFails:
    @pytest.mark.parametrize(
        ("script", "reason"),
        [
            (lambda chat, number: scripted.fail(500), "http 500"),
            (lambda chat, number: scripted.say("no idea"), "malformed reply"),
            (lambda chat, number: scripted.ids(["x"]), "no known id"),
        ],
    )
    def test_the_fallback_sorts_by_evidence_then_by_lexical_score(
        self, command: Command, serve: Any, script: Script, reason: str
    ) -> None:
        """A short shortlist without neighbors, so that some candidates have no evidence."""
        narrow = ("--hybrid-vector-top-n", 5, "--hybrid-neighbor-depth", 0, "--hybrid-file-roots", 0)
        by_words = ("--hybrid-bm25-weight", 50)
        words = (*narrow, *by_words, "--top-k", 30, "which tea, brew and temperature")
        without = command.hits("hybrid", "--no-llm", *words)
        server = serve(script)
        fallen = command.json("hybrid", *endpoint(server), "--llm-retries", 0, *words)

        def evidence(hit: dict[str, Any]) -> float:
            place = hit["branches"].get("dense(chunks)")
            return place["score"] if place else 0.0

        def lexical(hit: dict[str, Any]) -> float:
            place = hit["branches"].get("bm25(nodes)")
            return place["score"] if place else 0.0

        expected = sorted(without, key=lambda hit: (-evidence(hit), -lexical(hit), hit["node_id"]))
        assert fallen["fallbacks"] == [f"rerank: {reason}"]
        assert places(fallen) == [hit["node_id"] for hit in expected]
        assert places(fallen) != [hit["node_id"] for hit in without], "the fused order is another"
        words_only = [hit for hit in expected if not evidence(hit)]
        assert len({lexical(hit) for hit in words_only}) > 2
        assert words_only != sorted(words_only, key=lambda hit: hit["node_id"])

    def test_the_tree_search_falls_back_to_the_lexical_score(
        self, library: Library, command: Command, serve: Any
    ) -> None:
        server = serve(lambda chat, number: scripted.fail(500))
        asking = {"pageindex__base_url": server.base_url, "pageindex__model": "m", "llm__retries": 0}
        fallen = library.retrieve(TEMPERATURE, "pageindex", **asking)
        stages = [reason.partition(":")[0] for reason in fallen.fallbacks]
        assert "tree final" in stages
        assert any(stage.startswith("tree step") for stage in stages)
        expected = command.hits("retrieve", "--predictor", "pageindex", TEMPERATURE)
        # The walk without an LLM leaves out sections that hold no word of the query.
        assert len(expected) > 2
        assert [hit.id for hit in fallen.hits][: len(expected)] == ids(expected)


class TestFlags:
    def test_the_no_llm_flag_turns_off_the_llm(self, command: Command, serve: Any) -> None:
        server = serve(last_first)
        without = search(command, "--no-llm")
        same = search(command, "--hybrid-no-llm", *endpoint(server))
        assert server.requests == []
        assert places(same) == places(without) != places(search(command, *endpoint(server)))

    def test_no_llm_is_called_without_an_endpoint(self, command: Command) -> None:
        assert places(search(command)) == places(search(command, "--no-llm"))

    def test_the_error_for_an_unreachable_endpoint_shows_both_fixes(self, command: Command) -> None:
        nowhere = ("--hybrid-base-url", "http://127.0.0.1:9/v1", "--hybrid-model", "m")
        result = command("hybrid", TEMPERATURE, *nowhere)
        assert result.exit_code != 0
        assert "--hybrid-base-url" in result.output
        assert "--hybrid-no-llm" in result.output

    def test_the_prompt_is_deterministic(self, command: Command, serve: Any) -> None:
        server = serve(lambda chat, number: scripted.fail(400))
        for _ in range(2):
            search(command, *endpoint(server), "--llm-retries", 0)
        bodies = [chat.body for chat in server.requests if chat.format == "json_schema"]
        assert len(bodies) == 2
        assert bodies[0] == bodies[1]
        assert bodies[0]["temperature"] == 0


class TestDecisionCache:
    def test_llm_decisions_are_cached_in_the_hybrid_cache_folder(self, command: Command, serve: Any) -> None:
        server = serve(last_first)
        first = search(command, *endpoint(server))
        again = search(command, *endpoint(server))
        assert len(server.requests) == 1
        assert places(first) == places(again)
        assert list((command.data / "hybrid" / "cache").iterdir())


class TestEvaluation:
    def test_all_predictors_use_the_same_questions_and_report_llm_calls_and_tokens(
        self, command: Command, serve: Any
    ) -> None:
        server = serve(scripted.first_shown)
        words = [*endpoint(server), *endpoint(server, "pageindex"), "--top-k", 5]
        made = benchmark(
            command.data.parent, "--predictor", "all", "--sample-size", 5, "--sample-seed", 7, *words
        )
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
