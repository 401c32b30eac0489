"""Reports in Markdown, HTML and the terminal, and verification."""

from mutants.mutant import Mutant

MARKDOWN = "branchrank/report/markdown.py"
HTML = "branchrank/report/html.py"
TERMINAL = "branchrank/report/terminal.py"
VERIFY = "branchrank/report/verify"
STAGES = "branchrank/systems/stages.py"
TEST_PLOTS = "tests/report/test_plots.py"
TEST_RECOMMENDATION = "tests/report/test_recommendation.py"
TEST_MARKDOWN = "tests/report/test_report_markdown.py"
TEST_TERMINAL = "tests/report/test_terminal.py"
TEST_VERIFY = "tests/report/test_verify.py"
TEST_TAMPERING = "tests/report/test_tampering.py::test_tampering_is_found"

MUTANTS = (
    Mutant(
        "markdown-unescaped",
        MARKDOWN,
        'return _SPECIAL.sub(r"\\\\\\1", " ".join(safe(text).split()))',
        'return " ".join(safe(text).split())',
        (f"{TEST_MARKDOWN}::test_text_is_escaped",),
    ),
    Mutant(
        "html-unescaped",
        HTML,
        "return html_escape(safe(text))",
        "return safe(text)",
        ("tests/test_run.py::test_a_notebook_shows_the_table_and_the_plot_escaped",),
    ),
    Mutant(
        "every-predictor-bold",
        "branchrank/report/rates.py",
        "return Strong(predictor) if predictor == judgment.winner else predictor",
        "return Strong(predictor)",
        (f"{TEST_MARKDOWN}::test_nothing_is_bold_without_a_passed_test",),
    ),
    Mutant(
        "pilot-not-announced",
        "branchrank/measures/verdicts.py",
        "PILOT_BELOW = 50",
        "PILOT_BELOW = 5",
        (f"{TEST_MARKDOWN}::test_with_fewer_than_50_questions_the_heading_says_pilot",),
    ),
    Mutant(
        "failures-not-announced",
        "branchrank/report/cautions.py",
        "        if row.failures:\n",
        "        if row.fallbacks:\n",
        (f"{TEST_TERMINAL}::test_a_pilot_and_failures_are_announced",),
    ),
    Mutant(
        "names-steer-the-terminal",
        TERMINAL,
        '    return Text(safe(cell.text), style="bold") if isinstance(cell, Strong) else Text(safe(cell))\n',
        '    return Text(cell.text, style="bold") if isinstance(cell, Strong) else Text(str(cell))\n',
        (f"{TEST_TERMINAL}::test_names_cannot_control_the_terminal",),
    ),
    Mutant(
        "verify-trusts-the-digests",
        f"{VERIFY}/tables.py",
        "        elif digest_file(path) != digest:\n",
        "        elif not digest_file(path):\n",
        (f"{TEST_VERIFY}::test_tampering_is_found_and_reported",),
    ),
    Mutant(
        "verify-trusts-the-judgment",
        f"{VERIFY}/rows.py",
        "    yield from _judgment_faults(row, question)\n",
        "",
        (f"{TEST_VERIFY}::test_rewriting_the_digests_does_not_hide_tampering",),
    ),
    Mutant(
        "verify-skips-the-tables",
        f"{VERIFY}/__init__.py",
        "    findings += [*check_timings(run), *check_gold_facts(run), *check_tables(run)]\n",
        "    findings += [*check_timings(run), *check_gold_facts(run)]\n",
        (f"{TEST_VERIFY}::test_tampering_is_found_and_reported",),
    ),
    Mutant(
        "verify-trusts-the-stages",
        f"{VERIFY}/systems.py",
        "        if not fits(self.system, row.stages):\n",
        "        if not row.stages:\n",
        (f"{TEST_TAMPERING}[names of two systems swapped in the rows]",),
    ),
    Mutant(
        "verify-trusts-the-scores",
        STAGES,
        'if system.fuse.method not in ("rrf", "none")',
        'if system.fuse.method not in ("none",)',
        (f"{TEST_TAMPERING}[a parameter of the fusion changed]",),
    ),
    Mutant(
        "verify-misses-timings",
        f"{VERIFY}/record.py",
        '(wanted - timed.keys(), "is missing"),',
        '(set(), "is missing"),',
        (f"{TEST_TAMPERING}[the slowest ten queries removed]",),
    ),
    Mutant(
        "verify-trusts-the-passages",
        f"{VERIFY}/corpus.py",
        "            if kept != expected:\n",
        "            if kept and not expected:\n",
        (f"{TEST_TAMPERING}[passages altered in report.html]",),
    ),
    Mutant(
        "verify-trusts-foreign-drawings",
        "branchrank/report/plots/drawing.py",
        "    if _NUMBER.split(svg) != _NUMBER.split(other):\n        return False\n",
        "    if _NUMBER.split(svg) != _NUMBER.split(other):\n        return True\n",
        (f"{TEST_VERIFY}::test_drawings_are_compared_with_a_tolerance_of_one_pixel",),
    ),
    Mutant(
        "rerun-compares-nothing",
        f"{VERIFY}/rerun.py",
        '            text = next(_differences(kept, row), "")\n',
        '            text = "" if row else next(_differences(kept, row), "")\n',
        ("tests/report/test_rerun.py::test_a_different_answer_fails_the_rerun",),
    ),
    Mutant(
        "rerun-over-any-index",
        "branchrank/bench/rerun.py",
        "        if digest != recorded.get(name):\n",
        "        if name not in recorded:\n",
        ("tests/report/test_rerun.py::test_another_index_of_the_corpus_is_refused",),
    ),
    Mutant(
        "seal-refuses-nothing",
        "branchrank/bench/seal.py",
        "    if different:\n",
        "    if different and not seal.parts:\n",
        ("tests/bench/test_seal.py::test_another_plan_is_refused_with_its_differences",),
    ),
    Mutant(
        "llm-recommended-for-chance",
        "branchrank/report/recommendation.py",
        "        return not cheap.llm_calls_per_query\n",
        "        return False\n",
        (f"{TEST_RECOMMENDATION}::test_an_llm_is_not_recommended_for_a_difference_that_may_be_chance",),
    ),
    Mutant(
        "failed-system-recommended",
        "branchrank/report/recommendation.py",
        "usable = [row.predictor for row in run.summary_rows if row.predictor not in failed]",
        "usable = [row.predictor for row in run.summary_rows]",
        (f"{TEST_RECOMMENDATION}::test_nothing_is_recommended_when_every_query_failed",),
    ),
    Mutant(
        "differences-turned-wrongly",
        "branchrank/report/recommendation.py",
        "        difference=-each.difference,\n",
        "        difference=each.difference,\n",
        (f"{TEST_RECOMMENDATION}::test_a_baseline_that_beats_all_is_recommended",),
    ),
    Mutant(
        "mrr-in-percent",
        "branchrank/runs/words.py",
        "return percent(value) if is_share(measure) else number(value, 3)",
        "return percent(value)",
        ("tests/test_run.py::test_the_primary_measure_is_in_every_table",),
    ),
    Mutant(
        "margin-not-drawn",
        "branchrank/report/plots/differences.py",
        '"from": -scale * first.delta',
        '"from": scale * first.delta',
        (f"{TEST_PLOTS}::test_the_margin_is_a_band_around_no_difference",),
    ),
    Mutant(
        "labels-collide",
        "branchrank/report/plots/labels.py",
        "            if not any(box.meets(other) for other in taken):\n",
        "            if box.meets(box):\n",
        (f"{TEST_PLOTS}::test_no_label_covers_a_label_or_a_point",),
    ),
    Mutant(
        "colors-in-a-pipe",
        TERMINAL,
        "        console = PipedConsole(width=PIPE_WIDTH)\n",
        "        console = PipedConsole(width=PIPE_WIDTH, force_terminal=True)\n",
        (f"{TEST_TERMINAL}::test_verdicts_are_colored_only_on_a_terminal",),
    ),
    Mutant(
        "marks-out-of-reach-of-the-keyboard",
        "branchrank/report/page/page.js",
        "marks[(to + marks.length) % marks.length]",
        "marks[place]",
        ("tests/report/test_page_looks.py::test_the_keyboard_reaches_every_mark_of_a_plot",),
    ),
    Mutant(
        "warnings-far-from-their-verdict",
        "branchrank/report/result.py",
        "about(run, each.candidate, each.baseline)",
        'about(run, "")',
        ("tests/report/test_page_looks.py::test_warnings_are_beside_the_recommendation_and_the_verdict",),
    ),
    Mutant(
        "undecided-gate-passes-in-junit",
        "branchrank/report/gate_files.py",
        'if each.outcome != "pass":',
        'if each.outcome == "fail":',
        ("tests/report/test_run_commands.py::test_gate_writes_files_for_continuous_integration",),
    ),
    Mutant(
        "markup-in-the-summary-of-the-gate",
        "branchrank/report/gate_files.py",
        "            escape(predictor),",
        "            predictor,",
        ("tests/report/test_run_commands.py::test_names_in_the_files_of_the_gate_are_escaped",),
    ),
    Mutant(
        "a-leader-by-chance-is-recommended",
        "branchrank/report/recommendation.py",
        "    if settled or name == run.judgment.baseline:\n",
        "    if True:\n",
        (f"{TEST_RECOMMENDATION}::test_a_tie_is_reported_as_no_clear_difference",),
    ),
)
