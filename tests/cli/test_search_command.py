"""``branchrank search`` and ``branchrank calibrate`` over a small workspace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.small_index import small_workspace

from branchrank.cli.main import main
from branchrank.index.build import build_index
from branchrank.index.workspace_folder import WorkspaceFolder, configure

QUESTIONS = ("How do I clear the cache?", "How often is a request sent again?", "How do I roll back?")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("search")
    made = small_workspace(folder)
    build_index(made).close()
    lines = [
        {
            "id": f"q{number}",
            "question": question,
            "source_file": "cache.rst",
            "answer_line_start": 1,
            "answer_line_end": 2,
        }
        for number, question in enumerate(QUESTIONS)
    ]
    made.questions_path.parent.mkdir(parents=True)
    made.questions_path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return made.data_dir


@pytest.fixture(scope="module")
def embedding(workspace: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same workspace, with an ``[embedding]`` section."""
    folder = tmp_path_factory.mktemp("embedding")
    made = small_workspace(folder)
    configure(made.data_dir, settings={"embedding.model": "fake:64"})
    build_index(WorkspaceFolder.open(made.data_dir, environment={})).close()
    return made.data_dir


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def found(result: Result) -> list[dict]:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["results"]


def test_keyword_search_needs_no_embedding(workspace: Path) -> None:
    results = found(run("search", "max_retries", "--data-dir", workspace, "--json"))
    assert results[0]["source"] == "http/client.rst"
    assert "max_retries" in results[0]["members"][0]["text"]
    assert results[0]["notes"]["fts5"].endswith(", exact")


def test_partial_words_match(workspace: Path) -> None:
    results = found(run("search", "HttpCl", "--data-dir", workspace, "--json"))
    assert results[0]["source"] == "http/client.rst"
    assert results[0]["notes"]["fts5"].endswith(", partial")


@pytest.mark.parametrize("mode", ["semantic", "hybrid"])
def test_without_an_embedding_section_the_error_shows_one(workspace: Path, mode: str) -> None:
    result = run("search", "clear the cache", "--mode", mode, "--data-dir", workspace)
    assert result.exit_code == 2
    assert "[embedding]" in result.stderr
    assert "model =" in result.stderr


@pytest.mark.parametrize("mode", ["keyword", "semantic", "hybrid"])
def test_every_mode_scores_in_the_unit_interval(embedding: Path, mode: str) -> None:
    results = found(run("search", "clear the cache pool", "--mode", mode, "--data-dir", embedding, "--json"))
    scores = [result["score"] for result in results]
    assert scores == sorted(scores, reverse=True)
    assert scores
    assert all(0.0 <= score <= 1.0 for score in scores)
    assert len({result["source"] for result in results}) == len(results)


def test_explain_shows_every_part(embedding: Path) -> None:
    plain = run("search", "clear the cache", "--mode", "hybrid", "--data-dir", embedding)
    explained = run("search", "clear the cache", "--mode", "hybrid", "--explain", "--data-dir", embedding)
    assert plain.stdout.startswith(" 1. cache.rst")
    assert "vector rank" not in plain.stdout
    for part in ("keyword rank 1", "vector rank", "BM25"):
        assert part in explained.stdout


def test_settings_are_flags(embedding: Path) -> None:
    arguments = ("search", "cache", "--mode", "hybrid", "--data-dir", embedding, "--json")
    limited = found(run(*arguments, "--retrieval-final-limit", "1"))
    assert len(limited) == 1
    keyword_only = found(run(*arguments, "--hybrid-alpha", "0"))
    assert all(set(chunk["branches"]) == {"fts5"} for hit in keyword_only for chunk in hit["members"])


def test_no_query_causes_an_error(workspace: Path) -> None:
    for query in ('" OR 1', "NEAR(", "*", "a" * 10_240, "😀", "--", "col:x", "\x1b[31m"):
        assert run("search", "--data-dir", workspace, "--", query).exit_code == 0, query


def test_an_empty_result_is_reported(workspace: Path) -> None:
    assert run("search", "zzzzqqq", "--data-dir", workspace).stdout == "nothing found\n"


def test_calibrate_suggests_a_threshold_that_keeps_the_branch(workspace: Path) -> None:
    result = run("calibrate", "--data-dir", workspace, "--grep-vector-score-threshold", "0.01")
    assert result.exit_code == 0, result.output
    assert "3 questions get no chunk" in result.stdout
    suggested = result.stdout.rpartition("vector_score_threshold = ")[2].strip()
    again = run("calibrate", "--data-dir", workspace, "--grep-vector-score-threshold", suggested, "--json")
    assert json.loads(again.stdout)["losing"] == 0


def test_calibrate_needs_questions(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_text('{"id": "q", "question": "Why?", "answerable": false}\n')
    result = run("calibrate", "--data-dir", workspace, "--questions", tmp_path / "none.jsonl")
    assert result.exit_code == 3
    assert "no answerable question" in result.stderr
