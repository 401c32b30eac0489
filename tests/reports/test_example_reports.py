"""The example reports that the project shows follow from their rows, and hold no text of other projects."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from support.commands import invoke
from support.needs import need

from branchrank.questions.question_files import HASHED
from branchrank.reports.verify import verify
from branchrank.runs.directory import QUESTIONS, RUN_JSON, read_run

EXAMPLES = Path(__file__).parents[2] / "reports" / "examples"
RUNS = sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())


@pytest.mark.full
@pytest.mark.parametrize("name", RUNS)
def test_the_report_of_an_example_is_made_from_its_rows(name: str, tmp_path: Path) -> None:
    """Its measurements have their digests in ``run.json``; every number of the report follows from them."""
    run = tmp_path / name
    run.mkdir()
    for file in (RUN_JSON, *read_run(EXAMPLES / name).truth):
        shutil.copy(EXAMPLES / name / file, run)
    made = invoke("report", run)
    assert made.exit_code == 0, made.output
    assert verify(run).findings == ()


def test_the_sample_is_kept_whole() -> None:
    assert verify(EXAMPLES / "sample").findings == ()


def test_the_other_examples_are_their_measurements() -> None:
    command = [need("git"), "ls-files", "."]
    listed = subprocess.run(command, cwd=EXAMPLES, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("no checkout")
    files: dict[str, set[str]] = {name: set() for name in RUNS}
    for folder, _, file in (line.partition("/") for line in listed.stdout.splitlines()):
        files.get(folder, set()).add(file)
    files.pop("sample")
    assert files == {name: {RUN_JSON, *read_run(EXAMPLES / name).truth} for name in files}


@pytest.mark.parametrize("name", RUNS)
def test_questions_over_other_projects_are_kept_as_digests(name: str) -> None:
    if read_run(EXAMPLES / name).corpus != "data/sample/corpus":
        lines = (EXAMPLES / name / QUESTIONS).read_text(encoding="utf-8").splitlines()
        assert lines
        assert all(f'"question":"{HASHED}' in line for line in lines)
        assert not any(
            '"answer_quote":"' in line and HASHED not in line.split('"answer_quote":"')[1] for line in lines
        )
