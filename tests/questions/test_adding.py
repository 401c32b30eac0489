"""``branchrank questions add``: by flags, and in the terminal UI."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from support.commands import invoke, json_lines, make_project, program
from support.pseudo_terminal import Terminal

from branchrank.questions.anchoring import lines_digest

GOLD = ("--source", "guide/brewing.md", "--lines", "7-8")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("add"))


@pytest.fixture
def add(project: Path, tmp_path: Path):
    """Adds to a file of the test's own."""
    return lambda *words: invoke(
        "questions", "add", tmp_path / "q.jsonl", "--data-dir", project / "data", "--quiet", *words
    )


def test_the_new_line_has_the_digest_of_its_gold_lines(project: Path, tmp_path: Path, add) -> None:
    done = add("--question", " which temperature? ", *GOLD, "--kind", "lookup")
    assert done.exit_code == 0, done.output
    (line,) = json_lines(tmp_path / "q.jsonl")
    lines = (project / "docs" / "guide" / "brewing.md").read_text().splitlines()
    assert f"     7  {lines[6]}\n     8  {lines[7]}\n" in done.output
    assert line.pop("id").startswith("q-")
    assert line == {
        "question": "which temperature?",
        "source_file": "guide/brewing.md",
        "answer_line_start": 7,
        "answer_line_end": 8,
        "answer_digest": lines_digest(lines[6:8]),
        "kind": "lookup",
    }
    checked = invoke("questions", "check", tmp_path / "q.jsonl", "--data-dir", project / "data")
    assert checked.exit_code == 0, checked.output


def test_existing_lines_are_unchanged(tmp_path: Path, add) -> None:
    before = (
        b'{ "question":"x", "source_file":"install.rst", "answer_line_start":9,"answer_line_end":9,"own":1}'
    )
    (tmp_path / "q.jsonl").write_bytes(before)  # and no newline at its end
    assert add("--question", "which temperature", *GOLD, "--id", "mine").exit_code == 0
    first, second, rest = (tmp_path / "q.jsonl").read_bytes().split(b"\n")
    assert (first, json.loads(second)["id"], rest) == (before, "mine", b"")


def test_several_places_become_alternates_and_no_place_means_unanswerable(tmp_path: Path, add) -> None:
    assert add("--question", "memory", *GOLD, "--source", "install.rst", "--lines", "9").exit_code == 0
    long = add("--question", "memory", "--source", "install.rst", "--lines", "1-6")
    assert long.stdout.endswith("        ... 1 more line\n")
    assert add("--question", "does it sing", "--unanswerable").exit_code == 0
    several, _, none = json_lines(tmp_path / "q.jsonl")
    assert [item["source_file"] for item in several["alternates"]] == ["install.rst"]
    assert several["alternates"][0]["answer_digest"]
    assert none["answerable"] is False


def test_a_path_relative_to_the_working_directory_is_resolved(
    project: Path, tmp_path: Path, add, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    assert add("--question", "x y", "--source", "docs/guide/brewing.md", "--lines", "7").exit_code == 0
    assert json_lines(tmp_path / "q.jsonl")[0]["source_file"] == "guide/brewing.md"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--source", "brewing.md", "--lines", "7"), 3, "the corpus has no file 'brewing.md'"),
        (("--source", "../x.md", "--lines", "7"), 3, "the corpus has no file"),
        (("--source", "install.rst", "--lines", "7-9999"), 3, "lines 7-9999 are not in install.rst"),
        (("--source", "install.rst", "--lines", "9-7"), 2, "'9-7' is not a line number"),
        (("--source", "install.rst", "--lines", "0"), 2, "'0' is not a line number"),
        (("--source", "install.rst"), 2, "each --source needs one --lines"),
        ((*GOLD, "--quote", "not there at all"), 3, "the quote is not in lines 7-8"),
        ((*GOLD, "--unanswerable"), 2, "cannot be given together"),
        ((), 2, "fix: --question TEXT --source FILE --lines 5-8"),
    ],
)
def test_questions_with_invalid_gold_are_not_added(
    tmp_path: Path, add, words: tuple[str, ...], code: int, message: str
) -> None:
    done = add("--question", "q", *words)
    assert (done.exit_code, message in done.output) == (code, True), done.output
    assert not (tmp_path / "q.jsonl").exists()


def test_an_id_is_used_once(tmp_path: Path, add) -> None:
    assert add("--question", "which temperature", *GOLD).exit_code == 0
    before = (tmp_path / "q.jsonl").read_bytes()
    again = add("--question", "which temperature", *GOLD)
    assert (again.exit_code, "already" in again.output) == (3, True)
    assert (tmp_path / "q.jsonl").read_bytes() == before


def test_leakage_gives_a_warning(add) -> None:
    done = add("--question", "Brewing", "--source", "guide/brewing.md", "--lines", "1-3")
    assert done.exit_code == 0
    assert "warning: question" in done.stderr


def test_without_a_terminal_there_is_no_prompt(project: Path) -> None:
    words = ("-m", "branchrank.frontends.cli.main", "questions", "add", "--data-dir", project / "data")
    done = program(*words, cwd=project, typed="\n")
    assert done.returncode == 2
    assert "--question TEXT --source FILE" in done.stderr


def test_on_a_terminal_questions_are_added_in_a_row_and_wrong_lines_are_asked_again(
    project: Path, tmp_path: Path
) -> None:
    file = tmp_path / "picked.jsonl"
    verb = [sys.executable, "-m", "branchrank.frontends.cli.main", "questions", "add", str(file), "--quiet"]
    terminal = Terminal([*verb, "--data-dir", str(project / "data")])
    try:
        assert terminal.read_until(lambda: b"Take as gold" in terminal.output)
        terminal.send(b"which temperature for green tea\r")
        assert terminal.read_until(lambda: b"brewing.md" in terminal.output)
        terminal.send(b"\x1bOS")  # F4
        assert terminal.read_until(lambda: b"Question [which temperature for green tea]:" in terminal.output)
        terminal.send(b"how hot is green tea\r")
        assert terminal.read_until(lambda: b"Lines that answer it" in terminal.output)
        terminal.send(b"none\r")
        assert terminal.read_until(lambda: b"'none' is not a line number" in terminal.output)
        terminal.send(b"7-9999\r")
        assert terminal.read_until(lambda: b"line 9999" in terminal.output or b"7-9999" in terminal.output)
        assert not file.exists(), "wrong lines add no question"
        terminal.send(b"7\r")
        assert terminal.read_until(lambda: b"added" in terminal.output)
        for text in (b"how long does it steep", b""):
            terminal.output = b""
            assert terminal.read_until(lambda: b"Take as gold" in terminal.output)
            if not text:
                break
            terminal.send(b"how long does tea steep\r")
            assert terminal.read_until(lambda: b"brewing.md" in terminal.output)
            terminal.send(b"\x1bOS")
            assert terminal.read_until(lambda: b"Question [how long does tea steep]:" in terminal.output)
            terminal.send(text + b"\r")
            assert terminal.read_until(lambda: b"Lines that answer it" in terminal.output)
            terminal.send(b"\r")
            assert terminal.read_until(lambda: b"added" in terminal.output)
        terminal.send(b"\x11")  # Ctrl+Q
        assert terminal.read_until(lambda: terminal.process.poll() is not None)
    finally:
        terminal.close()
    assert terminal.process.returncode == 0
    line, other = json_lines(file)
    assert line["question"] == "how hot is green tea"
    assert (line["source_file"], line["answer_line_start"]) == ("guide/brewing.md", 7)
    assert other["question"] == "how long does it steep"
