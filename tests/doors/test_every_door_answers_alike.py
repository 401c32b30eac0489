"""One engine behind every door: each gives the hits and scores that the library gives, for every predictor.

The doors are the library, the command, HTTP, MCP, the terminal UI's model and a benchmark.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx2
import pytest
from mcp import Client
from support.commands import invoke, json_lines, write_lines
from support.http_server import running

from branchrank import Workspace
from branchrank.core.io.keys import Access
from branchrank.frontends.serve.http_api import application
from branchrank.frontends.serve.mcp import mcp_server
from branchrank.frontends.serve.service import TOP, Searches, Service, Workers

PREDICTORS = ("local", "pageindex", "hybrid", "grep", "qdrant", "sqlite", "late-interaction", "bm25", "dense")
#: Asked of every door; the terminal UI shows so many.
K = TOP


class Place(NamedTuple):
    """What every door says of a hit: its lines and its score."""

    source: str
    line_start: int
    line_end: int
    score: float


#: Predictor -> each question's hits, in order.
Answers = dict[str, list[list[Place]]]


@pytest.fixture(scope="module")
def workspace(sample: Path) -> Iterator[Workspace]:
    with Workspace.open(sample) as opened:
        yield opened


@pytest.fixture(scope="module")
def service(workspace: Workspace) -> Service:
    made = Service(workspace, PREDICTORS)
    assert made.predictors == PREDICTORS
    return made


@pytest.fixture(scope="module")
def library(sample: Path, questions: list[str]) -> Answers:
    """What the library answers, in a workspace of its own."""
    with Workspace.open(sample) as opened:
        return {
            name: [
                [Place(hit.source, hit.line_start, hit.line_end, hit.score) for hit in found]
                for found in (opened.search(question, name, K) for question in questions)
            ]
            for name in PREDICTORS
        }


def test_the_predictors_answer_the_questions_differently(library: Answers) -> None:
    """Equal answers of all doors would prove little if every predictor answered alike, or nothing."""
    for name, answers in library.items():
        assert sum(bool(answer) for answer in answers) >= 3, name
    assert len({str(answers) for answers in library.values()}) == len(PREDICTORS)
    assert any(len(answer) == K for answer in library["grep"])


@pytest.mark.parametrize("predictor", PREDICTORS)
def test_the_command(sample: Path, questions: list[str], library: Answers, predictor: str) -> None:
    words = ("retrieve", "--data-dir", sample, "--predictor", predictor, "--top-k", K, "--json")
    result = invoke(*words, typed="\n".join(questions) + "\n")
    assert result.exit_code == 0, result.output
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert [answer["query"] for answer in answers] == questions
    assert [[place(hit) for hit in answer["hits"]] for answer in answers] == library[predictor]


def place(hit: dict) -> Place:
    return Place(hit["source"], hit["line_start"], hit["line_end"], hit["score"])


def test_http(service: Service, questions: list[str], library: Answers) -> None:
    workers = Workers(2, 64)
    with running(application(service, workers, Access())) as server, httpx2.Client(timeout=120) as client:
        for name in PREDICTORS:
            for question, expected in zip(questions, library[name], strict=True):
                asked = {"query": question, "top_k": K, "predictor": name}
                answer = client.post(f"{server.url}/retrieve", json=asked).json()
                assert [place(hit) for hit in answer["hits"]] == expected, (name, question)


async def test_mcp(service: Service, questions: list[str], library: Answers) -> None:
    workers = Workers(1, 8)
    async with Client(mcp_server(service, workers)) as client:

        async def asked(tool: str, **arguments: object) -> list[Place]:
            result = await client.call_tool(tool, {**arguments, "limit": K})
            assert not result.is_error, result
            results = result.structured_content["results"]
            return [place({**entry, "source": entry["path"]}) for entry in results]

        for name in PREDICTORS:
            for question, expected in zip(questions, library[name], strict=True):
                found = await asked("predictor_search", query=question, predictor=name)
                assert found == expected, (name, question)
        for question, expected in zip(questions, library["grep"], strict=True):
            assert await asked("hybrid_search", semantic_query=question) == expected, question


def test_the_terminal_ui(service: Service, questions: list[str], library: Answers) -> None:
    searches = Searches(service)
    modes = {f"predictor-{name}": name for name in PREDICTORS} | {"hybrid": "grep"}
    for mode, name in modes.items():
        for question, expected in zip(questions, library[name], strict=True):
            found = [each.hit for each in searches.search(mode, question).results]
            assert [
                Place(hit.source, hit.line_start, hit.line_end, hit.score) for hit in found
            ] == expected, (mode, question)


def test_a_benchmark(workspace: Workspace, questions: list[str], library: Answers, tmp_path: Path) -> None:
    asked = [
        {"id": f"q{number:02}", "question": text, "source_file": "index.rst", "gold_level": "file"}
        for number, text in enumerate(questions)
    ]
    path = write_lines(tmp_path / "questions.jsonl", asked)
    run = workspace.benchmark(
        PREDICTORS, questions=path, top_k=K, latency_sample=0, reports=tmp_path / "reports"
    )
    rows = {(row["predictor"], row["question_id"]): row for row in json_lines(run.directory / "rows.jsonl")}
    assert len(rows) == len(PREDICTORS) * len(questions)
    for name in PREDICTORS:
        for number, expected in enumerate(library[name]):
            row = rows[name, f"q{number:02}"]
            assert row["status"] == "ok", row
            assert [place(hit) for hit in row["hits"]] == expected, (name, questions[number])
