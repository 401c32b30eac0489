"""``branchrank init``: the files that a benchmark starts from, and the commands that it prints after them."""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from support.commands import invoke, json_lines, program, table
from support.worlds import PAGES, write_pages

FILES = ("data/branchrank.toml", "questions.jsonl", "experiment.toml")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a project with ``docs/``."""
    write_pages(tmp_path / "docs")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_files_are_written_and_the_examples_quote_real_lines() -> None:
    done = invoke("init")
    assert done.exit_code == 0, done.output
    written = [line[9:] for line in done.output.splitlines() if line.startswith("written: ")]
    config = tomllib.loads(Path(FILES[0]).read_text())
    assert config["index"] == {"embedder": "all-MiniLM-L6-v2"}
    assert written == [f"{FILES[0]} (embedder: all-MiniLM-L6-v2)", *FILES[1:]]
    assert "nomic-ai/CodeRankEmbed" in Path(FILES[0]).read_text()
    questions = json_lines(Path("questions.jsonl"))
    assert [question["id"] for question in questions] == ["example-1", "example-2", "example-3"]
    for question in questions:
        lines = Path("docs", question["source_file"]).read_text().splitlines()
        gold = lines[question["answer_line_start"] - 1 : question["answer_line_end"]]
        assert len(" ".join(gold).split()) >= 8
        assert question["section_title"] in "\n".join(lines)
        assert re.fullmatch("[0-9a-f]{16}", question["answer_digest"])
        assert "replace it" in question["example"]


def test_the_printed_commands_work_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Word for word, with a fake embedder; `questions add` gets flags in place of a terminal."""
    printed = invoke("init").output
    lines = re.findall(r"(?m)^  (branchrank .*)$", printed)
    assert [shlex.split(line)[1] for line in lines] == ["retrieve", "questions", "run", "view"]
    monkeypatch.setenv("BRANCHRANK_INDEX_EMBEDDER", "fake")
    more = {1: ["--question", "which temperature", "--source", "guide/brewing.md", "--lines", "7-8"]}
    for number, line in enumerate(lines[:3]):
        done = invoke(*shlex.split(line)[1:], *more.get(number, []))
        assert done.exit_code == 0, done.output
    (made,) = Path("reports").iterdir()
    assert f"report: {made}/report.html" in done.stdout.splitlines()
    rows = table(made / "summary.csv")
    assert [row["predictor"] for row in rows] == ["local", "hybrid", "late-interaction"]
    assert {row["failures"] for row in rows} == {"0"}
    assert "Warning: 3 of 4 questions are examples" in (made / "report.md").read_text()
    assert invoke("verify", made).exit_code == 0


def test_init_overwrites_nothing() -> None:
    Path("experiment.toml").write_text("mine\n")
    first = invoke("init")
    assert "kept, already exists: experiment.toml" in first.output
    before = {name: Path(name).read_bytes() for name in FILES}
    again = invoke("init")
    assert again.exit_code == 0
    assert again.output.count("kept, already exists") == 3
    assert {name: Path(name).read_bytes() for name in FILES} == before
    assert before["experiment.toml"] == b"mine\n"


def test_the_workspace_of_other_documents_is_refused(project: Path) -> None:
    write_pages(project / "other")
    invoke("init", "docs")
    before = Path(FILES[0]).read_bytes()
    Path("questions.jsonl").unlink()
    done = invoke("init", "other")
    assert (done.exit_code, "--data-dir" in done.output) == (2, True)
    assert Path(FILES[0]).read_bytes() == before
    assert not Path("questions.jsonl").exists()
    assert "it measures" not in done.output
    done = invoke("init", "other", "--data-dir", "data/other")
    assert done.exit_code == 0
    assert "experiment.toml was kept: it measures the workspace data, not data/other" in done.output
    assert "branchrank retrieve --data-dir data/other" in done.output


@pytest.mark.parametrize(("folders", "chosen"), [(("docs", "doc"), "docs"), (("doc",), "doc")])
def test_init_prefers_docs_to_doc(project: Path, folders: tuple[str, ...], chosen: str) -> None:
    (project / "docs").rename(project / "pages")
    for folder in folders:
        write_pages(project / folder)
    assert f"documents in {chosen}\n" in invoke("init").output


def test_without_documents_and_terminal_init_fails_without_a_prompt(project: Path) -> None:
    (project / "docs").rename(project / "pages")
    done = program("-m", "branchrank.frontends.cli.main", "init", cwd=project)
    assert done.returncode == 3
    assert done.stderr.endswith(" docs/ or doc/\n  fix: branchrank init FOLDER\n")
    assert not Path("data").exists()


def test_on_a_terminal_init_asks_for_the_folder(project: Path) -> None:
    (project / "docs").rename(project / "pages")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "branchrank.frontends.cli.main", "init"],
        cwd=project,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.write(ours, b"pages\n")
    output, errors = process.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)
    assert process.returncode == 0, errors
    assert "Folder" in errors
    assert "documents in pages\n" in output


def test_files_that_branchrank_writes_below_the_documents_are_not_indexed(project: Path) -> None:
    done = invoke("init", ".")
    assert done.exit_code == 0
    config = tomllib.loads(Path(FILES[0]).read_text())
    assert config["exclude"] == ["data", "reports"]
    Path("reports").mkdir()
    Path("reports", "notes.md").write_text("# A report\n")
    assert f"\n{len(PAGES)} documents" in "\n" + invoke("init", ".").output


def test_odd_names_and_titles_give_readable_files(project: Path) -> None:
    odd = project / 'a "b" \\ é'
    odd.mkdir()
    for page in ("x.md", "y.md"):
        (odd / page).write_text(
            '# A "title" \x1b[31m\\ with *marks*\n\nOne two three four five six seven eight nine.\n'
        )
    done = invoke("init", odd.name, "--data-dir", 'd "e"')
    assert done.exit_code == 0, done.output
    config = tomllib.loads(Path('d "e"', "branchrank.toml").read_text())
    assert config["corpus"] == f"../{odd.name}"
    assert tomllib.loads(Path("experiment.toml").read_text())["data_dir"] == 'd "e"'
    texts = [question["question"] for question in json_lines(Path("questions.jsonl"))]
    assert [text.rpartition(" ")[2] for text in texts] == ["x.md?", "y.md?"], "a title is on two pages"
    assert invoke("questions", "check", "--data-dir", 'd "e"').exit_code == 0


def test_documents_without_a_paragraph_are_refused(project: Path) -> None:
    (project / "bare").mkdir()
    (project / "bare" / "x.md").write_text("# Title\n\nShort.\n")
    done = invoke("init", "bare")
    assert (done.exit_code, "a paragraph" in done.output) == (3, True)
    assert not Path("data").exists()
