"""Token vectors without a flag: who stores them, who only says how, and what a run says without them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import Result
from support.commands import invoke
from support.small_corpus import write_pages

from branchrank import Run, Workspace
from branchrank.core.settings import IndexSettings
from branchrank.index.embedders.minilm import MiniLMEmbedder
from branchrank.index.embedding import wanted_tokens

QUERY = "how do I descale the kettle"
QUESTION = '{"id": "q1", "question": "descale it", "source_file": "install.rst", "gold_level": "file"}\n'


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a workspace that was indexed without token vectors, as older versions did."""
    folder = tmp_path_factory.mktemp("built")
    write_pages(folder / "docs")
    (folder / "asked.jsonl").write_text(QUESTION)
    words = ("--embedder", "all-MiniLM-L6-v2", "--vector-store", "exact", "--token-vectors", "none")
    told = done(invoke("index", folder / "docs", "--data-dir", folder / "data", *words))
    assert "token vectors" not in told.stderr
    toml = folder / "data" / "branchrank.toml"
    toml.write_text(toml.read_text().replace('token_vectors = "none"\n', ""))
    return folder


@pytest.fixture
def data(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The workspace in a copy of the folder, which is the working directory."""
    monkeypatch.chdir(shutil.copytree(built, tmp_path / "copy", symlinks=True))
    return Path.cwd() / "data"


def done(result: Result) -> Result:
    assert result.exit_code == 0, result.output
    return result


def kept(data: Path) -> bool:
    with Workspace.open(data) as workspace:
        return workspace.index.token_vectors is not None


def benchmark(data: Path, *predictors: str, flags: tuple[str, ...] = ()) -> Run:
    named = [f"--predictor={name}" for name in predictors]
    words = ("--data-dir", data, "--questions", "asked.jsonl", "--latency-sample", 0, "--fresh", *named)
    done(invoke("benchmark", *words, *flags))
    return Run.load(max(Path("reports").iterdir()))


def test_a_query_stores_nothing_and_prints_the_command_once(data: Path) -> None:
    told = done(invoke("retrieve", QUERY, "--data-dir", data, "--predictor", "late-interaction"))
    assert told.stderr.count(f"branchrank index --data-dir {data} --token-vectors int8") == 1
    assert not kept(data)


def test_a_benchmark_stores_them_for_a_system_that_compares_them(data: Path) -> None:
    benchmark(data, "local", "bm25")
    assert not kept(data)
    run = benchmark(data, "local", "late-interaction")
    assert kept(data)
    assert not any("token vectors" in warning for warning in run.record.warnings)


def test_a_run_without_them_names_the_command_that_avoids_the_wait(data: Path) -> None:
    run = benchmark(data, "late-interaction", flags=("--token-vectors=none",))
    [warning] = [each for each in run.record.warnings if "token vectors" in each]
    assert warning.endswith(f"run: branchrank index --data-dir {data.name} --token-vectors int8")
    assert not kept(data)


def test_a_large_index_has_none() -> None:
    embedder = MiniLMEmbedder()
    assert wanted_tokens(IndexSettings(), embedder, 20_000) == "int8"
    assert wanted_tokens(IndexSettings(), embedder, 30_000) == "none"
    assert wanted_tokens(IndexSettings(token_vectors="fp16"), embedder, 30_000) == "fp16"


def test_index_stores_them_up_to_a_limit_of_chunks_and_says_what_they_need(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Workspace.open(data) as workspace:
        chunks = workspace.index.manifest.chunks
    assert chunks > 1
    for most, expected in ((chunks - 1, False), (chunks, True)):
        monkeypatch.setattr("branchrank.index.embedding.AUTO_BYTES", most * 256 * 384)
        told = done(invoke("index", "--data-dir", data))
        assert ("late interaction (0 MB)" in told.stderr) is kept(data) is expected
    assert "up to date" in done(invoke("index", "--data-dir", data)).stdout
