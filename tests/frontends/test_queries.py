"""The two retrieval commands: one query, JSON, a prompt, and an index that is built when it is needed."""

from __future__ import annotations

import json
import os
import pty
import shutil
import sys
import time
from pathlib import Path

import chromadb.errors
import pytest
from support.commands import ROOT, invoke, make_project
from support.worlds import PAGES, write_pages

from branchrank.index import reader
from branchrank.index.workspace_folder import configure

VERBS = (("retrieve",), ("hybrid", "--no-llm"))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("queries"))


def asked(project: Path, verb: tuple[str, ...], *words: object, **options: object):
    result = invoke(*verb, "--data-dir", project / "data", *words, **options)
    assert result.exit_code == 0, result.output
    return result


def hits(project: Path, verb: tuple[str, ...], *words: object) -> list[dict]:
    return json.loads(asked(project, verb, "--json", *words).stdout)["hits"]


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_a_query_prints_the_place_and_text_of_each_hit(project: Path, verb: tuple[str, ...]) -> None:
    result = asked(project, verb, "baking soda removes stains")
    first = result.stdout.splitlines()
    assert first[0] == " 1. guide/cleaning.md:5-7  Cleaning > Removing stains"
    assert "score" in first[1]
    assert "tannin stains." in result.stdout
    assert result.stderr == ""


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_json_output_is_one_complete_object(project: Path, verb: tuple[str, ...]) -> None:
    query = "baking soda removes stains"
    answer = json.loads(asked(project, verb, "--json", query).stdout)
    assert answer["query"] == query
    assert answer["predictor"] == ("hybrid" if "hybrid" in verb else "local")
    assert answer["fallbacks"] == []
    assert answer["stage_ms"]["embed"] >= 0
    first = answer["hits"][0]
    assert (first["source"], first["line_start"], first["line_end"]) == ("guide/cleaning.md", 5, 7)
    assert first["node_id"] == "guide/cleaning.md#removing-stains"
    assert 0 <= first["distance"] <= 4
    assert {branch: place["rank"] for branch, place in first["branches"].items()}


@pytest.mark.parametrize("verb", [*VERBS, ("search",)], ids=" ".join)
def test_json_output_can_be_printed_and_loses_nothing(project: Path, verb: tuple[str, ...]) -> None:
    query = "tea \x9b31m \x7f \u202e \u2028 \ue000 \U000e0041 \U0001f375 caf\xe9"
    printed = asked(project, verb, "--json", query).stdout
    assert json.loads(printed)["query"] == query
    assert {letter for letter in printed if not letter.isprintable()} == {"\n"}
    assert "\U0001f375 caf\xe9" in printed


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_top_k_is_5_and_a_smaller_top_k_gives_a_prefix(project: Path, verb: tuple[str, ...]) -> None:
    usual = hits(project, verb, "tea temperature")
    assert len(usual) == 5
    assert hits(project, verb, "tea temperature", "--top-k", 2) == usual[:2]
    assert hits(project, verb, "tea temperature", "--top-k", 1000)[:5] == usual


@pytest.mark.parametrize(
    "code", [8, 13, *(pytest.param(code, marks=pytest.mark.full) for code in (14, 1544, 778))]
)
def test_chroma_on_a_full_or_read_only_disk_is_replaced_by_exact_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    write_pages(tmp_path / "docs")
    words = ("--embedder", "fake:16", "--vector-store", "chroma", "--quiet")
    assert invoke("index", tmp_path / "docs", "--data-dir", tmp_path / "data", *words).exit_code == 0
    expected = hits(tmp_path, ("retrieve",), "tea temperature")

    def unwritable(**_options: object) -> None:
        raise chromadb.errors.InternalError(f"error returned from database: (code: {code}) not writable")

    monkeypatch.setattr(chromadb, "PersistentClient", unwritable)
    found = asked(tmp_path, ("retrieve",), "--json", "tea temperature")
    assert json.loads(found.stdout)["hits"] == expected
    assert "not writable" in found.stderr
    assert "fix: " not in found.stderr
    assert invoke("check", "--data-dir", tmp_path / "data").exit_code == 0
    assert invoke("index", tmp_path / "docs", "--data-dir", tmp_path / "more", *words).exit_code == 8


@pytest.mark.parametrize("count", [0, -1, 1001, "many"])
def test_an_invalid_number_of_hits_is_refused(project: Path, count: object) -> None:
    result = invoke("retrieve", "--data-dir", project / "data", "--top-k", count, "tea")
    assert result.exit_code == 2
    assert "--top-k" in result.stderr


def test_return_section_gives_the_whole_section_and_passage_a_chunk(tmp_path: Path) -> None:
    long = (
        "# Long\n\n## Boiling\n\n" + "\n\n".join(f"Paragraph {n} of boiling water." for n in range(90)) + "\n"
    )
    project = make_project(tmp_path, {"long.md": long, "other.md": PAGES["guide/cleaning.md"]})
    verb = ("hybrid", "--no-llm")
    passage = hits(project, verb, "boiling water paragraph")[0]
    section = hits(project, verb, "boiling water paragraph", "--return", "section")[0]
    assert section["node_id"] == passage["node_id"] == "long.md#boiling"
    assert (section["line_start"], section["line_end"]) == (3, 183)
    assert section["line_start"] <= passage["line_start"] <= passage["line_end"] <= section["line_end"]
    assert len(passage["text"]) < len(section["text"])
    assert passage["text"] in section["text"] or passage["text"].split()[0] in section["text"]
    chunk = hits(project, ("retrieve",), "boiling water paragraph", "--return", "section")[0]
    assert chunk["id"].startswith("long.md#boiling@")


def test_a_prompt_answers_every_line_and_keeps_the_index_open(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []
    real = reader.open_index

    def counted(workspace):
        opened.append(workspace)
        return real(workspace)

    monkeypatch.setattr(reader, "open_index", counted)
    typed = "remove stains\nwhich temperature\n"
    result = asked(project, ("retrieve",), "--json", typed=typed)
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert [answer["query"] for answer in answers] == ["remove stains", "which temperature"]
    assert len(opened) == 1
    alone = hits(project, ("retrieve",), "which temperature")
    assert answers[1]["hits"] == alone, "a warm answer is the cold one"


def test_an_empty_line_ends_the_prompt(project: Path) -> None:
    result = asked(project, ("hybrid", "--no-llm"), "--json", typed="tea\n\nstains\n")
    assert len(result.stdout.splitlines()) == 1
    none = invoke("retrieve", "--data-dir", project / "data", typed="")
    assert (none.exit_code, "no query" in none.stderr) == (2, True)


ODD = ["?!", "\x1b[31m", "a" * 10_240, "日本語", "\x00", "--", "🍵 tea", '" OR 1', "NEAR(", "*", "col:x"]


@pytest.mark.parametrize("verb", [("hybrid", "--no-llm"), ("search",)], ids=" ".join)
@pytest.mark.parametrize("query", [*ODD, "a" * 20_000])
def test_odd_queries_get_answers(project: Path, verb: tuple[str, ...], query: str) -> None:
    assert json.loads(asked(project, verb, "--json", "--", query).stdout)["query"] == query


def test_a_search_without_a_result_says_so(project: Path) -> None:
    assert asked(project, ("search",), "zzzzqqq").stdout == "nothing found\n"


def test_calibrate_suggests_a_threshold_that_keeps_the_branch(project: Path, tmp_path: Path) -> None:
    told = asked(project, ("calibrate",), "--grep-vector-score-threshold", "0.01").stdout
    assert "6 questions" in told
    suggested = told.rpartition("vector_score_threshold = ")[2].strip()
    again = asked(project, ("calibrate",), "--grep-vector-score-threshold", suggested, "--json")
    assert json.loads(again.stdout)["losing"] == 0
    (tmp_path / "none.jsonl").write_text('{"id": "q", "question": "Why?", "answerable": false}\n')
    none = invoke("calibrate", "--data-dir", project / "data", "--questions", tmp_path / "none.jsonl")
    assert (none.exit_code, "no answerable question" in none.stderr) == (3, True)


def test_a_missing_index_is_built_and_reported_in_one_line(tmp_path: Path) -> None:
    write_pages(tmp_path / "docs")
    configure(tmp_path / "data", corpus=tmp_path / "docs", settings={"index.embedder": "fake:64"})
    result = asked(tmp_path, ("retrieve",), "stains")
    said = [line for line in result.stderr.splitlines() if "building it" in line]
    assert len(said) == 1
    assert "no index" in said[0]
    assert "building" not in result.stdout
    assert "building" not in asked(tmp_path, ("retrieve",), "stains").stderr, "once is enough"


@pytest.mark.parametrize("change", ["edit", "add", "remove"])
def test_a_stale_index_is_rebuilt(tmp_path: Path, change: str) -> None:
    project = make_project(tmp_path)
    page = project / "docs" / "guide" / "cleaning.md"
    if change == "edit":
        page.write_text(page.read_text() + "\n## Limescale\n\nCitric acid dissolves limescale.\n")
    elif change == "add":
        (project / "docs" / "scale.md").write_text("# Limescale\n\nCitric acid dissolves limescale.\n")
    else:
        page.unlink()
    result = asked(project, ("hybrid", "--no-llm"), "--json", "citric acid dissolves limescale")
    assert result.stderr.count("building it") == 1
    found = json.loads(result.stdout)["hits"]
    assert ("Citric acid" in found[0]["text"]) == (change != "remove")
    assert all(hit["source"] != "guide/cleaning.md" for hit in found) or change != "remove"


def test_document_text_cannot_control_the_terminal(tmp_path: Path) -> None:
    page = "# Bold \x1b[31mred\x07\n\nwords \x1b]0;title\x07 \u202eevil [red]markup[/red]\n"
    project = make_project(tmp_path, {"a.md": page, "b.md": "# B\n\nother\n"})
    result = asked(project, ("retrieve",), "words markup")
    assert not set("\x1b\x07\u202e") & set(result.stdout)
    assert "[red]markup[/red]" in result.stdout


def test_a_workspace_can_be_moved_with_its_corpus(tmp_path: Path) -> None:
    project = make_project(tmp_path / "here")
    before = hits(project, ("retrieve",), "stains")
    shutil.move(project, tmp_path / "there")
    result = asked(tmp_path / "there", ("retrieve",), "--json", "stains")
    assert json.loads(result.stdout)["hits"] == before
    assert result.stderr == ""


@pytest.mark.parametrize(("last", "code"), [(b"\x03", 130), (b"\x04", 0)], ids=["Ctrl-C", "Ctrl-D"])
def test_the_prompt_at_a_terminal(project: Path, last: bytes, code: int) -> None:
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(project)
        os.execv(sys.executable, [sys.executable, str(ROOT / "retrieve.py"), "--top-k", "1"])
    shown, seen = b"", 0

    def until(text: bytes) -> None:
        """Read on until the text is shown again."""
        nonlocal shown, seen
        while text not in shown[seen:]:
            shown += os.read(terminal, 4096)
        seen = shown.index(text, seen) + len(text)

    try:
        until(b"> ")
        os.write(terminal, b"baking soda stains\n")
        until(b"Baking soda removes tannin stains.")
        until(b"> ")
        ended = (0, 0)
        for attempt in range(200):
            if attempt % 20 == 3:  # a key may be pressed before the interpreter listens to it
                os.write(terminal, last)
            time.sleep(0.1)
            ended = os.waitpid(child, os.WNOHANG)
            if ended[0]:
                break
        assert ended[0] == child
        assert os.waitstatus_to_exitcode(ended[1]) == code
    finally:
        os.close(terminal)
    assert b"Traceback" not in shown
