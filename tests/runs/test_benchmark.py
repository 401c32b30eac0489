"""A whole benchmark: what it writes, and that it writes the same again."""

from __future__ import annotations

import codecs
import csv
import json
import re
import shutil
from io import StringIO
from pathlib import Path

import pytest
from support.commands import (
    NO_LLM,
    QUESTIONS,
    benchmark,
    invoke,
    json_lines,
    make_project,
    table,
    write_lines,
)

from branchrank import Workspace
from branchrank.core.errors import RunError
from branchrank.core.io.table import text_of
from branchrank.reports.verify import verify
from branchrank.run import Run
from branchrank.runs import directory as names

ALL = ("--predictor", "all", *NO_LLM)
REPEATED = (
    names.ROWS,
    names.QUESTIONS_CSV,
    names.SUMMARY_CSV,
    names.COMPARISONS_CSV,
    names.CALLS_CSV,
    names.HARD_SET,
    names.QUESTIONS,
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("benchmark"))


@pytest.fixture(scope="module")
def made(project: Path) -> Path:
    return benchmark(project, *ALL)


def test_every_pair_or_several_baselines_by_flag_file_and_library(project: Path, tmp_path: Path) -> None:
    three = (*(word for name in ("local", "bm25", "dense") for word in ("--predictor", name)), *NO_LLM)
    pairs = [("local", "bm25"), ("local", "dense"), ("bm25", "dense")]

    def compared(run: Path) -> list[tuple[str, str]]:
        return [(row["baseline"], row["candidate"]) for row in table(run / names.COMPARISONS_CSV)]

    flags = benchmark(project, *three, "--all-pairs", reports=tmp_path / "flags")
    assert compared(flags) == pairs
    assert invoke("verify", flags).exit_code == 0
    both = benchmark(project, *three, "--baseline", "bm25", "--baseline", "local", reports=tmp_path / "both")
    assert compared(both) == [("bm25", "local"), ("bm25", "dense"), ("local", "dense")]
    result = invoke("benchmark", "--data-dir", project / "data", *three, "--all-pairs", "--baseline", "local")
    assert result.exit_code == 2
    assert {"--baseline", "--all-pairs"} <= set(result.output.split())
    for declared in ('"all-pairs"', '["local", "bm25"]'):
        file = tmp_path / "pairs.toml"
        text = f"name = 'pairs'\ndata_dir = '{project / 'data'}'\n"
        text += f"[benchmark]\nlatency_sample = 0\nbaseline = {declared}\n"
        file.write_text(text + "[systems.local]\n[systems.bm25]\n[systems.dense]\n", encoding="utf-8")
        result = invoke("run", file, "--reports", tmp_path / "file", "--quiet", "--fresh", "--verbose")
        assert result.exit_code == 0, result.output
        assert "bm25 vs local" in result.output
        assert compared(max((tmp_path / "file").iterdir())) == pairs
    with Workspace.open(project / "data") as workspace:
        run = workspace.benchmark(
            ["local", "bm25", "dense"], baseline=["local", "bm25"], latency_sample=0, reports=tmp_path / "lib"
        )
    assert list(zip(run.comparisons["baseline"], run.comparisons["candidate"], strict=True)) == pairs


def test_an_index_rebuilt_in_another_folder_gives_the_same_bytes(made: Path, tmp_path: Path) -> None:
    again = benchmark(make_project(tmp_path), *ALL)
    for name in REPEATED:
        assert (again / name).read_bytes() == (made / name).read_bytes(), name


def test_the_latency_pass_changes_only_the_timings(project: Path, made: Path, tmp_path: Path) -> None:
    timed = benchmark(project, *ALL, "--latency-sample", 3, reports=tmp_path)
    for name in (names.ROWS, names.QUESTIONS_CSV, names.CALLS_CSV, names.HARD_SET):
        assert (timed / name).read_bytes() == (made / name).read_bytes(), name
    [local, *_] = table(timed / names.SUMMARY_CSV)
    assert float(local["latency_p95_ms"]) >= float(local["latency_p50_ms"]) > 0
    assert local["timed_queries"] == "3"
    stages = {(row["predictor"], row["stage"]) for row in table(timed / names.TIMINGS_CSV)}
    assert {("hybrid", "expansion"), ("local", "embed"), ("pageindex", "total")} <= stages


def test_questions_csv_ranks_the_first_overlap_and_the_first_page(project: Path, tmp_path: Path) -> None:
    gold = {"source_file": "guide/brewing.md", "answer_line_start": 16, "answer_line_end": 16}
    asked = {"id": "q", "question": "green tea wants degrees, black tea wants degrees; minutes", **gold}
    questions = write_lines(tmp_path / "questions.jsonl", [asked])
    made = benchmark(project, "--predictor", "bm25", "--questions", questions, reports=tmp_path / "reports")
    [row] = json_lines(made / names.ROWS)
    pages = [hit["source"] == "guide/brewing.md" for hit in row["hits"]]
    spans = [hit["line_start"] <= 16 <= hit["line_end"] for hit in row["hits"]]
    first = pages.index(True), [*map(all, zip(pages, spans, strict=True))].index(True)
    assert first[0] < first[1], "another section of the right page is before the gold"
    [line] = table(made / names.QUESTIONS_CSV)
    assert (line["relaxed_rank"], line["strict_rank"]) == tuple(str(place + 1) for place in first)


@pytest.mark.parametrize("words", [(), ("--question-text", "hash")])
def test_questions_csv_has_the_questions_and_their_gold_for_a_spreadsheet(
    project: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    texts = {
        "lines": "Wie heiß muss grüner Tee sein?",
        "page": "=HYPERLINK(0)",
        "two": " @green tea",
    }
    span = {"source_file": "guide/brewing.md", "answer_line_start": 2, "answer_line_end": 3}
    page = {"source_file": "guide/brewing.md", "gold_level": "file"}
    gold = {
        "lines": span,
        "page": page,
        "two": {**span, "alternates": [{**span, "source_file": "index.rst"}]},
    }
    asked = [{"id": key, "question": text, **gold[key]} for key, text in texts.items()]
    questions = write_lines(tmp_path / "questions.jsonl", asked)
    made = benchmark(
        project, "--predictor", "bm25", "--questions", questions, *words, reports=tmp_path / "reports"
    )
    content = (made / names.QUESTIONS_CSV).read_bytes()
    assert content.startswith(codecs.BOM_UTF8), "a spreadsheet reads UTF-8 only with the mark"
    lines = {row["question_id"]: row for row in table(made / names.QUESTIONS_CSV)}
    assert {key: text_of(row["question"]) for key, row in lines.items()} == {
        key: "" if words else text for key, text in texts.items()
    }
    assert not any(row["question"].lstrip().startswith(("=", "@")) for row in lines.values())
    assert {key: row["gold_location"] for key, row in lines.items()} == {
        "lines": "guide/brewing.md:2-3",
        "page": "guide/brewing.md",
        "two": "guide/brewing.md:2-3; index.rst:2-3",
    }
    assert verify(made).findings == ()
    kept = [name for name in lines["lines"] if name not in ("question", "gold_location")]
    older = StringIO()
    writer = csv.DictWriter(older, kept, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(lines[key] for key in Run.load(made).record.question_ids)
    (made / names.QUESTIONS_CSV).write_text(older.getvalue(), encoding="utf-8")
    found = verify(made)
    assert found.findings == (), "the file of an older version lacks the columns and the mark"
    assert {name for name in ("question", "gold_location") if f"lacks {name};" in " ".join(found.notes)} == {
        "question",
        "gold_location",
    }


def test_there_is_one_row_per_question_and_predictor(made: Path) -> None:
    rows = json_lines(made / names.ROWS)
    ids = sorted(question["id"] for question in QUESTIONS)
    predictors = ["local", "pageindex", "hybrid"]
    assert [(row["question_id"], row["predictor"]) for row in rows] == [
        (i, p) for i in ids for p in predictors
    ]
    assert all(row["llm"] == "none" and row["calls"] == [] for row in rows)
    first = next(row for row in rows if (row["question_id"], row["predictor"]) == ("stains", "hybrid"))
    assert first["hits"][0]["gain"] > 0
    assert set(first["gold_ranks"]) >= {"fusion", "cap"}
    assert first["lost"] == ""


def test_run_json_has_everything_needed_to_repeat_the_run(made: Path) -> None:
    run = json.loads((made / names.RUN_JSON).read_text())
    assert (run["status"], run["seed"], run["top_k"], run["mode"]) == ("finished", 42, 10, "both")
    assert run["origins"]["hybrid.no_llm"] == "flag --hybrid-no-llm"
    assert run["origins"]["hybrid.rrf_k"] == "default"
    assert run["settings"]["local"]["vector_top_n"] == 40
    assert [predictor["name"] for predictor in run["predictors"]] == ["local", "pageindex", "hybrid"]
    assert all(len(run[name]) == 64 for name in ("corpus_digest", "questions_digest"))
    [index] = run["indexes"]
    assert (index["embedder"], index["vector_store"], len(index["digest"])) == ("fake:64", "exact", 64)
    assert index["build_seconds"] > 0
    assert index["bytes"] > 0
    assert {"numpy", "bm25s"} <= set(run["provenance"]["packages"])
    assert run["provenance"]["cores"] >= 1
    assert run["reused"]["embed"] > 0, "predictors share the query's embedding"
    assert str(Path.home()) not in json.dumps({**run, "command": "", "corpus": "", "questions_file": ""})


def test_the_hard_set_can_be_used_in_the_next_run(project: Path, tmp_path: Path) -> None:
    lost = {**QUESTIONS[3], "id": "lost", "source_file": "index.rst", "own key": [1]}
    asked = write_lines(tmp_path / "questions.jsonl", [*QUESTIONS, lost])
    made = benchmark(project, "--predictor", "local", "--questions", asked, reports=tmp_path / "first")
    rows = table(made / names.QUESTIONS_CSV)
    solved = {row["question_id"] for row in rows if row["strict_hit@1"] == "1"}
    hard = json_lines(made / names.HARD_SET)
    assert lost in hard
    assert {line["id"] for line in hard} == {row["question_id"] for row in rows} - solved - {"espresso"}
    words = ("--predictor", "local", "--questions", made / names.HARD_SET)
    again = benchmark(project, *words, reports=tmp_path / "second")
    assert {row["strict_hit@1"] for row in table(again / names.SUMMARY_CSV)} == {"0"}
    assert Run.load(again).record.question_ids == tuple(sorted(line["id"] for line in hard))


def test_a_hard_set_without_question_text_cannot_be_used_in_a_run(project: Path, tmp_path: Path) -> None:
    run = benchmark(project, "--predictor", "local", "--question-text", "hash", reports=tmp_path / "reports")
    hard = [*json_lines(run / "hard.jsonl"), *json_lines(run / "questions.jsonl")][:1]
    questions = write_lines(tmp_path / "hard.jsonl", hard)
    data = ("--data-dir", project / "data", "--reports", tmp_path)
    result = invoke("benchmark", *data, "--predictor", "local", "--questions", questions)
    assert result.exit_code == 3
    assert "has digests" in result.stderr


def test_the_sample_is_drawn_by_the_seed(project: Path, tmp_path: Path) -> None:
    def asked(seed: int) -> tuple[str, ...]:
        words = ("--predictor", "bm25", "--sample-size", 3, "--sample-seed", seed)
        return Run.load(benchmark(project, *words, reports=tmp_path / str(seed))).record.question_ids

    assert len(asked(1)) == 3
    assert asked(1) != asked(2)


@pytest.mark.parametrize("change", ["question", "missing"])
def test_a_run_whose_questions_were_changed_is_refused(made: Path, tmp_path: Path, change: str) -> None:
    copy = tmp_path / made.name
    shutil.copytree(made, copy)
    lines = json_lines(copy / names.QUESTIONS)
    if change == "question":
        lines[0]["question"] = "something else"
    write_lines(copy / names.QUESTIONS, lines if change == "question" else lines[1:])
    with pytest.raises(RunError, match="digest" if change == "question" else "have the question"):
        Run.load(copy)
    assert invoke("show", copy).exit_code == 3


def test_the_printed_table_marks_pilots_and_failures(project: Path, tmp_path: Path) -> None:
    words = ("--predictor", "support.predictors:Failing", "--latency-sample", 0, "--reports", tmp_path)
    result = invoke("benchmark", "--data-dir", project / "data", *words)
    assert "pilot" in result.stdout.lower()
    told = " ".join(result.stdout.split())
    assert "2 of 8 queries failed, most often with " in told
    assert re.search(r"report: .*/\d{8}T\d{6}Z-benchmark-42", result.stdout)


def test_a_quote_with_markup_has_ranks_in_the_stages(tmp_path: Path) -> None:
    pages = {
        "a.rst": "Tea\n===\n\nCall :py:func:`brew.start` first.\n",
        "b.rst": "Cup\n===\n\nWash the cup.\n",
    }
    project = make_project(tmp_path, pages)
    line = {"id": "q", "question": "what to call first", "source_file": "a.rst"}
    asked = write_lines(tmp_path / "asked.jsonl", [{**line, "answer_quote": "Call :py:func:`brew.start`"}])
    run = benchmark(project, "--predictor", "local", "--predictor", "hybrid", "--questions", asked, *NO_LLM)
    for row in json_lines(run / "rows.jsonl"):
        assert row["hits"][0]["gold"] == 0
        assert row["gold_ranks"]["fusion"] == 1


def test_the_mode_flag_leaves_out_the_other_scoring(project: Path, tmp_path: Path) -> None:
    words = ("--predictor", "bm25", "--mode", "relaxed", "--primary", "relaxed_hit@1")
    [row] = table(benchmark(project, *words, reports=tmp_path) / names.SUMMARY_CSV)
    assert row["relaxed_hit@1"]
    assert row["strict_hit@1"] == ""


def test_a_top_k_below_the_cutoff_of_a_measure_gives_a_warning(
    project: Path, made: Path, tmp_path: Path
) -> None:
    shallow = benchmark(project, "--predictor", "local", "--top-k", 4, reports=tmp_path)
    [warning] = Run.load(shallow).record.warnings
    assert "--top-k 4" in warning
    assert Run.load(made).record.warnings == ()
