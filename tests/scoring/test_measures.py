"""Measures by hand, by ir-measures, and by name."""

import re
import shutil
from itertools import pairwise

import ir_measures
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.gold import gold, golds_of, hit, hits_of, question

from branchrank.core.errors import UsageError
from branchrank.runs.exchange import score_trec
from branchrank.scoring.matching import judge, question_qrels, question_run, run_ranking
from branchrank.scoring.measures import Ranking, mean, named_measure, parse_measure, score

NAMES = [
    "Success@1", "Success(rel=2)@1", "Success@5", "Success(rel=2)@5", "RR", "RR(rel=2)", "RR@5",
    "nDCG", "nDCG@5", "nDCG@10", "AP", "AP(rel=2)@10", "R@5", "R(rel=2)@5", "P@5", "P(rel=2)@3",
    "Judged@5", "Judged@10", "Bpref", "Bpref(rel=2)", "Rprec", "Rprec(rel=2)",
]  # fmt: skip


#: Names with parameters. The reference for an exponential gain maps each grade in ``GAINS``.
ONLY = "judged_only=True"
WITH_PARAMETERS = [
    f"nDCG({ONLY})@5", f"AP({ONLY})", f"AP(rel=2,{ONLY})", f"P({ONLY})@3", f"R({ONLY})@5", f"RR({ONLY})",
    f"Success({ONLY})@1", f"Rprec({ONLY})",
]  # fmt: skip
GAINS = {1: 1, 2: 3}


def reference(name):
    """The measure of ir-measures with our name, without going through its own parser."""
    found = re.fullmatch(r"(\w+)(?:\(rel=(\d)\))?(?:@(\d+))?", name)
    measure = getattr(ir_measures, found[1])
    measure = measure(rel=int(found[2])) if found[2] else measure
    return measure @ int(found[3]) if found[3] else measure


def assert_agrees(qrels, runs, rankings, names=NAMES):
    theirs = ir_measures.calc_aggregate([reference(name) for name in names], qrels, runs)
    for name in names:
        ours = mean(score(parse_measure(name), rankings, qrels).values())
        assert ours == pytest.approx(theirs[reference(name)], abs=5e-5), name


HAND = Ranking(gains=((2, 1), (3, 2), (6, 0)), returned=8, gold=(2, 2, 1))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hit@1", 0.0),
        ("hit@2", 1.0),
        ("Success(rel=2)@2", 0.0),
        ("RR", 1 / 2),
        ("RR(rel=2)", 1 / 3),
        ("MRR(rel=2)@2", 0.0),
        ("AP", (1 / 2 + 2 / 3) / 3),
        ("AP(rel=2)", (1 / 3) / 2),
        ("R@5", 2 / 3),
        ("R(rel=2)@5", 1 / 2),
        ("P@5", 2 / 5),
        ("P@20", 2 / 20),
        ("nDCG@5", (1 / 1.5849625 + 2 / 2) / (2 + 2 / 1.5849625 + 1 / 2)),
        ("nDCG@1", 0.0),
        ("Judged@5", 2 / 5),
        ("Judged@10", 3 / 8),
        ("Bpref", 2 / 3),
        ("Bpref(rel=2)", (1 - 1 / 1) / 2),
        ("Rprec", 2 / 3),
        ("Rprec(rel=2)", 0.0),
        ("nDCG(dcg='exp-log2')@5", (1 / 1.5849625 + 3 / 2) / (3 + 3 / 1.5849625 + 1 / 2)),
        ("RR(judged_only=True)", 1.0),
        ("P(judged_only=True)@2", 1.0),
        ("Judged(judged_only=True)", 1.0),
        ("ERR@2", 1 / 16 / 2),
        ("ERR", 1 / 16 / 2 + 15 / 16 * 3 / 16 / 3),
        ("RBP", 0.2 * (0.8 + 0.8**2)),
        ("RBP@2", 0.2 * 0.8),
        ("RBP(p=0.5,rel=2)", 0.5 * 0.5**2),
    ],
)
def test_measures_match_values_calculated_by_hand(name, value):
    assert parse_measure(name)(HAND) == pytest.approx(value, abs=1e-7)


def test_nothing_found_and_nothing_to_find_score_zero():
    for name in NAMES:
        assert parse_measure(name)(Ranking(gains=(), returned=0, gold=(2, 1))) == 0
        assert parse_measure(name)(Ranking(gains=(), returned=3, gold=())) == 0


def test_a_question_without_a_ranking_stays_in_the_average():
    scores = score(parse_measure("hit@5"), {"q1": HAND}, ["q1", "failed"])
    assert scores == {"q1": 1.0, "failed": 0.0}
    assert mean(scores.values()) == 0.5


def test_names_are_those_of_ir_measures():
    for name in NAMES:
        assert str(parse_measure(name)) == str(reference(name)) == name
    assert str(parse_measure("MRR@5")) == "RR@5"
    assert str(parse_measure(" hit( rel = 2 )@1")) == "Success(rel=2)@1"
    assert str(parse_measure("nDCG(cutoff=10)")) == "nDCG@10"
    assert str(parse_measure("bpref")) == "Bpref"
    assert str(parse_measure("RBP(p=0.5, rel=2)@10")) == "RBP(rel=2,p=0.5)@10"
    assert ir_measures.parse_measure("RBP(rel=2,p=0.5)@10") == ir_measures.RBP(rel=2, p=0.5) @ 10


OTHER_NAMES = {
    "ndcg": "nDCG", "ndcg@10": "nDCG@10", "ndcg_cut_10": "nDCG@10", "ndcg_cut.10": "nDCG@10",
    "NDCG@3": "nDCG@3", "map": "AP", "map_cut_100": "AP@100", "map@100": "AP@100", "MAP": "AP",
    "P_10": "P@10", "P.10": "P@10", "p@10": "P@10", "precision@5": "P@5", "recall_1000": "R@1000",
    "recall@7": "R@7", "recip_rank": "RR", "mrr": "RR", "mrr@10": "RR@10", "Rprec": "Rprec",
    "RPrec": "Rprec", "r-precision": "Rprec", "r_precision": "Rprec", "bpref": "Bpref", "BPref": "Bpref",
    "success_5": "Success@5", "hit_rate@5": "Success@5", "precision@5-l2": "P(rel=2)@5",
    "map-l3": "AP(rel=3)", "rbp.95": "RBP(p=0.95)", "ndcg_burges@10": "nDCG(dcg='exp-log2')@10",
    "ndcg_burges": "nDCG(dcg='exp-log2')", "err@20": "ERR@20", "judged_10": "Judged@10",
}  # fmt: skip


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_names_of_trec_eval_and_ranx_are_understood(name):
    assert str(parse_measure(name)) == OTHER_NAMES[name]
    named = named_measure(f"graded_{name}")
    assert (named.name, named.mode, str(named.measure)) == (f"graded_{name}", "graded", OTHER_NAMES[name])


@pytest.mark.parametrize("name", [*WITH_PARAMETERS, "nDCG(dcg='exp-log2')@10", "ERR@10"])
def test_names_with_parameters_are_those_of_ir_measures(name):
    assert str(parse_measure(name)) == name
    assert str(ir_measures.parse_measure(name)) == name


RUN = "1 Q0 10 1 9 x\n1 Q0 11 2 8 x\n1 Q0 12 3 7 x\n1 Q0 13 4 6 x\n2 Q0 10 1 3 x\n2 Q0 14 2 2 x\n"
QRELS = "1 0 11 2\n1 0 13 4\n1 0 15 1\n1 0 10 0\n1 0 16 3\n2 0 14 1\n2 0 10 -1\n3 0 1 1\n"
#: What gdeval and trec_eval compute, by query.
GOLDEN = {
    "ERR@10": {"1": 0.28418, "2": 0.03125, "3": 0.0},
    "ERR@2": {"1": 0.09375, "2": 0.03125, "3": 0.0},
    "nDCG(dcg='exp-log2')@10": {"1": 0.39129, "2": 0.63093, "3": 0.0},
    "nDCG(dcg='exp-log2')@3": {"1": 0.09049, "2": 0.63093, "3": 0.0},
    "nDCG(judged_only=True)@3": {"1": 0.47323, "2": 1.0, "3": 0.0},
    "RR(judged_only=True)": {"1": 0.5, "2": 1.0, "3": 0.0},
    "Rprec(rel=2)": {"1": 1 / 3, "2": 0.0, "3": 0.0},
}


@pytest.mark.parametrize("name", GOLDEN)
def test_graded_measures_have_the_values_of_gdeval(tmp_path, name):
    (tmp_path / "run").write_text(RUN)
    (tmp_path / "qrels").write_text(QRELS)
    [scored] = score_trec([tmp_path / "run"], tmp_path / "qrels", [name])
    assert scored.by_query[name] == pytest.approx(GOLDEN[name], abs=1e-5)
    if shutil.which("perl"):
        qrels, run = ir_measures.read_trec_qrels(QRELS), ir_measures.read_trec_run(RUN)
        theirs = ir_measures.iter_calc([ir_measures.parse_measure(name)], qrels, run)
        assert {each.query_id: each.value for each in theirs} == pytest.approx(GOLDEN[name], abs=1e-5)


def test_any_grade_has_a_finite_exponential_gain():
    ranking = Ranking(gains=((1, 5000), (2, 10**9)), returned=2, gold=(5000, 10**9))
    assert parse_measure("nDCG(dcg='exp-log2')")(ranking) == pytest.approx(1.0)
    assert 0 < parse_measure("ERR")(ranking) <= 1


@pytest.mark.parametrize(
    "name",
    [
        "nDCG(dcg='exp')@5",
        "AP(dcg='exp-log2')",
        "ERR(rel=2)",
        "Rprec@5",
        "nDCG(judged_only=yes)@5",
        "hits",
        "ndcg_10_10",
        "",
        "hits@5",
        "Success",
        "Success@0",
        "P@-1",
        "nDCG(rel=2)@5",
        "RR(rel=0)",
        "RR(x=1)",
        "RR(rel=)",
        "R@5 x",
        "Bpref@10",
        "RBP(p=1.0)",
        "RBP(p=0)",
        "AP(p=0.8)",
    ],
)
def test_a_wrong_name_is_an_error_with_a_fix(name):
    with pytest.raises(UsageError) as caught:
        parse_measure(name)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("typo", "near"),
    [
        ("nDGC@10", "nDCG@10"),
        ("Sucess(rel=2)@1", "Success(rel=2)@1"),
        ("Judgd", "Judged"),
        ("nDCG10", "nDCG@10"),
    ],
)
def test_a_typo_gets_a_valid_name_suggested(typo, near):
    with pytest.raises(UsageError) as caught:
        parse_measure(typo)
    assert caught.value.remedy == f"did you mean `{near}`?"
    parse_measure(near)


doc_ids = st.sampled_from([f"d{number:02}" for number in range(14)])
qrels_of = st.dictionaries(doc_ids, st.integers(0, 2), min_size=1, max_size=8)
collections = st.dictionaries(
    st.sampled_from([f"q{number}" for number in range(6)]),
    st.tuples(qrels_of, st.one_of(st.none(), st.lists(doc_ids, unique=True, min_size=1, max_size=12))),
    min_size=1,
    max_size=6,
)


@given(collections)
def test_measures_agree_with_ir_measures_on_random_runs_with_missing_questions(collection):
    qrels = {name: judged for name, (judged, _) in collection.items()}
    lists = {name: found for name, (_, found) in collection.items() if found}
    runs = {
        name: {doc: float(len(found) - place) for place, doc in enumerate(found)}
        for name, found in lists.items()
    }
    rankings = {name: run_ranking(run, qrels[name]) for name, run in runs.items()}
    assert_agrees(qrels, runs, rankings)
    theirs = {name: ir_measures.parse_measure(name) for name in WITH_PARAMETERS}
    theirs["nDCG(dcg='exp-log2')@5"] = ir_measures.nDCG(gains=GAINS) @ 5
    for name, measure in theirs.items():
        ours = mean(score(parse_measure(name), rankings, qrels).values())
        # Each alone: among others, nDCG may get the gains of another measure, depending on a set's order.
        value = ir_measures.calc_aggregate([measure], qrels, runs)[measure]
        assert ours == pytest.approx(value, abs=5e-5), name


@given(st.lists(st.tuples(golds_of, hits_of, st.sampled_from(["span", "file"])), min_size=1, max_size=5))
def test_measures_agree_with_ir_measures_on_exported_runs(cases):
    qrels, runs, graded, strict = {}, {}, {}, {}
    for number, (golds, hits, level) in enumerate(cases):
        name, asked = f"q{number}", question(*golds, gold_level=level)
        judged = judge(hits, asked)
        if any(len(each.credits) > 1 for each in judged.hits):
            continue  # a line of a TREC run names one item
        qrels[name] = question_qrels(asked)
        run = question_run(judged)
        assert len(run) == len(hits)
        assert all(a > b for a, b in pairwise(run.values()))
        if run:
            runs[name] = run
            graded[name], strict[name] = judged.ranking("graded"), judged.ranking("strict")
            assert run_ranking(run, qrels[name]) == graded[name]
    assume(qrels)
    assert_agrees(qrels, runs, graded)
    # Strict nDCG can be computed from the exported files too: a gain of 1 is mapped to 0.
    theirs = ir_measures.nDCG(gains={1: 0}) @ 5
    ours = mean(score(parse_measure("nDCG@5"), strict, qrels).values())
    assert ours == pytest.approx(ir_measures.calc_aggregate([theirs], qrels, runs)[theirs], abs=5e-5)


@given(golds_of, hits_of)
def test_measures_that_count_hits_agree_where_a_hit_holds_several_items(golds, hits):
    asked = question(*golds)
    judged = judge(hits, asked)
    names = [name for name in NAMES if not name.startswith(("R@", "R(", "AP", "Bpref"))]
    runs = {"q": question_run(judged)} if hits else {}
    assert_agrees({"q": question_qrels(asked)}, runs, {"q": judged.ranking("graded")}, names)


def test_exported_ids_hold_no_whitespace_and_repeat_nothing():
    asked = question(gold("a b.md", 1, 2))
    hits = [hit("a b.md", 5, 6), hit("a b.md", 1, 1), hit("a b.md", 9, 9), hit("a b.md", 9, 9)]
    run = question_run(judge(hits, asked))
    assert list(run) == ["page-1", "gold-1", "a%20b.md:9-9", "a%20b.md:9-9~2"]


def test_two_names_of_one_measure_are_the_same_and_another_scoring_is_not():
    named = named_measure("hit@5")
    assert named.same(named_measure("strict_hit@5"))
    assert not named.same(named_measure("relaxed_hit@5"))
    assert not named.same(named_measure("hit@1"))
