"""The two commands by which an LLM writes: questions, and summaries that the tree search then reads."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support import scripted_llm as scripted
from support.scripted_llm import Action, Chat, ScriptedLLM

from branchrank.documents.tree_build import load_nodes
from branchrank.frontends.cli.main import main
from branchrank.questions.question_files import load_questions


def author(chat: Chat, number: int) -> Action:
    if "Write 1 question" not in chat.prompt:
        return scripted.say("What one can do there.")
    found = re.search(r"Put alpha\d+ into the file\.", chat.prompt)
    assert found is not None
    topic = re.search(r"topic \d+", chat.prompt)
    assert topic is not None
    question = {"question": f"how to get {topic.group()} going", "quote": found.group()}
    return scripted.say(json.dumps({"questions": [question]}))


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "data").mkdir()
    for number in (1, 2, 3):
        filler = " ".join(f"filler{number}x{n}" for n in range(40))
        text = (
            f"# Page {number}\n\n## Set up topic {number}\n\n{filler}\n\nPut alpha{number} into the file.\n"
        )
        (tmp_path / "docs" / f"page{number}.md").write_text(text)
    (tmp_path / "data" / "branchrank.toml").write_text('corpus = "../docs"\n[index]\nembedder = "fake"\n')
    return tmp_path


@pytest.fixture
def server() -> Any:
    with ScriptedLLM(author) as running:
        yield running


def run(server: ScriptedLLM, workspace: Path, *words: str) -> Result:
    common = ["--data-dir", str(workspace / "data"), "--base-url", server.base_url, "--quiet"]
    return CliRunner().invoke(main, [*words, *common])


def test_generates_questions_once(server: ScriptedLLM, workspace: Path) -> None:
    output = workspace / "q.jsonl"
    result = run(server, workspace, "questions", "generate", str(output))
    assert result.exit_code == 0, result.output
    questions = load_questions(output)
    assert {(q.gold[0].answer_line_start, q.gold[0].answer_line_end) for q in questions} == {(7, 7)}
    assert len(questions) == 3
    assert "mean leakage" in result.output
    before, written = len(server.requests), output.read_bytes()
    again = run(server, workspace, "questions", "generate", str(output))
    assert "3 from the cache" in again.output
    assert len(server.requests) == before
    assert output.read_bytes() == written


def test_summaries_are_written_and_only_edited_sections_are_repeated(
    server: ScriptedLLM, workspace: Path
) -> None:
    output = workspace / "nodes.jsonl"
    assert run(server, workspace, "pageindex", "summarize", str(output)).exit_code == 0
    tree = load_nodes(output)
    assert all(node.summary == "What one can do there." for node in tree.sections)
    before = len(server.requests)
    page = workspace / "docs" / "page2.md"
    page.write_text(page.read_text().replace("alpha2", "alpha9"))
    assert run(server, workspace, "pageindex", "summarize", str(output)).exit_code == 0
    asked = [chat.prompt for chat in server.requests[before:]]
    assert len(asked) == 1
    assert "alpha9" in asked[0]


def test_a_failing_server_is_tried_three_times(server: ScriptedLLM, workspace: Path) -> None:
    server.script = lambda chat, number: scripted.fail(400, "not loaded")
    output = workspace / "q.jsonl"
    result = run(server, pages(workspace, 12), "questions", "generate", str(output), "--count", "10")
    assert result.exit_code == 7
    assert "http 400 (" in result.output
    assert "not loaded" in result.output
    assert len({chat.prompt for chat in server.requests}) == 3
    assert not output.exists()


@pytest.mark.parametrize("concurrency", ["1", "4"])
def test_repeated_failures_keep_the_generated_questions(
    server: ScriptedLLM, workspace: Path, concurrency: str
) -> None:
    """Failures that a success interrupts do not add up."""
    failing = {2, 3, *range(6, 100)}
    server.script = lambda chat, number: scripted.fail(500) if number in failing else author(chat, number)
    output = workspace / "q.jsonl"
    flags = ("--count", "10", "--llm-retries", "0", "--llm-concurrency", concurrency)
    result = run(server, pages(workspace, 12), "questions", "generate", str(output), *flags)
    assert result.exit_code == 7
    assert "3 of 10 questions were written" in result.output
    assert len(load_questions(output)) == 3
    if concurrency == "1":
        assert len(server.requests) == 8
    else:  # failures may be counted in another order than the requests arrived in
        assert 6 <= len(server.requests) <= 11
    server.script = author
    again = run(server, workspace, "questions", "generate", str(output), *flags)
    assert again.exit_code == 0, again.output
    assert "3 from the cache" in again.output
    assert len(load_questions(output)) == 10


def test_a_model_that_never_writes_a_question_ends_the_command(server: ScriptedLLM, workspace: Path) -> None:
    server.script = lambda chat, number: scripted.say("I would rather not.")
    flags = ("--count", "30", "--llm-concurrency", "1")
    result = run(server, pages(workspace, 40), "questions", "generate", str(workspace / "q.jsonl"), *flags)
    assert result.exit_code == 7
    assert "malformed reply" in result.output
    assert len(server.requests) == 20


def test_a_dry_run_makes_no_calls_and_prints_an_upper_bound(server: ScriptedLLM, workspace: Path) -> None:
    output = workspace / "q.jsonl"
    words = ("questions", "generate", str(output), "--count", "4", "--llm-completion-tokens", "100")
    dry = run(server, pages(workspace, 9), *words, "--dry-run")
    assert dry.exit_code == 0, dry.output
    assert server.requests == []
    assert not output.exists()
    bounds = [
        (int(calls), int(tokens)) for calls, tokens in re.findall(r"(\d+) LLM calls, about (\d+)", dry.output)
    ]
    (least, least_tokens), (most, most_tokens) = bounds
    assert (least, most) == (4, 9)
    assert run(server, workspace, *words).exit_code == 0
    assert len(server.requests) == least
    sent = sum(len(chat.prompt.encode()) for chat in server.requests)
    assert sent / 3 <= least_tokens - 4 * 100 <= sent / 3 + 4 * 12
    assert most_tokens > 2 * least_tokens


def pages(workspace: Path, count: int) -> Path:
    """The workspace with so many pages."""
    for number in range(1, count + 1):
        filler = " ".join(f"filler{number}x{n}" for n in range(40))
        topic = (
            f"# Page {number}\n\n## Set up topic {number}\n\n{filler}\n\nPut alpha{number} into the file.\n"
        )
        (workspace / "docs" / f"page{number}.md").write_text(topic)
    return workspace


@pytest.mark.parametrize("verb", [("questions", "generate"), ("pageindex", "summarize")], ids=" ".join)
@pytest.mark.full
def test_several_processes_write_the_files_of_one_process(
    server: ScriptedLLM, workspace: Path, verb: tuple[str, str]
) -> None:
    pages(workspace, 12)
    written = []
    for name, jobs in (("one", ()), ("two", ("--jobs", "2"))):
        output = workspace / f"{name}.jsonl"
        result = run(server, workspace, *verb, str(output), *jobs)
        assert result.exit_code == 0, result.output
        written.append((output.read_bytes(), result.output.splitlines()[0]))
        (workspace / "data" / "hybrid" / "cache" / "decisions.sqlite").unlink()
    assert written[0] == written[1]
