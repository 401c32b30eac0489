"""What comes from a shell or a file system and is not what one expects: bytes, names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import ROOT, benchmark, invoke, make_project

from branchrank.documents.loading import discover


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("odd"))


@pytest.mark.parametrize("verb", [("retrieve",), ("hybrid", "--no-llm"), ("search",)], ids=" ".join)
def test_a_query_with_undecodable_bytes_gets_an_answer(project: Path, verb: tuple[str, ...]) -> None:
    result = invoke(*verb, "--data-dir", project / "data", "--json", "tea caf\udcff")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["query"] == "tea caf?"


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
@pytest.mark.parametrize("shape", [(), ("--json",)], ids=["text", "json"])
def test_a_terminal_that_is_not_utf8_gets_an_answer(
    project: Path, encoding: str, shape: tuple[str, ...]
) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "retrieve.py", "--data-dir", project / "data", *shape, "tea 日本語"],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    if shape:
        assert json.loads(done.stdout)["query"] == "tea 日本語"


def test_a_corpus_or_workspace_whose_name_is_not_utf8_is_refused(tmp_path: Path) -> None:
    named = tmp_path / "caf\udcff"
    named.mkdir()
    (named / "a.md").write_text("# A\n\ntext\n")
    for corpus, data_dir in ((named, tmp_path / "data"), (ROOT / "examples", named / "data")):
        for words in (("index", corpus, "--embedder", "fake:64"), ("init", corpus)):
            result = invoke(*words, "--data-dir", data_dir)
            assert result.exit_code == 2, result.output
            assert "not UTF-8" in result.stderr
            assert not (data_dir / "branchrank.toml").exists()


def test_reports_inside_the_corpus_are_not_indexed(project: Path) -> None:
    corpus = project / "docs"
    before = discover(corpus).files
    run = benchmark(project, "--predictor", "local", reports=corpus / "reports")
    assert (run / "report.md").is_file()
    assert discover(corpus).files == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_standard_output_on_a_full_disk_is_an_error_without_traceback(project: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-u", ROOT / "retrieve.py", "--data-dir", project / "data", "tea"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 8
    assert b"No space left" in done.stderr
    assert b"Traceback" not in done.stderr
