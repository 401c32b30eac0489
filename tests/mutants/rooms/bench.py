"""Plans, experiment files, the two passes, resume and credentials."""

from mutants.mutant import Mutant

LATENCY = "branchrank/bench/latency_pass.py"
QUALITY = "branchrank/bench/quality_pass.py"
ANSWERS = "branchrank/bench/answers.py"
PLAN = "branchrank/bench/plan.py"
TEST_CHOSEN = "tests/cli/test_chosen_measures.py"
TEST_LATENCY = "tests/bench/test_latency.py"
TEST_RUNNER = "tests/bench/test_runner.py"
TUNING = "branchrank/bench/tuning.py"
TEST_TUNING = "tests/bench/test_tuning.py"

MUTANTS = (
    Mutant(
        "depth-ignores-the-measures",
        PLAN,
        "    if needed <= part.top_k:\n",
        "    if needed:\n",
        (f"{TEST_CHOSEN}::test_the_deepest_measure_sets_how_many_hits_are_stored",),
    ),
    Mutant(
        "a-measure-deeper-than-the-pool",
        PLAN,
        "if pool is not None and cutoff > pool:",
        "if pool is None:",
        (f"{TEST_CHOSEN}::test_a_measure_that_cannot_be_computed_is_an_error_before_any_work",),
    ),
    Mutant(
        "latency-order-ignores-the-seed",
        LATENCY,
        "order = random.Random(seed)",
        "order = random.Random(1)",
        (f"{TEST_LATENCY}::test_the_seed_interleaves_the_predictors",),
    ),
    Mutant(
        "predictors-timed-one-after-the-other",
        LATENCY,
        "        order.shuffle(pairs)\n",
        "        pairs.sort(key=lambda pair: (pair[0].name, pair[1].id))\n",
        (f"{TEST_LATENCY}::test_the_seed_interleaves_the_predictors",),
    ),
    Mutant(
        "the-fastest-repeat-is-kept",
        LATENCY,
        "[(len(answers) - 1) // 2]",
        "[0]",
        (f"{TEST_LATENCY}::test_each_query_is_timed_repeatedly_and_the_median_is_stored",),
    ),
    Mutant(
        "no-warm-up",
        LATENCY,
        "        timings += timed(predictor, questions[0], top_k, FIRST)\n",
        "        pass\n",
        (f"{TEST_LATENCY}::test_every_predictor_warms_up_once_and_then_answers_every_question_once",),
    ),
    Mutant(
        "llm-wait-inside-compute",
        LATENCY,
        "COMPUTE: max(0.0, total - waited)}",
        "COMPUTE: total}",
        (f"{TEST_LATENCY}::test_llm_wait_is_separate_from_compute_and_cached_calls_keep_their_latency",),
    ),
    Mutant(
        "remembered-calls-cost-no-time",
        LATENCY,
        "    total = elapsed + remembered\n",
        "    total = elapsed\n",
        (f"{TEST_LATENCY}::test_llm_wait_is_separate_from_compute_and_cached_calls_keep_their_latency",),
    ),
    Mutant(
        "failed-queries-leave-no-row",
        ANSWERS,
        '            status="failed",\n',
        '            status="ok",\n',
        (f"{TEST_RUNNER}::test_a_failed_query_is_a_row_and_a_miss_in_every_rate",),
    ),
    Mutant(
        "finished-rows-asked-again",
        QUALITY,
        "if (question.id, predictors[number][0], repeat) not in log.rows\n",
        "if question.id\n",
        (f"{TEST_RUNNER}::test_finished_rows_are_kept_and_only_missing_rows_are_computed",),
    ),
    Mutant(
        "trace-kept-whole",
        ANSWERS,
        "        keys=stage.keys[:depth],\n        scores=_rounded(stage.scores[:depth]),\n",
        "        keys=stage.keys,\n        scores=_rounded(stage.scores),\n",
        (f"{TEST_RUNNER}::test_a_trace_is_stored_to_the_requested_depth",),
    ),
    Mutant(
        "one-predictor-at-a-time",
        "branchrank/bench/answering.py",
        "                for number, repeat in wanted.answers:\n",
        "                for number, repeat in sorted(wanted.answers, reverse=True):\n",
        (f"{TEST_RUNNER}::test_all_predictors_answer_a_question_before_the_next_question",),
    ),
    Mutant(
        "benchmark-sample-ignores-the-seed",
        PLAN,
        "sample_questions(every, part.sample_size, part.sample_seed)",
        "sample_questions(every, part.sample_size, 42)",
        ("tests/bench/test_benchmark.py::test_the_sample_is_drawn_by_the_seed",),
    ),
    Mutant(
        "excluded-hits-take-a-place",
        "branchrank/bench/predictors.py",
        "margin = 10 if question.excluded_spans else 0\n        returned = self.wrapped",
        "margin = 0\n        returned = self.wrapped",
        ("tests/bench/test_predictors.py::test_excluded_hits_are_replaced_by_the_next",),
    ),
    Mutant(
        "two-predictors-of-one-name",
        PLAN,
        "for name in sorted({name for name in names if names.count(name) > 1}):",
        "for name in sorted({name for name in names if names.count(name) > 2}):",
        ("tests/bench/test_predictors.py::test_two_predictors_of_one_name_are_refused",),
    ),
    Mutant(
        "recorded-command-keeps-its-passwords",
        "branchrank/bench/credentials.py",
        "shlex.join(start + scrub_fully(flag, bare_url(rest)) for flag, start, rest in words)",
        "shlex.join(start + rest for _, start, rest in words)",
        ("tests/llm/test_secrets.py::test_no_password_of_a_url_is_recorded",),
    ),
    Mutant(
        "changed-plans-resumed",
        "branchrank/runs/directory.py",
        "changed = [name for name, value in run.plan.items() if plan.get(name) != value]",
        "changed: list[str] = []",
        ("tests/bench/test_resume.py::test_a_run_whose_corpus_or_settings_have_changed_is_not_resumed",),
    ),
    Mutant(
        "filter-not-part-of-the-plan",
        "branchrank/runs/directory.py",
        '            "--filter": self.filters,\n',
        "",
        ("tests/doors/test_filters.py::test_a_filtered_run_is_resumed_with_its_filter_only",),
    ),
    Mutant(
        "benchmark-ignores-its-filter",
        "branchrank/bench/predictors.py",
        "filters=self.filters,",
        "filters=(),",
        ("tests/doors/test_filters.py::test_a_benchmark_searches_the_filtered_documents_and_says_so",),
    ),
    Mutant(
        "verify-ignores-the-filter",
        "branchrank/report/verify/rows.py",
        "if not all(each.admits(hit.source) for each in filters)",
        "if not filters",
        ("tests/doors/test_filters.py::test_verify_reports_a_hit_that_does_not_match_the_filters",),
    ),
    Mutant(
        "a-fold-is-scored-on-what-it-was-tuned-on",
        TUNING,
        "if fold_of[key] != fold]",
        "if fold_of[key] == fold]",
        (f"{TEST_TUNING}::test_no_fold_is_scored_with_values_tuned_on_it",),
    ),
    Mutant(
        "budget-of-the-whole-grid",
        TUNING,
        "min(budget - 1, len(others))",
        "len(others)",
        (f"{TEST_TUNING}::test_every_system_gets_the_same_budget_and_starts_from_its_own_values",),
    ),
    Mutant(
        "tuned-systems-are-tuned-again",
        TUNING,
        "isinstance(each, PlannedSystem) and not each.origin",
        "isinstance(each, PlannedSystem)",
        (f"{TEST_TUNING}::test_tuned_systems_are_written_beside_the_originals_with_their_origin",),
    ),
    Mutant(
        "bm25-of-an-index-is-not-laid-over",
        "branchrank/bench/experiment.py",
        "layered = _over(layered, Bm25Settings.section, words)",
        "layered = _over(layered, Bm25Settings.section, {})",
        (f"{TEST_TUNING}::test_bm25_of_an_index_of_its_own_changes_the_scores",),
    ),
)
