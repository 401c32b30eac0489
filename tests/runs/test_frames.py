"""A run's tables in pandas say what its rows say."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import benchmark, make_project

from branchrank.errors import RunError
from branchrank.runs.frames import load_frames
from branchrank.runs.run import load_run


def test_a_run_can_be_asked_with_pandas(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    directory = benchmark(project, "--predictor", "local", "--predictor", "pageindex", "--pageindex-no-llm")
    frames = load_frames(directory)
    loaded = load_run(directory)
    assert list(frames.summary["predictor"]) == ["local", "pageindex"]
    asked = len(loaded.record.question_ids)
    assert len(frames.questions) == 2 * asked
    answerable = frames.questions[frames.questions["outcome"] != "unanswerable"]
    rates = answerable.groupby("predictor")["strict_hit@1"].mean()
    for row in loaded.summary_rows:
        assert rates[row.predictor] == pytest.approx(row.rates["strict_hit@1"])
    assert set(frames.questions["error"]) == {""}
    assert frames.calls.empty
    assert "prompt_tokens" in frames.calls.columns


def test_a_directory_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError):
        load_frames(tmp_path)
