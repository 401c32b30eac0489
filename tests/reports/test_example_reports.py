"""The example reports that the project shows follow from their rows, and hold no text of other projects."""

from __future__ import annotations

from pathlib import Path

import pytest

from branchrank.questions.question_files import HASHED
from branchrank.reports.verify import verify_run
from branchrank.runs.directory import QUESTIONS, read_run

EXAMPLES = Path(__file__).parents[2] / "reports" / "examples"
RUNS = sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())
#: The runs that are checked whole for every change.
SMALL = ("sample", "symfony-dev")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in SMALL else pytest.mark.full) for name in RUNS]
)
def test_every_number_of_an_example_follows_from_its_rows(name: str) -> None:
    assert verify_run(EXAMPLES / name).findings == ()


@pytest.mark.parametrize("name", RUNS)
def test_questions_over_other_projects_are_kept_as_digests(name: str) -> None:
    if read_run(EXAMPLES / name).corpus != "data/sample/corpus":
        lines = (EXAMPLES / name / QUESTIONS).read_text(encoding="utf-8").splitlines()
        assert lines
        assert all(f'"question":"{HASHED}' in line for line in lines)
        assert not any(
            '"answer_quote":"' in line and HASHED not in line.split('"answer_quote":"')[1] for line in lines
        )
