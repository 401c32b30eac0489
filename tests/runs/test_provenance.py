"""Where a run came from: git is asked, and nothing of the checkout is touched."""

from __future__ import annotations

import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from branchrank.runs.bench import record


def test_git_commands_do_not_change_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    real = subprocess.run

    def watched(words: list[str], **options: object):
        asked.append(words)
        return real(words, **options)

    monkeypatch.setattr(subprocess, "run", watched)
    made = record.gather()
    assert asked
    assert all(words[:2] == ["git", "--no-optional-locks"] for words in asked)
    assert (made.git_dirty is None) == (made.git_commit == "")


def test_without_git_the_commit_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object, **__: object) -> None:
        raise FileNotFoundError("git")

    monkeypatch.setattr(subprocess, "run", gone)
    made = record.gather()
    assert (made.git_commit, made.git_dirty) == ("", None)


def test_the_machine_description_contains_no_user_name() -> None:
    made = record.gather()
    assert made.cores >= 1
    assert made.memory_bytes > 0
    installed = {"torch"} if find_spec("torch") else set()
    assert {"numpy", "bm25s"} | installed <= set(made.packages)
    assert str(Path.home()) not in str(made)
