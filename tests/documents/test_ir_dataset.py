"""Datasets of ir-datasets by id: a tiny one is registered with the real package; nothing is downloaded."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import ir_datasets
import pytest
from support.commands import invoke

from branchrank import Run, library
from branchrank.library import run_table

TINY, REMOTE = "branchrank-tiny/test", "branchrank-remote/test"
DOCUMENTS = {"d1": "green tea", "d2": "black tea leaves", "d3": "coffee in the morning"}
QUERIES = {"q1": "green teas", "q2": "morning coffee"}
QRELS = ["q1 0 d2 1", "q1 0 d1 2", "q1 0 d3 0", "q2 0 d3 1"]


@pytest.fixture(autouse=True)
def registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two datasets: ``TINY``, whose files are here, and ``REMOTE``, whose documents would be downloaded."""
    for name, lines in (
        ("docs.tsv", [f"{key}\t{text}" for key, text in DOCUMENTS.items()]),
        ("queries.tsv", [f"{key}\t{text}" for key, text in QUERIES.items()]),
        ("qrels.txt", QRELS),
    ):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    parts = {"queries_tsv": tmp_path / "queries.tsv", "qrels_trec": tmp_path / "qrels.txt"}
    local = ir_datasets.create_dataset(docs_tsv=tmp_path / "docs.tsv", **parts)
    asked = ir_datasets.util.Download(
        [ir_datasets.util.RequestsDownload("http://192.0.2.1/docs.tsv")],
        cache_path=str(tmp_path / "remote.tsv"),
    )
    remote = ir_datasets.Dataset(ir_datasets.formats.TsvDocs(asked), ir_datasets.create_dataset(**parts))
    for name, dataset in (
        (TINY, local),
        (REMOTE, remote),
        ("branchrank-tiny", ir_datasets.create_dataset(**parts)),
    ):
        ir_datasets.registry.register(name, dataset)
    monkeypatch.setenv("BRANCHRANK_CORPORA", str(tmp_path / "corpora"))
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "home"))
    yield
    for name in (TINY, REMOTE, "branchrank-tiny"):
        del ir_datasets.registry._registered[name]


def test_a_dataset_is_benchmarked_by_its_id(tmp_path: Path) -> None:
    library.add_corpus(f"ir:{TINY}")
    words = ("beir", "run", f"ir:{TINY}", "--data-dir", tmp_path / "data", "--reports", tmp_path / "reports")
    result = invoke(*words, "--quiet")
    assert result.exit_code == 0, result.output
    [directory] = (tmp_path / "reports").iterdir()
    run = Run.load(directory)
    assert [question.id for question in run.asked] == ["q1", "q2"]
    # q1 finds d1 (2), then d2 (1); q2 finds d3 (1).
    assert run_table(run).systems[0].means["nDCG@10"].value == 1.0
    assert "branchrank-tiny-test-test, 2 queries" in result.output


def test_a_dataset_is_written_once_as_a_beir_folder(tmp_path: Path) -> None:
    folder = library.add_corpus(f"ir:{TINY}")
    assert folder == tmp_path / "corpora" / "ir" / "branchrank-tiny-test"
    entries = [json.loads(line) for line in (folder / "corpus.jsonl").read_text().splitlines()]
    assert {each["_id"]: each["text"] for each in entries} == DOCUMENTS
    judged = (folder / "qrels" / "test.tsv").read_text().splitlines()
    assert judged == [
        "query-id\tcorpus-id\tscore",
        *("\t".join(line.split()[::2][:1] + line.split()[2:]) for line in QRELS),
    ]
    (tmp_path / "docs.tsv").unlink()
    assert library.add_corpus(f"ir:{TINY}") == folder
    made = library.import_beir(f"ir:{TINY}", tmp_path / "q.jsonl")
    assert len(made.questions) == 2
    assert invoke("index", f"ir:{TINY}", "--data-dir", tmp_path / "data", "--embedder", "fake").exit_code == 0


def test_nothing_is_downloaded_without_a_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (REMOTE, TINY):
        result = invoke("beir", "run", f"ir:{name}", "--data-dir", tmp_path / "data")
        assert result.exit_code == 3
        assert f"corpus add ir:{name}" in result.stderr
    assert not (tmp_path / "data").exists()
    assert not (tmp_path / "corpora").exists()
    asked: list[str] = []

    def stream(download: object) -> object:
        asked.append(repr(download))
        raise OSError("no network here")

    monkeypatch.setattr(ir_datasets.util.download.RequestsDownload, "stream", stream)
    result = invoke("corpus", "add", f"ir:{REMOTE}")
    assert result.exit_code == 3
    assert f"'{REMOTE}': no network here" in result.stderr
    assert len(asked) == 1


def test_an_unknown_or_incomplete_dataset_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    result = invoke("beir", "run", "ir:branchrank-tiny/tset")
    assert result.exit_code == 3
    assert "did you mean `branchrank-tiny/test`" in result.stderr
    result = invoke("beir", "run", "ir:branchrank-tiny")
    assert "'branchrank-tiny' has no" in result.stderr
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    result = invoke("beir", "run", f"ir:{TINY}")
    assert result.exit_code == 5
    assert 'pip install "ir-datasets>=0.6"' in result.stderr
