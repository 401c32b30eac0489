"""The vector store of a workspace whose owner never named one: Chroma, with the lists of exact search."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path

import pytest
from support.chroma_answers import drop_the_best
from support.commands import benchmark, invoke, program, write_lines
from support.front_doors import make_indexed
from support.worlds import numbered_pages, write_pages

from branchrank.core.errors import ArtifactError

QUERY = "a tea of leaves"
QUESTIONS = [
    {
        "id": f"q{number}",
        "question": f"tea {number}",
        "source_file": f"p{number:03d}.md",
        "gold_level": "file",
    }
    for number in range(6)
]
EXACT = ("--vector-store", "exact")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty pages and six questions, indexed without a word about the vector store."""
    pages = dict([*numbered_pages().items()][:60])
    project = make_indexed(tmp_path_factory.mktemp("stores"), pages, vector_store=None)
    write_lines(project / "data" / "benchmark" / "questions.jsonl", QUESTIONS)
    return project


@pytest.fixture
def project(built: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return shutil.copytree(built, tmp_path / "project", symlinks=True)


def facts(run: Path) -> dict[str, object]:
    (index,) = json.loads((run / "run.json").read_text())["indexes"]
    assert isinstance(index, dict)
    return index


def test_chroma_is_the_default_and_no_setting_is_written(built: Path) -> None:
    config = tomllib.loads((built / "data" / "branchrank.toml").read_text())
    assert config["index"] == {"embedder": "fake:64"}
    assert (built / "data" / "chroma" / "chroma.sqlite3").is_file()


def test_both_stores_write_the_same_rows(built: Path, tmp_path: Path) -> None:
    words = ("--predictor", "local", "--predictor", "hybrid", "--hybrid-no-llm", "--predictor", "dense")
    runs = {
        name: benchmark(built, *words, *flags, reports=tmp_path / name)
        for name, flags in (("chroma", ()), ("exact", EXACT), ("auto", ("--vector-store", "auto")))
    }
    assert {name: facts(run)["vector_store"] for name, run in runs.items()} == {
        "chroma": "chroma",
        "exact": "exact",
        "auto": "exact",
    }
    rows = {name: (run / "rows.jsonl").read_bytes() for name, run in runs.items()}
    assert rows["chroma"] == rows["exact"] == rows["auto"] != b""


def test_the_report_states_the_recall_of_chroma(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--predictor", "dense", "--predictor", "bm25")
    whole = benchmark(built, *words, reports=tmp_path / "whole")
    assert (facts(whole)["recall"], facts(whole)["recall_depth"]) == (1.0, 40)
    assert "chroma (recall@40 1.0000)" in (whole / "report.md").read_text()
    exact = benchmark(built, *words, *EXACT, reports=tmp_path / "exact")
    assert facts(exact).get("recall") is None
    assert "recall@" not in (exact / "report.md").read_text()
    drop_the_best(monkeypatch)
    less = benchmark(built, *words, reports=tmp_path / "less")
    assert facts(less)["recall"] == pytest.approx(39 / 40)
    assert "chroma (recall@40 0.9750)" in (less / "report.md").read_text()


def test_the_report_says_that_the_recall_of_chroma_was_not_measured(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> float:
        raise ArtifactError("the vector store can't be read", remedy="")

    monkeypatch.setattr("branchrank.runs.bench.opening.recall_against_exact", fail)
    run = benchmark(built, "--predictor", "dense", reports=tmp_path / "dense")
    assert "chroma (recall not measured" in (run / "report.md").read_text()
    run = benchmark(built, "--predictor", "bm25", reports=tmp_path / "bm25")
    assert "recall not measured" not in (run / "report.md").read_text()


ASKED = [
    ("retrieve", QUERY),
    ("hybrid", "--no-llm", QUERY),
    ("search", QUERY),
    ("benchmark", "--predictor", "local", "--latency-sample", "0"),
]
MOVED = ["the link", "the folder"]


@pytest.mark.parametrize(
    ("words", "what"),
    [
        pytest.param(
            words, what, id=f"{words[0]}-{what}", marks=pytest.mark.full if (row + column) % 2 else ()
        )
        for row, words in enumerate(ASKED)
        for column, what in enumerate(MOVED)
    ],
)
def test_a_collection_that_was_moved_away_is_an_error(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)  # which gets the reports
    data = project / "data"
    place = data / "chroma" if what == "the link" else (data / "chroma").resolve()
    shutil.move(place, tmp_path / "elsewhere")
    before = sorted(data.rglob("*"))
    refused = invoke(*words, "--data-dir", data)
    assert refused.exit_code == 4
    assert f"{place.name}" in refused.stderr
    assert "is missing" in refused.stderr
    assert f"fix: branchrank index --data-dir {data} --embedder fake:64\n" in refused.stderr
    assert sorted(data.rglob("*")) == before, "a query does not rebuild what somebody moved"
    answered = invoke("retrieve", QUERY, *EXACT, "--data-dir", data)
    assert answered.exit_code == 0, answered.output
    fixed = invoke("index", "--data-dir", data, "--embedder", "fake:64", "--quiet")
    assert fixed.exit_code == 0, fixed.output
    assert invoke(*words, "--data-dir", data).exit_code == 0


#: Everything but the standard library that a query with exact vectors and all-MiniLM-L6-v2 may load.
LIGHT = {"branchrank", "click", "msgspec", "numpy", "onnx", "onnxruntime", "Stemmer", "tokenizers"}
LIGHT |= {"regex", "yaml", "typing_extensions", "google", "ml_dtypes"}  # of onnx: protobuf and number formats


def test_a_query_with_exact_vectors_loads_nothing_that_it_does_not_need(tmp_path: Path) -> None:
    write_pages(tmp_path / "docs")
    data = ("--data-dir", tmp_path / "data")
    words = ("--embedder", "all-MiniLM-L6-v2", "--token-vectors", "none", *EXACT, "--quiet")
    indexed = invoke("index", tmp_path / "docs", *data, *words)
    assert indexed.exit_code == 0, indexed.output
    code = (
        "import sys\n"
        "before = set(sys.modules)\n"  # what the environment's .pth files load
        "from branchrank.frontends.cli.main import main\n"
        "for words in (['--help'], sys.argv[1:]):\n"
        "    main(words, standalone_mode=False)\n"
        "    added = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "    print(*added - sys.stdlib_module_names, file=sys.stderr)"
    )
    (tmp_path / "home").mkdir()
    home = dict.fromkeys(("HOME", "XDG_CACHE_HOME"), str(tmp_path / "home"))
    done = program("-c", code, "retrieve", QUERY, *data, cwd=tmp_path, environment=home, fresh=True)
    of_help, of_query = ({*line.split()} for line in done.stderr.splitlines())
    assert "branchrank" in of_help, done.stderr
    assert of_help <= {"branchrank", "click", "msgspec", "typing_extensions"}
    assert {name for name in of_query if not name.startswith(("_cython", "cython"))} <= LIGHT
    assert [*(tmp_path / "home").iterdir()] == []


#: Runs commands, and prints after each which of the heavy modules are loaded.
LOADED = """
import json, sys
from click.testing import CliRunner
from branchrank.frontends.cli.main import main
heavy = {"chromadb", "torch", "sentence_transformers", "openai"}
for words in json.loads(sys.argv[1]):
    result = CliRunner().invoke(main, [*words, "--data-dir", "data"])
    print(result.exit_code, *heavy & set(sys.modules))
"""


@pytest.mark.full
def test_chroma_is_imported_only_where_it_searches(project: Path) -> None:
    light = [
        ("retrieve", "--predictor", "bm25", QUERY),
        ("retrieve", "--predictor", "pageindex", QUERY),
        ("benchmark", "--predictor", "bm25", "--latency-sample", "2"),
    ]
    commands = json.dumps([*light, ("retrieve", "--predictor", "dense", QUERY)])
    done = program("-c", LOADED, commands, cwd=project, fresh=True)
    assert done.stdout.splitlines() == [*["0"] * len(light), "0 chromadb"], done.stderr
