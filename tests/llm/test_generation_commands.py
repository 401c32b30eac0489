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

from branchrank.cli.main import main
from branchrank.questions.question_files import load_questions
from branchrank.tree.store import load_nodes


def author(chat: Chat, number: int) -> Action:
    if "Write 1 question" not in chat.prompt:
        return scripted.say("What one can do there.")
    found = re.search(r"Put alpha\d into the file\.", chat.prompt)
    assert found is not None
    topic = re.search(r"topic \d", chat.prompt)
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


def test_a_workspace_without_text_says_so(server: ScriptedLLM, workspace: Path) -> None:
    for path in (workspace / "docs").iterdir():
        path.write_text("# Short\n\nText.\n")
    result = run(server, workspace, "questions", "generate", str(workspace / "q.jsonl"))
    assert result.exit_code == 3
    assert not (workspace / "q.jsonl").exists()


def test_summaries_are_written_and_only_edits_are_asked_again(server: ScriptedLLM, workspace: Path) -> None:
    output = workspace / "nodes.jsonl"
    assert run(server, workspace, "pageindex", "summarise", str(output)).exit_code == 0
    tree = load_nodes(output)
    assert all(node.summary == "What one can do there." for node in tree.sections)
    before = len(server.requests)
    page = workspace / "docs" / "page2.md"
    page.write_text(page.read_text().replace("alpha2", "alpha9"))
    assert run(server, workspace, "pageindex", "summarise", str(output)).exit_code == 0
    asked = [chat.prompt for chat in server.requests[before:]]
    assert len(asked) == 1
    assert "alpha9" in asked[0]
