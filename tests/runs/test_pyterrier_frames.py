"""Frames with the column names of PyTerrier's data model, out of a run and in again."""

from __future__ import annotations

import json
from pathlib import Path

import ir_measures
import numpy as np
import pandas as pd
import pytest
from support.beir_folders import beir_folder
from support.made_runs import Planned, make_questions, make_run

from branchrank import Run, library
from branchrank.core.errors import RunError, UsageError
from branchrank.runs.exchange import read_qrels_frame, read_results, results_frame
from branchrank.runs.results_table import means_rows

MEASURES = ("nDCG@10", "AP")
OPTIONS = library.CompareOptions(measures=MEASURES)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two predictors on a small BEIR folder."""
    home = tmp_path_factory.mktemp("frames")
    asked = library.BeirOptions(
        folder=beir_folder(home / "tiny", documents=30, queries=12),
        predictors=["bm25", "dense"],
        measures=MEASURES,
        data_dir=home / "data",
        reports=home / "reports",
        settings={"index.embedder": "fake"},
    )
    return library.run_beir(asked)


def test_the_columns_are_those_of_pyterriers_data_model(run: Run) -> None:
    topics, results, qrels = (
        library.topics_frame(run),
        library.results_frame(run, "bm25"),
        library.qrels_frame(run),
    )
    assert list(topics.columns) == ["qid", "query"]
    assert list(results.columns) == ["qid", "query", "docno", "rank", "score"]
    assert list(qrels.columns) == ["qid", "docno", "label"]
    assert len(topics) == 12
    assert set(topics["query"]) == {each.question for each in run.asked}
    for _, ranked in results.groupby("qid"):
        assert list(ranked["rank"]) == list(range(len(ranked)))  # from 0
        assert list(ranked["score"]) == sorted(ranked["score"], reverse=True)
        assert ranked["score"].is_unique
        assert ranked["docno"].is_unique
    assert set(qrels["label"]) == {0, 1, 2}


def test_ir_measures_scores_the_frames_as_the_run_does(run: Run) -> None:
    names = {"qid": "query_id", "docno": "doc_id", "label": "relevance"}
    table = library.run_table(run)
    for system in table.systems:
        found = ir_measures.calc_aggregate(
            [ir_measures.parse_measure(name) for name in MEASURES],
            library.qrels_frame(run).rename(columns=names),
            library.results_frame(run, system.name).rename(columns=names),
        )
        for measure, value in found.items():
            assert value == pytest.approx(system.means[str(measure)].value, abs=5e-5)


def test_exported_frames_give_the_same_comparison_as_the_run(run: Run) -> None:
    frames = {name: library.results_frame(run, name) for name in ("bm25", "dense")}
    found = library.compare_frames(
        library.qrels_frame(run), frames, library.CompareOptions(measures=MEASURES)
    )
    ours = library.run_table(run)
    assert found.systems == ours.systems
    tested = [each for each in found.comparisons if each.measure == ours.comparisons[0].measure]
    assert [(each.p, each.verdict) for each in tested] == [
        (each.p, each.verdict) for each in ours.comparisons
    ]


def test_one_system_is_a_table_without_marks_and_two_have_the_highest_mean_in_bold(run: Run) -> None:
    table = library.run_table(run)
    [(name, *cells)] = means_rows(table.systems[:1], lambda *_: "", in_full=False)
    assert (name, [cell.bold for cell in cells]) == ("bm25", [False, False])
    assert "Bold: the highest mean." in table.table().caption


def test_questions_without_gold_and_repeats_are_no_results(tmp_path: Path) -> None:
    asks = Planned("asks", 0.5, llm="m")
    made = make_run(tmp_path, [asks], make_questions(4, unanswerable=1), repeats=2, latency_sample=0)
    frame = results_frame(made, "asks")
    assert sorted(set(frame["qid"])) == [each.id for each in made.asked if each.gold]
    assert list(frame["rank"]) == [*range(frame.groupby("qid").size().iloc[0])] * 4


def test_frames_become_a_beir_folder_that_can_be_run(tmp_path: Path) -> None:
    folder = library.beir_from_frames(
        tmp_path / "teas",
        pd.DataFrame({"docno": ["d1", 2], "text": ["green tea", "black coffee"], "title": ["Tea", "Coffee"]}),
        pd.DataFrame({"qid": [1, 2], "query": ["tea", "coffee"]}),
        pd.DataFrame({"qid": [1, 2], "docno": ["d1", 2], "label": [1.0, 2.0], "iteration": ["0", "0"]}),
    )
    texts = pd.read_json(folder / "corpus.jsonl", lines=True, dtype={"_id": str})
    assert texts.values.tolist() == [["d1", "Tea", "green tea"], ["2", "Coffee", "black coffee"]]
    asked = library.BeirOptions(folder=folder, data_dir=tmp_path / "data", reports=tmp_path / "reports")
    made = library.run_beir(asked)
    assert library.run_table(made).systems[0].means["nDCG@10"].value == 1.0
    assert list(library.results_frame(made, "bm25")["docno"]) == ["d1", "2"]
    with pytest.raises(UsageError, match="exists already"):
        library.beir_from_frames(folder, pd.DataFrame(), pd.DataFrame(), pd.DataFrame())


def test_a_results_frame_is_ordered_only_by_its_scores() -> None:
    frame = pd.DataFrame(
        {"qid": [1, 1, 1], "docno": ["d9", "d10", "d1"], "score": [1, 1.0, 5], "rank": [0, 1, 2], "extra": 0}
    )
    qrels = pd.DataFrame({"qid": ["1"], "docno": ["d10"], "label": [1]})
    other = frame.assign(score=[1, 9, 2])
    table = library.compare_frames(
        qrels, {"ties": frame, "first": other}, library.CompareOptions(measures=("RR",))
    )
    assert [each.means["RR"].value for each in table.systems] == [pytest.approx(1 / 3), 1.0]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (
            {"qid": ["q"], "docid": ["d"], "score": [1]},
            "ours has no column 'docno': it has qid, docid, score",
        ),
        ({"qid": ["q"], "docno": ["d"], "score": [float("nan")]}, "ours, row 0: nan is not a finite number"),
        ({"qid": ["q"], "docno": ["d"], "score": ["high"]}, "ours, row 0: 'high' is not a finite number"),
        ({"qid": ["q"] * 2, "docno": ["d"] * 2, "score": [1, 2]}, "row 1: the document 'd' occurs twice"),
    ],
)
def test_wrong_results_are_named_by_frame_and_row(frame: dict[str, list[object]], message: str) -> None:
    with pytest.raises(RunError, match=message):
        read_results(pd.DataFrame(frame), "ours")


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA, pd.NaT], ids=str)
def test_missing_text_is_empty_and_numbers_are_whole(tmp_path: Path, missing: object) -> None:
    documents = pd.DataFrame(
        {"docno": [10, 11.0], "title": [missing, 1984.0], "text": ["green tea", missing]}
    )
    topics = pd.DataFrame({"qid": [1.0], "query": ["nan bread"]})
    qrels = pd.DataFrame({"qid": [1], "docno": [10.0], "label": [1.0]})
    folder = library.beir_from_frames(tmp_path / "set", documents, topics, qrels)
    assert [json.loads(line) for line in (folder / "corpus.jsonl").read_text().splitlines()] == [
        {"_id": "10", "title": "", "text": "green tea"},
        {"_id": "11", "title": "1984", "text": ""},
    ]
    assert json.loads((folder / "queries.jsonl").read_text())["_id"] == "1"
    assert (folder / "qrels" / "test.tsv").read_text().splitlines()[1:] == ["1\t10\t1"]


@pytest.mark.parametrize(
    "key", [None, float("nan"), pd.NA, 1.5, True, np.bool_(True), " ", float("inf"), b"d"], ids=repr
)
@pytest.mark.parametrize("column", ["qid", "docno"])
def test_an_id_that_is_no_text_or_whole_number_is_refused_with_its_row(column: str, key: object) -> None:
    frame = pd.DataFrame({"qid": [1, 2], "docno": [10, 11], "score": [1, 2], "label": [1, 1]}).astype(object)
    frame.loc[1, column] = key
    with pytest.raises(RunError, match=r"ours, row 1: .* is not an id"):
        read_results(frame, "ours")
    with pytest.raises(RunError, match=r"qrels, row 1: .* is not an id"):
        read_qrels_frame(frame)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ({"qid": ["q"], "docno": ["d"]}, "qrels has no column 'label'"),
        ({"qid": ["q"], "docno": ["d"], "label": [0.5]}, "row 0: 0.5 is not a whole number"),
        (
            {"qid": [1] * 2, "docno": [7] * 2, "label": [0, 1]},
            "the document '7' occurs twice for the query '1'",
        ),
        ({"qid": [], "docno": [], "label": []}, "qrels has no judgments"),
    ],
)
def test_wrong_qrels_are_refused(frame: dict[str, list[object]], message: str) -> None:
    with pytest.raises(RunError, match=message):
        read_qrels_frame(pd.DataFrame(frame))
