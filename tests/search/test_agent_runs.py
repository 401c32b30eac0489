"""Runs of agents through the commands: replay, kill and resume, budget, dry run, repeats, and other doors.

The scripted server's own count of requests and tokens is compared with the rows.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support import agent_policies as policies
from support import scripted_llm as scripted
from support.agent_policies import answer, call, question, told, turn
from support.commands import (
    QUESTIONS,
    ROOT,
    benchmark,
    invoke,
    json_lines,
    make_project,
    program,
    table,
    write_lines,
)
from support.doc_blocks import blocks
from support.front_doors import Http, Library, Mcp
from support.sample_index import CORPUS
from support.scripted_llm import Action, Chat, ScriptedLLM

REPRODUCED = ("rows.jsonl", "questions.csv", "llm_calls.csv")
NOWHERE = "http://127.0.0.1:9/v1"


def arms(url: str, *names: str) -> tuple[object, ...]:
    predictors = [word for name in names or ("agent-grep",) for word in ("--predictor", name)]
    return (*predictors, "--agent-base-url", url, "--agent-model", "m", "--agent-max-steps", 4)


def usage(chat: Chat) -> dict[str, int] | None:
    """Other counts for each request; the requests of a question's last turn have none."""
    number = len(chat.body["messages"])
    asked = 1000 * number + len(question(chat))
    return None if number > 5 else {"prompt_tokens": asked, "completion_tokens": number}


def plays(chat: Chat, number: int) -> Action:
    """Another policy for each question, with the usage of :func:`usage`."""
    text = question(chat)
    if "stains" in text:  # never answers
        made = policies.loops(chat, number)
    elif "API" in text and told(chat):  # the server fails in the second turn
        return scripted.fail(400)
    elif "herbal" in text:  # cites what it never saw
        made = answer(("guide/brewing.md", 14, 16))
    elif "418" in text and not told(chat):  # several calls in a turn, of which one is wrong
        made = turn(call("grep_search", 1, query="418"), call("nowhere", 2), call("read_file", 3))
    elif "418" in text:
        made = answer(*policies.shown(chat)[:1])
    else:
        made = policies.greps(chat, number)
    body = json.loads(made.content)
    body.pop("usage")
    counted = usage(chat)
    return Action(content=json.dumps(body if counted is None else body | {"usage": counted}).encode())


def calls_of(run: Path) -> list[dict[str, Any]]:
    return [call for row in json_lines(run / "rows.jsonl") for call in row["calls"]]


def distinct(requests: list[Chat]) -> int:
    return len({json.dumps(chat.body, sort_keys=True) for chat in requests})


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("agents"))


@pytest.fixture(scope="module")
def recorded(project: Path) -> tuple[Path, list[Chat]]:
    """A run of two agents that was recorded, and the requests that the server got."""
    with ScriptedLLM(plays) as server:
        words = arms(server.base_url, "agent-grep", "agent-memory")
        run = benchmark(project, *words, "--llm-record", project / "c.sqlite", "--llm-retries", 0)
        return run, list(server.requests)


def test_the_rows_have_the_servers_own_count(recorded: tuple[Path, list[Chat]]) -> None:
    run, requests = recorded
    calls = calls_of(run)
    assert len(calls) == len(requests) == distinct(requests)
    failed = [each for each in calls if each["outcome"] == "http 400"]
    assert [(each["question_id"], each["stage"]) for each in failed] == [("api", "agent step 2")] * 2
    counts = [found for chat in requests if "API" not in question(chat) and (found := usage(chat))]
    reported = [each for each in calls if each["reported"] and each["question_id"] != "api"]
    assert len(counts) == len(reported)
    for name in ("prompt_tokens", "completion_tokens"):
        assert sum(each[name] for each in reported) == sum(each[name] for each in counts)
    estimated = [each for each in calls if not each["reported"] and each["outcome"] == "ok"]
    assert estimated
    assert all(each["prompt_tokens"] > 100 for each in estimated)
    assert len(table(run / "llm_calls.csv")) == len(calls)


def test_a_replay_gives_the_same_rows_without_a_server(
    project: Path, recorded: tuple[Path, list[Chat]]
) -> None:
    run, requests = recorded
    words = arms(NOWHERE, "agent-grep", "agent-memory")
    again = benchmark(project, *words, "--llm-replay", project / "c.sqlite", reports=project / "replayed")
    for name in REPRODUCED:
        assert (again / name).read_bytes() == (run / name).read_bytes(), name
    rows = {(row["question_id"], row["predictor"]): row for row in json_lines(again / "rows.jsonl")}
    assert rows["stains", "agent-grep"]["fallbacks"] == ["agent: no answer after 4 steps"]
    assert rows["api", "agent-grep"]["fallbacks"] == ["agent: step 2: http 400"]
    assert rows["herbal", "agent-memory"]["agent"]["unread"] == 1
    assert [step["tool"] for step in rows["coffee", "agent-grep"]["agent"]["steps"]] == [
        *("grep_search", "nowhere", "read_file")
    ]
    assert len(requests) == len(calls_of(again))


@pytest.mark.full
def test_the_recorded_pilot_is_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls of ``examples/agents.sqlite`` give the rows of ``reports/examples/agents``.

    Scores are not compared, because each model of processor rounds the embedder's sums differently.
    """
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("*/"))
    monkeypatch.chdir(tmp_path)
    made = invoke("index", CORPUS, "--embedder", "all-MiniLM-L6-v2", "--quiet")
    assert made.exit_code == 0, made.output
    words = blocks("docs/agents.md", "bash")[-1].text.replace("\\\n", " ").split()
    replayed = invoke(*words[1:], "--reports", "reports", "--quiet")
    assert replayed.exit_code == 0, replayed.output
    [rows] = Path("reports").glob("*/rows.jsonl")
    recorded = ROOT / "reports/examples/agents/rows.jsonl"
    assert [*map(without_scores, json_lines(rows))] == [*map(without_scores, json_lines(recorded))]


def without_scores(value: Any) -> Any:
    """A JSON value in which each number with a fraction is 0.0."""
    if isinstance(value, dict):
        return {key: without_scores(each) for key, each in value.items()}
    if isinstance(value, list):
        return [*map(without_scores, value)]
    return 0.0 if isinstance(value, float) else value


@pytest.mark.full
def test_two_processes_give_the_same_rows(tmp_path: Path, recorded: tuple[Path, list[Chat]]) -> None:
    run, requests = recorded
    project = make_project(tmp_path)
    with ScriptedLLM(plays) as server:
        words = (*arms(server.base_url, "agent-grep", "agent-memory"), "--llm-retries", 0, "--jobs", 2)
        two = benchmark(project, *words)
        assert len(server.requests) == len(requests)
    timed = re.compile(rb'"latency_ms":[0-9.]+')
    first, second = (timed.sub(b"", (each / "rows.jsonl").read_bytes()) for each in (run, two))
    assert first == second


@pytest.mark.parametrize("kept", ["cassette", pytest.param("cache", marks=pytest.mark.full)])
def test_a_killed_run_goes_on_within_the_question(tmp_path: Path, kept: str) -> None:
    """The second question has three calls, and the process dies during the third."""
    project, held = make_project(tmp_path), 6

    def holds(chat: Chat, number: int) -> Action:
        made = policies.greps(chat, number)
        return Action(content=made.content, silent_s=60) if number == held else made

    with ScriptedLLM(holds) as server:
        words = ["-m", "branchrank", "benchmark", "--data-dir", "data", "--latency-sample", 0]
        words += arms(server.base_url)
        words += ["--llm-record", project / "c.sqlite"] if kept == "cassette" else []

        def kill(process: int) -> None:
            scripted.wait_until(lambda: len(server.requests) >= held, 60)
            os.kill(process, signal.SIGKILL)

        assert program(*words, cwd=project, during=kill).returncode == -signal.SIGKILL
        [run] = (project / "reports").iterdir()
        assert len(json_lines(run / "rows.jsonl")) == 1
        server.script = policies.greps
        record = ("--llm-record", project / "c.sqlite") if kept == "cassette" else ()
        data = ("--data-dir", project / "data", "--reports", project / "reports", "--quiet")
        done = invoke("benchmark", *data, "--latency-sample", 0, *arms(server.base_url), *record)
        assert done.exit_code == 0, done.output
        requests = list(server.requests)
    assert [run] == [*(project / "reports").iterdir()]
    calls = calls_of(run)
    assert len(json_lines(run / "rows.jsonl")) == len(QUESTIONS)
    # Only the call that had no answer when the process died was sent twice.
    assert len(requests) == distinct(requests) + 1 == len(calls) + 1
    assert requests[held - 1].body in [chat.body for chat in requests[held:]]
    assert sum(each["prompt_tokens"] for each in calls) == 100 * len(calls)


@pytest.mark.parametrize(("flag", "limit"), [("--max-calls", 5), ("--max-tokens", 1500)])
def test_a_spent_budget_ends_the_run_and_a_higher_one_goes_on(tmp_path: Path, flag: str, limit: int) -> None:
    project = make_project(tmp_path)
    data = ("--data-dir", project / "data", "--reports", project / "reports", "--quiet")
    with ScriptedLLM(policies.greps) as server:
        words = ("benchmark", *data, "--latency-sample", 0, *arms(server.base_url))
        stopped = invoke(*words, flag, limit)
        assert stopped.exit_code == 7
        assert flag in stopped.output
        paid = len(server.requests)
        assert 3 < paid <= (limit if flag == "--max-calls" else limit / 107)
        done = invoke(*words, flag, 100 * limit)
        assert done.exit_code == 0, done.output
        assert distinct(server.requests) == len(server.requests)
    [run] = (project / "reports").iterdir()
    assert len(calls_of(run)) == len(server.requests)


@pytest.mark.parametrize("kind", ["loops", "talks", "takes no tools"])
def test_a_dry_run_is_an_upper_bound(tmp_path: Path, kind: str) -> None:
    """Of agents that never answer, read much, and write much."""
    project = make_project(tmp_path)

    def loops(chat: Chat, number: int) -> Action:
        if kind == "takes no tools" and "tools" in chat.body:
            return scripted.fail(400)
        if kind == "takes no tools":
            made = scripted.say(json.dumps({"tool": "grep_search", "arguments": {"query": "tea brew set"}}))
        else:
            text = "word " * (100 if kind == "talks" else 5)
            made = turn(*(call("grep_search", n, query="tea brew set") for n in range(4)), text=text)
        body = json.loads(made.content)
        body.pop("usage")
        return Action(content=json.dumps(body).encode())

    budget = ("--agent-context-tokens", 3000, "--agent-max-steps", 7, "--llm-completion-tokens", 600)
    data = ("--data-dir", project / "data", "--latency-sample", 0)
    asked = ("--questions", write_lines(project / "few.jsonl", QUESTIONS[:3]))
    planned = invoke("benchmark", *data, *asked, *arms(NOWHERE), *budget, "--dry-run")
    found = re.search(r"at most ([\d,]+) LLM calls and ([\d,]+) tokens", planned.output)
    assert found, planned.output
    calls, tokens = (int(text.replace(",", "")) for text in found.groups())
    with ScriptedLLM(loops) as server:
        run = benchmark(project, *asked, *arms(server.base_url), *budget)
    spent = calls_of(run)
    assert calls == 7 * 3
    assert len(spent) < calls if kind == "talks" else len(spent) == calls
    assert not any(each["reported"] for each in spent)
    assert sum(each["prompt_tokens"] + each["completion_tokens"] for each in spent) <= tokens
    assert max(each["prompt_tokens"] for each in spent) <= 2400


def test_a_latency_pass_makes_no_call_again(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    with ScriptedLLM(policies.greps) as server:
        run = benchmark(project, *arms(server.base_url), "--latency-sample", 4)
        assert distinct(server.requests) == len(server.requests) == len(calls_of(run))
    timed = [row for row in table(run / "timings.csv") if row["predictor"] == "agent-grep"]
    assert len({row["question_id"] for row in timed}) == 4


@pytest.fixture(scope="module")
def flipping(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with three repeats, in which an agent answers half of the questions in one repeat only."""
    project = make_project(tmp_path_factory.mktemp("flipping"))

    def script(chat: Chat, number: int) -> Action:
        if chat.body["seed"] != 42 and len(question(chat)) % 2:
            return answer(("guide/cleaning.md", 1, 1))
        return policies.greps(chat, number)

    with ScriptedLLM(script) as server:
        words = ("--llm-repeats", 3, "--predictor", "local")
        return benchmark(project, *arms(server.base_url), *words)


def test_repeats_show_how_often_the_outcome_flips(flipping: Path) -> None:
    rows = [row for row in json_lines(flipping / "rows.jsonl") if row["predictor"] == "agent-grep"]
    assert len(rows) == 3 * len(QUESTIONS)
    cited: dict[str, set[str]] = {}
    for row in rows:
        cited.setdefault(row["question_id"], set()).add(str(row["hits"]))
    flips = [key for key, found in cited.items() if len(found) > 1]
    assert sorted(flips) == sorted(each["id"] for each in QUESTIONS if len(each["question"]) % 2)
    hits: dict[str, list[float]] = {}
    for row in table(flipping / "questions.csv"):
        if row["predictor"] == "agent-grep" and row["strict_hit@1"]:
            hits.setdefault(row["question_id"], []).append(float(row["strict_hit@1"]))
    share = sum(len(set(each)) > 1 for each in hits.values()) / len(hits)
    assert share > 0
    assert f"| agent-grep | 3 | {100 * share:.1f}% |" in (flipping / "report.md").read_text()


@pytest.fixture(scope="module")
def doors(project: Path) -> Iterator[tuple[Library, Http, Mcp, dict[str, object]]]:
    with ScriptedLLM(policies.greps) as server, ExitStack() as resources:
        library = Library(project, resources)
        settings: dict[str, object] = {"agent__base_url": server.base_url, "agent__model": "m"}
        yield library, Http(library, resources), Mcp(library, resources), settings


def test_every_door_asks_the_agent(
    project: Path,
    doors: tuple[Library, Http, Mcp, dict[str, object]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library, http, mcp, settings = doors
    text = str(QUESTIONS[0]["question"])
    expected = [hit.span.citation for hit in library.retrieve(text, "agent-grep", **settings).hits]
    assert expected[0].startswith("guide/brewing.md:")
    served = http(text, "agent-grep", 5, **settings)["hits"]
    assert [f"{hit['source']}:{hit['line_start']}-{hit['line_end']}" for hit in served] == expected
    shown = mcp("predictor_search", settings, query=text, predictor="agent-grep", limit=5).places
    assert [f"{path}:{first}-{last}" for path, first, last in shown] == expected
    for name in ("base_url", "model"):
        monkeypatch.setenv(f"BRANCHRANK_AGENT_{name.upper()}", str(settings[f"agent__{name}"]))
    words = ("--data-dir", project / "data", "--predictor", "agent-grep", "--top-k", 5, "--json", "--quiet")
    asked = invoke("retrieve", *words, text)
    assert asked.exit_code == 0, asked.output
    hits = json.loads(asked.stdout)["hits"]
    assert [f"{hit['source']}:{hit['line_start']}-{hit['line_end']}" for hit in hits] == expected
