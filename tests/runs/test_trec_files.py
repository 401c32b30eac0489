from __future__ import annotations

import gzip
import os
from pathlib import Path

import ir_measures
import pytest
from support.commands import NO_LLM, benchmark, invoke, make_project
from support.made_runs import Planned, make_questions, make_run

from branchrank.core.errors import BranchRankError, InputError
from branchrank.core.io.files import digest_file
from branchrank.questions.qrels import read_qrels
from branchrank.run import Run
from branchrank.runs.exchange import compare_trec, export_trec, read_trec, score_trec
from branchrank.scoring.comparison import CompareOptions
from branchrank.scoring.measures import named_measure

MEASURES = ["Success@1", "Success(rel=2)@1", "RR", "nDCG@10", "nDCG", "R@100", "AP", "P@5", "AP(rel=2)"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a finished run of three predictors."""
    return benchmark(make_project(tmp_path_factory.mktemp("trec")), *NO_LLM)


@pytest.fixture(scope="module")
def exported(run: Path) -> Path:
    result = invoke("export-trec", run, "--output", run / "trec")
    assert result.exit_code == 0, result.output
    return run / "trec"


def theirs(run: Path, qrels: Path, names: list[str]) -> dict[str, float]:
    measures = {name: ir_measures.parse_measure(name) for name in names}
    values = ir_measures.calc_aggregate(
        list(measures.values()), ir_measures.read_trec_qrels(str(qrels)), ir_measures.read_trec_run(str(run))
    )
    return {name: values[measure] for name, measure in measures.items()}


def ours(run: Path, qrels: Path, names: list[str]) -> dict[str, float]:
    result = invoke("score-trec", qrels, run, *(word for name in names for word in ("-m", name)))
    assert result.exit_code == 0, result.output
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    assert all(scope == "all" for _, scope, _, _ in lines)
    return {name: float(value) for name, (_, _, _, value) in zip(names, lines, strict=True)}


def test_every_predictor_has_a_run_that_scores_as_ir_measures_says(run: Path, exported: Path) -> None:
    loaded = Run.load(run)
    runs = sorted(exported.glob("*.run"))
    assert {path.stem for path in runs} == set(loaded.scores.predictors)
    for path in runs:
        values = ours(path, exported / "qrels.txt", MEASURES)
        assert values == pytest.approx(theirs(path, exported / "qrels.txt", MEASURES), abs=5e-5)
        for name, own in (("Success(rel=2)@1", "strict_hit@1"), ("nDCG@10", "graded_nDCG@10")):
            assert values[name] == pytest.approx(
                loaded.scores.average(path.stem, named_measure(own)), abs=5e-5
            )


def test_documents_as_ids(run: Path, tmp_path: Path) -> None:
    result = invoke("export-trec", run, "--output", tmp_path, "--ids", "document")
    assert result.exit_code == 0, result.output
    loaded = Run.load(run)
    for path in tmp_path.glob("*.run"):
        values = ours(path, tmp_path / "qrels.txt", ["Success@1", "R@5"])
        assert values == pytest.approx(theirs(path, tmp_path / "qrels.txt", ["Success@1", "R@5"]), abs=5e-5)
        relaxed = loaded.scores.average(path.stem, named_measure("relaxed_hit@1"))
        assert values["Success@1"] == pytest.approx(relaxed, abs=5e-5)
        keys = [tuple(line.split()[:3:2]) for line in path.read_text().splitlines()]
        assert len(keys) == len(set(keys))


def test_each_repeat_has_its_own_run_and_names_that_look_alike_are_kept_apart(tmp_path: Path) -> None:
    planned = (Planned("asks", 0.5, llm="m"), *(Planned(name, 0.5) for name in ("a b", "a/b", "a-b-2")))
    made = make_run(tmp_path, planned, make_questions(4), repeats=2, latency_sample=0)
    names = {path.name for path in export_trec(made, tmp_path / "trec")}
    assert names == {"qrels.txt", "asks-1.run", "asks-2.run", "a-b.run", "a-b-2.run", "a-b-2-2.run"}
    lines = {
        path.stem: [line.split() for line in path.read_text().splitlines()]
        for path in (tmp_path / "trec").glob("*.run")
    }
    tags = {name: {line[-1] for line in of} for name, of in lines.items()}
    assert tags == {
        "asks-1": {"asks-1"},
        "asks-2": {"asks-2"},
        "a-b": {"a%20b"},
        "a-b-2": {"a/b"},
        "a-b-2-2": {"a-b-2"},
    }
    for of in lines.values():
        for query in {line[0] for line in of}:
            ranked = [(int(line[3]), float(line[4])) for line in of if line[0] == query]
            assert ranked == [(place, len(ranked) + 1 - place) for place in range(1, len(ranked) + 1)]


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_foreign_runs_with_ties_missing_queries_and_grades(tmp_path: Path) -> None:
    qrels = write(tmp_path / "qrels", "1 0 a 2", "1 0 b 1", "1 0 c 0", "2 0 a 1", "3 0 z 3")
    run = write(
        tmp_path / "run",
        "1 Q0 c 1 0.5 x",
        "1 Q0 b 2 0.5 x",
        "1 Q0 a 3 0.25 x",
        "",
        "2 Q0 q 1 7 x",
        "2 Q0 a 9 8e0 x",
        "9 Q0 a 1 1 x",
    )
    names = ["RR", "nDCG@10", "AP", "P@2", "R@2", "Success(rel=2)@3"]
    assert ours(run, qrels, names) == pytest.approx(theirs(run, qrels, names), abs=5e-5)
    [scored] = score_trec([run], qrels, ["RR"])
    assert scored.by_query["RR"] == {"1": pytest.approx(1 / 2), "2": 1.0, "3": 0.0}
    assert scored.means["RR"] == pytest.approx(0.5)
    result = invoke("score-trec", qrels, run, "-m", "RR", "--by-query")
    assert [line.split("\t")[1:] for line in result.stdout.splitlines()] == [
        ["1", "RR", "0.5000"],
        ["2", "RR", "1.0000"],
        ["3", "RR", "0.0000"],
        ["all", "RR", "0.5000"],
    ]


def test_queries_without_a_judged_document_are_noted(tmp_path: Path) -> None:
    qrels = write(tmp_path / "qrels", "1 0 a 1", "2 0 <b> 1", "3 0 c 1")
    run = write(tmp_path / "run", "1 Q0 a 1 2 x", "2 Q0 %3Cb%3E 1 2 x", "3 Q0 c 1 2 x")
    result = invoke("score-trec", qrels, run, "-m", "RR")
    assert result.stderr.startswith("note: for 1 of 3 queries (the first: 2)")
    assert f"{run} has no document" in result.stderr
    run = write(tmp_path / "run", "1 Q0 a 1 2 x", "2 Q0 <b> 1 2 x", "3 Q0 z 1 9 x", "3 Q0 c 1 2 x")
    assert invoke("score-trec", qrels, run, "-m", "RR").stderr == ""


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["1 Q0 a 1 0.5"], ":1: the line has 5 columns"),
        (["1 Q0 a 1 0.5 x", "1 Q0 b 2 nan x"], ":2: 'nan' is not a finite number"),
        (["1 Q0 a 1 inf x"], ":1: 'inf' is not a finite number"),
        (["1 Q0 a 1 2 x", "1 Q0 a 2 1 x"], ":2: the document 'a' occurs twice for the query '1'"),
        (["1 Q0 a 1 best x"], ":1: 'best' is not a finite number"),
    ],
)
def test_invalid_run_lines_are_reported(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_trec(write(tmp_path / "run", *lines))


NO_HEADER = ["q1\td1\t1.0", "q2\td2\t1.0"]
FOUR = ["1\t0\td1\t1", "2\t0\td2\t2"]
BEIR_HEADER = "query-id\tcorpus-id\tscore"


@pytest.mark.parametrize(
    ("name", "lines", "expected"),
    [
        ("a.tsv", NO_HEADER, {"q1": {"d1": 1}, "q2": {"d2": 1}}),
        ("a.tsv", [BEIR_HEADER, *NO_HEADER], {"q1": {"d1": 1}, "q2": {"d2": 1}}),
        ("a.tsv", ["qid\tdocid\trel", "q 1\td 1\t-1"], {"q 1": {"d 1": -1}}),
        ("a.tsv", ["q1\td1\t+1", "q2\td2\t1e0"], {"q1": {"d1": 1}, "q2": {"d2": 1}}),
        ("a.tsv", FOUR, {"1": {"d1": 1}, "2": {"d2": 2}}),
        ("a.tsv", ["topic\titeration\tdocument\tRelevance", *FOUR], {"1": {"d1": 1}, "2": {"d2": 2}}),
        ("a.tsv", ["1 0 d1 1"], {"1": {"d1": 1}}),
        ("a.txt", FOUR, {"1": {"d1": 1}, "2": {"d2": 2}}),
        ("a.tsv.gz", FOUR, {"1": {"d1": 1}, "2": {"d2": 2}}),
    ],
)
def test_qrels_of_other_collections_are_read(
    tmp_path: Path, name: str, lines: list[str], expected: dict[str, dict[str, int]]
) -> None:
    assert read_qrels(write(tmp_path / name, *lines)) == expected


@pytest.mark.parametrize(
    ("name", "lines", "message"),
    [
        ("a.tsv", ["q1\td1\tyes"], ":1: 'yes' is not a whole number"),
        ("a.tsv", ["q1\td1\t1", BEIR_HEADER], ":2: 'score' is not a whole number"),
        ("a.tsv", [NO_HEADER[0], FOUR[0]], ":2: the line has 4 columns"),
        ("a.txt", ["q1 d1 1"], ":1: the line has 3 columns"),
    ],
)
def test_other_qrels_lines_are_refused(tmp_path: Path, name: str, lines: list[str], message: str) -> None:
    with pytest.raises(BranchRankError, match=message):
        read_qrels(write(tmp_path / name, *lines))


def test_runs_of_ms_marco_are_read(tmp_path: Path) -> None:
    run = write(tmp_path / "run.dev.tsv", "1\td9\t1", "1\td1\t2", "2\td2\t1", "2\td3\t10")
    assert read_trec(run) == {"1": {"d9": -1, "d1": -2}, "2": {"d2": -1, "d3": -10}}
    [scored] = score_trec([run], write(tmp_path / "qrels.dev.tsv", *FOUR), ["RR"])
    assert scored.by_query == {"RR": {"1": 0.5, "2": 1.0}}
    for wrong in ("0.5", "0", "-1", "high"):
        with pytest.raises(BranchRankError, match=f":1: '{wrong}' is not a rank"):
            read_trec(write(tmp_path / "wrong.tsv", f"1\td9\t{wrong}"))


@pytest.mark.parametrize("second", ["d2 d1", "d1 d9", "d9 d2"])
@pytest.mark.parametrize("first", ["d1 d2", "d8 d1"])
def test_incomplete_judgments_are_shown_and_unequal_ones_give_a_warning(
    tmp_path: Path, first: str, second: str
) -> None:
    qrels = write(tmp_path / "qrels", "q1 0 d1 1", "q1 0 d2 0")
    runs = []
    for name, keys in (("a", first), ("b", second)):
        lines = [f"q1 Q0 {key} 0 {9 - place} t" for place, key in enumerate(keys.split())]
        runs.append(write(tmp_path / f"{name}.run", *lines))
    table = compare_trec(qrels, runs, CompareOptions(measures=("RR@2",)))
    shares = [sum(key in ("d1", "d2") for key in keys.split()) / 2 for keys in (first, second)]
    words, warned = table.judged
    assert bool(words) == (min(shares) < 1) == ("Judged@2" in str(table))
    assert warned == (shares[0] != shares[1]) == ("warning: Judged@2" in str(table))
    assert all(f"{name} {share:.4f}" in words for name, share in zip("ab", shares, strict=True) if words)
    assert table.measures == ("RR@2",)


def test_compressed_runs_have_the_names_of_their_files(tmp_path: Path) -> None:
    qrels = tmp_path / "qrels.txt.gz"
    qrels.write_bytes(gzip.compress(b"q1 0 d1 1\nq2 0 d2 1\n"))
    for name in ("a", "b"):
        (tmp_path / f"{name}.run.gz").write_bytes(gzip.compress(b"q1 Q0 d1 1 2 t\nq2 Q0 d2 1 2 t\n"))
    result = invoke("compare-trec", qrels, tmp_path / "a.run.gz", tmp_path / "b.run.gz", "-m", "RR")
    assert result.exit_code == 0, result.output
    rows = [line.split()[:2] for line in result.output.splitlines() if line[:2] in ("a ", "b ")]
    assert rows[:2] == [["a", "1.0000"], ["b", "1.0000"]]


def test_unreadable_and_empty_files_are_errors(tmp_path: Path) -> None:
    with pytest.raises(BranchRankError, match="cannot read"):
        read_trec(tmp_path / "none")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8"):
        read_trec(tmp_path / "binary")
    with pytest.raises(InputError, match="has no judgments"):
        read_qrels(write(tmp_path / "empty"))
    with pytest.raises(InputError, match=":2: the document 'a' occurs twice"):
        read_qrels(write(tmp_path / "qrels", "1 0 a 1", "1 0 a 0"))
    with pytest.raises(InputError, match=r"'1\.5'"):
        read_qrels(write(tmp_path / "qrels", "1 0 a 1.5"))


@pytest.mark.parametrize("rank", ["9" * 5000, "0" * 5000])
def test_a_rank_that_is_no_number_is_refused(tmp_path: Path, rank: str) -> None:
    (tmp_path / "qrels.txt").write_text("q 0 d 1\n")
    (tmp_path / "run.tsv").write_text(f"q\td\t{rank}\n")
    result = invoke("score-trec", tmp_path / "qrels.txt", tmp_path / "run.tsv", "-m", "RR")
    assert result.exit_code == 3, result.output


@pytest.mark.parametrize("place", ["qrels", "run"])
def test_a_pipe_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "qrels").write_text("q 0 d 1\n")
    (tmp_path / "run").write_text("q Q0 d 1 1.0 x\n")
    (tmp_path / place).unlink()
    os.mkfifo(tmp_path / place)
    for command in ("score-trec", "compare-trec"):
        assert invoke(command, tmp_path / "qrels", tmp_path / "run").exit_code == 3
    with pytest.raises(OSError, match="regular"):
        digest_file(tmp_path / place)
