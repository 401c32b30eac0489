"""A run directory is data: without --trust, resuming it reaches nothing outside the workspace.

Every test doctors the ``run.json`` of an interrupted run, resumes it, and looks at what was reached.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.commands import benchmark, invoke, make_project
from support.loopback import RawServer, says

from branchrank.runs import directory as names

KEYS = ("BRANCHRANK_LLM_KEY", "OPENAI_API_KEY", "BRANCHRANK_API_TOKEN", "BRANCHRANK_QDRANT_KEY")
CANARY = "sk-canary-0123456789"
Doctored = dict[str, Any]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("untrusted"))


@pytest.fixture(scope="module")
def finished(project: Path) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project)  # the record names the workspace from here
        return benchmark(project, "--predictor", "local")


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[RawServer]:
    """Accepts connections, keeps what was sent, and answers nothing."""
    for name in KEYS:
        monkeypatch.setenv(name, CANARY)
    made = RawServer(says(b""))
    yield made
    made.close()


@pytest.fixture
def doctored(
    finished: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[Doctored], None]], Path]:
    """Makes an interrupted run in the project's ``reports`` whose ``run.json`` was changed."""
    monkeypatch.chdir(project)

    def make(change: Callable[[Doctored], None]) -> Path:
        directory = tmp_path / "reports" / "20260101T000000Z-benchmark-42"
        directory.mkdir(parents=True)
        for name in (names.QUESTIONS, names.ROWS):
            lines = (finished / name).read_bytes().splitlines(keepends=True)
            (directory / name).write_bytes(b"".join(lines[:1] if name == names.ROWS else lines))
        run = json.loads((finished / names.RUN_JSON).read_bytes())
        run |= {"status": "running", "digests": {}}
        change(run)
        (directory / names.RUN_JSON).write_text(json.dumps(run))
        return directory

    return make


def test_no_class_of_an_untrusted_run_is_imported(doctored: Any, project: Path) -> None:
    canary = project / "imported"
    (project / "planted.py").write_text(
        f"open({str(canary)!r}, 'w').close()\n"
        "class Planted:\n    def retrieve(self, query, k):\n        return []\n"
    )

    def change(run: Doctored) -> None:
        run["predictors"].append(
            {"name": "planted:Planted", "llm": "none", "index": "", "origin": "planted:Planted"}
        )
        run["command"] = "branchrank benchmark --predictor planted:Planted --latency-sample 0"

    directory = doctored(change)
    resumed = invoke("resume", directory)
    assert not canary.exists()
    assert resumed.exit_code == 3, resumed.output
    assert "- predictor planted:Planted" in resumed.stderr
    assert "--trust" in resumed.stderr


def llm_at(url: str, name: str = "hybrid") -> Callable[[Doctored], None]:
    """Gives the run a system that reranks with an LLM at ``url``."""

    def change(run: Doctored) -> None:
        system = run["predictors"][0]["system"]
        system |= {"name": name, "rerank": {"method": "llm"}, "llm": {"base_url": url, "model": "m"}}
        run["predictors"][0] |= {"name": name, "llm": "m"}
        if name == "hybrid":
            run["settings"]["hybrid"] |= {"base_url": url, "model": "m"}

    return change


def test_an_llm_endpoint_of_an_untrusted_run_is_not_called(doctored: Any, listener: RawServer) -> None:
    url = f"http://{listener.address}/v1"
    resumed = invoke("resume", doctored(llm_at(url)))
    assert listener.requests == []
    assert resumed.exit_code == 3, resumed.output
    assert f"- LLM endpoint {url}" in resumed.stderr


LEADING_OUT = {
    "Chroma server http://{}": ("index", {"vector_store": "chroma", "chroma_url": "http://{}"}),
    "embedding endpoint http://{}": ("index", {"embedder": "openai:m", "embedding_url": "http://{}"}),
    "embedding model ollama:m": ("index", {"embedder": "ollama:m", "embedding_url": "http://{}"}),
    "embedding model someone/model": ("index", {"embedder": "someone/model"}),
    "embedding model /somewhere/model": ("index", {"embedder": "/somewhere/model"}),
    "embedding endpoint http://{}/second": (
        "second",
        {"embedder": "openai:m", "embedding_url": "http://{}/second"},
    ),
    "Redis redis://{}/0": ("cache", {"redis_url": "redis://{}/0"}),
    "Qdrant server http://{}": ("qdrant", {"url": "http://{}"}),
}


@pytest.mark.parametrize("listed", LEADING_OUT)
def test_no_server_or_model_of_an_untrusted_run_is_reached(
    doctored: Any, listener: RawServer, listed: str
) -> None:
    section, values = LEADING_OUT[listed]
    values = {name: value.format(listener.address) for name, value in values.items()}

    def change(run: Doctored) -> None:
        if section == "second":  # an index of an experiment
            run["index_settings"]["second"] = values
            run["predictors"][0]["index"] = "second"
            return
        run["settings"][section] |= values
        if section == "index":
            run["index_settings"]["default"] |= values
        if section == "qdrant":
            run["predictors"][0]["system"]["branches"] = [{"kind": "qdrant-dense"}, {"kind": "qdrant-sparse"}]

    refused = invoke("resume", doctored(change))
    assert listener.requests == []
    assert refused.exit_code == 3, refused.output
    assert f"- {listed.format(listener.address)}\n" in refused.stderr


@pytest.mark.parametrize("name", ["record", "replay", "price_table"])
def test_no_file_of_an_untrusted_run_is_opened(doctored: Any, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside" / "file"
    outside.parent.mkdir()
    if name != "record":
        outside.write_text("private words")

    def change(run: Doctored) -> None:
        system = run["predictors"][0]["system"]
        system |= {"rerank": {"method": "llm"}, "llm": {"base_url": "", "model": "m"}}
        run["settings"]["llm"][name] = str(outside)

    refused = invoke("resume", doctored(change))
    assert refused.exit_code == 3, refused.output
    assert f"{outside}" in refused.stderr
    assert "private" not in refused.output
    assert [path.name for path in outside.parent.iterdir()] == ([] if name == "record" else ["file"])


def test_no_workspace_of_an_untrusted_run_is_opened(doctored: Any, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "benchmark").mkdir(parents=True)
    (other / "branchrank.toml").write_text("private words")
    directory = doctored(lambda run: run.update(data_dir=str(other)))
    refused = invoke("resume", directory)
    assert refused.exit_code == 3
    assert f"- workspace {other}" in refused.stderr
    assert "TOML" not in refused.output, "the file was read"
    assert sorted(path.name for path in other.rglob("*")) == ["benchmark", "branchrank.toml"]


def test_the_recorded_command_is_never_executed(doctored: Any, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    command = f"branchrank benchmark --predictor local; touch {canary} $(touch {canary}) `touch {canary}` 'x"
    directory = doctored(lambda run: run.update(command=command))
    resumed = invoke("resume", directory)
    assert resumed.exit_code == 0, resumed.output
    assert not canary.exists()
    assert json.loads((directory / names.RUN_JSON).read_bytes())["command"] == command


def test_an_api_endpoint_is_called_only_if_the_run_is_trusted(doctored: Any, listener: RawServer) -> None:
    url = f"http://{listener.address}/retrieve"

    def change(run: Doctored) -> None:
        run["predictors"] = [{"name": "api", "llm": "none", "index": "", "origin": f"{url} hybrid"}]

    directory = doctored(change)
    refused = invoke("resume", directory)
    assert refused.exit_code == 3
    assert f"- HTTP endpoint {url}" in refused.stderr
    assert listener.requests == []
    invoke("resume", directory, "--trust")
    assert CANARY.encode() in listener.requests[0]


@pytest.mark.parametrize(("name", "keyed"), [("hybrid", True), ("mine", False)])
def test_only_the_endpoint_of_a_built_in_system_of_a_trusted_run_gets_the_key(
    doctored: Any, listener: RawServer, name: str, keyed: bool
) -> None:
    url = f"http://{listener.address}/v1"
    resumed = invoke("resume", doctored(llm_at(url, name)), "--trust")
    assert resumed.exit_code == 7, resumed.output
    assert listener.requests
    assert (CANARY.encode() in b"".join(listener.requests)) == keyed


@pytest.mark.parametrize("name", [names.ROWS, names.RUN_JSON, names.QUESTIONS, names.PLOTS, "deep/link"])
def test_a_link_in_a_run_is_not_followed(doctored: Any, tmp_path: Path, name: str) -> None:
    directory = doctored(lambda run: None)
    outside = tmp_path / "outside"
    outside.mkdir()
    target = outside / "file"
    if name == names.PLOTS:
        target = outside
    elif (directory / name).exists():
        (directory / name).rename(target)
    else:
        target.write_text("kept")
        (directory / name).parent.mkdir()
    before = {path: path.read_bytes() for path in outside.iterdir()}
    (directory / name).symlink_to(target)
    refused = invoke("resume", directory)
    assert refused.exit_code == 3
    assert f"{directory / name} is not" in refused.stderr
    assert {path: path.read_bytes() for path in outside.iterdir()} == before


def test_an_interrupted_run_with_a_link_is_not_resumed_by_a_benchmark(
    doctored: Any, project: Path, tmp_path: Path
) -> None:
    directory = doctored(lambda run: None)
    outside = tmp_path / "outside"
    (directory / names.ROWS).rename(outside)
    before = outside.read_bytes()
    (directory / names.ROWS).symlink_to(outside)
    made = benchmark(project, "--predictor", "local", reports=directory.parent)
    assert made != directory
    assert outside.read_bytes() == before


def within(*path: Any) -> Callable[[Any], Callable[[Doctored], None]]:
    """Sets one value of a run's record."""

    def setting(value: Any) -> Callable[[Doctored], None]:
        def change(run: Doctored) -> None:
            place: Any = run
            for step in path[:-1]:
                place = place[step]
            place[path[-1]] = value

        return change

    return setting


SYSTEM = ("predictors", 0, "system")
ABSURD: dict[str, Callable[[Doctored], None]] = {
    "negative seed": within("seed")(-1),
    "seed of 400 digits": within("settings", "benchmark", "sample_seed")(10**400),
    "a billion hits": within("settings", "benchmark", "top_k")(10**9),
    "huge sample": within("settings", "benchmark", "sample_size")(10**12),
    "no repeats": within("predictors", 0, "repeats")(0),
    "settings of another type": within("settings")([1]),
    "a setting of another type": within("settings", "bm25", "k1")([[]]),
    "an unknown setting": within("settings", "bm25", "k9")(1),
    "unknown measure": within("settings", "benchmark", "primary")("nonsense"),
    "unknown baseline": within("settings", "benchmark", "baseline")("nobody"),
    "no predictors": within("predictors")([]),
    "a system without branches": within(*SYSTEM, "branches")([]),
    "an unknown slot": within(*SYSTEM, "slot")({}),
    "another name": within(*SYSTEM, "name")("else"),
    "an index that is not there": within("predictors", 0, "index")("other"),
    "no index settings": within("index_settings")({}),
    "tiny chunks": within("index_settings", "default", "chunk_tokens")(-1),
    "other chunks": within("index_settings", "default", "chunk_tokens")(33),
    "a workspace with a null byte": within("data_dir")("a\x00b"),
    "a schema from elsewhere": within("schema_version")("new"),
    "a question that is not there": within("question_ids")(["none"]),
    "an origin without a name": within("predictors", 0)({"name": "x", "llm": "none", "origin": ""}),
    "deep nesting": within("settings", "bm25", "k1")(json.loads("[" * 500 + "]" * 500)),
}


@pytest.mark.parametrize("kind", ABSURD)
def test_an_absurd_run_record_is_an_error(doctored: Any, kind: str) -> None:
    directory = doctored(ABSURD[kind])
    before = (directory / names.ROWS).read_bytes()
    refused = invoke("resume", directory)
    assert refused.exit_code == (4 if kind == "other chunks" else 3), refused.output
    assert "fix: " in refused.stderr
    assert (directory / names.ROWS).read_bytes() == before
