"""Every comparison ends in a word, and the words mean what they say."""

from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.comparing import against

from branchrank.core.errors import UsageError
from branchrank.scoring.clustering import t_penalty
from branchrank.scoring.comparison import CompareOptions, gate
from branchrank.scoring.significance import difference_interval, mcnemar
from branchrank.scoring.verdicts import Stratum, compare_pairs, compare_strata


def scored(outcomes):
    return {f"q{number:04}": float(value) for number, value in enumerate(outcomes)}


def compare(a, b, clusters=None, **options):
    a, b = scored(a), scored(b)
    clusters = dict(zip(a, clusters, strict=True)) if clusters else {each: each for each in a}
    options = {"draws": 1_999, "delta": 0.02, **options}
    (found,) = against({"a": a, "b": b}, clusters, "a", "Success@1", **options)
    return found


def outcome(n, wins, losses, **options):
    """A comparison with so many wins and losses of the candidate among n questions."""
    base = [0] * wins + [1] * (n - wins)
    candidate = [1] * wins + [0] * losses + [1] * (n - wins - losses)
    return compare(base, candidate, **options)


@pytest.mark.parametrize(
    ("n", "wins", "losses", "verdict"),
    [
        (100, 20, 3, "better"),
        (100, 3, 20, "worse"),
        (100, 6, 0, "better"),
        (400, 0, 0, "equivalent within delta"),
        (2000, 10, 10, "equivalent within delta"),
        (100, 10, 8, "inconclusive"),
        (100, 5, 0, "too few questions to tell"),
        (20, 0, 0, "too few questions to tell"),
        (100, 3, 2, "too few questions to tell"),
        (100, 4, 2, "inconclusive"),
    ],
)
def test_the_five_verdicts(n, wins, losses, verdict):
    found = outcome(n, wins, losses)
    assert found.verdict == verdict
    assert (found.wins, found.losses, found.ties) == (wins, losses, n - wins - losses)
    assert found.difference == pytest.approx((wins - losses) / n)
    assert found.difference == pytest.approx(found.mean_b - found.mean_a)
    assert found.p == pytest.approx(mcnemar(wins, losses))
    assert found.ci_low <= found.difference <= found.ci_high


def test_a_larger_delta_makes_more_results_equivalent():
    assert outcome(200, 3, 3, delta=0.1).verdict == "equivalent within delta"
    assert outcome(200, 3, 3, delta=0.01).verdict != "equivalent within delta"
    assert outcome(400, 0, 0, delta=0).verdict != "equivalent within delta"


def test_with_as_many_questions_as_would_decide_the_interval_is_as_wide_as_delta_on_both_sides():
    few = outcome(400, 30, 29)
    needed, on_pages = few.enough
    more = outcome(needed, needed * 30 // 400, needed * 29 // 400)
    assert (few.verdict, on_pages) == ("inconclusive", needed)
    assert more.ci_high - more.ci_low == pytest.approx(2 * few.delta, rel=0.02)


@pytest.mark.parametrize("questions", [12, 24, 60])
def test_ties_on_as_many_pages_as_would_decide_are_equivalent_and_on_fewer_are_not(questions):
    """Pages with equally many questions, from one to five."""

    def ties(pages):
        count = pages * questions // 12
        return outcome(count, 0, 0, clusters=[str(number % pages) for number in range(count)], delta=0.05)

    _, enough = ties(12).enough
    assert ties(enough).verdict == "equivalent within delta"
    assert ties(enough - 2).verdict == "too few questions to tell"


def test_a_family_is_corrected_by_holm():
    base = scored([0] * 100)
    arms = {name: scored([1] * wins + [0] * (100 - wins)) for name, wins in (("x", 6), ("y", 5), ("z", 20))}
    found = against({"base": base, **arms}, {each: each for each in base}, "base", "Success@1", delta=0.02)
    assert [each.candidate for each in found] == ["x", "y", "z"]
    assert [each.family for each in found] == [3, 3, 3]
    assert found[0].p == pytest.approx(2**-5)
    assert found[0].p_adjusted == pytest.approx(2 * 2**-5)
    assert found[0].verdict == "too few questions to tell"
    assert found[2].verdict == "better"


def test_questions_of_one_page_are_tested_as_a_cluster():
    base, candidate = [0] * 12 + [1] * 88, [1] * 12 + [1] * 88
    pages = [f"page{number // 4}" for number in range(12)] + [f"own{number}" for number in range(88)]
    alone, together = compare(base, candidate), compare(base, candidate, clusters=pages)
    assert (alone.test, alone.verdict) == ("exact McNemar", "better")
    assert together.test == "cluster sign-flip, exact"
    assert (together.p, together.p_floor, together.verdict) == (0.25, 0.25, "too few questions to tell")
    assert together.p_mcnemar == pytest.approx(alone.p)
    assert together.clusters == 91
    assert together.ci_high - together.ci_low > alone.ci_high - alone.ci_low


def test_clusters_whose_wins_and_losses_cancel_could_have_agreed():
    """Too few questions: no way of favoring one side would have been significant, and nothing else."""
    pages = [f"page{number}" for number in (0, 1, 2, 3, 4, 4, 5, 5)] + [f"own{n}" for n in range(24)]
    same = [1] * 24
    mixed = compare([0, 0, 0, 0, 0, 1, 0, 1, *same], [1, 1, 1, 1, 1, 0, 1, 0, *same], clusters=pages)
    agreeing = compare([0] * 8 + same, [1] * 8 + same, clusters=pages)
    assert (mixed.wins, mixed.losses, mixed.p) == (6, 2, 0.125)
    assert (agreeing.verdict, agreeing.p) == ("better", 1 / 32)
    assert (mixed.verdict, mixed.p_floor) == ("inconclusive", agreeing.p)


@given(st.lists(st.tuples(st.integers(-1, 1), st.integers(0, 7)), min_size=2, max_size=24))
def test_the_p_floor_assumes_that_all_questions_are_won(outcomes):
    differences = np.array([difference for difference, _ in outcomes])
    pages = [f"page{page}" for _, page in outcomes]
    found = compare(differences < 0, differences > 0, clusters=pages)
    won = compare(np.zeros(len(outcomes)), differences != 0, clusters=pages)
    assert found.p_floor == won.p_floor == pytest.approx(won.p)
    assert found.p >= found.p_floor * (1 - 1e-9)


def test_reciprocal_ranks_that_changed_places_within_their_page_are_no_difference():
    a, b = [0.5, 1, 1 / 3] * 6, [1, 1 / 3, 0.5] * 6
    found = compare(a, b, clusters=[f"page{number // 3}" for number in range(18)])
    assert (found.p, found.p_floor, found.verdict) == (1.0, 1 / 32, "inconclusive")
    assert (found.wins, found.losses) == (12, 6)


def test_scores_that_differ_by_rounding_only_are_ties():
    found = compare([0.3] * 8, [0.1 + 0.2] * 8)
    assert (found.wins, found.ties, found.losses, found.p_floor) == (0, 8, 0, 1.0)


def test_graded_scores_are_tested_by_sign_flip():
    rng = np.random.default_rng(3)
    base = rng.choice([0, 0.2, 0.5, 1], size=120)
    found = compare(base, np.minimum(1, base + rng.choice([0, 0, 0.3], size=120)))
    assert found.test == "sign-flip, 1,999 draws"
    assert found.p_mcnemar is None
    assert found.verdict == "better"
    assert found.mde > 0


def test_sizes_follow_the_clusters():
    rng = np.random.default_rng(8)
    pages = [str(number // 5) for number in range(200)]
    together = np.repeat(rng.choice([-1.0, 0.0, 1.0], size=40), 5)
    base, candidate = (together < 0).astype(float), (together > 0).astype(float)
    clustered, single = compare(base, candidate, clusters=pages), compare(base, candidate)
    assert clustered.mde > 1.5 * single.mde
    worth = float(t_penalty(0.95, np.asarray(39.0))) / (5 * (40 / 39) / (200 / 199))
    assert clustered.questions_needed == ceil(single.questions_needed / worth)


def ties_and(wins, pages, corpus, **options):
    """Four questions on each of so many pages of the corpus, with at most one win on each."""
    asked = [str(number % pages) for number in range(4 * pages)]
    return outcome(4 * pages, wins, 0, clusters=asked, documents=corpus, **options)


def test_pages_without_a_question_are_a_caution_that_more_pages_remove():
    found = ties_and(8, 40, 400)
    assert (found.verdict, gate(found, 0.02).outcome) == ("better", "undecided")
    assert found.corpus_low < 0 < found.corpus_high
    more = found.more_pages
    assert 0 < more < 360
    for documents in (0, 40):
        sure = ties_and(8, 40, documents)
        assert (sure.verdict, sure.more_pages, sure.corpus_low) == ("better", 0, None)
        assert gate(sure, 0.02).outcome == "pass"
    mirrored = compare([1] * 8 + [0] * 152, [0] * 160, [str(n % 40) for n in range(160)], documents=400)
    assert (mirrored.verdict, mirrored.more_pages) == ("worse", more)
    assert (mirrored.corpus_low, mirrored.corpus_high) == (-found.corpus_high, -found.corpus_low)


def test_ties_are_equivalent_only_if_pages_without_a_question_cannot_hide_a_difference():
    assert ties_and(0, 100, 100, delta=0.05).verdict == "equivalent within delta"
    hidden = ties_and(0, 100, 2_000, delta=0.03)
    assert (hidden.verdict, hidden.more_pages > 0) == ("too few questions to tell", True)
    assert gate(replace(hidden, unplaced=0.0), 0.03).outcome == "undecided"
    assert gate(replace(ties_and(0, 100, 100, delta=0.05), unplaced=0.1), 0.05).outcome == "undecided"


def test_a_corpus_of_too_few_pages_is_inconclusive_because_of_its_pages():
    """Five clusters that differ could not be significant, and neither could all five pages of the corpus."""
    pages = [str(number // 4) for number in range(20)]
    few = compare([0] * 20, [1, 0, 0, 0] * 5, pages, documents=5)
    assert (few.verdict, few.reason) == ("inconclusive", "pages")
    more = compare([0] * 20, [1, 0, 0, 0] * 5, pages, documents=60)
    assert (more.verdict, more.reason) == ("too few questions to tell", "")


def test_pages_of_one_cluster_are_tested_together_and_counted_apart():
    base, candidate = scored([0] * 40), scored([1] * 12 + [0] * 28)
    pages = {key: str(n // 2) for n, key in enumerate(base)}
    merged = dict.fromkeys(list(base)[:12], "merged")
    alone, together = (
        compare_strata(
            [Stratum({"a": base, "b": candidate}, pages, clusters)],
            [("a", "b")],
            measure="hit@1",
            options=CompareOptions(documents=20),
        )[0]
        for clusters in ({}, merged)
    )
    assert (alone.clusters, alone.verdict) == (20, "better")
    assert (together.clusters, together.p, together.verdict) == (15, 1.0, "too few questions to tell")
    assert (alone.more_pages, together.more_pages) == (0, 0)


def test_the_interval_is_adjusted_for_the_family_of_the_verdict():
    base = scored([0] * 20 + [1] * 80)
    arm = scored([1] * 20 + [0] * 5 + [1] * 75)
    clusters = {each: each for each in base}

    def first(arms, alpha=0.05):
        scores = {"base": base, **{str(number): arm for number in range(arms)}}
        return against(scores, clusters, "base", "hit@1", alpha=alpha)[0]

    differences = [arm[each] - base[each] for each in base]
    for arms, alpha, step in ((1, 0.05, 0.05), (5, 0.05, 0.01), (1, 0.01, 0.01)):
        found = first(arms, alpha)
        expected = difference_interval(differences, list(clusters), level=1 - step)
        assert (found.ci_low, found.ci_high) == (expected.low, expected.high)
        assert found.level == pytest.approx(1 - step)
    assert first(5) == first(5)
    assert first(5).ci_high == first(1, 0.01).ci_high > first(1).ci_high


def test_each_comparison_has_the_level_of_its_step_of_holms_correction():
    """Two of four are rejected: the first at alpha / 4, the second at alpha / 3, the others at alpha / 2."""
    base = scored([0] * 100)
    arms = {
        name: scored([1] * wins + [0] * (100 - wins))
        for name, wins in (("w", 5), ("x", 20), ("y", 9), ("z", 0))
    }
    found = against({"base": base, **arms}, {each: each for each in base}, "base", "hit@1")
    assert [each.verdict == "better" for each in found] == [False, True, True, False]
    steps = [1 - each.level for each in found]
    assert steps == pytest.approx([0.05 / 2, 0.05 / 4, 0.05 / 3, 0.05 / 2])


@given(
    st.lists(st.tuples(st.sampled_from([-1, 0, 0, 1]), st.integers(0, 12)), min_size=12, max_size=80),
    st.integers(1, 4),
)
def test_no_interval_contradicts_its_test(answers, arms):
    base = scored([int(gap < 0) for gap, _ in answers])
    clusters = dict(zip(base, [str(page) for _, page in answers], strict=True))
    scores = {"base": base}
    for arm in range(arms):
        scores[str(arm)] = scored(
            [
                int(gap > 0) if number % arms >= arm else int(gap < 0)
                for number, (gap, _) in enumerate(answers)
            ]
        )
    for found in against(scores, clusters, "base", "hit@1", draws=199):
        assert (found.verdict in ("better", "worse")) == (found.p_adjusted < found.alpha)
        if found.ci_low is not None:
            assert found.ci_low <= found.difference <= found.ci_high
            assert (found.p_adjusted < found.alpha) == (not found.ci_low <= 0 <= found.ci_high)


def test_few_pages_give_no_interval_and_an_inconclusive_verdict():
    same = [1.0] * 4_000
    pages = [str(number % 4) for number in range(4_000)]
    found = compare(same, same, clusters=pages)
    assert (found.ci_low, found.ci_high, found.mde, found.questions_needed) == (None, None, None, None)
    assert found.verdict == "too few questions to tell"
    assert compare(same, same, clusters=[str(number % 40) for number in range(4_000)]).ci_high < 0.12
    worse = compare(same, [0.0, *same[1:]], clusters=pages)
    assert gate(worse, 0.02).outcome == "undecided"
    assert gate(found, 0.02).outcome == "undecided"
    assert gate(replace(found, identical=True), 0.02).outcome == "pass"
    for verdict in ("inconclusive", "too few questions to tell"):
        passed = gate(replace(found, identical=True, verdict=verdict), 0.02)
        assert verdict in gate(replace(found, verdict=verdict), 0.02).reason
        assert verdict not in passed.reason


def test_sizes_follow_the_family():
    base, arm = scored([0] * 12 + [1] * 88), scored([1] * 94 + [0] * 6)
    clusters = {each: each for each in base}

    def first(arms):
        scores = {"base": base, **{str(number): arm for number in range(arms)}}
        return against(scores, clusters, "base", "hit@1")[0]

    assert first(5).mde > first(1).mde
    assert first(5).questions_needed > first(1).questions_needed


def test_an_inconclusive_verdict_reports_the_number_of_questions_needed():
    found = outcome(100, 12, 6)
    assert found.verdict == "inconclusive"
    assert 200 < found.questions_needed < 1_000
    assert outcome(100, 8, 8).questions_needed is None


@pytest.mark.parametrize(
    ("scores", "clusters", "options"),
    [
        ({"a": {}}, {}, {}),
        ({"a": {"q": 1.0}, "b": {}}, {"q": "p"}, {}),
        ({"a": {"q": 1.0, "r": 1.0}}, {"q": "p"}, {}),
        ({"a": {"q": 17.0}}, {"q": "p"}, {}),
        ({"a": {"q": float("nan")}}, {"q": "p"}, {}),
        ({"a": {"q": 1.0}}, {"q": "p"}, {"delta": -0.1}),
    ],
    ids=["no questions", "missing", "unknown", "not a share", "nan", "negative delta"],
)
def test_scores_that_cannot_be_compared_are_refused(scores, clusters, options):
    with pytest.raises(UsageError) as caught:
        compare_pairs(
            [("a", "b")],
            {"b": scores["a"], **scores},
            clusters,
            measure="hit@1",
            options=CompareOptions(**options),
        )
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("n", "wins", "losses", "decision"),
    [
        (188, 0, 0, "undecided"),
        (189, 0, 0, "pass"),
        (20, 0, 0, "undecided"),
        (100, 20, 3, "pass"),
        (2000, 10, 10, "pass"),
        (100, 2, 30, "fail"),
        (100, 5, 6, "undecided"),
        (100, 0, 3, "undecided"),
    ],
)
def test_the_gate(n, wins, losses, decision):
    found = gate(outcome(n, wins, losses), 0.02)
    assert found.outcome == decision
    assert "n = " in found.reason
    if decision == "undecided":
        assert gate(replace(outcome(n, wins, losses), identical=True), 0.02).outcome == "pass"


def test_the_gate_fails_only_below_minus_delta():
    """Surely worse, but by less than delta, is not a failure."""
    slightly = outcome(2000, 0, 20)
    assert slightly.verdict == "worse"
    assert gate(slightly, 0.02).outcome == "pass"
    assert gate(slightly, 0.001).outcome == "fail"
