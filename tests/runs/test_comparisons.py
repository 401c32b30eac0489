"""What a run says about its predictors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from support.made_runs import Planned, luck, make_questions, make_run, run_of

from branchrank.core.errors import RunError, UsageError
from branchrank.core.records import UNPLACED, Question, Retrieval
from branchrank.core.settings import BenchmarkSettings
from branchrank.reports.blocks import markdown
from branchrank.reports.content import report_content
from branchrank.reports.result import result
from branchrank.reports.verify import verify
from branchrank.reports.writing import write_report
from branchrank.run import Run
from branchrank.runs.comparisons import check_plan, check_size, primary_measure
from branchrank.runs.estimates import choice, difference, flip_rate, pilot, standings
from branchrank.runs.results_table import run_table
from branchrank.runs.rows import Row
from branchrank.runs.scores import estimate
from branchrank.runs.words import FEW_PAGES, interval, plural, sentence, verdict_words
from branchrank.scoring.comparison import CompareOptions, Verdict
from branchrank.scoring.intervals import mean_interval, repeat_variance
from branchrank.scoring.matching import JudgedHit
from branchrank.scoring.measures import named_measure
from branchrank.scoring.significance import difference_interval, holm
from branchrank.search.llm.ledger import ModelPrice, PriceTable

HIT1 = named_measure("strict_hit@1")


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_run(
        tmp_path_factory.mktemp("planned"),
        (Planned("local", 0.5), Planned("better", 0.95), Planned("worse", 0.05)),
        make_questions(60, per_page=3),
        alpha=0.01,
        delta=0.1,
    )


def test_verdicts_come_from_the_declared_measure_and_settings(planned: Run) -> None:
    judged = planned.judgment
    assert judged.measure == "strict_hit@1"
    assert {each.candidate: each.verdict for each in judged.comparisons} == {
        "better": "better",
        "worse": "worse",
    }
    for each in judged.comparisons:
        assert (each.n, each.clusters, each.family, each.alpha, each.delta) == (60, 20, 2, 0.01, 0.1)
        assert each.test.startswith("cluster sign-flip")
    assert judged.winner == "better"


def test_a_baseline_that_beats_all_is_the_winner(tmp_path: Path) -> None:
    arms = (Planned("poor", 0.05), Planned("poorer", 0.02), Planned("local", 0.9))
    made = make_run(tmp_path, arms, baseline="local", latency_sample=0)
    assert made.judgment.winner == "local"


ARMS = (Planned("poor", 0.05), Planned("middling", 0.5), Planned("best", 0.95))


@pytest.fixture(scope="module")
def made_of_arms(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_run(tmp_path_factory.mktemp("arms"), ARMS, baseline="all-pairs", latency_sample=0)


def compared(made: Run, baseline: object) -> Run:
    """The same rows with another baseline."""
    return run_of(made.rows, made.asked, baseline=baseline)


def test_several_baselines_and_all_pairs_are_one_family(made_of_arms: Run) -> None:
    pairs = [("poor", "middling"), ("poor", "best"), ("middling", "best")]
    for made in (compared(made_of_arms, ("poor", "middling")), made_of_arms):
        found = made.judgment.comparisons
        assert [(each.baseline, each.candidate) for each in found] == pairs
        assert {each.family for each in found} == {3}
        rejected = sorted(each.p for each in found if each.is_significant)
        assert [each.p_adjusted for each in found] == pytest.approx(holm([each.p for each in found]))
        for each in found:
            gaps = [
                made.scores.per_question(each.candidate, HIT1)[key]
                - made.scores.per_question(each.baseline, HIT1)[key]
                for key in made.clusters
            ]
            step = rejected.index(each.p) if each.p in rejected else len(rejected)
            alone = difference_interval(gaps, list(made.clusters.values()), level=1 - 0.05 / (3 - step))
            assert alone is not None
            assert (each.ci_low, each.ci_high) == pytest.approx((alone.low, alone.high))
            assert (each.ci_low <= 0 <= each.ci_high) != each.is_significant
        assert list(made.comparisons["candidate"]) == ["middling", "best", "best"]
    write_report(made_of_arms)
    assert verify(made_of_arms.directory).findings == ()
    doctored = made_of_arms.directory / "comparisons.csv"
    text = doctored.read_text(encoding="utf-8")
    doctored.write_text(text.replace(",better,", ",worse,"), encoding="utf-8")
    assert "comparisons.csv: line 2" in str(verify(made_of_arms.directory).findings[0])


def test_a_winner_beats_every_baseline(made_of_arms: Run, tmp_path: Path) -> None:
    nearly = (Planned("poor", 0.05), Planned("strong", 0.93), Planned("best", 0.95))
    made = make_run(tmp_path, nearly, baseline=("poor", "strong"), latency_sample=0)
    assert made.judgment.winner is None
    assert made_of_arms.judgment.winner == "best"
    assert compared(made_of_arms, ("poor", "best")).judgment.winner == "best"


def test_the_report_names_each_baseline(made_of_arms: Run) -> None:
    text = markdown(report_content(compared(made_of_arms, ("poor", "middling"))))
    assert "Baselines: poor, middling." in text
    assert "| candidate | baseline | verdict |" in text
    assert "95% interval adjusted for 3 comparisons" in text
    assert "| best | middling |" in text
    assert "**best vs middling: better.**" in text
    assert [(each.candidate, each.baseline) for each in made_of_arms.judgment.comparisons] == [
        ("middling", "poor"),
        ("best", "poor"),
        ("best", "middling"),
    ]


def test_effect_sizes_are_shown_beside_the_verdicts(tmp_path: Path) -> None:
    made = make_run(tmp_path, (Planned("local", 0.4), Planned("other", 0.8)), latency_sample=0)
    each = made.judgment.comparisons[0]
    assert each.losses
    assert each.odds_ratio == pytest.approx(each.wins / each.losses)
    assert each.d_z is None
    assert f"odds ratio {each.odds_ratio:.2g} " in markdown(report_content(made))
    graded = made.compare_all(measure="strict_MRR@5").comparisons[0]
    assert graded.odds_ratio is None
    assert graded.d_z is not None
    assert graded.d_z > 0.5


def test_all_outputs_show_the_same_interval(planned: Run) -> None:
    """The summary, its CSV file and data frame; the comparison, the verdict's text and the report."""
    [row] = [row for row in planned.summary_rows if row.predictor == "local"]
    found = row.estimates["strict_hit@1"]
    assert found == estimate(planned.scores.per_question("local", HIT1), planned.clusters)
    assert found is not None
    line = planned.summary.set_index("predictor").loc["local"]
    bounds = (line["strict_hit@1_low"], line["strict_hit@1_high"])
    assert bounds == pytest.approx((found.low, found.high), abs=1e-6)
    assert interval(found, HIT1.name) in str(result(planned))


def test_only_intervals_of_verdicts_are_adjusted_for_the_family(planned: Run) -> None:
    better = planned.judgment.comparisons[0]
    scores = [planned.scores.per_question(name, HIT1) for name in ("local", "better")]
    differences = [scores[1][key] - scores[0][key] for key in planned.clusters]
    pages = list(planned.clusters.values())
    adjusted = difference_interval(differences, pages, level=better.level)
    assert better.level in (1 - 0.01 / 2, 1 - 0.01)
    alone = difference_interval(differences, pages)
    assert adjusted is not None
    assert alone is not None
    assert (better.ci_low, better.ci_high) == pytest.approx((adjusted.low, adjusted.high))
    shown = difference(planned, *scores)
    assert (shown.low, shown.high) == (alone.low, alone.high)


def test_few_pages_give_no_interval_and_no_equivalence(tmp_path: Path) -> None:
    arms = (Planned("local", 0.5), Planned("same", 0.5))
    made = make_run(tmp_path, arms, make_questions(60, per_page=20), latency_sample=0)
    [found] = made.judgment.comparisons
    assert (found.clusters, found.ci_low, found.verdict) == (3, None, "too few questions to tell")
    for text in (sentence(found), interval(made.summary_rows[0].estimates["strict_hit@1"], "strict_hit@1")):
        assert FEW_PAGES in text
    assert made.summary["strict_hit@1_low"].isna().all()


def test_a_pilot_measures_the_assumptions_of_a_plan(planned: Run, tmp_path: Path) -> None:
    found = pilot(planned)
    differing = [each.differing / 60 for each in planned.judgment.comparisons]
    assert found.disagreement == pytest.approx(sum(differing) / 2)
    assert found.rate == pytest.approx(planned.scores.average("local", HIT1))
    assert (found.candidates, found.page_sizes) == (2, (3,) * 20)
    assert 0 <= found.icc < 0.5
    assert pilot(planned, "strict_hit@5").disagreement != found.disagreement
    with pytest.raises(UsageError, match="strict_MRR@5"):
        pilot(planned, "strict_MRR@5")
    with pytest.raises(UsageError, match="nothing to compare"):
        pilot(make_run(tmp_path, (Planned("local", 0.5),), latency_sample=0))


def test_repeats_are_averaged_and_their_flips_counted(tmp_path: Path) -> None:
    made = make_run(tmp_path, (Planned("asked", 0.5, llm="tiny"),), repeats=3, latency_sample=0)
    values = made.scores.per_question("asked", HIT1)
    right = {key: [luck("asked", key, repeat) < 0.5 for repeat in range(3)] for key in values}
    assert values == pytest.approx({key: sum(each) / 3 for key, each in right.items()})
    flips = sum(len(set(each)) > 1 for each in right.values()) / 60
    assert flip_rate(made, "asked", HIT1) == pytest.approx(flips)
    assert len(made.clusters) == 60


class Moody(Planned):
    """Right in the first repeat, and seldom in the others."""

    def predict(self, question: Question, k: int, repeat: int = 0) -> Retrieval:
        return Planned(self.name, 0.1 if repeat else 0.9, llm=self.llm).predict(question, k, repeat)


def test_the_interval_of_a_rate_contains_the_variance_between_the_repeats(tmp_path: Path) -> None:
    arms = (Planned("steady", 0.4, llm="tiny"), Moody("moody", 0.5, llm="tiny"))
    made = make_run(tmp_path, arms, repeats=3, latency_sample=0)
    pages = [made.clusters[key] for key in made.clusters]
    width = {}
    for name in ("steady", "moody"):
        rows = [made.scores.rows_of(name, key) for key in made.clusters]
        values = [[made.scores.value(row, HIT1) for row in each] for each in rows]
        shared = repeat_variance(values)
        wanted = mean_interval([sum(each) / 3 for each in values], pages, shared=shared)
        assert wanted is not None
        width[name] = wanted.high - wanted.low
        [row] = [each for each in made.summary_rows if each.predictor == name]
        for found in (
            row.estimates[HIT1.name],
            {each.name: each for each in run_table(made, [HIT1]).systems}[name].means[HIT1.name],
        ):
            assert found is not None
            assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high))
    assert width["moody"] > 2 * width["steady"]


def test_the_frontier_counts_tokens_or_money(tmp_path: Path) -> None:
    arms = (Planned("local", 0.5), Planned("asked", 0.9, llm="tiny"))
    made = make_run(tmp_path, arms)
    by_tokens = standings(made)
    assert {each.name: each.cost for each in by_tokens} == {"local": 0.0, "asked": 1050.0}
    prices = PriceTable(date="2026-01-01", models={"tiny": ModelPrice(prompt=1.0, completion=1.0)})
    priced = replace(made, record=msgspec.structs.replace(made.record, prices=prices))
    by_money = standings(priced)
    assert {each.name: each.cost for each in by_money} == {"local": 0.0, "asked": pytest.approx(0.00105)}
    best, chosen = choice(made, by_tokens)
    assert chosen.best == best[0].name == "asked"
    assert chosen.cheapest.name == "asked"  # local is plainly inferior


def test_runs_are_paired_by_question(tmp_path: Path) -> None:
    old = make_run(tmp_path / "a", (Planned("local", 0.3), Planned("hybrid", 0.3)), latency_sample=0)
    new = make_run(tmp_path / "b", (Planned("local", 0.9), Planned("hybrid", 0.3)), latency_sample=0)
    local, hybrid = new.compare_with(old, CompareOptions(measures=("nDCG@5",))).pairs
    assert (local.comparison.verdict, hybrid.comparison.differing) == ("better", 0)
    assert local.comparison.alpha == hybrid.comparison.alpha == 0.05
    assert local.comparison.family == hybrid.comparison.family == 2
    assert local.comparison.p_adjusted == pytest.approx(2 * local.comparison.p)
    won = {question.id for question in new.asked if 0.3 <= luck("local", question.id, 0) < 0.9}
    assert (set(local.won), local.lost) == (won, ())
    assert [each.measure for each in local.others] == ["nDCG@5"]
    assert str(local.others[0]).startswith("nDCG@5 0.")
    for deep in ("R@11", "R@1000"):
        with pytest.raises(UsageError, match="hits"):
            new.compare_with(old, CompareOptions(measures=(deep,)))
    [crossed] = new.compare_with(old, CompareOptions(baseline="hybrid", predictor="local")).pairs
    assert (crossed.baseline.predictor, crossed.candidate.predictor) == ("hybrid", "local")


@pytest.mark.parametrize(
    ("mode", "asked", "used"),
    [
        ("both", "half_hit@5", "half_hit@5"),
        ("strict", "half_hit@5", "half_hit@5"),
        ("strict", "relaxed_hit@1", "strict_hit@1"),
        ("relaxed", "half_hit@5", "relaxed_hit@5"),
        ("relaxed", "nDCG@5", "relaxed_nDCG@5"),
    ],
)
def test_the_mode_selects_the_variant_of_the_primary_measure(mode: str, asked: str, used: str) -> None:
    assert primary_measure(BenchmarkSettings(mode=mode, primary=asked)).name == used
    assert [plural(count, "query") for count in (1, 2)] == ["1 query", "2 queries"]


def test_a_measure_deeper_than_the_stored_hits_is_refused_before_the_run() -> None:
    for depth in (5, 6):
        check_plan(BenchmarkSettings(top_k=depth, measures="R@5"), ["local"])
    with pytest.raises(UsageError, match="needs 5 hits, but --top-k 4 keeps fewer"):
        check_plan(BenchmarkSettings(top_k=4, measures="R@5"), ["local"])


def test_more_measures_or_comparisons_than_allowed_are_refused_before_the_run() -> None:
    names = [f"p{number}" for number in range(71)]
    for settings, predictors in (
        (BenchmarkSettings(baseline="all-pairs"), names[:70]),
        (BenchmarkSettings(baseline=names[:50], top_k=200), [*names, *names][:100]),
        (BenchmarkSettings(measures=",".join(f"R@{cut}" for cut in range(1, 101)), top_k=100), names[:1]),
    ):
        check_size(settings, predictors)
    for settings, predictors, told in (
        (BenchmarkSettings(baseline="all-pairs"), names, "71 baselines with 71 predictors make 5041"),
        (BenchmarkSettings(baseline=names[:50]), [*names, *names][:101], "make 5050 comparisons"),
        (BenchmarkSettings(measures=",".join(f"R@{cut}" for cut in range(1, 102))), names, "101 measures"),
    ):
        with pytest.raises(UsageError, match=told):
            check_size(settings, predictors)


def test_questions_that_changed_are_named_and_only_the_first_five(tmp_path: Path) -> None:
    old = make_run(tmp_path / "old", [Planned("local", 0.3)], make_questions(6), latency_sample=0)
    for changed, named in (
        (5, "q0000, q0001, q0002, q0003, q0004"),
        (6, "q0000, q0001, q0002, q0003, q0004, ..."),
    ):
        asked = [
            msgspec.structs.replace(each, question=f"{each.question}!") if place < changed else each
            for place, each in enumerate(make_questions(6))
        ]
        new = make_run(tmp_path / f"{changed}", [Planned("local", 0.3)], asked, latency_sample=0)
        with pytest.raises(RunError) as caught:
            new.compare_with(old)
        assert str(caught.value).partition("\n")[0].endswith(f"runs: {named}")


@pytest.mark.parametrize(
    ("verdict", "words"),
    [("equivalent within delta", "equivalent within 10 points"), ("inconclusive", "inconclusive")],
)
def test_a_verdict_of_equivalence_names_its_margin(planned: Run, verdict: Verdict, words: str) -> None:
    [found, _] = planned.judgment.comparisons
    assert verdict_words(msgspec.structs.replace(found, verdict=verdict)) == words


def test_equal_scores_with_other_hits_are_not_identical_in_either_order(tmp_path: Path) -> None:
    made = make_run(tmp_path, (Planned("local", 0.6), Planned("other", 0.6)), latency_sample=0)
    hits = {row.question_id: row.hits for row in made.rows if row.predictor == "local"}
    for kept, identical in ((-1, False), (None, True)):
        rows = [
            msgspec.structs.replace(
                row, hits=hits[row.question_id][: kept if row.predictor == "other" else None]
            )
            for row in made.rows
        ]
        run = run_of(rows, made.asked)
        for baseline in ("local", "other"):
            [found] = run.compare_all(baseline=baseline, measure="strict_hit@1").comparisons
            assert (found.differing, found.identical) == (0, identical)


@pytest.fixture(scope="module")
def lopsided(tmp_path_factory: pytest.TempPathFactory) -> Run:
    arms = (Planned("local", 0.9), Planned("pipeline", 0.1))
    return make_run(tmp_path_factory.mktemp("lopsided"), arms, latency_sample=0)


def without_place(hit: JudgedHit) -> JudgedHit:
    return msgspec.structs.replace(hit, source=UNPLACED, gold=None, page=None, gain=0)


@pytest.mark.parametrize(("baseline", "decided"), [("local", "worse"), ("pipeline", "better")])
@pytest.mark.parametrize(("share", "stands"), [(0.2, True), (0.9, False), (1.0, False)])
def test_a_verdict_that_unplaced_texts_could_undo_is_withdrawn(
    lopsided: Run, share: float, stands: bool, baseline: str, decided: str
) -> None:
    lost = {f"q{number:04}" for number in range(round(60 * share))}
    rows = [
        msgspec.structs.replace(row, missing=5, hits=tuple(map(without_place, row.hits)))
        if row.predictor == "pipeline" and row.question_id in lost
        else row
        for row in lopsided.rows
    ]
    run = run_of(rows, lopsided.asked, baseline=baseline)
    [found] = run.judgment.comparisons
    assert found.verdict == (decided if stands else "inconclusive")
    assert bool(found.unplaced)
    assert found.excludes_gain is False
    told = markdown(report_content(run))
    assert ("could raise a mean by" in told) == (not stands)


def test_an_unplaced_text_raises_a_mean_by_the_answers_that_it_alone_would_turn() -> None:
    """The first text without a place is at this rank, and the gold at the other; 0 is none of them."""

    def row(question: str, unplaced: int, gold: int) -> Row:
        ranked = []
        for place in (1, 2, 3):
            hit = JudgedHit(
                id=str(place),
                source="page-0.md",
                line_start=35,
                line_end=36,
                characters=9,
                score=1.0,
                gain=0,
            )
            found = msgspec.structs.replace(hit, gold=0, page=0, gain=2) if place == gold else hit
            ranked.append(without_place(found) if place == unplaced else found)
        missing = 1 if unplaced else msgspec.UNSET
        return Row(question_id=question, predictor="own", llm="none", hits=tuple(ranked), missing=missing)

    rows = [
        row("q0000", 1, 2),
        row("q0001", 2, 1),
        row("q0002", 3, 0),
        row("q0003", 0, 2),
        row("u0000", 0, 0),
    ]
    run = run_of(rows, make_questions(4, unanswerable=1))
    gains = {name: run.scores.unplaced_gain("own", named_measure(name)) for name in ("strict_hit@1", "MRR@5")}
    assert gains == {"strict_hit@1": 1 / 4, "MRR@5": pytest.approx((1 / 2 + 1 / 3) / 4)}


@pytest.fixture(scope="module")
def even(tmp_path_factory: pytest.TempPathFactory) -> Run:
    arms = (Planned("local", 0), Planned("other", 0))
    return make_run(tmp_path_factory.mktemp("even"), arms, make_questions(90), latency_sample=0)


@pytest.mark.parametrize(("lost", "verdict"), [(1, "equivalent within delta"), (9, "inconclusive")])
@pytest.mark.parametrize("pipeline", ["local", "other"])
def test_equivalence_that_unplaced_texts_could_undo_is_withdrawn(
    even: Run, lost: int, verdict: str, pipeline: str
) -> None:
    rows = [
        msgspec.structs.replace(row, missing=1, hits=tuple(map(without_place, row.hits)))
        if row.predictor == pipeline and int(row.question_id[1:]) < lost
        else row
        for row in even.rows
    ]
    # One question each turns, so that the two are not alike.
    first = {"local": "q0088", "other": "q0089"}
    rows = [
        msgspec.structs.replace(
            row, hits=(msgspec.structs.replace(row.hits[0], gold=0, page=0, gain=2), *row.hits[1:])
        )
        if row.question_id == first[row.predictor]
        else row
        for row in rows
    ]
    [found] = run_of(rows, even.asked, delta=0.1).judgment.comparisons
    assert (found.wins, found.losses) == (1, 1)
    assert found.verdict == verdict
    assert found.unplaced == (pytest.approx(0.1) if lost == 9 else 0)
