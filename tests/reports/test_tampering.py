"""Every known way of doctoring a run, and what finds it. Each starts from a run that verifies clean."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
from support.real_runs import real_run
from support.refinished import refinish
from support.tamperings import CORPUS, NOTHING, RERUN, SEAL, TAMPERINGS, VERIFY, Tampering

from branchrank.core.errors import BranchRankError
from branchrank.core.io.files import write_bytes
from branchrank.library import RunAccess
from branchrank.reports.verify import Verification, verify
from branchrank.run import Run
from branchrank.runs.bench.record import seal_of

#: What is tried, from the least to the most.
MEANS = (VERIFY, CORPUS, RERUN, SEAL)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Run:
    with real_run(tmp_path_factory.mktemp("real")) as run:
        folder = run.directory.parents[1]
        write_bytes(folder / "plan.seal", msgspec.json.encode(seal_of(run.record)))
        return run


def verified(folder: Path, run: Path, means: str) -> Verification:
    """The run as verified with everything up to these means."""
    reach = MEANS.index(means)
    return verify(
        run,
        corpus=folder / "docs" if reach >= MEANS.index(CORPUS) else None,
        rerun=100 if reach >= MEANS.index(RERUN) else 0,
        seal=folder / "plan.seal" if reach >= MEANS.index(SEAL) else None,
        access=RunAccess(trust=True, data_dir=folder / "data", replay=str(folder / "calls.sqlite")),
    )


@pytest.mark.parametrize(
    "means", [VERIFY, SEAL, *(pytest.param(each, marks=pytest.mark.full) for each in (CORPUS, RERUN))]
)
def test_an_untampered_run_has_no_findings(made: Run, means: str) -> None:
    found = verified(made.directory.parents[1], made.directory, means)
    assert (found.findings, found.notes) == ((), ())
    if found.rerun is not None:
        assert (found.rerun.rows, found.rerun.identical, found.rerun.left_out) == (85, 85, {})


@pytest.mark.full
def test_resealing_an_untouched_run_gives_no_findings(made: Run, tmp_path: Path) -> None:
    """So that what is found in a doctored run is the doctoring."""
    copy = shutil.copytree(made.directory, tmp_path / made.directory.name)
    refinish(copy)
    assert verify(copy).findings == ()


#: One way for each kind of finding; the others run in ``make test-full``.
HERE = (
    "a rate in summary.csv",
    "a figure in report.md",
    "a plot",
    "a slice in gold.jsonl",
    "a gain flipped",
    "an LLM's calls removed",
    "the corpus digest",
)


@pytest.mark.parametrize(
    "each",
    [
        pytest.param(way, id=way.name, marks=() if way.name in HERE else pytest.mark.full)
        for way in TAMPERINGS
    ],
)
def test_tampering_is_found(made: Run, tmp_path: Path, each: Tampering) -> None:
    folder = made.directory.parents[1]
    copy = shutil.copytree(made.directory, tmp_path / made.directory.name)
    each.doctor(copy)
    if each.finished:
        refinish(copy)
    if each.by == NOTHING:
        assert verified(folder, copy, SEAL).findings == ()
        return
    less = MEANS.index(each.by)
    if less:
        assert verified(folder, copy, MEANS[less - 1]).findings == (), "less finds it"
    try:
        found = [str(finding) for finding in verified(folder, copy, each.by).findings]
    except BranchRankError as error:  # an index that does not exist
        found = [error.message]
    assert any(each.says in text for text in found), found
