"""Runs with agents: what the tables, the report and ``explain`` say of their steps and their losses."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from support import agent_policies as policies
from support.agent_policies import answer, call, turn
from support.commands import QUESTIONS, benchmark, invoke, json_lines, make_project, table, write_lines
from support.scripted_llm import Action, Chat, ScriptedLLM

from branchrank.reports.verify import verify
from branchrank.runs.run_data import RunData

AGENTS = ("agent", "agent-grep", "agent-vector", "agent-memory")
#: The lines of a page without gold, each of which can be cited.
LOW = [("reference/api.md", line, line) for line in (1, 3, 5, 7, 9)]
STAINS = ("guide/cleaning.md", 7, 7)
NEEDED = {
    "id": "both",
    "question": "make green tea, and remove its stains",
    "needs": [
        [{"source_file": "guide/brewing.md", "answer_line_start": 7, "answer_line_end": 8}],
        [{"source_file": STAINS[0], "answer_line_start": 7, "answer_line_end": 7}],
    ],
}
#: The name of a tool that no server has, with characters that control a terminal.
CONTROL = "\x1b[2J\nhits:"


def policy(chat: Chat, number: int) -> Action:
    """``agent`` cites the gold low, ``agent-grep`` does not cite it, and the others don't see it."""
    names = {tool["function"]["name"] for tool in chat.body["tools"]}
    told = policies.told(chat)
    if names == {"answer"}:
        if not told:
            return answer(("nowhere.md", 1, 1))
        return answer(("index.rst", 1, 1), ("nowhere.md", 1, 1))
    if not told and "vector_search" in names and "grep_search" not in names:
        read = call("read_file", 1, path="reference/api.md"), call("read_file", 2, path="gone.md")
        return turn(*read, call(CONTROL, 3))
    if "stains" in policies.question(chat) and "vector_search" not in names:
        if not told:
            pages = ("guide/brewing.md", STAINS[0])
            return turn(*(call("read_file", place, path=path) for place, path in enumerate(pages)))
        return answer(("guide/brewing.md", 7, 7), STAINS)
    if not told:
        return turn(call("read_file", path="guide/brewing.md"))
    if "hybrid_search" in names:
        return answer(*LOW, ("guide/brewing.md", 1, 20))
    return answer(("reference/api.md", 1, 1))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_project(tmp_path_factory.mktemp("agents"))
    write_lines(folder / "data" / "benchmark" / "questions.jsonl", [*QUESTIONS, NEEDED])
    return folder


@pytest.fixture(scope="module")
def run(project: Path) -> Path:
    words = [word for name in (*AGENTS, "bm25") for word in ("--predictor", name)]
    with ScriptedLLM(policy) as server:
        llm = ("--agent-base-url", server.base_url, "--agent-model", "scripted")
        return benchmark(project, *words, *llm, "--measure", "All@5")


def test_the_table_has_the_steps_and_what_was_seen(run: Path) -> None:
    rows = {row["predictor"]: row for row in table(run / "summary.csv")}
    names = ("agent_steps_per_query", "tool_calls_per_query", "lines_shown_per_query")
    assert [float(rows["agent"][name]) for name in names] == [2, 1, 20]
    assert [float(rows["agent-vector"][name]) for name in names] == [2, 3, 9]
    assert [float(rows["agent-memory"][name]) for name in names] == [2, 0, 0]
    assert [rows["bm25"][name] for name in (*names, "gold_seen")] == [""] * 4
    asked = RunData.load(run).asked
    scored = [each for each in asked if each.gold]
    on_page = sum("guide/brewing.md" in {item.source_file for item in each.gold} for each in scored)
    assert float(rows["agent"]["gold_seen"]) == pytest.approx(on_page / len(scored))
    assert float(rows["agent-memory"]["gold_seen"]) == 0
    count = len(asked)
    assert (rows["agent-memory"]["unread_citations"], rows["agent-memory"]["invalid_citations"]) == (
        str(count),
        str(count),
    )
    assert rows["agent"]["unread_citations"] == str(5 * count)
    printed = invoke("show", run).output
    assert {"steps", "seen", "unread", "invalid", "unanswered"} <= {*printed.split()}
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
    assert lines[at + 5].endswith("hits:({})")
    assert lines[at + 7] == "step 2, 107 tokens:"
    assert "\x1b" not in result.stdout
    assert [line for line in lines if line.startswith("hits:")] == ["hits:"]
    grep = invoke("explain", run, "temperature", "--predictor", "agent-grep").stdout
    assert "characters: guide/brewing.md:1-20 <- gold\n" in grep


def rows_of(run: Path) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["question_id"], row["predictor"]): row for row in json_lines(run / "rows.jsonl")}


def test_where_an_agent_lost_the_gold(run: Path) -> None:
    """The gold of these questions is lines, a quote without lines, and alternatives on other pages."""
    rows = rows_of(run)
    lost = {name: [rows[key, name]["lost"] for key in ("temperature", "herbal", "memory")] for name in AGENTS}
    assert lost == {
        "agent": ["citation order", "citation order", "tools"],
        "agent-grep": ["citation", "citation", "tools"],
        "agent-vector": ["tools"] * 3,
        "agent-memory": ["tools"] * 3,
    }
    assert rows["temperature", "agent"]["gold_ranks"] == {
        **{"shown": 1, "agent": 6},
        **{"fusion": 6, "passages": 6},
    }
    assert rows["temperature", "agent-grep"]["gold_ranks"] == {"shown": 1}
    assert rows["api", "agent-vector"]["gold_ranks"]["shown"] == 1
    said = {
        "agent": "gold at rank 6, below the first 5; lost at citation order (cited too low)",
        "agent-grep": "gold not among the hits; lost at citation (shown but not cited)",
        "agent-memory": "gold not among the hits; lost at tools (never shown)",
    }
    for name, words in said.items():
        assert f"\n{name}: {words}" in invoke("explain", run, "temperature", "--predictor", name).stdout
    report = (run / "report.md").read_text()
    for words in ("never shown", "shown but not cited", "cited too low"):
        assert f"({words}) |" in report
    losses = next(line for line in report.splitlines() if "plots/losses" in line)
    assert "agent-memory lost at tools (never shown) 8" in losses
    cells = {(row["question_id"], row["predictor"]): row["lost"] for row in table(run / "questions.csv")}
    assert cells["herbal", "agent-grep"] == "citation"
    assert verify(run).findings == ()


def test_a_group_of_evidence_that_no_tool_showed_is_named(run: Path) -> None:
    rows = rows_of(run)
    assert [rows["both", name].get("unseen") for name in AGENTS] == [[2], None, [1, 2], [1, 2]]
    explained = {name: invoke("explain", run, "both", "--predictor", name).stdout for name in AGENTS}
    assert [("need 1: never" in of, "need 2: never" in of) for of in explained.values()] == [
        (False, True),
        (False, False),
        (True, True),
        (True, True),
    ]
    found = {row["predictor"]: float(row["All@5"]) for row in table(run / "summary.csv")}
    alone = {
        row["predictor"]: row["All@5"] for row in table(run / "questions.csv") if row["question_id"] == "both"
    }
    assert [alone[name] for name in AGENTS] == ["0", "1", "0", "0"]
    assert found["agent-grep"] > found["agent-memory"]
    report = (run / "report.md").read_text()
    assert "| predictor | answers | need 1 | need 2 |" in report
    assert "| agent | 1 | 0 | 1 |" in report
    assert "| agent-grep | 1 | 0 | 0 |" in report


SYSTEMS = """
[systems.loops]
branches = [{ kind = "agent", unit = "span", options = { max_steps = 2 } }]
fuse.method = "none"
llm = { base_url = "URL", model = "m" }

[systems.fused]
branches = [{ kind = "agent" }, { kind = "bm25", top_n = 2 }]
llm = { base_url = "URL", model = "m" }

[systems.grep]
branches = [{ kind = "grep", unit = "span" }]
fuse.method = "none"
"""


def late(chat: Chat, number: int) -> Action:
    """Reads the page of the gold last, and never answers."""
    if policies.told(chat):
        return turn(call("nowhere"))
    lines = [call("read_file", line, path=path, line_start=line, lines=1) for path, line, _ in LOW]
    return turn(*lines, call("read_file", 9, path="guide/brewing.md"))


def test_agents_without_an_answer_in_a_fusion_and_other_lists_of_passages(
    project: Path, tmp_path: Path
) -> None:
    with ScriptedLLM(late) as server:
        text = SYSTEMS.replace("URL", server.base_url)
        header = f"name = 'others'\ndata_dir = '{project / 'data'}'\n[benchmark]\nlatency_sample = 0\n"
        (tmp_path / "f.toml").write_text(header + text)
        result = invoke("run", tmp_path / "f.toml", "--reports", tmp_path / "reports", "--quiet")
    assert result.exit_code == 0, result.output
    [run] = (tmp_path / "reports").iterdir()
    rows = rows_of(run)
    # What was shown stands for what was cited, but nothing was cited.
    assert rows["temperature", "loops"]["gold_ranks"] == {"shown": 6, "agent": 6, "fusion": 6, "passages": 6}
    assert rows["temperature", "loops"]["lost"] == "citation"
    assert rows["stains", "loops"]["lost"] == "tools"
    assert float(table(run / "summary.csv")[0]["unanswered_queries"]) == len(RunData.load(run).asked)
    fused = rows["temperature", "fused"]
    assert fused["stages"] == ["shown", "agent", "bm25(chunks)", "fusion", "passages"]
    assert {"shown", "bm25(chunks)", "fusion"} <= fused["gold_ranks"].keys()
    assert rows["stains", "fused"]["lost"] in ("", "fusion")
    grep = [row for (_, name), row in rows.items() if name == "grep" and row["hits"]]
    assert any(row["gold_ranks"].get("fusion") for row in grep)
    for row in grep:
        first = next((place for place, hit in enumerate(row["hits"], 1) if hit["gold"] is not None), None)
        assert row["gold_ranks"].get("fusion") == first


def test_a_run_without_agents_has_no_columns_for_them(project: Path) -> None:
    run = benchmark(project, "--predictor", "bm25", reports=project / "without")
    assert not {"gold_seen", "unread_citations"} & table(run / "summary.csv")[0].keys()
    assert "unanswered" not in invoke("show", run).output
    report = (run / "report.md").read_text()
    assert "## Agents" not in report
    assert "plots/tokens" not in report


def test_steps_of_another_program_must_cite_lines(run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(run, tmp_path / "copy")
    text = (copy / "rows.jsonl").read_text()
    (copy / "rows.jsonl").write_text(text.replace('"shown":["reference/api.md:1-9"]', '"shown":["a.md"]', 1))
    result = invoke("explain", copy, "temperature")
    assert result.exit_code != 0
    assert "rows.jsonl:" in result.stderr


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
    facts = (
        "model: scripted; prompt: 1; tools: grep_search, read_file; budget: 8 steps, 16,000 tokens of context"
    )
    assert facts in (run / "report.md").read_text().replace("\\", "")
    with ScriptedLLM(policy, models=("other",)) as server:
        llm = ("--agent-base-url", server.base_url, "--agent-model", "other", "--agent-max-steps", 3)
        other = benchmark(project, "--predictor", "agent-grep", *llm, reports=tmp_path)
    compared = invoke("compare", run, other).output
    assert "agent-grep: it differs from agent-grep of the baseline run in model and budget" in compared


def test_the_report_plots_quality_against_tokens(run: Path) -> None:
    report = (run / "report.md").read_text()
    description = next(line for line in report.splitlines() if "plots/tokens" in line)
    for name, tokens in (("agent", 214), ("agent-memory", 214), ("bm25", 0)):
        assert re.search(rf"\b{name} [^;]* at {tokens} tokens", description)
