"""Every figure of the worked examples in the documentation is what the library computes."""

import re
from pathlib import Path

import numpy as np
import pytest
from support.comparing import against, sign_flip
from support.gold import gold, hit, question

from branchrank.runs.estimates import fragility, risk_coverage
from branchrank.runs.summary import passage_size
from branchrank.runs.timings import percentile
from branchrank.scoring import intervals, power, significance
from branchrank.scoring.comparison import gate
from branchrank.scoring.intervals import AskedPages
from branchrank.scoring.matching import judge
from branchrank.scoring.measures import DEFINITIONS, parse_measure
from branchrank.scoring.significance import difference_interval

DOCS = Path(__file__).parents[2] / "docs"
ASKED = question(gold("guide.md", 40, 52))
HITS = [hit("guide.md", 10, 18), hit("guide.md", 50, 60), hit("api.md", 1, 9)]


def section(page, heading):
    """The text under a heading, on one line."""
    text = (DOCS / page).read_text(encoding="utf-8")
    body = text.split(f"# {heading}", 1)[1].split("\n#", 1)[0]
    return " ".join(body.split())


def compared(n, wins, losses, **options):
    ids = [f"q{number:03}" for number in range(n)]
    base = dict.fromkeys(ids, 1.0) | dict.fromkeys(ids[:wins], 0.0)
    other = dict.fromkeys(ids, 1.0) | dict.fromkeys(ids[n - losses :], 0.0)
    return against({"a": base, "b": other}, {each: each for each in ids}, "a", "hit@1", **options)[0]


@pytest.mark.parametrize(
    ("heading", "measure", "printed"),
    [
        ("Success@k (hit@k)", "hit@1", "hit@1 is 0"),
        ("Success@k (hit@k)", "hit@5", "hit@5 is 1"),
        ("All@k", "All@5", "All@5 is 1"),
        ("RR and RR@k (reciprocal rank, MRR)", "RR@5", "RR@5 = 1/2 = 0.5"),
        ("nDCG@k (normalized discounted cumulative gain)", "nDCG@5", "= 0.6309"),
        ("AP (average precision, MAP)", "AP", "AP = 0.5"),
        ("R@k (recall)", "R@5", "R@5 = 1/1 = 1"),
        ("P@k (precision)", "P@5", "P@5 = 1/5 = 0.2"),
        ("Judged@k", "Judged@5", "Judged@5 = 0.3333"),
        ("Bpref", "Bpref", "Bpref = 1"),
        ("Rprec (R-precision)", "Rprec", "Rprec = 0"),
        ("ERR and ERR@k (expected reciprocal rank)", "ERR@5", "3/32 = 0.0938"),
        ("RBP and RBP@k (rank-biased precision)", "RBP", "0.8 = 0.16"),
    ],
)
def test_measures(heading, measure, printed):
    assert printed in section("measures.md", heading)
    value = parse_measure(measure)(judge(HITS, ASKED).ranking("strict"))
    assert value == pytest.approx(float(printed.split()[-1]), abs=5e-5)


def test_passages():
    size = passage_size(judge(HITS, ASKED))
    assert f"{size.lines / size.hits:.2f} lines per hit" in section(
        "measures.md", "lines_per_hit, characters per hit, tokens per hit"
    )
    assert f"{size.gold_lines}/{size.lines} = {size.span_precision:.3f}" in section(
        "measures.md", "span_precision"
    )
    assert f"{size.gold_coverage:.3f}" in section("measures.md", "gold_coverage")


def test_every_measure_has_a_section():
    text = (DOCS / "measures.md").read_text(encoding="utf-8")
    for each in DEFINITIONS:
        assert f"\n### {each.name}" in text


@pytest.mark.parametrize(("n", "wins", "losses"), [(100, 20, 3), (100, 12, 6), (100, 5, 0), (400, 0, 0)])
def test_verdicts(n, wins, losses):
    found = compared(n, wins, losses)
    digits = 3 if n == 400 else 2
    interval = f"{found.ci_low:.{digits}f} to {found.ci_high:.{digits}f}"
    p = f"{found.p:.2f}" if wins == 12 else f"{round(found.p, 4):g}"
    row = f"| {n} | {wins} | {losses} | {p} | {interval} | {found.verdict} |"
    assert row in section("statistics.md", "The five verdicts")


def test_significance():
    assert f"p = {significance.mcnemar(12, 6):.4f}" in section(
        "statistics.md", "Exact McNemar test, for hits"
    )
    flipped = sign_flip(np.array([2.0, 1, -1, 3, 1])).p
    assert f"p = 8/32 = {flipped:g}" in section("statistics.md", "Sign-flip randomization test")
    assert significance.holm([0.01, 0.02, 0.03]) == pytest.approx((0.03, 0.04, 0.04))
    assert "become 0.03, 0.04 and 0.04" in section("statistics.md", "Holm's correction")


def test_a_repeat_on_which_all_questions_fail():
    values, pages = [0.5] * 20, [str(number) for number in range(20)]
    found = intervals.mean_interval(values, pages, shared=intervals.repeat_variance([[1.0, 0.0]] * 20))
    assert f"an interval of {found.low:g} to {found.high:g}." in section(
        "statistics.md", "A mean: normal interval with z² added questions"
    )


def test_intervals():
    text = section("statistics.md", "A rate: Wilson's interval")
    for right, n, per_page in ((61, 100, 1), (14, 20, 1), (45, 60, 3)):
        values = [1.0] * right + [0.0] * (n - right)
        found = intervals.mean_interval(values, [str(number // per_page) for number in range(n)])
        assert f"{found.low:.3f} to {found.high:.3f}" in text
    text = section("statistics.md", "The interval of a difference")
    found = difference_interval([0.0] * 100, [str(number) for number in range(100)])
    assert f"{found.low:.3f} to {found.high:.3f}" in text
    found = difference_interval([0.01, 0.02, 0.04, 0.05] * 5, [str(number) for number in range(20)])
    assert f"0.030 (interval {found.low:.3f} to {found.high:.3f})" in text
    sizes = [3, 3, *[2] * 13, *[1] * 68]
    pages = [str(page) for page, size in enumerate(sizes) for _ in range(size)]
    first = [pages.index(str(page)) for page in range(2)]
    for gaps in ((), (-1.0,), (1.0, -1.0), (-1.0, -1.0)):
        values = np.zeros(100)
        values[first[: len(gaps)]] = gaps
        found = difference_interval(values, pages)
        assert f"{100 * found.low:.1f} to {100 * found.high:.1f}" in text
    text = section("statistics.md", "Effect sizes")
    assert f"an odds ratio of {intervals.matched_odds(12, 6):.1f}" in text
    assert f"a d_z of {intervals.cohens_d([0.2, 0.5, -0.1, 0.4]):.2f}" in text


def test_pages_without_a_question():
    text = section("statistics.md", "Pages without a question")
    five, eight = (
        [3 + AskedPages(corpus, 3, gain, 0, gain).more_pages(0.1, 0.0) for corpus in (31, 172, 332, 3_000)]
        for gain in (0.05, 0.08)
    )
    assert "{} pages of 31, {} of 172, {} of 332 and {} of 3,000".format(*five) in text
    assert "and {}, {}, {} and {} for one of 8 points".format(*eight) in text


def test_sizes():
    text = section("statistics.md", "Minimum detectable difference")
    assert f"{power.detectable_mean_difference(100, 0.4):.3f}" in text
    needed = power.questions_for_hit_difference(0.2, 0.1)
    assert f"takes {needed} questions" in section("statistics.md", "Questions needed")
    chance = power.plan(100, disagreement=0.2, difference=0.1).power
    text = section("statistics.md", "Planning before a run")
    assert f"power {chance:.2f}" in text
    alone, shared = (
        power.plan(154, pages=pages)
        for pages in (power.NO_SHARED_PAGES, power.SharedPages(page_size=power.pages_alone(29), icc=0.1))
    )
    assert f"count as {shared.effective:.0f} independent questions" in text
    assert f"can detect a difference of {shared.detectable:.3f}" in text
    assert f"the detectable difference is smaller, {alone.detectable:.3f}" in text


def test_the_gate():
    text = section("statistics.md", "Gate: regression check of a candidate")
    assert "20 wins and 3 losses pass; 2 wins and 30 losses fail; 5 wins and 6 losses are undecided" in text
    outcomes = [gate(compared(100, *pair), 0.02).outcome for pair in ((20, 3), (2, 30), (5, 6))]
    assert outcomes == ["pass", "fail", "undecided"]


def test_risk_latency_and_fragility():
    answers = [(-place, place % 2 == 0) for place in range(4)]
    found = risk_coverage(answers)
    text = section("statistics.md", "Risk and coverage: unanswerable questions")
    assert f"AURC = {found.aurc:.3f}" in text
    assert f"{found.aurc - found.excess:.3f}, so the excess is {found.excess:.3f}" in text
    text = section("statistics.md", "Latency percentiles")
    assert percentile(range(20), 0.95).words in text
    assert percentile(range(1, 101), 0.95).upper_ms == 99
    assert "With 100 queries, the upper bound for p95 is the second-longest time" in text
    a = {str(number): 0.0 for number in range(6)}
    b = dict.fromkeys(a, 1.0)
    changed, _ = fragility(a, b, {each: each for each in a})
    assert len(changed) == 1
    assert "if one win becomes a loss" in section("statistics.md", "Fragility of a result")


@pytest.mark.parametrize("row", [0, 1, pytest.param(2, marks=pytest.mark.full)])
def test_the_gate_passes_in_four_of_five_cases_with_the_documented_questions(row):
    """With the difference that one of five samples exceeds if the systems are equally good."""

    def passes(n, share, delta):
        differing = round(n * share)
        gap = round(0.8416 * differing**0.5)
        lost = (differing + gap) // 2
        values = [-1.0] * lost + [1.0] * (differing - lost) + [0.0] * (n - differing)
        return difference_interval(values, [str(number) for number in range(n)]).low > -delta

    text = section("gate.md", "Choosing delta and the number of questions")
    rows = re.findall(r"\| (0\.\d+) \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|", text)
    assert [delta for delta, *_ in rows] == ["0.1", "0.05", "0.02"]
    delta, *numbers = rows[row]
    for share, number in zip((0.0, 0.02, 0.05, 0.1, 0.2), numbers, strict=True):
        n = int(number.replace(",", ""))
        assert passes(int(1.1 * n), share, float(delta))
        if share == 0 or n * share > 30:
            assert not passes(int(0.7 * n), share, float(delta))
