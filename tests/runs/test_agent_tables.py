"""Runs with agents: what the tables, the report and ``explain`` say of their steps and their losses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import agent_policies as policies
from support.agent_policies import answer, call, turn
from support.commands import benchmark, invoke, make_project, table
from support.scripted_llm import Action, Chat, ScriptedLLM

from branchrank.runs.run_data import RunData

AGENTS = ("agent", "agent-grep", "agent-vector", "agent-memory")
#: The lines of a page without gold, each of which can be cited.
LOW = [("reference/api.md", line, line) for line in (1, 3, 5, 7, 9)]
NEEDED = {
    "id": "both",
    "question": "which profile keys set the temperature and the time",
    "gold": [
        {"source_file": "guide/brewing.md", "answer_line_start": 7, "answer_line_end": 8},
        {"source_file": "guide/brewing.md", "answer_line_start": 12, "answer_line_end": 12},
    ],
}


def policy(chat: Chat, number: int) -> Action:
    """``agent`` cites the gold low, ``agent-grep`` does not cite it, and the others don't see it."""
    names = {tool["function"]["name"] for tool in chat.body["tools"]}
    told = policies.told(chat)
    if names == {"answer"}:
        return answer(("index.rst", 1, 1), ("nowhere.md", 1, 1))
    if not told and "vector_search" in names and "grep_search" not in names:
        return turn(call("read_file", 1, path="reference/api.md"), call("read_file", 2, path="gone.md"))
    if not told:
        return turn(call("read_file", path="guide/brewing.md"))
    if "hybrid_search" in names:
        return answer(*LOW, ("guide/brewing.md", 1, 20))
    return answer(("reference/api.md", 1, 1))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("agents"))


@pytest.fixture(scope="module")
def run(project: Path) -> Path:
    words = [word for name in (*AGENTS, "bm25") for word in ("--predictor", name)]
    with ScriptedLLM(policy) as server:
        llm = ("--agent-base-url", server.base_url, "--agent-model", "scripted")
        return benchmark(project, *words, *llm)


def test_the_table_has_the_steps_and_what_was_seen(run: Path) -> None:
    rows = {row["predictor"]: row for row in table(run / "summary.csv")}
    names = ("agent_steps_per_query", "tool_calls_per_query", "lines_shown_per_query")
    assert [float(rows["agent"][name]) for name in names] == [2, 1, 20]
    assert [float(rows["agent-vector"][name]) for name in names[:2]] == [2, 2]
    assert [rows["bm25"][name] for name in (*names, "gold_seen")] == [""] * 4
    asked = RunData.load(run).asked
    scored = [each for each in asked if each.gold]
    on_page = sum(
        "guide/brewing.md" in {item.source_file for item in each.gold if not item.answer_quote}
        for each in scored
    )
    assert float(rows["agent"]["gold_seen"]) == pytest.approx(on_page / len(scored))
    assert float(rows["agent-memory"]["gold_seen"]) == 0
    count = len(asked)
    assert (rows["agent-memory"]["unread_citations"], rows["agent-memory"]["invalid_citations"]) == (
        str(count),
        str(count),
    )
    assert rows["agent"]["unread_citations"] == str(5 * count)
    text = (run / "report.md").read_text()
    assert "lines shown" in text
    assert "cited passages of which no tool had shown a line" in text


def test_explain_prints_the_steps(run: Path) -> None:
    result = invoke("explain", run, "temperature", "--predictor", "agent-vector")
    lines = [line.strip() for line in result.stdout.splitlines()]
    at = next(number for number, line in enumerate(lines) if line.startswith("step 1"))
    assert lines[at] == "step 1, 107 tokens:"
    assert lines[at + 1] == 'read_file({"path": "reference/api.md"})'
    assert lines[at + 2].endswith("characters: reference/api.md:1-9")
    assert lines[at + 4].startswith("error: ")


def test_agents_that_differ_in_several_factors_are_named(run: Path, project: Path, tmp_path: Path) -> None:
    assert "differs from" not in (run / "report.md").read_text()
    options = '{ kind = "agent", unit = "span", options = '
    text = f"name = 'factors'\ndata_dir = '{project / 'data'}'\n[benchmark]\nlatency_sample = 0\n"
    text += 'baseline = "a"\n'
    with ScriptedLLM(policy) as server:
        for name, chosen in (("a", "max_steps = 3"), ("b", 'max_steps = 4, tools = ["read_file"]')):
            text += f"[systems.{name}]\nbranches = [{options}{{ {chosen} }} }}]\nfuse.method = 'none'\n"
            text += f"llm = {{ base_url = '{server.base_url}', model = 'scripted' }}\n"
        (tmp_path / "f.toml").write_text(text)
        result = invoke("run", tmp_path / "f.toml", "--reports", tmp_path / "reports", "--quiet")
    assert result.exit_code == 0, result.output
    assert "b: it differs from a in tools and budget" in result.output


def test_the_report_plots_quality_against_tokens(run: Path) -> None:
    report = (run / "report.md").read_text()
    description = next(line for line in report.splitlines() if "plots/tokens" in line)
    for name, tokens in (("agent", 214), ("agent-memory", 107), ("bm25", 0)):
        assert re.search(rf"\b{name} [^;]* at {tokens} tokens", description)
