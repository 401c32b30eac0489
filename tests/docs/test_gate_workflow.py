"""The workflow of docs/gate.md, whose steps run in a clone of a repository with two commits."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import yaml
from support.commands import invoke, json_lines, write_lines
from support.doc_blocks import blocks
from support.needs import need

PAGES, PARTS = 12, 4
EXPERIMENT = """name = "words"
questions = "questions.jsonl"

[benchmark]
latency_sample = 0

[systems.words]
branches = [{ kind = "bm25" }]
"""
IGNORED = """data/indexes
data/chroma
data/hybrid/cache
data/chunks.jsonl
data/pageindex/nodes.jsonl
data/.build.lock
baseline
candidate
gate.*
"""


def sentence(page: int, part: int) -> str:
    return f"The option speed{page:02}{part} accepts the value {page * 7 + part}."


def make_pages(folder: Path) -> list[dict[str, object]]:
    """Pages whose parts each answer a question. The gold of the last page is the whole page."""
    questions: list[dict[str, object]] = []
    for page in range(PAGES):
        source, lines = f"page-{page:02}.md", [f"# Page {page:02}", ""]
        for part in range(PARTS):
            lines += [f"## Part {part}", "", sentence(page, part), ""]
            asked = {"id": f"q{page:02}{part}", "question": f"What is speed{page:02}{part}?"}
            at = {"answer_line_start": len(lines) - 1, "answer_line_end": len(lines) - 1}
            whole = page == PAGES - 1
            questions.append({**asked, "source_file": source, **({"gold_level": "file"} if whole else at)})
        folder.mkdir(exist_ok=True)
        (folder / source).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return questions


def edit(page: Path, old: str, new: str) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.count(old) == 1
    page.write_text(text.replace(old, new), encoding="utf-8")


def change_documents(docs: Path) -> None:
    """Move ten lines and, to another page, a part; rewrite a paragraph, drop a page, and hide an answer."""
    edit(docs / "page-01.md", "# Page 01\n", "# Page 01\n" + "\nA new line about nothing.\n" * 5)
    edit(docs / "page-02.md", f"{sentence(2, 0)}\n", "")
    (docs / "moved.md").write_text(f"# Moved\n\n{sentence(2, 0)}\n", encoding="utf-8")
    edit(docs / "page-03.md", sentence(3, 1), "It is chosen at start, and speed031 cannot be set.")
    (docs / "page-04.md").unlink()
    (docs / "noise.md").write_text("# speed052\n\nspeed052 speed052?\n", encoding="utf-8")
    with (docs / f"page-{PAGES - 1}.md").open("a", encoding="utf-8") as last:
        last.write("One more line.\n")


def git(folder: Path, *words: str) -> str:
    named = ("-c", "user.name=ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main")
    done = subprocess.run(
        [need("git"), *named, *words], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout


def steps() -> dict[str, str]:
    """The commands of the workflow by the names of their steps, without the installation."""
    [block] = blocks("docs/gate.md", "yaml")
    found = yaml.safe_load(block.text)["jobs"]["gate"]["steps"]
    return {step["name"]: step["run"] for step in found if "run" in step and step["name"] != "Install"}


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone in which every step of the workflow has run."""
    folder = tmp_path_factory.mktemp("workflow")
    origin = folder / "origin"
    origin.mkdir()
    git(origin, "init", "--quiet")
    questions = make_pages(origin / "docs")
    added = {"id": "new", "question": "What is noise?", "source_file": "noise.md", "gold_level": "file"}
    (origin / "experiment.toml").write_text(EXPERIMENT, encoding="utf-8")
    (origin / ".gitignore").write_text(IGNORED, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(origin)
        assert invoke("index", "docs", "--embedder", "fake", "--quiet").exit_code == 0
        write_lines(origin / "questions.jsonl", questions)
        assert invoke("questions", "reanchor", "questions.jsonl").exit_code == 0
    git(origin, "add", ".")
    git(origin, "commit", "--quiet", "-m", "Add the questions")
    change_documents(origin / "docs")
    write_lines(origin / "questions.jsonl", [*json_lines(origin / "questions.jsonl"), added])
    git(origin, "add", ".")
    git(origin, "commit", "--quiet", "-m", "Edit the pages")
    git(folder, "clone", "--quiet", str(origin), "clone")
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": programs, "GITHUB_STEP_SUMMARY": str(folder / "shown.md")}
    for name, text in steps().items():
        done = subprocess.run(
            [need("bash"), "-e", "-c", text],
            cwd=folder / "clone",
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
    return folder / "clone"


CHANGES = {
    "lost": ["q052"],
    "gold changed": ["q031"],
    "gold gone": ["q040", "q041", "q042", "q043"],
    "gold new": ["new"],
}


@pytest.mark.full
def test_junit_has_each_question_that_the_commit_changed(checked: Path) -> None:
    [case] = ElementTree.parse(checked / "gate.xml").getroot().iter("testcase")
    found: dict[str, list[str]] = {}
    for line in (case.findtext("system-out") or "").splitlines():
        kind, rest = line.split(": ", 1)
        found.setdefault(kind, []).append(rest.split(" ")[0])
    assert found == CHANGES
    assert [child.tag for child in case] == ["skipped", "system-out"]


@pytest.mark.full
def test_the_summary_has_the_same_questions_with_their_gold_and_what_is_first_now(checked: Path) -> None:
    text = (checked.parent / "shown.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    by_id = {row[0]: row[1:] for row in rows}
    assert by_id.keys() >= {key for keys in CHANGES.values() for key in keys}
    assert by_id["q052"] == ["What is speed052?", "page-05.md:13-13", "noise.md:1-3"]
    assert by_id["q041"][1].startswith("page-04.md:")
    assert by_id["words"][1:4] == ["strict_hit@1", "1.0000", f"{42 / 43:.4f}"]


@pytest.mark.full
def test_the_clone_is_as_committed_and_what_is_cached_exists(checked: Path) -> None:
    assert git(checked, "status", "--porcelain") == ""
    [block] = blocks("docs/gate.md", "yaml")
    [cached] = (
        step["with"]["path"].split()
        for step in yaml.safe_load(block.text)["jobs"]["gate"]["steps"]
        if "cache" in step.get("uses", "")
    )
    assert all((checked / path).exists() for path in cached)
