"""Agents of users: programs that are started for each question, and classes that get the search tools."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import Result
from support import agent_program
from support.commands import invoke, program, table, write_lines
from support.http_server import eventually
from support.small_corpus import small_workspace

from branchrank import Hit, Run, Workspace
from branchrank.runs.rows import Row

SECRET = "sk-passed-by-name"
QUESTIONS = ("--replace the fuse? {mcp_config} $(touch pwned)", "Where is the kettle?")
CLASSES = """
from branchrank import Hit


class Agent:
    llm = "none"

    def retrieve(self, query, k, tools):
        assert [each.name for each in tools.definitions][-1] == "answer"
        assert tools.call("grep_search", "not json").error == "WRONG_ARGUMENTS"
        self.found = tools.call("grep_search", {"query": "fuse"})
        span = self.found.shown[0]
        return [Hit(id="a", text=self.found.text, score=1.0, source=span.source,
                    line_start=span.line_start, line_end=span.line_end)]


class Answers:
    llm = "none"

    def retrieve(self, query, k, *, tools=None):
        tools.call("answer", {"citations": ["index.md:1-3"]})
        return []


class Looks:
    llm = "none"

    def retrieve(self, query, k, tools):
        tools.call("grep_search", {"query": "fuse"})
        tools.call("read_file", {"path": "guide/repair.rst"})
        return []


class Raises:
    llm = "none"

    def retrieve(self, query, k, tools):
        tools.call("read_file", {"path": "index.md"})
        raise KeyError("lost")


class Filters:
    llm = "none"

    def retrieve(self, query, k, filters=()):
        assert not filters
        return [Hit(id="a", text="", score=1.0, source="index.md", line_start=1, line_end=3)]
"""


def command(mode: str, **keys: object) -> str:
    started = [sys.executable, agent_program.__file__, mode]
    words = json.dumps([*started, "{mcp_config}", "{usage_file}", "{question}"])
    more = "".join(f"{name} = {json.dumps(value)}\n" for name, value in keys.items())
    return f"[systems.{mode}]\ncommand = {words}\n{more}"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("agents")
    small_workspace(folder)
    (folder / "own_agents.py").write_text(CLASSES)
    gold = {"source_file": "guide/repair.rst", "answer_line_start": 4, "answer_line_end": 4}
    asked = [{"question": words, **gold} for words in QUESTIONS]
    write_lines(folder / "q.jsonl", asked)
    write_lines(folder / "one.jsonl", asked[:1])
    (folder / "facts").mkdir()
    (folder / "facts" / "block").touch()
    (folder / "temporary").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("tempfile.tempdir", str(folder / "temporary"))
        patch.setenv("FACTS", str(folder / "facts"))
        patch.setenv("SECRET", SECRET)
        patch.setenv("UNRELATED", "x")
        yield folder


def run(name: str, tables: str, *words: object, passes: bool = True, questions: str = "q.jsonl") -> Result:
    head = f'name = "agents"\ndata_dir = "data"\nquestions = "{questions}"\n{tables}'
    Path(f"{name}.toml").write_text(head)
    passed = ("--pass-env", "FACTS", "--pass-env", "SECRET") if passes else ()
    return invoke("run", f"{name}.toml", "--reports", f"reports/{name}", *passed, *words)


def finished(name: str, tables: list[str], questions: str) -> tuple[Run, Result]:
    result = run(name, "".join(tables), questions=questions)
    [folder] = Path(f"reports/{name}").iterdir()
    return Run.load(folder), result


@pytest.fixture(scope="module")
def made(project: Path) -> tuple[Run, Result]:
    """A run of a program that uses the tools, and of classes; two questions."""
    names = ("Agent", "Answers", "Raises", "Filters")
    classes = [f'[systems.{name}]\npredictor = "own_agents:{name}"\n' for name in names]
    return finished("made", [command("tools"), *classes], "q.jsonl")


@pytest.fixture(scope="module")
def others(project: Path) -> tuple[Run, Result]:
    """A run of programs that use no tools; one question."""
    quick = [command(mode) for mode in ("prints", "misreports", "forks", "floods", "fails", "silent")]
    return finished("others", [*quick, command("hangs", timeout_s=2)], "one.jsonl")


def rows(run: Run, predictor: str) -> list[Row]:
    return [row for row in run.rows if row.predictor == predictor]


def cited(row: Row) -> list[str]:
    return [hit.span.citation for hit in row.hits]


def log(row: Row) -> Any:
    assert row.agent is not msgspec.UNSET
    return row.agent


def facts(project: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((project / "facts").glob("facts-*"))]


def test_a_client_of_the_mcp_package_searches_and_answers(project: Path, made: tuple[Run, Result]) -> None:
    both = rows(made[0], "tools")
    for row in both:
        assert cited(row) == ["guide/repair.rst:1-9", "index.md:1-1"]
        assert row.altered is msgspec.UNSET
        steps = [(step.turn, step.tool, bool(step.error), step.shown) for step in log(row).steps]
        assert steps[1:] == [
            (2, "grep_search", True, ()),
            (3, "grep_search", False, ("guide/repair.rst:1-9",)),
            (4, "answer", True, ()),
        ]
        assert (log(row).answered, log(row).unread, log(row).invalid) == (True, 1, 1)
    given = facts(project)
    assert sorted(each["question"] for each in given) == sorted(QUESTIONS)
    assert given[0]["tools"] == ["grep_search", "vector_search", "hybrid_search", "read_file", "answer"]
    assert {each["tokenless"] for each in given} == {401}
    assert {each["refused"] for each in given} == {True}
    summary = {row["predictor"]: row for row in table(made[0].directory / "summary.csv")}
    assert (summary["tools"]["llm_calls_per_query"], summary["tools"]["llm_tokens_per_query"]) == ("3", "750")
    assert summary["tools"]["latency_p50_ms"] == "", "a program is not paid again to measure its latency"


def test_a_program_gets_an_empty_folder_and_few_variables(project: Path, made: tuple[Run, Result]) -> None:
    passed = {"PATH", "HOME", "FACTS", "SECRET"}
    for each in facts(project):
        assert (each["home"], each["here"], each["others"], each["input"]) == ([], True, 0, "")
        assert passed <= {*each["names"]} <= {*passed, "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "TZ"}
    assert not [*project.rglob("pwned")]


def test_no_file_of_a_run_has_a_token_or_a_passed_key(
    project: Path, made: tuple[Run, Result], others: tuple[Run, Result]
) -> None:
    secrets = {SECRET, *(each["token"] for each in facts(project))}
    assert len(secrets) == 3, "each question has a token of its own"
    for one, result in (made, others):
        files = [path.read_text(errors="replace") for path in one.directory.rglob("*") if path.is_file()]
        for secret in secrets:
            assert not [text for text in files if secret in text]
            assert secret not in result.output
    [row] = rows(others[0], "fails")
    assert row.error == f"{os.path.basename(sys.executable)} ended with exit code 1: the key [key] is wrong"


def test_printed_citations_are_read(others: tuple[Run, Result]) -> None:
    [row] = rows(others[0], "prints")
    assert cited(row) == ["guide/repair.rst:4-4", "index.md:1-3"]
    assert (log(row).steps, log(row).unread) == ((), 2)
    assert "No such file" in log(row).remark
    [row] = rows(others[0], "misreports")
    assert (cited(row), row.calls) == (["index.md:1-3"], ())
    assert "calls" in log(row).remark
    directory = others[0].directory
    assert "1 of 1 answer: LLM use is not reported" in (directory / "report.md").read_text()
    summary = {row["predictor"]: row for row in table(directory / "summary.csv")}
    assert summary["prints"]["llm"] == "not reported"


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("hangs", "did not end within 2 seconds"),
        ("floods", "printed more than 16 MiB"),
        ("fails", "exit code 1"),
        ("silent", "cited nothing"),
    ],
)
def test_a_failed_program_is_a_miss_with_its_reason(
    mode: str, reason: str, others: tuple[Run, Result]
) -> None:
    [row] = rows(others[0], mode)
    assert (row.status, row.hits, log(row).answered) == ("failed", (), False)
    assert reason in row.error


def ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives orphans to another process")
def test_nothing_survives_a_question(
    project: Path, made: tuple[Run, Result], others: tuple[Run, Result]
) -> None:
    assert [cited(row) for row in rows(others[0], "forks")] == [["index.md:1-3"]]
    forked = [int(path.read_text()) for path in (project / "facts").glob("forked-*")]
    assert len(forked) == 2
    assert all(map(ended, forked))
    for each in facts(project):
        assert not Path(each["folder"]).exists()
        port = int(each["url"].split(":")[2].split("/")[0])
        listening = Path("/proc/net/tcp").read_text()
        assert f"0100007F:{port:04X} 00000000:0000 0A" not in listening
    assert not [*(project / "temporary").glob("branchrank-agent-*")]


def test_what_runs_is_named_before_it_runs(made: tuple[Run, Result]) -> None:
    named = next(line for line in made[1].stderr.splitlines() if "names code" in line)
    assert agent_program.__file__ in named
    assert "own_agents:Agent" in named


def test_a_class_with_a_third_parameter_gets_recorded_tools(made: tuple[Run, Result]) -> None:
    for row in rows(made[0], "Agent"):
        assert cited(row) == ["guide/repair.rst:1-9"]
        assert [(step.tool, bool(step.error)) for step in log(row).steps] == [
            ("grep_search", True),
            ("grep_search", False),
        ]
        assert (log(row).answered, log(row).unread) == (True, 0)
    for row in rows(made[0], "Answers"):
        assert (cited(row), log(row).unread) == (["index.md:1-3"], 1)
    for row in rows(made[0], "Raises"):
        assert (row.status, [step.tool for step in log(row).steps]) == ("failed", ["read_file"])
        assert not log(row).answered
    for row in rows(made[0], "Filters"):
        assert (row.status, row.agent, cited(row)) == ("ok", msgspec.UNSET, ["index.md:1-3"])


def test_an_object_gets_the_tools_directly(project: Path) -> None:
    class Here:
        def retrieve(self, query: str, k: int, tools: Any) -> list[Hit]:
            tools.call("read_file", {"path": "index.md"})
            tools.call("answer", {"citations": ["index.md:1-3", "nowhere.md:3", "index.md:5"]})
            return []

    with Workspace.open("data") as workspace:
        run = workspace.benchmark([Here()], questions="q.jsonl", latency_sample=0, reports="reports/here")
    for row in run.rows:
        assert cited(row) == ["index.md:1-3", "index.md:5-5"]
        assert [step.tool for step in log(row).steps] == ["read_file"]
        assert (log(row).unread, log(row).invalid) == (0, 1)


def test_the_tools_leave_out_the_excluded_lines_of_a_question(project: Path) -> None:
    hidden = {"source_file": "guide/repair.rst", "line_start": 4, "line_end": 6}
    gold = {"source_file": "guide/repair.rst", "answer_line_start": 9, "answer_line_end": 9}
    write_lines(project / "excluded.jsonl", [{"question": "fuse?", **gold, "excluded_spans": [hidden]}])
    tables = command("tools") + '[systems.Looks]\npredictor = "own_agents:Looks"\n'
    run("excluded", tables, questions="excluded.jsonl")
    [folder] = Path("reports/excluded").iterdir()
    shown = {
        row.predictor: [key for step in log(row).steps for key in step.shown] for row in Run.load(folder).rows
    }
    assert shown == {"tools": [], "Looks": ["guide/repair.rst:1-3", "guide/repair.rst:7-9"]}


def test_a_run_of_others_starts_a_program_only_if_it_is_trusted(
    project: Path, made: tuple[Run, Result]
) -> None:
    result = run("small", command("prints"), "--latency-sample", 0)
    assert result.exit_code == 0
    [folder] = Path("reports/small").iterdir()
    refused = invoke("verify", folder, "--rerun", 2)
    assert "not rerun: prints: it calls command:timeout_s=300:" in refused.output
    rerun = invoke("verify", folder, "--rerun", 2, "--trust", "--pass-env", "FACTS")
    assert "rerun: 2 of 2 answers" in rerun.output
    assert rerun.exit_code == 0
    divided = run("divided", command("prints"), "--latency-sample", 0, "--jobs", 2)
    assert divided.exit_code == 0, divided.output
    [other] = Path("reports/divided").iterdir()
    assert (other / "rows.jsonl").read_bytes() == (folder / "rows.jsonl").read_bytes()


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.full), signal.SIGKILL])
def test_an_interrupted_run_leaves_no_program_and_is_resumed(project: Path, number: signal.Signals) -> None:
    name = f"interrupted-{number.name}"
    Path(f"{name}.toml").write_text(
        f'name = "agents"\ndata_dir = "data"\nquestions = "q.jsonl"\n{command("hangs")}'
    )
    before = {*Path("facts").glob("forked-*")}

    def interrupt(process: int) -> None:
        assert eventually(lambda: {*Path("facts").glob("forked-*")} > before)
        os.kill(process, number)

    words = ("-m", "branchrank", "run", f"{name}.toml", "--reports", f"reports/{name}", "--pass-env", "FACTS")
    program(*words, cwd=project, environment={"TMPDIR": str(project / "temporary")}, during=interrupt)
    [place] = {*Path("facts").glob("forked-*")} - before
    assert eventually(lambda: ended(int(place.read_text())))
    assert eventually(lambda: not [*(project / "temporary").glob("branchrank-agent-*")])
    [folder] = Path(f"reports/{name}").iterdir()
    refused = invoke("resume", folder)
    assert refused.exit_code == 3
    assert agent_program.__file__ in refused.stderr
    (project / "facts" / "block").unlink()
    resumed = invoke("resume", folder, "--trust", "--pass-env", "FACTS")
    (project / "facts" / "block").touch()
    assert resumed.exit_code == 0, resumed.stderr
    assert [cited(row) for row in Run.load(folder).rows] == [["index.md:1-3"], ["index.md:1-3"]]


REFUSED: Mapping[str, tuple[str, str]] = {
    "placeholder": ('command = ["true", "{question}", "{mcp_confg}"]', "mcp_config"),
    "no-question": ('command = ["true"]', "{question}"),
    "no-program": ('command = ["no-such-program", "{question}"]', "no-such-program"),
    "chosen-by-question": ('command = ["{question}"]', "name of a program"),
    "empty": ("command = []", "name of a program"),
    "no-list": ('command = "true {question}"', "command"),
    "passes-a-key": ('command = ["true", "{question}"]\npass_env = ["SECRET"]', "pass_env"),
    "no-limit": ('command = ["true", "{question}"]\ntimeout_s = 0', "timeout_s"),
    "both": ('command = ["true", "{question}"]\npredictor = "own_agents:Agent"', "predictor"),
    "no-index": ('command = ["true", "{question}"]\nindex = "other"', "other"),
    "limit-of-a-class": ('predictor = "own_agents:Agent"\ntimeout_s = 5', "timeout_s"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_table_is_refused_before_any_work(project: Path, name: str) -> None:
    lines, named = REFUSED[name]
    result = run(name, f"[systems.mine]\n{lines}\n", passes=False)
    assert result.exit_code == 2
    assert named in result.stderr
    assert not Path(f"reports/{name}").exists()


@pytest.mark.parametrize("words", [("--pass-env", "NOT_SET"), ("--pass-env", f"KEY={SECRET}")])
def test_a_variable_is_passed_by_its_name(project: Path, words: tuple[str, ...]) -> None:
    result = run("passed", command("prints"), *words, passes=False)
    assert result.exit_code == 2
    assert "--pass-env" in result.stderr
    assert SECRET not in result.stderr


def test_a_dry_run_starts_nothing(project: Path) -> None:
    before = [*Path("facts").iterdir()]
    result = run("dry", command("tools"), "--dry-run")
    assert result.exit_code == 0
    assert "tools" in result.output
    assert [*Path("facts").iterdir()] == before


def test_a_question_that_is_too_long_for_a_program_is_a_miss(project: Path) -> None:
    gold = {"source_file": "index.md", "answer_line_start": 1, "answer_line_end": 1}
    write_lines(project / "long.jsonl", [{"question": "fuse " * 30_000, **gold}])
    run("long", command("prints"), "--latency-sample", 0, questions="long.jsonl")
    [folder] = Path("reports/long").iterdir()
    assert "Argument list too long" in Run.load(folder).rows[0].error
