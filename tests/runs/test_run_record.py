"""``run.json``: what a version reads, and what it refuses with a reason."""

import json

import pytest

from branchrank.errors import RunError
from branchrank.runs.directory import SCHEMA_VERSION, read_run
from tests.support.made_runs import Planned, make_questions, make_run


def rewritten(folder, **changes):
    directory = make_run(folder, [Planned("local", 0.5)], make_questions(4)).directory
    path = directory / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return directory


@pytest.mark.parametrize(
    ("schema", "age", "remedy"),
    [(1, "older", "run the benchmark again"), (SCHEMA_VERSION + 1, "newer", "install a newer BranchRank")],
)
def test_a_run_with_another_schema_is_refused(tmp_path, schema, age, remedy):
    directory = rewritten(tmp_path, schema_version=schema)
    with pytest.raises(RunError, match=f"{age} version .* schema is {schema}") as refused:
        read_run(directory)
    assert remedy in refused.value.remedy
