"""A recording that was interrupted after a failure, and resumed, replays into the same bytes."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from support import scripted_llm as scripted
from support.commands import QUESTIONS, ROOT, json_lines, make_project, program
from support.scripted_llm import Action, Chat, ScriptedLLM

#: ``summary.csv`` holds latencies as well, and the latency pass ran.
REPRODUCED = ("rows.jsonl", "questions.csv", "llm_calls.csv")
NOWHERE = "http://127.0.0.1:9/v1"
DOOR = ROOT / "benchmark_run.py"
#: The call that the server fails, and the one during which the run is ended.
FAILED, HELD = 2, 4


def fails_then_holds(chat: Chat, number: int) -> Action:
    if number == FAILED:
        return scripted.fail(500)
    answer = scripted.ids(list(chat.entries)[::-1])
    return Action(content=answer.content, silent_s=60) if number == HELD else answer


def endpoint(url: str) -> tuple[str, ...]:
    return ("--hybrid-base-url", url, "--hybrid-model", "m")


def command(url: str, *words: object) -> list[object]:
    quick = ("--llm-retries", 0, "--llm-concurrency", 1, "--latency-sample", 8)
    return [DOOR, "--predictor", "hybrid", *endpoint(url), *quick, *words]


@pytest.mark.full
@pytest.mark.parametrize("resumed_by", ["resume", pytest.param("the same command", marks=pytest.mark.full)])
def test_the_replay_has_the_bytes_of_the_resumed_recording(tmp_path: Path, resumed_by: str) -> None:
    project = make_project(tmp_path)
    with ScriptedLLM(fails_then_holds) as server:
        recording = command(server.base_url, "--llm-record", "c.sqlite", "--reports", "recorded")
        ended = terminated(recording, project, server)
        assert ended.returncode == 143, ended.stderr
        [run] = (project / "recorded").iterdir()
        kept = json_lines(run / "rows.jsonl")
        assert [row["fallbacks"] for row in kept] == [[], ["rerank: http 500"], []]

        server.script = lambda chat, number: scripted.ids(list(chat.entries)[::-1])
        if resumed_by == "resume":
            reached = ("--trust",)
            resumed = program("-m", "branchrank.frontends.cli.main", "resume", run, *reached, cwd=project)
        else:
            resumed = program(*recording, cwd=project)
        assert resumed.returncode == 0, resumed.stderr
        # The latency pass asked every question again; the one that failed was not sent again.
        prompts = [chat.prompt for chat in server.requests]
        assert prompts.count(prompts[FAILED - 1]) == 1
        assert prompts.count(prompts[HELD - 1]) == 2
        assert len(prompts) == 9
    rows = json_lines(run / "rows.jsonl")
    assert len(rows) == 8
    assert sum(bool(row["fallbacks"]) for row in rows) == 1

    replayed = program(*command(NOWHERE, "--llm-replay", "c.sqlite", "--reports", "replayed"), cwd=project)
    assert replayed.returncode == 0, replayed.stderr
    [copy] = (project / "replayed").iterdir()
    for name in REPRODUCED:
        assert (run / name).read_bytes() == (copy / name).read_bytes(), name


def test_a_resumed_run_asks_each_missing_repeat_once(tmp_path: Path) -> None:
    """A failed repeat is the failure of that repeat alone; a finished one is not asked again."""
    project, repeats = make_project(tmp_path), 3
    failed, held = repeats + 1, repeats + 2  # the first repeat of the second question, and its second repeat

    def script(chat: Chat, number: int) -> Action:
        if number == failed:
            return scripted.fail(500)
        answer = scripted.ids(chat.entries)
        return Action(content=answer.content, silent_s=60) if number == held else answer

    with ScriptedLLM(script) as server:
        words = ("--llm-repeats", repeats, "--latency-sample", 0, "--reports", "repeated")
        asking = command(server.base_url, *words)
        assert terminated(asking, project, server, held).returncode == 143
        [run] = (project / "repeated").iterdir()
        assert len(json_lines(run / "rows.jsonl")) == failed
        resumed = program(*asking, cwd=project)
        assert resumed.returncode == 0, resumed.stderr
        assert len(server.requests) == repeats * len(QUESTIONS) + 1, "the held call alone was sent twice"
    rows = json_lines(run / "rows.jsonl")
    assert len(rows) == repeats * len(QUESTIONS)
    assert [number for number, row in enumerate(rows, start=1) if row["fallbacks"]] == [failed]
    assert {call["served_by"] for row in rows for call in row["calls"]} == {"server"}


def terminated(arguments: list[object], project: Path, server: ScriptedLLM, held: int = HELD) -> Any:
    """Start the command and end it by SIGTERM while the server holds a call back."""

    def end(process: int) -> None:
        scripted.wait_until(lambda: len(server.requests) >= held, 60)
        os.kill(process, signal.SIGTERM)

    return program(*arguments, cwd=project, during=end)
