"""Text files of other systems: each encoding is read, and what is not text names its line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from support.commands import QUESTIONS, invoke, make_project, write_lines

from branchrank import Workspace
from branchrank.core.errors import BranchRankError
from branchrank.core.io.text_files import text_lines
from branchrank.questions.question_files import (
    append_question,
    content_digest,
    load_questions,
    replace_question,
)
from branchrank.runs.bench.experiment import plan_from_experiment
from branchrank.runs.exchange import read_trec, score_trec
from branchrank.search.llm.ledger import read_prices

ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-be-bom", "gzip")
RUN = "q1 Q0 d1 1 2 t\nq1 Q0 d9 2 1 t\ncafé Q0 d2 1 2 t\n"
QRELS = "q1 0 d1 1\ncafé 0 d2 1\n"


def save(path: Path, text: str, encoding: str) -> Path:
    encoded = {
        "gzip": lambda: gzip.compress(text.encode()),
        "utf-16-be-bom": lambda: b"\xfe\xff" + text.encode("utf-16-be"),
    }.get(encoding, lambda: text.encode(encoding))()
    path.write_bytes(encoded)
    return path


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("encodings"))


@pytest.mark.parametrize("line_end", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_trec_files_are_read_in_each_encoding(tmp_path: Path, encoding: str, line_end: str) -> None:
    run = save(tmp_path / "a.run", RUN.replace("\n", line_end), encoding)
    qrels = save(tmp_path / "qrels.txt", QRELS.replace("\n", line_end), encoding)
    [scored] = score_trec([run], qrels, ["RR"])
    assert scored.by_query == {"RR": {"q1": 1.0, "café": 1.0}}
    [swapped] = score_trec([run], save(tmp_path / "q", QRELS, "utf-8"), ["RR"])
    assert swapped.by_query == scored.by_query


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_questions_experiments_and_prices_are_read_in_each_encoding(project: Path, encoding: str) -> None:
    text = write_lines(project / "plain.jsonl").read_text()
    questions = save(project / f"{encoding}.jsonl", text, encoding)
    assert load_questions(questions) == load_questions(project / "plain.jsonl")
    experiment = (
        f'name = "é"\r\ndata_dir = "{project / "data"}"\r\nquestions = "{questions}"\r\n'
        '[systems.bm25]\r\nbranches = [{ kind = "bm25", unit = "chunk" }]\r\n'
    )
    prices = save(project / "prices.toml", 'date = "2026-01-01"\n[models]\n', encoding)
    path = save(project / "e.toml", experiment, encoding)
    assert plan_from_experiment(path).experiment == "é"
    assert read_prices(prices).date == "2026-01-01"
    save(project / "bad.toml", experiment + "x\n", encoding)
    refused = invoke("run", project / "bad.toml")
    assert (refused.exit_code, "line 6" in refused.stderr) == (2, True), refused.output


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_question_is_added_and_replaced_in_each_encoding(tmp_path: Path, encoding: str) -> None:
    text = write_lines(tmp_path / "plain.jsonl").read_text()
    path = save(tmp_path / "q.jsonl", text, encoding)
    first, *others = load_questions(path)
    replace_question(path, first.id, content_digest(path), first)
    append_question(path, type(first)(id="new", question="é?", answerable=False), content_digest(path))
    assert [each.id for each in load_questions(path)] == [first.id, *(each.id for each in others), "new"]
    assert path.read_bytes().decode().splitlines()[1:-1] == text.splitlines()[1:]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"q1 Q0 d1 1 2 t\nq1 Q0 caf\xe9 2 1 t\n", 2),
        (RUN.encode("utf-16-le"), 1),
        (RUN.encode("utf-32"), 1),
        (RUN.encode("utf-16")[:-1], 3),
        (b"\xff\xfe" + "q1 Q0 d1 1 2 t\nq1 Q0 \ud800 2 1 t\n".encode("utf-16-le", "surrogatepass"), 2),
        (gzip.compress(RUN.encode())[:-9], 4),
        (gzip.compress(b"q1 Q0 d1 1 2 t\n\xff\n"), 2),
    ],
    ids=["Latin-1", "UTF-16 without a mark", "UTF-32", "UTF-16 cut", "surrogate", "gzip cut", "gzip Latin-1"],
)
def test_what_is_not_text_names_the_line(tmp_path: Path, content: bytes, line: int) -> None:
    (tmp_path / "a.run").write_bytes(content)
    with pytest.raises(BranchRankError) as caught:
        read_trec(tmp_path / "a.run")
    assert caught.value.message.startswith(f"{tmp_path / 'a.run'}:{line}: ")


def test_files_of_unknown_origin_are_not_decompressed(tmp_path: Path) -> None:
    save(tmp_path / "a.jsonl", "{}\n", "gzip")
    with pytest.raises(BranchRankError, match=r"a\.jsonl:1: the line is not UTF-8"):
        list(text_lines(tmp_path / "a.jsonl", root=tmp_path))


@pytest.mark.parametrize("encoding", ENCODINGS[:-1])
def test_documents_and_navigation_are_read_in_each_encoding(tmp_path: Path, encoding: str) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    save(docs / "z.md", "# Brewing\r\n\r\nGreen tea for a café.\r\n", encoding)
    save(docs / "a.md", "# Coffee\n\nBeans.\n", encoding)
    save(tmp_path / "mkdocs.yml", "nav:\n  - z.md\n  - a.md\n", encoding)
    with Workspace.build(docs, tmp_path / "data", embedder="fake") as workspace:
        for system in ("bm25", "grep"):
            hit = workspace.search("green café", system=system, k=1)[0]
            assert (hit.source, hit.line_start, hit.line_end) == ("z.md", 1, 3), system
            assert hit.text.splitlines() == ["# Brewing", "", "Green tea for a café."], system


WRITTEN_ELSEWHERE = {
    "backslashes": {"source_file": "guide\\brewing.md"},
    "current folder": {"source_file": "./guide/brewing.md"},
    "both": {"source_file": ".\\guide\\.\\brewing.md"},
    "alternate": {"alternates": [{"source_file": "guide\\cleaning.md", "answer_line_start": 7.0}]},
    "excluded": {
        "excluded_spans": [{"source_file": ".\\install.rst", "line_start": 1.0, "line_end": 2.0, "x": None}]
    },
    "nulls": {"kind": None, "answer_quote": None, "alternates": None, "needs": None, "gold_level": None},
    "floats": {"answer_line_start": 7.0, "answer_line_end": 8.0, "relevance": 2.0},
    "texts": {"answer_line_start": "7", "answer_line_end": "8"},
}


@pytest.mark.parametrize("kind", WRITTEN_ELSEWHERE)
def test_questions_that_other_programs_wrote_are_read(project: Path, kind: str) -> None:
    changes = WRITTEN_ELSEWHERE[kind]
    for item in changes.get("alternates") or ():
        item["answer_line_end"] = item["answer_line_start"]
    path = write_lines(project / "theirs.jsonl", [{**QUESTIONS[0], **changes}])
    [question] = load_questions(path)
    item = question.gold[0]
    assert (item.source_file, item.answer_line_start, item.answer_line_end) == ("guide/brewing.md", 7, 8)
    assert (question.gold_level, question.needs) == ("span", ())
    result = invoke("questions", "check", path, "--data-dir", project / "data")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(("given", "expected"), [(0, "0"), (7, "7"), (7.0, "7"), (-1, "-1")])
def test_a_number_as_an_id_is_text(tmp_path: Path, given: float, expected: str) -> None:
    path = write_lines(tmp_path / "q.jsonl", [{**QUESTIONS[0], "id": given}])
    assert [each.id for each in load_questions(path)] == [expected]


@pytest.mark.parametrize(
    "source", ["/home/me/docs/guide/brewing.md", "C:\\me\\docs\\guide\\brewing.md", "docs/guide/brewing.md"]
)
def test_a_path_outside_the_corpus_names_the_file_that_is_meant(project: Path, source: str) -> None:
    path = write_lines(project / "absolute.jsonl", [{**QUESTIONS[0], "source_file": source}])
    benchmark = ("benchmark", "--questions", path, "--predictor", "bm25", "--reports", project / "reports")
    for command in (("questions", "check", path), benchmark):
        result = invoke(*command, "--data-dir", project / "data")
        assert result.exit_code != 0
        assert "did you mean 'guide/brewing.md'?" in result.output


@pytest.mark.parametrize("indent", [None, 1])
def test_a_json_array_is_refused_with_the_format(tmp_path: Path, indent: int | None) -> None:
    (tmp_path / "q.json").write_text(json.dumps(list(QUESTIONS), indent=indent))
    with pytest.raises(BranchRankError, match=r"q\.json:1: .*write one JSON object per line, not an array"):
        load_questions(tmp_path / "q.json")
