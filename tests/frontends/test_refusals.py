"""What can't be done is refused before any work: a message, a remedy, an exit code, and no traceback."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from support.commands import NO_LLM, benchmark, invoke, make_project, table, write_lines
from support.worlds import write_pages

from branchrank.core.settings import (
    Bm25Settings,
    HybridSettings,
    LocalSettings,
    PageindexSettings,
    settings_of,
)
from branchrank.frontends.cli import options
from branchrank.index.workspace_folder import configure
from branchrank.runs.directory import read_run


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("refusals"))


@pytest.fixture
def unbuilt(tmp_path: Path) -> Path:
    """A workspace without an index, so that work which was begun would show."""
    write_pages(tmp_path / "docs")
    configure(tmp_path / "data", corpus=tmp_path / "docs", settings={"index.embedder": "fake:64"})
    return tmp_path


@pytest.mark.parametrize(("cap", "warned"), [(0, 1), (19, 1), (20, 0), (50, 0), (51, 1)])
@pytest.mark.parametrize("verb", ["hybrid", "benchmark"])
def test_a_cap_outside_20_to_50_is_accepted_with_one_warning(
    project: Path, tmp_path: Path, verb: str, cap: int, warned: int
) -> None:
    words = ("tea",) if verb == "hybrid" else ("--predictor", "hybrid", "--reports", tmp_path, "--dry-run")
    result = invoke(verb, "--data-dir", project / "data", *words, "--hybrid-candidate-cap", cap)
    assert result.exit_code == 0, result.stderr
    assert result.stderr.count(f"warning: hybrid.candidate_cap = {cap}") == warned


@pytest.mark.parametrize(
    "words",
    [
        ("gate", ".", "--baseline", ".", "--delta"),
        ("compare", ".", ".", "--delta"),
        ("advise", ".", "--max-p95"),
        ("power", "--alpha"),
        ("power", "--page-variation"),
    ],
)
def test_what_is_no_number_is_refused(words: tuple[str, ...]) -> None:
    result = invoke(*words, "nan")
    assert (result.exit_code, f"'{words[-1]}': nan is not a number" in result.stderr) == (2, True)


RANGED = [
    (setting.flag, value)
    for part in (Bm25Settings, LocalSettings, HybridSettings, PageindexSettings)
    for setting in settings_of(part)
    if setting.low is not None
    for value in (setting.low - 1, *([setting.high + 1] if setting.high is not None else []))
]


def test_every_flag_refuses_values_outside_its_range(project: Path) -> None:
    assert len(RANGED) > 30
    for flag, value in RANGED:
        given = f"{value:.10g}"
        result = invoke("benchmark", "--data-dir", project / "data", *NO_LLM, f"{flag}={given}")
        assert result.exit_code == 2, flag
        assert flag in result.stderr
        assert f"(flag {flag}); allowed: " in result.stderr or "in the range" in result.stderr


def test_all_wrong_settings_are_reported_together_with_where_they_come_from(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRANCHRANK_LOCAL_RRF_K", "0")
    monkeypatch.setenv("BRANCHRANK_BM25_IDF", "tfidf")
    words = ("--local-vector-weight", -1, "--hybrid-candidate-cap", -5)
    result = invoke("benchmark", "--data-dir", project / "data", *NO_LLM, *words)
    assert result.exit_code == 2
    for part in (
        "local.rrf_k = '0' (environment BRANCHRANK_LOCAL_RRF_K); allowed: 1 to 100000",
        "bm25.idf = 'tfidf' (environment BRANCHRANK_BM25_IDF); allowed: lucene, robertson",
        "local.vector_weight = -1.0 (flag --local-vector-weight); allowed: 0 to 100",
        "hybrid.candidate_cap = -5",
    ):
        assert part in result.stderr


@pytest.mark.parametrize("predictor", ["hybrid", "pageindex", "all"])
def test_the_error_for_an_endpoint_without_a_model_shows_both_fixes(unbuilt: Path, predictor: str) -> None:
    endpoints = (
        "--hybrid-base-url",
        "http://127.0.0.1:9/v1",
        "--pageindex-base-url",
        "http://127.0.0.1:9/v1",
    )
    result = invoke("benchmark", "--data-dir", unbuilt / "data", "--predictor", predictor, *endpoints)
    assert result.exit_code == 2
    if predictor != "pageindex":
        assert "--hybrid-model" in result.stderr
        assert "--hybrid-no-llm" in result.stderr
    if predictor != "hybrid":
        assert "--pageindex-model" in result.stderr
        assert "--pageindex-no-llm" in result.stderr
    assert sorted(path.name for path in unbuilt.iterdir()) == ["data", "docs"]
    assert not (unbuilt / "data" / "indexes").exists()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--predictor", "support.predictors:Broken"), "no such model"),
        (("--predictor", "local", "--baseline", "nobody"), "nobody"),
        (("--predictor", "local", "--primary", "strict_nothing@1"), "nothing@1"),
        (("--predictor", "api", "--api-endpoint", "ftp://127.0.0.1/"), "not an HTTP URL"),
        (("--predictor", "api", "--api-endpoint", "127.0.0.1:8000"), "not an HTTP URL"),
        (("--predictor", "local", "--questions", "none.jsonl"), "none.jsonl"),
    ],
)
def test_inputs_are_checked_before_an_index_is_built(
    unbuilt: Path, words: tuple[str, ...], reason: str
) -> None:
    if "--questions" not in words:
        words = (*words, "--questions", write_lines(unbuilt / "questions.jsonl"))
    result = invoke("benchmark", "--data-dir", unbuilt / "data", *words)
    assert result.exit_code in (2, 3)
    assert reason in result.stderr
    assert not (unbuilt / "data" / "indexes").exists()


WRONG = {
    "unknown predictor": (("benchmark", "--predictor", "colbert"), 2, "no predictor is called 'colbert'"),
    "unknown verb": (("find",), 2, "No such command 'find'"),
    "unknown flag": (("retrieve", "--fast", "tea"), 2, "No such option"),
    "embedder of an experiment": (
        ("run", "x.toml", "--embedder", "fake"),
        2,
        "set embedder in [indexes.NAME] of the experiment or [index] of branchrank.toml",
    ),
    "branch of an experiment": (
        ("run", "x.toml", "--local-rrf-k", 3),
        2,
        "set rrf_k in [systems.NAME] of the",
    ),
    "setting elsewhere": (
        ("check", "--chunk-tokens", 99),
        2,
        "set chunk_tokens in [index] of branchrank.toml",
    ),
    "unknown choice": (("benchmark", "--mode", "loose"), 2, "'loose' is not one of"),
    "no number": (("retrieve", "--local-rrf-k", "many", "tea"), 2, "not a valid integer"),
    "no experiment": (("run", "none.toml"), 2, "no experiment file"),
    "no run": (("show", "none"), 3, "no run in none"),
    "no node": (("pageindex", "show", "none.md"), 3, "no node 'none.md'"),
    "no source": (("pageindex", "export", "none.md", "out.json"), 3, "cannot read 'none.md'"),
    "source outside": (("pageindex", "export", "../../etc/passwd", "out.json"), 3, "etc/passwd"),
    "no corpus": (("index", "nowhere"), 3, "nowhere"),
    "too large a sample": (
        ("benchmark", *NO_LLM, "--sample-size", 9),
        3,
        "a sample of 9 questions is not possible",
    ),
    "no endpoint": (("benchmark", "--predictor", "api"), 2, "--api-endpoint"),
    "unknown model": (("retrieve", "--embedder", "./no/such/model", "tea"), 6, "--embedder"),
}


@pytest.mark.parametrize(
    # To refuse a model, PyTorch is imported, which takes seconds.
    "kind",
    [pytest.param(kind, marks=pytest.mark.full if kind == "unknown model" else ()) for kind in WRONG],
)
def test_a_mistake_gives_a_message_and_a_fix_and_an_exit_code(
    project: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    if kind == "unknown model":
        pytest.importorskip("torch")
    words, code, reason = WRONG[kind]
    result = invoke(*words)
    assert result.exit_code == code, result.output
    assert reason in result.stderr
    assert "fix: " in result.stderr or "Usage: " in result.stderr
    assert "Traceback" not in result.output
    assert result.stdout == ""
    assert not (project / "reports").exists()


@pytest.mark.parametrize(
    ("content", "code", "reason"),
    [
        ("corpus = ", 2, "not TOML"),
        ("[lokal]\nrrf_k = 3\n", 2, "lokal"),
        ("[local]\nrrf = 3\n", 2, "no setting 'rrf'"),
        ("[local]\nrrf_k = 'x'\n", 2, "local.rrf_k = 'x'"),
        ("local = 3\n", 2, "local"),
        ("corpus = 3\n", 2, "corpus"),
        ("corpus = 'gone'\n", 3, "gone"),
        ("\x00", 2, "NUL bytes"),
    ],
)
def test_a_wrong_workspace_file_is_named(
    tmp_path: Path, content: str, code: int, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "branchrank.toml").write_text(content)
    result = invoke("retrieve", "tea")
    assert result.exit_code == code, result.output
    assert "branchrank.toml" in result.stderr or code == 3
    assert reason in result.stderr


def test_flags_override_the_environment_and_the_environment_overrides_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path)
    toml = project / "data" / "branchrank.toml"
    toml.write_text(toml.read_text() + "\n[local]\nrrf_k = 1\nvector_top_n = 11\nbm25_top_n = 21\n")
    monkeypatch.setenv("BRANCHRANK_LOCAL_RRF_K", "2")
    monkeypatch.setenv("BRANCHRANK_LOCAL_VECTOR_TOP_N", "12")
    made = benchmark(project, "--predictor", "local", "--local-rrf-k", 3)
    run = read_run(made)
    assert run.settings["local"]["rrf_k"] == 3
    assert run.settings["local"]["vector_top_n"] == 12
    assert run.settings["local"]["bm25_top_n"] == 21
    assert run.origins["local.rrf_k"] == "flag --local-rrf-k"
    assert run.origins["local.vector_top_n"] == "environment BRANCHRANK_LOCAL_VECTOR_TOP_N"
    assert run.origins["local.bm25_top_n"].endswith("branchrank.toml")
    [system] = [predictor.system for predictor in run.predictors]
    assert (system.fuse.k, system.branches[0].top_n, system.branches[1].top_n) == (3, 12, 21)
    listed = invoke("settings", "--data-dir", project / "data").stdout
    assert "vector_top_n = 12  (environment BRANCHRANK_LOCAL_VECTOR_TOP_N)" in listed
    assert table(made / "summary.csv")[0]["predictor"] == "local"


def test_a_dry_run_prints_the_plan_and_does_nothing(unbuilt: Path, tmp_path: Path) -> None:
    questions = make_project(tmp_path / "other") / "data" / "benchmark" / "questions.jsonl"
    reports = tmp_path / "reports"
    words = ("--questions", questions, "--dry-run", "--reports", reports, *NO_LLM)
    result = invoke("benchmark", "--data-dir", unbuilt / "data", "--predictor", "all", *words)
    assert result.exit_code == 0
    assert "benchmark: 8 questions" in result.stdout
    assert "has no index" in result.stdout
    for name in ("local", "pageindex", "hybrid"):
        assert f"{name} on index default: 8 queries" in result.stdout
    assert not reports.exists()
    assert not (unbuilt / "data" / "indexes").exists()


def test_a_flag_can_turn_off_a_setting_of_the_workspace(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    config = project / "data" / "branchrank.toml"
    config.write_text(config.read_text(encoding="utf-8") + "\n[hybrid]\nno_llm = true\n", encoding="utf-8")
    words = ("--hybrid-base-url", "http://127.0.0.1:9/v1", "--hybrid-model", "m")
    quiet = invoke("hybrid", "tea", "--data-dir", project / "data", *words)
    assert quiet.exit_code == 0, quiet.output
    asking = invoke("hybrid", "tea", "--data-dir", project / "data", *words, "--hybrid-llm")
    assert asking.exit_code == 7
    assert "127.0.0.1:9" in asking.stderr


def test_two_flags_for_one_setting_are_named() -> None:
    give = partial(options._give, "local.fusion")
    both = [click.Option([name], callback=give, expose_value=False) for name in ("--near", "--far")]
    command = click.Command("both", params=[*both], callback=lambda: None)
    result = CliRunner().invoke(command, ["--near", "rrf", "--far", "score"])
    assert result.exit_code == 2
    assert {"--near", "--far"} <= set(result.output.replace(":", " ").split())
    assert "--baseline" not in result.output
