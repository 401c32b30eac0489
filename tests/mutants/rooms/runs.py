"""Rows, scores, summaries, CSV text, attribution, comparisons and TREC files of a run."""

from mutants.mutant import Mutant

SUMMARY = "branchrank/runs/summary.py"
SCORES = "branchrank/runs/scores.py"
NAMES = "branchrank/measures/names.py"
ROWS = "branchrank/runs/rows.py"
RUN = "branchrank/runs/run.py"
COMPARISONS = "branchrank/runs/comparisons.py"
RUN_COMPARISON = "branchrank/runs/run_comparison.py"
TEST_GOLD_LEVELS = "tests/report/test_gold_levels.py"
TEST_CHOSEN = "tests/cli/test_chosen_measures.py"
TEST_SUMMARY = "tests/runs/test_summary.py"
TEST_ROWS = "tests/runs/test_rows.py"
TEST_ATTRIBUTION = "tests/runs/test_attribution.py"
TEST_COMPARISONS = "tests/runs/test_comparisons.py"
TEST_WARNINGS = "tests/runs/test_warnings.py"
TEST_TREC = "tests/runs/test_trec_files.py"

MUTANTS = (
    Mutant(
        "gold-levels-mixed",
        RUN,
        'return {**{level: self.where(f"gold={level}") for level in GOLD_LEVELS}, BOTH: self}',
        "return {BOTH: self}",
        (f"{TEST_GOLD_LEVELS}::test_the_report_has_rows_for_each_level",),
    ),
    Mutant(
        "a-measure-deeper-than-the-hits-kept",
        COMPARISONS,
        "if cutoff > top_k:",
        "if cutoff > 10 * top_k:",
        (f"{TEST_CHOSEN}::test_a_measure_that_cannot_be_computed_is_an_error_before_any_work",),
    ),
    Mutant(
        "chosen-measures-left-out-of-compare",
        RUN_COMPARISON,
        "return [each for each in found if not each.same(primary)]",
        "return []",
        (f"{TEST_CHOSEN}::test_compare_and_gate_test_the_primary_measure_and_show_the_others",),
    ),
    Mutant(
        "p95-is-p50",
        SUMMARY,
        "latency_p95_ms=warm.percentile(TOTAL, 0.95),",
        "latency_p95_ms=warm.percentile(TOTAL, 0.5),",
        (f"{TEST_SUMMARY}::test_latency_is_that_of_the_warm_queries_of_the_predictor",),
    ),
    Mutant(
        "p50-is-p95",
        SUMMARY,
        "latency_p50_ms=warm.percentile(TOTAL, 0.5),",
        "latency_p50_ms=warm.percentile(TOTAL, 0.95),",
        (f"{TEST_SUMMARY}::test_latency_is_that_of_the_warm_queries_of_the_predictor",),
    ),
    Mutant(
        "first-query-among-the-warm",
        SUMMARY,
        "if timing.phase == WARM:",
        "if timing.stage:",
        (f"{TEST_SUMMARY}::test_latency_is_that_of_the_warm_queries_of_the_predictor",),
    ),
    Mutant(
        "tokens-without-the-completion",
        SUMMARY,
        "sum(call.prompt_tokens + call.completion_tokens for call in calls) / len(rows)",
        "sum(call.prompt_tokens for call in calls) / len(rows)",
        (f"{TEST_SUMMARY}::test_llm_cost_is_the_sum_of_the_ledger_per_query",),
    ),
    Mutant(
        "calls-per-row-with-a-call",
        SUMMARY,
        "llm_calls_per_query=len(calls) / len(rows),",
        "llm_calls_per_query=len(calls) / max(1, sum(bool(row.calls) for row in rows)),",
        (f"{TEST_SUMMARY}::test_llm_cost_is_the_sum_of_the_ledger_per_query",),
    ),
    Mutant(
        "unanswerable-questions-in-the-rates",
        SCORES,
        "self.answerable = [question.id for question in questions if question.answerable]",
        "self.answerable = [question.id for question in questions]",
        (f"{TEST_SUMMARY}::test_rates_are_over_the_questions_with_an_answer",),
    ),
    Mutant(
        "plain-measures-are-relaxed",
        NAMES,
        "return NamedMeasure(name=name, mode=mode, measure=parse_measure(name))",
        'return NamedMeasure(name=name, mode="relaxed", measure=parse_measure(name))',
        (f"{TEST_SUMMARY}::test_a_plain_name_is_scored_on_the_strict_gold",),
    ),
    Mutant(
        "mode-ignored",
        SCORES,
        "map(named_measure, STANDARD) if each.mode in modes)",
        "map(named_measure, STANDARD) if modes)",
        (f"{TEST_SUMMARY}::test_the_mode_selects_which_scorings_are_reported",),
    ),
    Mutant(
        "first-repeat-instead-of-the-mean",
        SCORES,
        "mean([self.value(row, measure) for row in self.rows_of(predictor, question_id)])",
        "mean([self.value(row, measure) for row in self.rows_of(predictor, question_id)[:1]])",
        (f"{TEST_COMPARISONS}::test_repeats_are_averaged_and_their_flips_counted",),
    ),
    Mutant(
        "formulas-in-csv-cells",
        "branchrank/runs/csv_text.py",
        '    return f"\'{text}"\n',
        "    return text\n",
        (f"{TEST_SUMMARY}::test_no_csv_cell_is_a_spreadsheet_formula",),
    ),
    Mutant(
        "rows-not-flushed",
        ROWS,
        "            os.fsync(self._stream.fileno())\n",
        "",
        (f"{TEST_ROWS}::test_a_row_is_on_the_disk_before_the_next_question",),
    ),
    Mutant(
        "torn-tail-kept",
        ROWS,
        "            os.ftruncate(self._stream.fileno(), whole)\n",
        "",
        (f"{TEST_ROWS}::test_an_incomplete_last_line_is_removed",),
    ),
    Mutant(
        "torn-frame-is-a-row",
        "branchrank/runs/row_files.py",
        "        if not frame.eof:\n            return\n",
        "",
        (f"{TEST_ROWS}::test_an_incomplete_last_line_is_removed",),
    ),
    Mutant(
        "compressed-rows-without-a-limit",
        "branchrank/runs/row_files.py",
        "            if found > most:\n",
        "            if found < 0:\n",
        (f"{TEST_ROWS}::test_a_compressed_file_unpacks_to_a_limit",),
    ),
    Mutant(
        "rows-of-the-other-format-beside",
        "branchrank/report/verify/tables.py",
        "    if not (directory / other).exists():\n",
        "    if (directory / other).exists():\n",
        ("tests/bench/test_compact_rows.py::test_tampering_is_found",),
    ),
    Mutant(
        "rows-under-way-not-locked",
        ROWS,
        "            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)\n",
        "            fcntl.flock(self._stream, fcntl.LOCK_SH | fcntl.LOCK_NB)\n",
        (f"{TEST_ROWS}::test_a_file_that_is_being_written_is_locked",),
    ),
    Mutant(
        "gold-rank-from-zero",
        "branchrank/runs/attribution.py",
        "enumerate(stage.keys, start=1) if key in keys",
        "enumerate(stage.keys) if key in keys",
        (f"{TEST_ATTRIBUTION}::test_the_best_rank_of_all_gold_keys_is_used",),
    ),
    Mutant(
        "loss-blamed-on-the-last-stage",
        "branchrank/runs/attribution.py",
        '    if "fusion" not in ranks:\n        return "mapping" if ranks else "retrieval"\n',
        "",
        (f"{TEST_ATTRIBUTION}::test_the_first_stage_that_explains_the_loss_is_named",),
    ),
    Mutant(
        "winner-without-a-test",
        "branchrank/runs/comparisons.py",
        'for each in comparisons if each.verdict == "better"}',
        "for each in comparisons if each.difference > 0}",
        (f"{TEST_COMPARISONS}::test_a_leader_without_a_passed_test_is_not_a_winner",),
    ),
    Mutant(
        "one-dataset-twice",
        "branchrank/runs/datasets.py",
        "        if before != name:\n",
        "        if False:\n",
        ("tests/report/test_datasets.py::test_runs_that_do_not_form_a_table_are_refused",),
    ),
    Mutant(
        "two-baselines-are-compared-twice",
        "branchrank/runs/comparisons.py",
        "if name != baseline and name not in baselines[:place]",
        "if name != baseline",
        (f"{TEST_COMPARISONS}::test_several_baselines_and_all_pairs_are_one_family",),
    ),
    Mutant(
        "a-winner-need-not-beat-every-baseline",
        "branchrank/runs/comparisons.py",
        "if all((best, baseline) in beaten for baseline in baselines):",
        "if any((best, baseline) in beaten for baseline in baselines):",
        (f"{TEST_COMPARISONS}::test_a_winner_beats_every_baseline",),
    ),
    Mutant(
        "declared-baseline-ignored",
        "branchrank/runs/comparisons.py",
        "    baselines = baselines_of(settings.baseline, scores.predictors)\n",
        '    baselines = baselines_of("", scores.predictors)\n',
        ("tests/report/test_report_markdown.py::test_the_winner_that_passed_is_bold",),
    ),
    Mutant(
        "half-counts-as-most",
        "branchrank/runs/warnings.py",
        "            if 2 * empty > len(answered):\n",
        "            if 2 * empty >= len(answered):\n",
        (f"{TEST_WARNINGS}::test_a_branch_that_is_empty_for_half_of_the_questions_gives_no_warning",),
    ),
    Mutant(
        "trec-scores-ascending",
        "branchrank/runs/trec_files.py",
        "Scored(source, float(len(sources) - place))",
        "Scored(source, float(place))",
        (f"{TEST_TREC}::test_documents_as_ids",),
    ),
)
