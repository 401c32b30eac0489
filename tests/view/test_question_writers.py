"""Several processes write one question file: no write that was acknowledged is lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.made_runs import Planned, make_corpus, make_questions, make_run
from support.question_writers import lost, written

from branchrank.questions.question_files import load_questions, write_questions

#: The writers, and how many writes each of them makes in the short and in the long form.
WRITERS = {
    "add": (8, 3_000),
    "label": (8, 6_600),
    "view": (3, 200),
    "view2": (3, 200),
    "added_by_command": (2, 30),
    "labeled_by_command": (2, 30),
    "reanchored": (4, 100),
}
FILES = {"branchrank.toml", "questions.jsonl"}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace of one page, and a run."""
    folder = tmp_path_factory.mktemp("asked")
    make_corpus(folder / "docs", 1)
    questions = make_questions(4, per_page=4)
    make_run(folder, [Planned("local", 0.5), Planned("hybrid", 0.2)], questions)
    (folder / "data").mkdir()
    (folder / "data" / "branchrank.toml").write_text('corpus = "../docs"\nquestions = "questions.jsonl"\n')
    write_questions(folder / "data" / "questions.jsonl", questions)
    return folder


@pytest.fixture
def folder(asked: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(asked, tmp_path / "own"))


@pytest.mark.parametrize("form", [0, pytest.param(1, marks=pytest.mark.full)])
def test_no_acknowledged_write_is_lost(folder: Path, form: int) -> None:
    counts = {name: counts[form] for name, counts in WRITERS.items()}
    done = written(folder, {name: (name.rstrip("2"), count) for name, count in counts.items()})
    assert {name: len(told) for name, told in done.items()} == counts | {"reanchored": 0}
    assert lost(folder, done) == []
    assert {path.name for path in (folder / "data").iterdir() if not path.name.startswith("more-")} == FILES


def test_a_killed_writer_loses_no_acknowledged_write_and_blocks_nobody(folder: Path) -> None:
    killed = {f"killed-{kind}-{number}": (kind, -number) for kind in ("label", "add") for number in (5, 8)}
    done = written(folder, {"going-on": ("add", 25), **killed})
    assert len(done.pop("going-on")) == 25
    assert min(map(len, done.values())) >= 5
    assert lost(folder, done) == []
    path = folder / "data" / "questions.jsonl"
    write_questions(path, load_questions(path))
    assert {path.name for path in (folder / "data").iterdir()} == FILES
