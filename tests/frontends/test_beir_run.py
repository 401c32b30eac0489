"""``beir run``: from a folder's files to a table, which ir-measures computes again from exported runs."""

from __future__ import annotations

import json
from pathlib import Path

import ir_measures
import pytest
from support.beir_folders import beir_folder
from support.commands import invoke

from branchrank import Run, Workspace, library
from branchrank.library import run_table

SYSTEMS = ("bm25", "dense", "local", "late-interaction")


def beir_run(home: Path, *words: object, folder: str = "tiny") -> object:
    return invoke(
        *("beir", "run", home / folder, "--data-dir", home / "data", "--reports", home / "reports"),
        *("--quiet", *words),
    )


def predictors(*names: str) -> list[str]:
    return [word for name in names for word in ("--predictor", name)]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the BEIR folder ``tiny``, and all that one command made of it."""
    home = tmp_path_factory.mktemp("beir")
    beir_folder(home / "tiny")
    result = beir_run(
        home, "--embedder", "fake", *predictors(*SYSTEMS), "--latex", home / "t.tex", "-m", "nDCG@10",
        *("--chunk-tokens", 32, "-m", "MAP", "-m", "R@5", "-m", "RR"),
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    (home / "output.txt").write_text(result.output)
    return home


@pytest.fixture(scope="module")
def run(home: Path) -> Run:
    [directory] = (home / "reports").iterdir()
    return Run.load(directory)


def test_the_table_is_what_ir_measures_computes_from_the_exported_runs(
    run: Run, home: Path, tmp_path: Path
) -> None:
    table = run_table(run)
    assert table.measures == ("nDCG@10", "MAP", "R@5", "RR")
    assert [each.name for each in table.systems] == list(SYSTEMS)
    run.export_trec(tmp_path, "document")
    qrels = [
        ir_measures.Qrel(query, document, int(grade))
        for query, document, grade in (
            line.split("\t") for line in (home / "tiny/qrels/test.tsv").read_text().splitlines()[1:]
        )
    ]
    for system in table.systems:
        measures = {name: ir_measures.parse_measure(name) for name in table.measures}
        found = ir_measures.calc_aggregate(
            measures.values(), qrels, ir_measures.read_trec_run(str(tmp_path / f"{system.name}.run"))
        )
        for name, measure in measures.items():
            assert system.means[name].value == pytest.approx(found[measure], abs=5e-5), (system.name, name)
            assert 0 < system.means[name].value < 1


def test_every_system_ranks_whole_documents_to_the_full_depth(run: Run) -> None:
    assert run.record.indexes[0].chunks > 2 * 60  # several of a document
    for name in SYSTEMS:
        found = [[hit.source for hit in row.hits] for row in run.scores.rows(name)]
        assert all(len(sources) == len(set(sources)) for sources in found), name
        # Vectors rank every document, words those that hold one of the query's.
        assert {len(sources) for sources in found} == {60} if name != "bm25" else max(map(len, found)) > 40


@pytest.mark.full
def test_the_tests_are_those_of_the_exported_runs(run: Run, home: Path, tmp_path: Path) -> None:
    run.export_trec(tmp_path, "document")
    exported = [tmp_path / f"{name}.run" for name in SYSTEMS]
    options = library.CompareOptions(measures=("nDCG@10", "MAP", "R@5", "RR"))
    found = library.compare_trec(home / "tiny/qrels/test.tsv", exported, options)
    table = run_table(run)
    tested = [each for each in found.comparisons if each.measure == "nDCG@10"]  # the primary measure
    assert [(each.candidate, each.clusters, each.verdict) for each in tested] == [
        (each.candidate, each.clusters, each.verdict) for each in table.comparisons
    ]
    assert [each.p_adjusted for each in tested] == pytest.approx(
        [each.p_adjusted for each in table.comparisons]
    )
    assert {each.clusters for each in table.comparisons} == {24}


def test_the_output_is_the_table_the_report_and_the_latex_file(run: Run, home: Path) -> None:
    output = (home / "output.txt").read_text()
    assert str(run_table(run)) in output
    assert f"report: {run.directory / 'report.html'}" in output
    assert f"written: {home / 't.tex'}" in output
    assert (home / "t.tex").read_text() == library.latex(run_table(run))
    for name in ("summary.csv", "questions.csv", "report.md", "report.html", "run.json"):
        assert (run.directory / name).is_file()
    assert "graded_nDCG@10" in (run.directory / "summary.csv").read_text()


def test_the_report_of_a_beir_run_uses_the_terms_of_graded_judgments(run: Run) -> None:
    """A mean of nDCG is no hit rate, a judged document no page of gold, and each query its own cluster."""
    text = (run.directory / "report.md").read_text()
    relevant = {item.source_file for question in run.asked for item in question.gold}
    assert f"4 systems; {len(relevant)} relevant documents; split test" in text
    assert "Means over the 24 questions" in text
    assert "Graded measures" in text
    assert "24 questions and no" in text
    for words in ("Hit rates", "Strict", "Relaxed", "gold on", "gold source", "span precision", "same page"):
        assert words not in text, words


def test_all_pairs_are_compared(home: Path) -> None:
    words = ("--all-pairs", "--reports", home / "pairs", "-m", "nDCG@10")
    result = beir_run(home, *predictors("bm25", "dense", "local"), *words)
    assert result.exit_code == 0, result.output
    assert "letters: a mean" in " ".join(result.output.split())
    for pair in ("dense vs bm25", "local vs bm25", "local vs dense"):
        assert pair in result.output


def test_the_defaults_need_no_model(home: Path, tmp_path: Path) -> None:
    result = invoke(
        *("beir", "run", home / "tiny", "--data-dir", tmp_path / "data", "--reports", tmp_path / "reports")
    )
    assert result.exit_code == 0, result.output
    with Workspace.open(tmp_path / "data") as workspace:
        assert workspace.index.manifest.embedder.name == "none"
        assert workspace.index.manifest.bm25.stop_words == "english"
        assert not workspace.index.manifest.bm25.split_identifiers
    [directory] = (tmp_path / "reports").iterdir()
    table = run_table(Run.load(directory))
    assert table.measures == ("nDCG@10", "R@100", "AP")
    assert [each.name for each in table.systems] == ["bm25"]
    found = invoke("retrieve", "boiler", "--data-dir", tmp_path / "data")
    assert found.exit_code == 2
    assert "has no vectors" in found.stderr


def test_mistakes_are_reported_before_any_work(home: Path, tmp_path: Path) -> None:
    for words, message in (
        (("--predictor", "dense"), "system 'dense' searches"),
        (("--predictor", "bm52"), "did you mean `bm25`?"),
        (("-m", "nDCG@0"), "'nDCG@0'"),
        (("--baseline", "dense"), "the baseline 'dense'"),
        (("--split", "dev"), "split 'dev'"),
    ):
        result = invoke("beir", "run", home / "tiny", "--data-dir", tmp_path / "data", *words)
        assert result.exit_code in (2, 3), result.output
        assert message in result.stderr
        assert not (tmp_path / "data").exists()
    result = invoke("beir", "run", tmp_path)
    assert result.exit_code == 3
    assert "a BEIR folder" in result.stderr


def test_the_workspace_of_another_corpus_is_not_indexed_over(home: Path, tmp_path: Path) -> None:
    beir_folder(tmp_path / "other", documents=12, queries=3)
    result = invoke("beir", "run", tmp_path / "other", "--data-dir", home / "data")
    assert result.exit_code == 2
    assert "another corpus: beir/tiny" in result.stderr


def test_entries_that_changed_are_unpacked_again(tmp_path: Path) -> None:
    beir_folder(tmp_path / "tiny", documents=12, queries=3)
    assert beir_run(tmp_path).exit_code == 0
    corpus = tmp_path / "tiny" / "corpus.jsonl"
    entries = [json.loads(line) for line in corpus.read_text().splitlines()]
    entries[0]["text"] = "changed"
    corpus.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    assert beir_run(tmp_path).exit_code == 0
    assert (tmp_path / "data/beir/tiny/d0.beir").read_text().endswith("\nchanged\n")
