"""Matching, measures, statistics and latency percentiles."""

from mutants.mutant import Mutant

MATCHING = "branchrank/measures/matching.py"
MEASURES = "branchrank/measures/measures.py"
VERDICTS = "branchrank/measures/verdicts.py"
SIGNIFICANCE = "branchrank/measures/significance.py"
CLUSTERING = "branchrank/measures/clustering.py"
INTERVALS = "branchrank/measures/intervals.py"
EFFECTS = "branchrank/measures/effects.py"
POWER = "branchrank/measures/power.py"
RISK = "branchrank/measures/risk.py"
LATENCY = "branchrank/measures/latency.py"
TEST_MATCHING = "tests/measures/test_matching.py"
TEST_MEASURES = "tests/measures/test_measures.py"
TEST_VERDICTS = "tests/measures/test_verdicts.py"
TEST_SIGNIFICANCE = "tests/measures/test_significance.py"
TEST_CLUSTERING = "tests/measures/test_clustering.py"
TEST_COVERAGE = "tests/measures/test_coverage.py"
TEST_INTERVALS = "tests/measures/test_intervals.py"
TEST_POWER = "tests/measures/test_power.py"
TEST_LATENCY = "tests/measures/test_latency_and_risk.py"

MUTANTS = (
    Mutant(
        "spans-that-touch-overlap",
        MATCHING,
        "hit.line_start <= gold.line_end and gold.line_start <= hit.line_end",
        "hit.line_start <= gold.line_end and gold.line_start <= hit.line_end + 1",
        (f"{TEST_MATCHING}::test_a_strict_hit_needs_one_common_line",),
    ),
    Mutant(
        "strict-ignores-the-source",
        MATCHING,
        "return is_relaxed(hit, item, question) and (",
        "return (",
        (f"{TEST_MATCHING}::test_another_source_is_wrong_even_on_the_same_lines",),
    ),
    Mutant(
        "excluded-spans-counted",
        MATCHING,
        "return tuple(hit for hit in hits if not _excluded(hit.span, question.excluded_spans))",
        "return tuple(hits)",
        (f"{TEST_MATCHING}::test_excluded_hits_are_removed_before_ranking",),
    ),
    Mutant(
        "relaxed-credits-the-last-hit-of-a-page",
        MATCHING,
        "first.setdefault(hit.page, rank)",
        "first[hit.page] = rank",
        (f"{TEST_MATCHING}::test_relaxed_hits_count_a_page_once",),
    ),
    Mutant(
        "cutoff-excludes-its-own-rank",
        MEASURES,
        "if gain >= rel and (cutoff is None or rank <= cutoff)]",
        "if gain >= rel and (cutoff is None or rank < cutoff)]",
        (f"{TEST_MEASURES}::test_measures_match_values_calculated_by_hand",),
    ),
    Mutant(
        "failed-queries-leave-the-denominator",
        MEASURES,
        "return {each: measure(rankings[each]) if each in rankings else 0.0 for each in questions}",
        "return {each: measure(rankings[each]) for each in questions if each in rankings}",
        (f"{TEST_MEASURES}::test_a_question_without_a_ranking_stays_in_the_average",),
    ),
    Mutant(
        "ndcg-discount-log2-of-the-rank",
        MEASURES,
        "gain / log2(rank + 1)\n        for rank, gain in ranking.gains",
        "gain / log2(max(2, rank))\n        for rank, gain in ranking.gains",
        (f"{TEST_MEASURES}::test_measures_match_values_calculated_by_hand",),
    ),
    Mutant(
        "precision-over-the-hits-returned",
        MEASURES,
        "return len(ranking.relevant_ranks(rel, cutoff)) / cutoff if cutoff else 0.0",
        "return len(ranking.relevant_ranks(rel, cutoff)) / max(1, ranking.returned)",
        (f"{TEST_MEASURES}::test_measures_match_values_calculated_by_hand",),
    ),
    Mutant(
        "bpref-punishes-unjudged-hits",
        MEASURES,
        "        elif gain >= 0:\n            above += 1",
        "        else:\n            above += 2",
        (f"{TEST_MEASURES}::test_bpref_counts_the_hits_judged_wrong_above_each_right_one",),
    ),
    Mutant(
        "rbp-counts-from-rank-zero",
        MEASURES,
        "p ** (rank - 1) for rank in",
        "p**rank for rank in",
        (f"{TEST_MEASURES}::test_measures_match_values_calculated_by_hand",),
    ),
    Mutant(
        "half-of-the-gold-rounded-down",
        MATCHING,
        "resolved.overlap(gold) >= share * gold.lines",
        "resolved.overlap(gold) >= share * gold.lines // 1",
        (f"{TEST_MATCHING}::test_half_and_full_count_the_gold_lines_in_one_hit",),
    ),
    Mutant(
        "half-and-full-credited-twice",
        MATCHING,
        "        held |= own\n",
        "",
        (f"{TEST_MATCHING}::test_each_gold_item_gives_half_and_full_credit_to_one_hit",),
    ),
    Mutant(
        "verdict-ignores-the-family",
        VERDICTS,
        "if p_adjusted < alpha:",
        "if pair.result.p < alpha:",
        (f"{TEST_VERDICTS}::test_a_family_is_corrected_by_holm",),
    ),
    Mutant(
        "difference-is-baseline-minus-candidate",
        VERDICTS,
        "differences = b - a\n",
        "differences = a - b\n",
        (f"{TEST_VERDICTS}::test_the_five_verdicts",),
    ),
    Mutant(
        "clusters-tested-as-single-questions",
        VERDICTS,
        "if hits and len(sums) == len(differences):",
        "if hits:",
        (f"{TEST_VERDICTS}::test_questions_of_one_page_are_tested_as_a_cluster",),
    ),
    Mutant(
        "drawn-p-can-be-zero",
        SIGNIFICANCE,
        "p=(extreme + 1) / (draws + 1)",
        "p=extreme / draws",
        (f"{TEST_SIGNIFICANCE}::test_a_drawn_p_is_never_zero",),
    ),
    Mutant(
        "draws-ignore-the-seed",
        SIGNIFICANCE,
        "source = np.random.PCG64(seed)",
        "source = np.random.PCG64()",
        (f"{TEST_SIGNIFICANCE}::test_random_draws_come_near_the_exact_p_and_repeat_by_seed",),
    ),
    Mutant(
        "intervals-ignore-the-pages",
        CLUSTERING,
        "    if not totals.shared:\n        return np.full(np.shape(totals.squares), n)\n",
        "    if totals is not None:\n        return np.full(np.shape(totals.squares), n)\n",
        (f"{TEST_COVERAGE}::test_intervals_have_their_coverage_and_verdicts_their_level",),
    ),
    Mutant(
        "rates-assume-no-correlation-within-pages",
        INTERVALS,
        "effective_questions(totals, level, mean_padding(level))",
        "effective_questions(totals, level)",
        (f"{TEST_INTERVALS}::test_few_failing_questions",),
    ),
    Mutant(
        "variance-without-the-weight-of-a-large-page",
        CLUSTERING,
        "np.asarray((totals.sums - totals.mean[..., None] * sizes) ** 2 / (1 - sizes / totals.n))",
        "np.asarray((totals.sums - totals.mean[..., None] * sizes) ** 2)",
        (f"{TEST_CLUSTERING}::test_the_design_effect_matches_a_manual_calculation",),
    ),
    Mutant(
        "degrees-of-freedom-forget-the-spread-of-the-pages",
        CLUSTERING,
        "np.minimum(degrees, observed_degrees(totals, padding))",
        "degrees",
        (f"{TEST_CLUSTERING}::test_a_dominant_page_reduces_the_effective_questions",),
    ),
    Mutant(
        "degrees-of-freedom-forget-the-padding",
        CLUSTERING,
        "whole = found + padding.total(sizes) * padding.effect(sizes)",
        "whole = found",
        (f"{TEST_CLUSTERING}::test_padding_matches_a_manual_calculation",),
    ),
    Mutant(
        "padding-without-its-design-effect",
        CLUSTERING,
        "clustered = _squared_deviations(totals).sum(-1) + added * assumed",
        "clustered = _squared_deviations(totals).sum(-1) + added",
        (f"{TEST_INTERVALS}::test_few_differing_questions",),
    ),
    Mutant(
        "pages-worth-less-than-one-observation",
        CLUSTERING,
        "return np.maximum(found, pages * t_penalty(level, working_degrees(sizes, np.asarray(1.0))))",
        "return found",
        (f"{TEST_CLUSTERING}::test_each_page_counts_as_at_least_one_observation",),
    ),
    Mutant(
        "the-interval-contradicts-the-test",
        INTERVALS,
        "    elif found > null:\n        low = max(low, null)\n",
        "    elif found > null:\n        pass\n",
        (f"{TEST_VERDICTS}::test_the_interval_contains_0_unless_the_test_rejects",),
    ),
    Mutant(
        "large-datasets-count-more",
        "branchrank/measures/stratified.py",
        "* (largest / len(each))",
        "* 1.0",
        ("tests/measures/test_stratified.py::test_the_test_is_a_sign_flip_of_pages_weighted_by_dataset",),
    ),
    Mutant(
        "macro-interval-as-wide-as-one-datasets",
        "branchrank/measures/stratified.py",
        "low=mean - below / len(known)",
        "low=mean - below / len(known) ** 0.5",
        ("tests/measures/test_stratified.py::test_the_interval_is_that_of_zou_and_donner",),
    ),
    Mutant(
        "odds-of-all-questions",
        EFFECTS,
        "won = [float(gap > 0) for gap in differences if gap]",
        "won = [float(gap > 0) for gap in differences]",
        ("tests/measures/test_effects.py",),
    ),
    Mutant(
        "odds-ratio-over-the-differing",
        EFFECTS,
        "ratio=sum(won) / lost if lost else inf",
        "ratio=sum(won) / len(won) if lost else inf",
        ("tests/measures/test_effects.py::test_the_odds_of_a_differing_question_have_wilsons_interval",),
    ),
    Mutant(
        "d-without-the-degree-of-freedom",
        EFFECTS,
        "values.std(ddof=1)",
        "values.std()",
        ("tests/measures/test_effects.py::test_cohens_d_is_t_divided_by_the_square_root_of_n",),
    ),
    Mutant(
        "normal-quantile-in-place-of-students",
        CLUSTERING,
        "stdtrit(np.maximum(degrees, 1.0), quantile)",
        "ndtri(quantile)",
        (f"{TEST_CLUSTERING}::test_the_t_penalty_matches_scipy",),
    ),
    Mutant(
        "hits-without-the-restricted-estimate",
        INTERVALS,
        "        likeliest = (np.sqrt(np.maximum(b**2 + 8 * lost * true * (1 - true), 0.0)) - b) / 4\n",
        "        likeliest = lost + 0 * b\n",
        (f"{TEST_INTERVALS}::test_tangos_bounds_solve_its_equation",),
    ),
    Mutant(
        "graded-differences-are-padded-at-the-ends-of-the-scale",
        INTERVALS,
        "    scale = (totals.squares + 1) / (totals.non_zero + 1)",
        "    scale = np.ones_like(totals.squares)",
        (
            f"{TEST_INTERVALS}::test_a_small_p_of_a_graded_measure_has_an_interval_without_0",
            f"{TEST_INTERVALS}::test_ties_widen_a_graded_difference_by_the_size_of_the_others",
        ),
    ),
    Mutant(
        "one-small-difference-proves-small-differences",
        INTERVALS,
        "    scale = (totals.squares + 1) / (totals.non_zero + 1)",
        "    scale = totals.squares / np.maximum(totals.non_zero, 1)",
        (f"{TEST_INTERVALS}::test_one_small_difference_does_not_prove_that_all_are_small",),
    ),
    Mutant(
        "graded-differences-take-the-normal-quantile",
        INTERVALS,
        "        n = n * t_penalty(level, np.asarray(whole - 1))\n",
        "        n = n * 1.0\n",
        (f"{TEST_INTERVALS}::test_a_graded_difference_matches_students_interval_when_all_questions_differ",),
    ),
    Mutant(
        "differences-assume-no-correlation-within-pages",
        INTERVALS,
        "icc=ASSUMED_ICC_OF_DIFFERENCES)",
        "icc=0.0)",
        (f"{TEST_INTERVALS}::test_few_differing_questions",),
    ),
    Mutant(
        "unchanged-scores-pass-the-gate",
        VERDICTS,
        "    if identical:\n",
        "    if identical or comparison.differing == 0:\n",
        (f"{TEST_VERDICTS}::test_the_gate",),
    ),
    Mutant(
        "a-two-sided-interval-of-one-sided-bounds",
        LATENCY,
        "_bound_rank(n, quantile, (1 + _CONFIDENCE) / 2)",
        "_bound_rank(n, quantile, _CONFIDENCE)",
        (f"{TEST_LATENCY}::test_the_interval_of_a_percentile_is_two_sided",),
    ),
    Mutant(
        "a-passage-order-is-a-passage",
        "branchrank/runs/attribution.py",
        '        return "passage order"\n',
        '        return "passage"\n',
        ("tests/runs/test_attribution.py::test_gold_lost_in_the_passage_order_has_its_own_label",),
    ),
    Mutant(
        "intervals-of-a-family-are-not-adjusted",
        VERDICTS,
        "level=1 - alpha / len(pairs),",
        "level=1 - alpha,",
        (f"{TEST_VERDICTS}::test_the_interval_is_adjusted_for_the_family_of_the_verdict",),
    ),
    Mutant(
        "few-pages-get-an-interval",
        CLUSTERING,
        "    if pages < LEAST_PAGES:\n        return None\n",
        "",
        (f"{TEST_INTERVALS}::test_few_pages_have_no_interval",),
    ),
    Mutant(
        "planned-questions-forget-their-pages",
        POWER,
        "    effective = pages.effective_questions(n, 1 - strictest)\n",
        "    effective = float(n)\n",
        (f"{TEST_POWER}::test_questions_on_shared_pages_detect_less_and_more_of_them_are_needed",),
    ),
    Mutant(
        "who-never-answers-is-perfect",
        RISK,
        "return RiskCoverage(points=(), aurc=None, excess=None)",
        "return RiskCoverage(points=(), aurc=0.0, excess=0.0)",
        (f"{TEST_LATENCY}::test_a_system_that_never_answers_has_an_undefined_risk",),
    ),
    Mutant(
        "percentile-one-rank-too-low",
        LATENCY,
        "rank = max(1, ceil(round(quantile * n, 9)))",
        "rank = max(1, int(quantile * n))",
        (f"{TEST_LATENCY}::test_p95_has_a_bound_from_59_queries",),
    ),
    Mutant(
        "p95-bound-from-too-few-queries",
        LATENCY,
        "    if 1 - quantile**n < confidence:\n        return None\n",
        "    if n < 20:\n        return None\n",
        (f"{TEST_LATENCY}::test_p95_has_a_bound_from_59_queries",),
    ),
    Mutant(
        "not-inferior-without-an-interval",
        "branchrank/measures/frontier.py",
        "each.ci_low is not None and each.ci_low > -delta",
        "each.differing == 0 or (each.ci_low is not None and each.ci_low > -delta)",
        (
            "tests/measures/test_fragility_and_frontier.py"
            "::test_a_few_questions_without_a_difference_do_not_show_non_inferiority",
        ),
    ),
)
