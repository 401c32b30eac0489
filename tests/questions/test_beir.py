"""BEIR folders as corpora and questions, down to values worked out by hand.

The small folder has four documents. Their tokens, stemmed and without English stop words, are ``tea green
tea`` (d1), ``black tea leav`` (d2), ``coffe coffe morn`` (d3) and ``water`` (d4); the mean length is 2.5.
"""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import ir_measures
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.commands import invoke
from support.made_runs import run_of

from branchrank.core.errors import InputError, QuestionError
from branchrank.core.records import GoldItem, Question, Span
from branchrank.core.settings import Bm25Settings
from branchrank.documents.ir_collections import entry_id, entry_source, unpack_beir
from branchrank.questions.qrels import beir_questions
from branchrank.questions.question_files import load_questions
from branchrank.reports.recommendation import cautions
from branchrank.run import Run
from branchrank.runs.exchange import export_trec, read_trec, trec_token
from branchrank.runs.rows import Row
from branchrank.scoring.matching import JudgedHit
from branchrank.scoring.measures import named_measure

ENTRIES = [
    {"_id": "d1", "title": "Tea", "text": "green tea"},
    {"_id": "d2", "title": "", "text": "black tea leaves", "metadata": {"year": 1}},
    {"_id": "d 3/x", "title": "Coffee", "text": "the coffee\nof the morning"},
    {"_id": "d4", "text": "water"},
]
QUERIES = [
    {"_id": "q1", "text": "green teas"},
    {"_id": "q2", "text": "the morning water"},
    {"_id": "d4", "text": "water of coffee"},
    {"_id": "q9", "text": "judged by nobody"},
]
QRELS = ["q1\td2\t2", "q1\td1\t1", "q1\td4\t0", "q2\td 3/x\t1", "d4\td 3/x\t1"]
BM25 = Bm25Settings(stop_words="english", split_identifiers=False)
ANALYZER = ("--bm25-stop-words", "english", "--no-bm25-split-identifiers")


def make_folder(folder: Path, entries=ENTRIES, queries=QUERIES, qrels=QRELS) -> Path:
    (folder / "qrels").mkdir(parents=True)
    for name, lines in (("corpus", entries), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *qrels]) + "\n")
    return folder


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a BEIR folder ``small``, its workspace, its questions and a finished deep run."""
    folder = tmp_path_factory.mktemp("beir")
    small, data = make_folder(folder / "small"), folder / "data"
    (folder / "deep.toml").write_text(
        f'name = "deep"\ndata_dir = "{data}"\nquestions = "{folder / "q.jsonl"}"\n'
        '[benchmark]\ntop_k = 1000\nprimary = "graded_nDCG@10"\nlatency_sample = 0\n'
        '[systems.bm25]\nbranches = [{ kind = "bm25", unit = "node", top_n = 1000 }]\nreturns = "section"\n'
        "[systems.local]\nvector_top_n = 1000\nbm25_top_n = 1000\n"
    )
    for words in (
        ("index", small, "--data-dir", data, "--embedder", "fake", "--quiet", *ANALYZER),
        ("beir", "questions", small, "--output", folder / "q.jsonl"),
        ("run", folder / "deep.toml", "--reports", folder / "reports", "--quiet"),
    ):
        result = invoke(*words)
        assert result.exit_code == 0, result.output
    return folder


@pytest.fixture(scope="module")
def run(project: Path) -> Path:
    [directory] = (project / "reports").iterdir()
    return directory


# ln(1 + (4 - df + 0.5) / (df + 0.5)) is 1.203973 for df = 1 and 0.693147 for df = 2.
# k1 (1 - b + b length / 2.5) is 0.972 for three tokens and 0.684 for one.
BY_HAND = {
    "q1": [("d1", 1.203973 / 1.972 + 0.693147 * 2 / 2.972), ("d2", 0.693147 / 1.972)],
    "q2": [("d4", 1.203973 / 1.684), ("d 3/x", 1.203973 / 1.972)],
    "d4": [("d 3/x", 1.203973 * 2 / 2.972), ("d4", 1.203973 / 1.684)],
}


def test_bm25_of_whole_documents_matches_a_manual_calculation(run: Path) -> None:
    rows = Run.load(run).scores.rows("bm25")
    assert {row.question_id for row in rows} == set(BY_HAND)
    for row in rows:
        expected = sorted(BY_HAND[row.question_id], key=lambda pair: -pair[1])
        assert [hit.source for hit in row.hits] == [entry_source(key) for key, _ in expected]
        scores = [hit.branches["bm25(nodes)"].score for hit in row.hits]
        assert scores == pytest.approx([value for _, value in expected], abs=1e-5)


def test_ndcg_matches_a_manual_calculation(run: Path, project: Path) -> None:
    # q1: d1 (1), d2 (2) of 2, 1 -> 0.85972; q2: the only one at rank 2 -> 0.63093; d4: at rank 1.
    expected = ((1 + 2 / math.log2(3)) / (2 + 1 / math.log2(3)) + 1 / math.log2(3) + by_rank("d4")) / 3
    scores = Run.load(run).scores
    assert scores.average("bm25", named_measure("graded_nDCG@10")) == pytest.approx(expected, abs=1e-6)
    assert scores.average("bm25", named_measure("strict_nDCG@10")) > 0
    for ids in ("gold", "document"):
        result = invoke("export-trec", run, "--output", project / ids, "--ids", ids)
        assert result.exit_code == 0, result.output
        qrels = project / ids / "qrels.txt"
        found = ir_measures.calc_aggregate(
            [ir_measures.nDCG @ 10],
            ir_measures.read_trec_qrels(str(qrels)),
            ir_measures.read_trec_run(str(project / ids / "bm25.run")),
        )
        assert found[ir_measures.nDCG @ 10] == pytest.approx(expected, abs=5e-5)


def by_rank(query: str) -> float:
    """nDCG of a query whose only relevant document is d 3/x."""
    ranked = [key for key, _ in sorted(BY_HAND[query], key=lambda pair: -pair[1])]
    return 1 / math.log2(ranked.index("d 3/x") + 2)


SPELLED = ["<dbpedia:Cat>", "Łódź", "a+b(c)", "100%", "%41", "#1", 'd"4"', "a b%\t\x85"]


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder ``odd`` with the BEIR folder ``set`` of odd ids and of judgments on an absent document, and
    what of it was indexed, asked and run."""
    folder = tmp_path_factory.mktemp("spelled")
    entries = [{"_id": key, "text": f"topic{place}"} for place, key in enumerate(SPELLED)]
    queries = [{"_id": f"{key}?", "text": f"topic{place}"} for place, key in enumerate(SPELLED[:-1])]
    qrels = [f"{key}?\t{key}\t1" for key in SPELLED[:-1]] + [f"{SPELLED[0]}?\tabsent\t2"]
    make_folder(folder / "set", entries, queries, qrels)
    (folder / "odd.toml").write_text(
        f'name = "odd"\ndata_dir = "{folder / "data"}"\nquestions = "{folder / "q.jsonl"}"\n'
        '[benchmark]\nprimary = "graded_nDCG@10"\nlatency_sample = 0\n'
        '[systems.bm25]\nbranches = [{ kind = "bm25", unit = "node", top_n = 10 }]\nreturns = "section"\n'
    )
    for words in (
        ("index", folder / "set", "--data-dir", folder / "data", "--embedder", "fake", "--quiet", *ANALYZER),
        ("beir", "questions", folder / "set", "--output", folder / "q.jsonl"),
        ("run", folder / "odd.toml", "--reports", folder / "reports", "--quiet"),
    ):
        result = invoke(*words)
        assert result.exit_code == 0, result.output
    return folder


def test_ids_are_exported_unchanged(odd: Path) -> None:
    [run] = (odd / "reports").iterdir()
    assert invoke("export-trec", run, "--output", odd / "trec", "--ids", "document").exit_code == 0
    [bm25] = (odd / "trec").glob("*.run")
    found = {document for _, _, document, *_ in map(str.split, bm25.read_text().splitlines())}
    assert found == set(SPELLED[:-1])
    result = invoke("score-trec", odd / "set" / "qrels" / "test.tsv", bm25, "-m", "Success@1")
    assert (result.stdout.split("\t")[-1].strip(), result.stderr) == ("1.0000", "")


def test_ids_with_whitespace_are_encoded(tmp_path: Path) -> None:
    source = entry_source(SPELLED[-1])
    found = JudgedHit(id="h", source=source, line_start=1, line_end=2, characters=1, score=1.0, gain=0)
    row = Row(question_id="q", predictor="bm25", llm="none", hits=(found,))
    asked = Question(id="q", question="?", gold=(GoldItem(source_file="a b.md"),), gold_level="file")
    qrels, run = export_trec(run_of([row], [asked]), tmp_path, "document")
    assert qrels.read_text() == "q 0 a%20b.md 1\n"
    assert list(read_trec(run)["q"]) == ["a%20b%25%09%C2%85"]


def test_a_missing_judged_document_still_counts_in_the_ideal_ranking(odd: Path) -> None:
    [run] = (odd / "reports").iterdir()
    ideal = 2 + 1 / math.log2(3)
    expected = (1 / ideal + len(SPELLED) - 2) / (len(SPELLED) - 1)
    average = Run.load(run).scores.average("bm25", named_measure("graded_nDCG@10"))
    assert average == pytest.approx(expected, abs=1e-6)
    for command in ("check", "reanchor"):
        result = invoke("questions", command, odd / "q.jsonl", "--data-dir", odd / "data")
        assert result.exit_code == 0, result.output
        assert ("note: question '<dbpedia:Cat>?': 1 of 2 gold files" in result.output) == (command == "check")
    assert len(load_questions(odd / "q.jsonl")[0].gold) == 2


def test_missing_gold_that_is_not_declared_is_an_error(odd: Path) -> None:
    lines = (odd / "q.jsonl").read_text().replace('"absent_gold"', '"other"')
    (odd / "unsaid.jsonl").write_text(lines)
    for command in ("check", "reanchor"):
        words = (odd / "unsaid.jsonl", "--data-dir", odd / "data")
        result = invoke("questions", command, *words)
        assert result.exit_code == 3
        assert "'absent.beir'" in result.output


def test_questions_have_the_relevant_documents_as_gold(project: Path) -> None:
    first, second, third = load_questions(project / "q.jsonl")
    assert (first.id, first.question, first.gold_level) == ("q1", "green teas", "file")
    assert [(item.source_file, item.relevance) for item in first.gold] == [("d1.beir", 1), ("d2.beir", 2)]
    assert [item.source_file for item in second.gold] == [entry_source("d 3/x")]
    assert third.excluded_spans == ()


def test_a_querys_own_document_can_be_left_out(project: Path) -> None:
    made = beir_questions(project / "small", "test", remove_query=True)
    assert made.questions[2].excluded_spans == (Span(source="d4.beir", line_start=1, line_end=2),)
    assert made.questions[0].excluded_spans == ()


def test_a_document_that_is_left_out_is_not_gold(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "own", qrels=["d4\td4\t2", "d4\td1\t1"])
    for remove, gold in ((False, ["d1.beir", "d4.beir"]), (True, ["d1.beir"])):
        [question] = beir_questions(folder, "test", remove_query=remove).questions
        assert [item.source_file for item in question.gold] == gold


def test_odd_judgments_are_noted(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "odd", qrels=["q1\td1\t1", "q1\tgone\t1", "q2\td1\t0", "nobody\td1\t1"])
    made = beir_questions(folder, "test")
    assert [question.id for question in made.questions] == ["q1"]
    assert len(made.questions[0].gold) == 2
    for note, said in zip(made.notes, ("'nobody'", "'q1': 1 relevant", "'q2'"), strict=True):
        assert said in note


def test_compressed_folders_are_read(project: Path, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "small")
    for path in [*folder.glob("*.jsonl"), *folder.glob("qrels/*.tsv")]:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert beir_questions(folder, "test") == beir_questions(project / "small", "test")
    with pytest.raises(QuestionError) as caught:
        beir_questions(folder, "dev")
    assert caught.value.remedy == "choose a --split from: test"
    flags = ("--data-dir", tmp_path / "data", "--reports", tmp_path / "reports", "-m", "nDCG@10", "--quiet")
    result = invoke("beir", "run", folder, *flags)
    assert result.exit_code == 0, result.output
    [run] = (tmp_path / "reports").iterdir()
    hits = {row.question_id: row.hits[0].source for row in Run.load(run).rows}
    assert hits == {"q1": "d1.beir", "q2": "d4.beir", "d4": entry_source("d 3/x")}


def test_whole_numbers_are_ids_and_missing_text_is_empty(tmp_path: Path) -> None:
    entries = [{"_id": 3, "title": None, "text": "tea"}, {"_id": "4", "title": "Coffee", "text": None}]
    folder = make_folder(tmp_path / "n", entries, [{"_id": 0, "text": "tea"}], ["0\t3\t1.0", "0\t4\t+2"])
    [question] = beir_questions(folder, "test").questions
    assert (question.id, question.gold_level) == ("0", "file")
    assert [(each.source_file, each.relevance) for each in question.gold] == [("3.beir", 1), ("4.beir", 2)]
    unpack_beir(folder, tmp_path / "entries")
    assert (tmp_path / "entries" / "3.beir").read_text() == "\ntea\n"
    assert (tmp_path / "entries" / "4.beir").read_text() == "Coffee\n\n"


@pytest.mark.parametrize("key", [True, 1.5, None, [], ""])
def test_other_ids_are_refused(tmp_path: Path, key: object) -> None:
    folder = make_folder(tmp_path / "n", queries=[*QUERIES, {"_id": key, "text": "tea"}])
    with pytest.raises(QuestionError, match=r"queries\.jsonl"):
        beir_questions(folder, "test")


@pytest.mark.parametrize("first", ["q1", 1])
def test_the_same_query_twice_is_an_error(tmp_path: Path, first: object) -> None:
    queries = [{"_id": first, "text": "green teas"}, {"_id": str(first), "text": "coffee"}]
    with pytest.raises(QuestionError, match=f"query 2: the `_id` '{first}'"):
        beir_questions(make_folder(tmp_path / "n", queries=queries), "test")


def test_long_ids_have_files_of_their_own(tmp_path: Path) -> None:
    long = ["第三章" * 40, "第三章" * 40 + "x", "x" * 300, "." * 251, "é" * 41 + "a"]
    names = [entry_source(key) for key in long]
    assert len(set(names)) == len(long)
    assert all(len(name.encode()) <= 255 for name in names)
    assert entry_id(entry_source("é" * 41)) == "é" * 41  # 246 bytes need no digest
    assert all(entry_id(name) == name.removesuffix(".beir") for name in names[:4])
    entries = [{"_id": key, "text": f"topic{place}"} for place, key in enumerate(long)]
    queries = [{"_id": f"q{place}", "text": f"topic{place}"} for place in range(len(long))]
    qrels = [f"q{place}\t{key}\t1" for place, key in enumerate(long)]
    folder = make_folder(tmp_path / "n", entries, queries, qrels)
    run = tmp_path / "theirs.run"
    run.write_text("".join(f"q{place} Q0 {key} 1 1 t\n" for place, key in enumerate(long)))
    flags = ("--data-dir", tmp_path / "data", "--reports", tmp_path / "reports", "-m", "Success@1", "--quiet")
    result = invoke("beir", "run", folder, "--predictor", "bm25", "--predictor", f"trec:{run}", *flags)
    assert result.exit_code == 0, result.output
    [directory] = (tmp_path / "reports").iterdir()
    found = Run.load(directory)
    for predictor in found.scores.predictors:
        assert found.scores.average(predictor, named_measure("strict_hit@1")) == 1.0, predictor


def test_a_run_shows_the_share_of_judged_hits_and_warns_if_it_differs(tmp_path: Path) -> None:
    """d4 was judged wrong for q1, and nobody judged d3 and d4 for q2."""
    entries = [{"_id": f"d{place}", "text": f"topic{place}"} for place in range(1, 5)]
    queries = [{"_id": "q1", "text": "topic1"}, {"_id": "q2", "text": "topic2"}]
    qrels = ["q1\td1\t1", "q1\td4\t0", "q1\td3\t-1", "q2\td2\t2", "q2\td1\t0"]
    folder = make_folder(tmp_path / "n", entries, queries, qrels)
    runs = {"old": ("d1 d4", "d2 d1"), "new": ("d2 d1", "d3 d4"), "other": ("d4 d1", "d1 d2")}
    flags = ["--data-dir", tmp_path / "data", "-m", "nDCG@2", "-m", "Judged@2", "-m", "Bpref", "--quiet"]
    for name, found in runs.items():
        lines = [
            f"q{query} Q0 {key} 1 {9 - place} t\n"
            for query, keys in enumerate(found, start=1)
            for place, key in enumerate(keys.split())
        ]
        (tmp_path / f"{name}.run").write_text("".join(lines))
        flags += ["--predictor", f"trec:{tmp_path / name}.run"]
    result = invoke("beir", "run", folder, "--reports", tmp_path / "reports", *flags)
    assert result.exit_code == 0, result.output
    run = Run.load(next((tmp_path / "reports").iterdir()))
    shares = [run.scores.average(name, named_measure("graded_Judged@2")) for name in run.predictors]
    assert shares == [1.0, 0.25, 1.0]
    text, differs = run.judged
    assert differs
    assert [f"{share:.4f}" in text for share in shares] == [True] * 3
    assert text in (run.directory / "report.md").read_text().replace("\\", "")
    assert [each.words for each in cautions(run) if each.kind == "judged"] == [text]
    assert "warning: Judged@2" in result.output
    assert (
        invoke("export-trec", run.directory, "--output", tmp_path / "out", "--ids", "document").exit_code == 0
    )
    theirs = ir_measures.calc_aggregate(
        [ir_measures.Bpref, ir_measures.Judged @ 2],
        ir_measures.read_trec_qrels(str(tmp_path / "out" / "qrels.txt")),
        ir_measures.read_trec_run(str(next((tmp_path / "out").glob("*new*.run")))),
    )
    name = run.predictors[1]
    assert theirs[ir_measures.Judged @ 2] == shares[1]
    assert theirs[ir_measures.Bpref] == run.scores.average(name, named_measure("graded_Bpref"))


IDS = [
    "a b",
    "a%20b",
    "a%2520b",
    "a%252520b",
    "a%20 b",
    "a\tb",
    "a%09b",
    "%",
    "%25",
    "50%",
    "a%C2%85b",
    "a\x85b",
]


@pytest.mark.parametrize("key", ["%", "%25", "50%", "wiki/C%2B%2B"])
def test_an_id_without_whitespace_is_exported_unchanged(key: str) -> None:
    assert trec_token(key) == key


@example(IDS)
@given(st.lists(st.text(st.sampled_from("a %250\t"), min_size=1), unique=True, max_size=20))
def test_any_different_ids_stay_different(keys: list[str]) -> None:
    tokens = {trec_token(key) for key in keys}
    assert len(tokens) == len(keys)
    assert all(len(token.split()) == 1 for token in tokens)


def test_splits_that_are_missing_or_empty_are_refused(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "b", qrels=["q1\td1\t0"])
    with pytest.raises(QuestionError, match="no split 'dev'") as caught:
        beir_questions(folder, "dev")
    assert "test" in caught.value.remedy
    with pytest.raises(QuestionError, match="no relevant document"):
        beir_questions(folder, "test")
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\n")
    with pytest.raises(InputError, match=":2: the line has 2 columns"):
        beir_questions(folder, "test")
