"""``advise --write``: a system of a run becomes the default of its workspace, behind every door."""

from __future__ import annotations

import asyncio
import json
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from support.commands import invoke, write_lines
from support.front_doors import make_indexed
from support.http_server import CLIENT, asking, post, running
from support.local_page import page_of
from support.worlds import PAGES

from branchrank import Run, Workspace, library
from branchrank.frontends.cli import servers
from branchrank.frontends.serve import mcp as mcp_module
from branchrank.runs.directory import find_run

QUERY = "how do I configure the cache"
EXPERIMENT = """\
name = "choice"
data_dir = "data"
questions = "questions.jsonl"
[benchmark]
latency_sample = 0
[systems.local]
fuse.k = 3
branches.bm25.weight = 4.0
[systems.sections]
branches = [{ kind = "bm25", unit = "node", top_n = 7 }]
fuse.method = "none"
returns = "section"
[systems.narrow]
from = "hybrid"
index = "small"
passages.lines = 4
rerank.method = "none"
[systems.grep]
[systems.qdrant-dense]
branches = [{ kind = "dense", threshold = 1.9 }]
[indexes.small]
embedder = "fake:32"
chunk_tokens = 32
bm25.k1 = 2.0
"""
CONFIG = """\
# My notes.
corpus = "../docs"   # the documents

[local]
rrf_k = 20  # tuned

[index]
embedder = "fake:64"
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a workspace and a run."""
    folder = tmp_path_factory.mktemp("choice")
    make_indexed(folder, PAGES, CONFIG, embedder=None)
    sources = sorted(PAGES)
    asked = [
        {"question": f"{QUERY} {number}", "source_file": source, "gold_level": "file"}
        for number, source in enumerate(sources)
    ]
    write_lines(folder / "questions.jsonl", asked)
    (folder / "experiment.toml").write_text(EXPERIMENT)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("BRANCHRANK_GREP_CONTEXT_LINES", "0")
        done = invoke("run", "experiment.toml", "--quiet")
        assert done.exit_code == 0, done.output
    return folder


@pytest.fixture
def folder(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    own = Path(shutil.copytree(finished, tmp_path / "own", symlinks=True))
    monkeypatch.chdir(own)
    return own


def hits_of(answer: Any) -> list[tuple[Any, ...]]:
    return [(hit["source"], hit["line_start"], hit["line_end"]) for hit in answer["hits"]]


def served(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> tuple[str, list[tuple[Any, ...]]]:
    """The predictor and the hits of a request to ``branchrank serve`` that names no predictor."""
    bodies = []

    def serve_once(app: Any, *_: object) -> None:
        with running(app) as server:
            bodies.append(json.loads(server.send(post(asking(text, top_k=5)))[2]))

    monkeypatch.setattr(servers, "_run", serve_once)
    done = invoke("serve", "--data-dir", folder / "data", "--quiet")
    assert done.exit_code == 0, done.output
    return bodies[0]["predictor"], hits_of(bodies[0])


def called(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> list[tuple[Any, ...]]:
    """The places of MCP's ``predictor_search`` without a predictor."""
    made, places = [], []
    plain = mcp_module.mcp_server

    def kept(*given: Any) -> Any:
        made.append(plain(*given))
        return made[0]

    async def ask() -> None:
        async with Client(made[0]) as client:
            answer = await client.call_tool("predictor_search", {"query": text, "limit": 5})
            places.extend(answer.structured_content["results"])

    monkeypatch.setattr(mcp_module, "mcp_server", kept)
    monkeypatch.setattr(servers, "_run", lambda *_: asyncio.run(ask()))
    done = invoke("mcp", "--transport", "http", "--data-dir", folder / "data", "--quiet")
    assert done.exit_code == 0, done.output
    return [(each["path"], each["line_start"], each["line_end"]) for each in places]


@pytest.mark.parametrize(
    "name",
    [
        "sections",
        "narrow",
        "grep",
        *(pytest.param(x, marks=pytest.mark.full) for x in ("local", "qdrant-dense")),
    ],
)
def test_every_door_answers_with_the_written_system(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    run = Run.load(find_run(Path("latest")))
    rows = [row for row in run.rows if row.predictor == name]
    texts = {each.id: each.question for each in run.asked}
    done = invoke("advise", "latest", "--predictor", name, "--write")
    assert done.exit_code == 0, done.output
    for row in rows:
        text = texts[row.question_id]
        answer = json.loads(invoke("retrieve", "--json", "--quiet", text).stdout)
        expected = [(hit.source, hit.line_start, hit.line_end) for hit in row.hits[:5]]
        assert (answer["predictor"], hits_of(answer)) == (name, expected)
    assert served(monkeypatch, folder, text) == (name, expected)
    assert called(monkeypatch, folder, text) == expected
    with page_of(folder) as page:
        query = {"params": {"query": text}, "headers": {"x-branchrank": "page"}}
        shown = CLIENT.get(f"{page.url}/api/search", **query).json()  # type: ignore[arg-type]
    places = [(hit["source"], hit["first"], hit["last"]) for hit in shown["hits"][:5]]
    assert (shown["predictor"], places) == (name, expected)
    assert (
        invoke(
            "benchmark",
            "--predictor",
            name,
            "--questions",
            "questions.jsonl",
            "--latency-sample",
            "0",
            "--quiet",
        ).exit_code
        == 0
    )
    again = Run.load(find_run(Path("latest")))
    assert again.record.predictors[0].system == next(
        each.system for each in run.record.predictors if each.name == name
    )


def test_the_table_is_printed_and_only_write_changes_the_file(folder: Path) -> None:
    path = folder / "data" / "branchrank.toml"
    before = path.read_text()
    printed = invoke("advise", "latest", "--predictor", "narrow").stdout
    assert path.read_text() == before
    table = tomllib.loads(printed[printed.index("[index]") :])
    assert table["index"] == {"embedder": "fake:32", "chunk_tokens": 32}
    assert table["bm25"] == {"k1": 2.0}
    assert table["system"]["passages"]["lines"] == 4
    assert "written" not in table["system"]
    first = invoke("advise", "latest", "--predictor", "narrow", "--write").stdout
    assert "instead of" not in first
    own = tomllib.loads(path.read_text())
    assert own == {
        **tomllib.loads(before),
        **table,
        "index": {**tomllib.loads(before)["index"], **table["index"]},
    }
    assert path.read_text().startswith(before[: before.index("[index]")])
    assert "instead of narrow" in invoke("advise", "latest", "--predictor", "local", "--write").stdout
    assert tomllib.loads(path.read_text())["system"]["name"] == "local"
    assert invoke("settings").exit_code == 0
    with Workspace.open("data") as workspace:
        assert workspace.default_predictors("bm25") == ("local", "bm25")
    path.write_text(path.read_text().replace('kind = "dense"', 'kind = "dens"'))
    wrong = invoke("retrieve", QUERY)
    assert (wrong.exit_code, "'dens'" in wrong.stderr) == (2, True)


def test_line_ends_permissions_and_links_are_kept(folder: Path) -> None:
    link, file = folder / "data" / "branchrank.toml", folder / "own.toml"
    file.write_bytes(link.read_bytes().replace(b"\n", b"\r\n"))
    file.chmod(0o664)
    link.unlink()
    link.symlink_to(file)
    assert invoke("advise", "latest", "--predictor", "local", "--write").exit_code == 0
    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o664
    assert tomllib.loads(file.read_text())["system"]["name"] == "local"
    lines = file.read_bytes().splitlines(keepends=True)
    assert {line[-2:] for line in lines} == {b"\r\n"}


def test_what_only_a_strangers_run_names_needs_trust(folder: Path) -> None:
    path = folder / "data" / "branchrank.toml"
    before = path.read_text()
    [record] = Path("reports").glob("*/run.json")
    stored = json.loads(record.read_text())
    for each in stored["predictors"]:
        each["system"]["llm"] = {"base_url": "http://llm.example:1/v1", "model": "m"}
    record.write_text(json.dumps(stored))
    words = ("advise", "latest", "--predictor", "local")
    assert "http://llm.example:1/v1" in invoke(*words).stdout
    refused = invoke(*words, "--write")
    assert (refused.exit_code, path.read_text()) == (3, before)
    assert "LLM endpoint http://llm.example:1/v1" in refused.stderr
    assert "--trust" in refused.stderr
    assert invoke(*words, "--write", "--trust").exit_code == 0
    assert tomllib.loads(path.read_text())["system"]["llm"]["base_url"] == "http://llm.example:1/v1"
    stored["data_dir"] = "other"
    record.write_text(json.dumps(stored))
    assert "workspace other" in invoke(*words, "--write").stderr
    assert invoke(*words, "--write", "--trust", "--data-dir", "data").exit_code == 0
    assert invoke(*words, "--write", "--data-dir", "reports").exit_code == 3


def test_without_a_recommendation_nothing_is_written(folder: Path) -> None:
    before = (folder / "data" / "branchrank.toml").read_text()
    [advice] = library.advise([find_run(Path("latest"))])
    refused = invoke("advise", "latest", "--write")
    assert (advice.system, refused.exit_code) == ("", 2)
    assert "--predictor" in refused.stderr
    assert invoke("advise", "latest").exit_code == 0
    assert invoke("advise", "latest", "--predictor", "locla", "--write").exit_code == 2
    assert (folder / "data" / "branchrank.toml").read_text() == before
