"""``--filter`` through every door and every predictor: documents are left out before any list is cut."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.commands import invoke, json_lines, write_lines
from support.front_doors import Command, Library, Mcp, make_indexed
from support.http_server import asking, post, running

from branchrank import Run
from branchrank.core import errors
from branchrank.core.errors import UsageError
from branchrank.core.io.keys import Access
from branchrank.frontends.serve.http_api import application
from branchrank.frontends.serve.service import Service, Workers
from branchrank.search.systems.builtin import AGENTS, BUILTIN
from branchrank.search.systems.query import read_filters

#: Forty pages that answer better than the one that is wanted.
PAGES = {
    **{f"plums/{n:02}.md": f"# Plum {n}\n\nThe plum router of kind {n}: a plum.\n" for n in range(40)},
    "guide/route.md": "# Routes\n\nA router, with one plum in a much longer text about many other things.\n",
    "guide/other.md": "# Other\n\nNothing of the kind.\n",
}
QUERY = "plum plum router"
#: Every branch keeps three entries.
SHALLOW = """
[local]
vector_top_n = 3
bm25_top_n = 3
[hybrid]
vector_top_n = 3
bm25_top_n = 3
[grep]
vector_top_n = 3
vector_score_threshold = 4.0
[retrieval]
candidate_k_keyword = 3
candidate_k_vector = 3
"""
ONLY = "file_path=guide/route.md"
#: Documents that both filters admit.
BOTH = ("source=guide/*", "file_path=*route*")
TOOLS = {
    "grep_search": "query",
    "vector_search": "query",
    "hybrid_search": "semantic_query",
    "predictor_search": "query",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_indexed(tmp_path_factory.mktemp("filters"), PAGES, SHALLOW)


@pytest.fixture(scope="module")
def resources() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@pytest.fixture(scope="module")
def library(project: Path, resources: ExitStack) -> Library:
    return Library(project, resources)


@pytest.mark.parametrize("predictor", [name for name in BUILTIN if name not in AGENTS])
@pytest.mark.parametrize("filters", [ONLY, BOTH], ids=["one", "two"])
def test_the_library_filters_before_ranking(
    library: Library, predictor: str, filters: str | tuple[str, ...]
) -> None:
    """The page is not among the best of any branch, and every list of the filtered search holds it alone."""
    free = library().retrieve(QUERY, predictor, 3)
    assert {hit.source for hit in free.hits} <= {f"plums/{n:02}.md" for n in range(40)} | {"plums.md"}
    found = library().retrieve(QUERY, predictor, 3, filters=filters)
    assert {hit.source for hit in found.hits} == {"guide/route.md"}
    for stage in found.trace:
        if not stage.stage.startswith("tree step"):
            assert {re.split("[#@:]", key)[0] for key in stage.keys} == {"guide/route.md"}, stage.stage


@pytest.mark.parametrize("predictor", [name for name in BUILTIN if name not in AGENTS])
def test_the_command(project: Path, library: Library, predictor: str) -> None:
    words = [word for each in BOTH for word in ("--filter", each)]
    hits = Command(project).hits("retrieve", "--predictor", predictor, *words, QUERY)
    expected = [hit.id for hit in library().search(QUERY, predictor, filters=BOTH)]
    assert [hit["id"] for hit in hits] == expected != []


def test_http_filters_and_refuses_an_unknown_key(library: Library, resources: ExitStack) -> None:

    workers = Workers(1, 8)
    service = Service(library(), ("local",))
    with running(application(service, workers, Access())) as server:
        status, _, body = server.send(post(asking(QUERY, filters=list(BOTH))))
        assert status == 200
        assert {hit["source"] for hit in json.loads(body)["hits"]} == {"guide/route.md"}
        status, _, body = server.send(post(asking(QUERY, filters=["title=x"])))
        assert (status, json.loads(body)["error"]["code"]) == (422, "filter")


@pytest.mark.parametrize(("tool", "argument"), TOOLS.items())
def test_mcp(library: Library, resources: ExitStack, tool: str, argument: str) -> None:
    mcp = Mcp(library, resources)
    assert "guide/route.md" not in mcp(tool, limit=3, **{argument: QUERY}).paths
    answer = mcp(tool, **{argument: QUERY}, filters=list(BOTH))
    assert set(answer.paths) == {"guide/route.md"}
    assert answer.count[0] == 1
    refused = mcp(tool, **{argument: QUERY}, filters=["title=x"])
    assert refused.is_error
    assert "no known key" in refused.text


def test_document_search(project: Path, library: Library) -> None:
    command = Command(project)
    hits = command.hits("search", "--filter", ONLY, QUERY)
    assert [hit["source"] for hit in hits] == ["guide/route.md"]
    assert [hit.source for hit in library().search_documents(QUERY, "keyword", filters=ONLY)] == [
        "guide/route.md"
    ]


@pytest.mark.parametrize("verb", ["retrieve", "hybrid", "search", "benchmark"])
def test_an_unknown_key_is_an_error_of_every_command(project: Path, verb: str, tmp_path: Path) -> None:
    words = ["--reports", tmp_path, "--questions", asked(tmp_path)] if verb == "benchmark" else [QUERY]
    result = Command(project)(verb, "--filter", "title=x", *words)
    assert result.exit_code == errors.UsageError.exit_code
    assert "no known key" in result.stderr
    assert "fix: " in result.stderr


def asked(folder: Path) -> Path:
    lines = [
        {"id": "inside", "question": QUERY, "source_file": "guide/route.md", "gold_level": "file"},
        {"id": "outside", "question": "plum 7", "source_file": "plums/07.md", "gold_level": "file"},
    ]
    return write_lines(folder / "questions.jsonl", lines)


def bench(project: Path, folder: Path, *words: object) -> Path:
    result = Command(project)(
        "benchmark", "--reports", folder / "reports", "--questions", asked(folder), "--latency-sample", 0,
        "--quiet", "--hybrid-no-llm", *words,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    (run,) = (folder / "reports").iterdir()
    return run


def test_a_benchmark_searches_the_filtered_documents_and_says_so(project: Path, tmp_path: Path) -> None:
    run = bench(project, tmp_path, "--predictor", "local", "--predictor", "grep", *("--filter", ONLY))
    rows = json_lines(run / "rows.jsonl")
    assert {hit["source"] for row in rows for hit in row["hits"]} == {"guide/route.md"}
    record = json.loads((run / "run.json").read_text())
    assert record["filters"] == [ONLY]
    report = (run / "report.md").read_text()
    assert f"{ONLY}: 1 of 2 answerable questions" in report
    assert Run.load(run).verify().findings == ()


def test_verify_reports_a_hit_that_does_not_match_the_filters(project: Path, tmp_path: Path) -> None:
    run = bench(project, tmp_path, "--predictor", "local")
    record = run / "run.json"
    record.write_text(record.read_text().replace('"filters": []', f'"filters": ["{ONLY}"]'))
    assert any(finding.file == "run.json" for finding in Run.load(run).verify().findings)
    record.write_text(record.read_text().replace(ONLY, "title=x"))
    with pytest.raises(errors.RunError, match="no known key"):
        Run.load(run)


def test_a_filtered_run_is_resumed_with_its_filter_only(project: Path, tmp_path: Path) -> None:
    run = bench(project, tmp_path, "--predictor", "local", "--filter", ONLY)
    rows = (run / "rows.jsonl").read_bytes()
    record = run / "run.json"
    record.write_text(record.read_text().replace('"status": "finished"', '"status": "running"'))
    (run / "rows.jsonl").write_bytes(rows.splitlines(keepends=True)[0])
    other = Command(project)(
        "benchmark", "--reports", tmp_path / "reports", "--questions", asked(tmp_path), "--latency-sample", 0,
        "--quiet", "--predictor", "local",
    )  # fmt: skip
    assert other.exit_code == 0
    assert len(list((tmp_path / "reports").iterdir())) == 2, "another plan is another run"
    resumed = invoke("resume", run, "--data-dir", project / "data", "--quiet")
    assert resumed.exit_code == 0, resumed.output
    assert (run / "rows.jsonl").read_bytes() == rows


def test_a_predictor_with_its_own_search_refuses_filters(library: Library, tmp_path: Path) -> None:
    def mine(query: str, k: int) -> list[object]:
        return []

    with pytest.raises(errors.UsageError, match="mine is not"):
        library().benchmark(["local", mine], questions=asked(tmp_path), filters=ONLY)


@pytest.mark.parametrize(
    ("pattern", "source", "admitted"),
    [
        ("guide/a.md", "guide/a.md", True),
        ("guide/a.md", "guide/a.md.txt", False),
        ("guide/*.md", "guide/a.md", True),
        ("guide/*.md", "guide/a.rst", False),
        ("guide/[a].md", "guide/[a].md", True),
        ("Guide/a.md", "guide/a.md", False),
    ],
)
def test_a_filter_is_the_path_itself_or_a_glob(pattern: str, source: str, admitted: bool) -> None:
    for key in ("file_path", "source"):
        (found,) = read_filters(f"{key}={pattern}")
        assert found.admits(source) == admitted


def test_a_filter_needs_a_value_and_a_typo_gets_a_suggestion() -> None:
    for text in ("file_path", "file_path="):
        with pytest.raises(UsageError, match="has no value"):
            read_filters(text)
    with pytest.raises(UsageError, match="did you mean `file_path`"):
        read_filters("filepath=a.md")
