"""The commands of the README over the bundled sample, word for word, in a copy of the sample's folders."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import tomllib
from pathlib import Path

import pytest
from support.commands import ROOT, json_lines, program, table
from support.sample_index import SAMPLE, copy_few_pages

QUERY = 'retrieve.py "how to configure symfony routing"'
HYBRID_QUERY = 'hybrid_retrieve.py --no-llm "how to configure symfony routing"'
DRAWN = "--sample-size 20 --sample-seed 42"
LOCAL = f"benchmark_run.py --mode both --predictor local {DRAWN}"
HYBRID = f"benchmark_run.py --mode both --predictor hybrid {DRAWN} --hybrid-no-llm"
NO_LLM = "--hybrid-no-llm --pageindex-no-llm"
ALL = f"benchmark_run.py --mode both --predictor all {DRAWN} {NO_LLM}"


@pytest.fixture(scope="module", params=["few pages", pytest.param("whole", marks=pytest.mark.full)])
def sample(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a fresh clone has: the sample and its workspace, without an index."""
    folder = tmp_path_factory.mktemp("sample")
    if request.param == "whole":
        shutil.copytree(SAMPLE, folder / "data" / "sample")
    else:
        copy_few_pages(folder / "data" / "sample")
    shutil.copy(ROOT / "data" / "branchrank.toml", folder / "data")
    return folder


def run(sample: Path, line: str, *, door: bool = True):
    words = shlex.split(line)
    command = [ROOT / words[0], *words[1:]] if door else words
    return program(*command, cwd=sample, environment={"HF_HUB_OFFLINE": "1", "COLUMNS": "120"})


@pytest.fixture(scope="module")
def first(sample: Path):
    """The first command of all, which has to build the index."""
    return run(sample, QUERY)


def test_the_first_query_builds_the_index_and_answers(sample: Path, first) -> None:
    assert first.returncode == 0, first.stderr
    assert first.stderr.count("building it") == 1
    assert len(re.findall(r"(?m)^ ?\d+\. \S+:\d+-\d+  ", first.stdout)) == 5
    assert (sample / "data" / "pageindex" / "nodes.jsonl").is_file()
    assert (sample / "data" / "chunks.jsonl").is_file()
    assert list((sample / "data" / "chroma").iterdir())
    manifest = json.loads(next((sample / "data" / "indexes").glob("*/current/manifest.json")).read_text())
    assert manifest["embedder"]["weights_digest"].startswith("53aa51172d142c89")


def test_the_hybrid_query(sample: Path, first) -> None:
    done = run(sample, HYBRID_QUERY)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(re.findall(r"(?m)^ ?\d+\. \S+:\d+-\d+  ", done.stdout)) == 5


@pytest.mark.parametrize(
    ("line", "predictors"),
    [
        pytest.param(LOCAL, ["local"], id="local", marks=pytest.mark.full),
        pytest.param(HYBRID, ["hybrid"], id="hybrid", marks=pytest.mark.full),
        pytest.param(ALL, ["local", "pageindex", "hybrid"], id="all"),
    ],
)
def test_the_benchmarks(sample: Path, first, line: str, predictors: list[str]) -> None:
    before = set((sample / "reports").glob("*"))
    done = run(sample, line)
    assert done.returncode == 0, done.stderr
    [made] = set((sample / "reports").glob("*")) - before
    rows = table(made / "summary.csv")
    assert [row["predictor"] for row in rows] == predictors
    for row in rows:
        assert (row["questions"], row["llm"], row["failures"]) == ("20", "none", "0")
        assert 0 < float(row["strict_hit@5"]) <= 1
        assert float(row["strict_hit@1"]) <= min(float(row["strict_hit@5"]), float(row["relaxed_hit@1"]))
        assert 0 < float(row["latency_p50_ms"]) <= float(row["latency_p95_ms"])
        assert row["llm_calls_per_query"] == row["llm_tokens_per_query"] == "0"
        assert row["predictor"] in done.stdout
    assert "pilot" in done.stdout.lower(), "20 questions prove little"
    assert made.name in done.stdout
    assert "Pilot" in (made / "report.md").read_text() or "pilot" in (made / "report.md").read_text()
    assert len(json_lines(made / "questions.jsonl")) == 20


def test_the_installed_command_has_the_same_verbs(sample: Path, first) -> None:
    """Through what its entry point names, which is all that the installed script calls."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, _, name = project["scripts"]["branchrank"].partition(":")
    code = f"import sys; from {module} import {name}; sys.argv[0] = 'branchrank'; sys.exit({name}())"
    done = program(
        *("-c", code, "retrieve", "how to configure symfony routing"),
        cwd=sample,
        environment={"HF_HUB_OFFLINE": "1", "COLUMNS": "120"},
    )
    assert (done.returncode, done.stdout) == (0, first.stdout)
