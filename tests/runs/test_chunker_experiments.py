"""Chunkers in experiments: one index and system each, every text embedded once, and what chunking costs."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from support.commands import invoke, json_lines, make_project, table
from support.worlds import PAGES

from branchrank.core.records import Chunk
from branchrank.core.settings import IndexSettings
from branchrank.index.stores.analyzer import embedded_text
from branchrank.index.workspace_folder import WorkspaceFolder, index_name
from branchrank.runs.bench.experiment import plan_from_experiment
from branchrank.runs.directory import read_run

SWEEP = """
name = "which chunking"
[benchmark]
latency_sample = 0
top_k = 50
baseline = "local[chunk_tokens=256, chunker=sections]"
[systems.local]
index = "chunks"
[systems.plain]
from = "local"
[indexes.chunks]
sweep = { chunk_tokens = [32, 256], chunker = ["sections", "document"] }
"""


def indexes(data: Path) -> dict[str, Path]:
    """The current generation of each index by the index's name."""
    return {path.parent.name: path.resolve() for path in data.glob("indexes/*/current")}


def section_cells(made: Path, title: str) -> list[list[str]]:
    """The cells of the table in a section of a report."""
    section = (made / "report.md").read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]
    return [
        [cell.strip().replace("\\", "") for cell in line.split("|")[1:-1]]
        for line in section.splitlines()
        if line.startswith("|")
    ]


def test_a_sweep_over_chunkers_builds_each_index_embeds_each_text_once_and_reports_the_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path)
    monkeypatch.chdir(project)
    before = json.loads((indexes(project / "data").popitem()[1] / "build.json").read_bytes())["embedded"]
    (project / "x.toml").write_text(SWEEP)
    done = invoke("run", "x.toml")
    assert done.exit_code == 0, done.output
    [made] = (project / "reports").iterdir()
    points = [
        f"chunk_tokens={tokens}, chunker={name}" for tokens in (32, 256) for name in ("sections", "document")
    ]
    names = [*(f"local[{point}]" for point in points), "plain"]
    assert [row["predictor"] for row in table(made / "summary.csv")] == names

    generations = indexes(project / "data")
    assert len(generations) == 4, "that of 256 tokens and sections is the workspace's own"
    chunks = [Chunk(**line) for path in generations.values() for line in json_lines(path / "chunks.jsonl")]
    builds = [json.loads((path / "build.json").read_bytes()) for path in generations.values()]
    assert sum(build["embedded"] for build in builds) == len({*map(embedded_text, chunks)})
    assert 0 < before < sum(build["embedded"] for build in builds)
    assert any(len(chunk.node_ids) > 1 for chunk in chunks)
    assert b"node_ids" not in (WorkspaceFolder.open(project / "data").data_dir / "chunks.jsonl").read_bytes()

    read = section_cells(made, "Reading")
    assert read[0] == ["predictor", "lines returned", *(f"in {lines} lines" for lines in (25, 50, 100, 200))]
    for row in read[2:]:
        rates = [float(cell.rstrip("%")) for cell in row[2:]]
        assert rates == sorted(rates)
    cells = section_cells(made, "Chunking")
    assert cells[0] == ["predictor", "chunker", "chunks", "index size", "lines per hit"]
    of = {row[0]: dict(zip(cells[0], row, strict=True)) for row in cells[2:]}
    assert [*of] == names
    facts = {index.name: index for index in read_run(made).indexes}
    whole = of["local[chunk_tokens=256, chunker=document]"]
    assert whole["chunker"] == "document, 254 tokens (of 256)"
    assert whole["chunks"] == str(facts["chunks[chunk_tokens=256, chunker=document]"].chunks) == "5"
    for row in of.values():
        assert re.fullmatch(r"\d+\.\d MB", row["index size"])


def test_embedders_on_different_chunks_are_a_warning_and_on_the_same_chunks_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path, {**PAGES, "long.md": "# Long\n\n" + "The tea is green.\n" * 20})
    monkeypatch.chdir(project)
    said = {}
    for name, tables in {
        "same": '[indexes.a]\nembedder = "fake:8"\n',
        "none": '[indexes.a]\nembedder = "none"\n',
        "other": '[indexes.a]\nembedder = "fake:8"\nchunk_tokens = 32\n',
        "one embedder": "[indexes.a]\nchunk_tokens = 32\n",
        "grid": '[indexes.a]\nsweep = { embedder = ["fake:64", "fake:8"], chunk_tokens = [32, 256] }\n',
        "alone": "",
    }.items():
        index = 'index = "a"\n' if tables else ""
        text = f'name = "x"\n[systems.bm25]\n[systems.other]\nfrom = "bm25"\n{index}{tables}'
        (project / "x.toml").write_text(text)
        done = invoke("run", "x.toml", "--latency-sample", 0, "--reports", project / name)
        assert done.exit_code == 0, done.output
        [made] = (project / name).iterdir()
        facts = read_run(made).indexes
        assert len({(each.chunks, each.chunks_digest) for each in facts}) == (1 if name in SAME else 2)
        said[name] = [each for each in read_run(made).warnings if "chunks" in each]
    assert {name for name, warnings in said.items() if warnings} == {"other"}
    (warning,) = said["other"]
    assert "fake:64 and fake:8 have different chunks" in warning

    runs = {}
    for tokens in (256, 32):
        flags = ("--embedder", f"fake:{tokens}", "--chunk-tokens", tokens, "--predictor", "bm25")
        done = invoke("benchmark", *flags, "--latency-sample", 0, "--reports", project / str(tokens))
        assert done.exit_code == 0, done.output
        (runs[tokens],) = (project / str(tokens)).iterdir()
    compared = invoke("compare", runs[256], runs[32])
    assert compared.exit_code == 0, compared.output
    assert "the embedders fake:256 and fake:32 have different chunks" in compared.stdout


SAME = ("same", "none", "alone")


def test_only_the_chunking_changes_the_name_of_an_index() -> None:
    default = IndexSettings(embedder="fake:64")
    assert index_name(default) == "fake-64-256-e1bcc3bb", "as in versions without chunkers"
    assert "chunker" not in default.table
    names = {index_name(IndexSettings(embedder="fake:64", chunker=each)) for each in ("window", "recursive")}
    assert len(names | {index_name(default)}) == 3


def test_a_chunker_that_is_code_is_named_by_the_user_and_a_change_makes_its_index_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path)
    monkeypatch.chdir(project)
    monkeypatch.syspath_prepend(project)
    source = "class Halves:\n    def chunk(self, text):\n        return [text[:{0}], text[{0}:]]\n"
    (project / "halves_chunker.py").write_text(source.format(20))
    own = ("--chunker", "halves_chunker:Halves")
    built = invoke("index", *own)
    assert built.exit_code == 0, built.output
    assert "chunker" not in (project / "data" / "branchrank.toml").read_text()
    assert "building it" not in invoke("retrieve", "green tea", *own).stderr
    (project / "halves_chunker.py").write_text(source.format(30))
    sys.modules.pop("halves_chunker")
    again = invoke("retrieve", "green tea", *own)
    assert (again.exit_code, "another version" in again.stderr) == (0, True)
    assert "building it" not in invoke("retrieve", "green tea", *own).stderr

    toml = project / "data" / "branchrank.toml"
    text = toml.read_text()
    toml.write_text(text.replace("[index]\n", '[index]\nchunker = "os:system"\n'))
    refused = invoke("retrieve", "green tea")
    assert (refused.exit_code, "is code" in refused.stderr) == (2, True)


def test_errors_of_chunkers_are_reported_before_any_index_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path)
    monkeypatch.chdir(project)
    text = (
        'name = "x"\n[systems.local]\nindex = "a"\nsweep = { rrf_k = [2, 10] }\n'
        '[indexes.a]\nsweep = { chunker = ["window", "chonkie:TokenChunker"] }\n'
    )
    (project / "x.toml").write_text(text)
    planned = [each.name for each in plan_from_experiment(project / "x.toml").planned]
    assert planned == [
        f"local[rrf_k={k}, chunker={name}]" for k in (2, 10) for name in ("window", "chonkie:TokenChunker")
    ]
    slips = (
        text.replace("window", "windw").replace("TokenChunker", "Nope") + '[indexes.b]\nembedder = "fakee"\n'
    )
    (project / "x.toml").write_text(slips)
    wrong = invoke("run", "x.toml", "--dry-run")
    assert wrong.exit_code == 2
    for where, meant in (("[indexes.a[chunker=windw]] ", "`window`?\n"), ("[indexes.b] ", "`fake`?\n")):
        assert where in wrong.stderr
        assert meant in wrong.stderr
    assert "no chunker 'Nope'" in wrong.stderr
    assert wrong.stderr.endswith("fix: correct x.toml\n")
    (project / "x.toml").write_text(
        'name = "x"\n[systems.local]\n[indexes.a]\nsweep = { chunk_tokens = [] }\n'
    )
    assert "[indexes.a] sweep needs" in invoke("run", "x.toml").stderr
    (project / "data" / "mine.jsonl").write_bytes((project / "data" / "chunks.jsonl").read_bytes())
    assert invoke("index", "--chunks", "data/mine.jsonl").exit_code == 0
    given = invoke("index", "--chunker", "window")
    assert (given.exit_code, "has no effect" in given.stderr) == (2, True)
