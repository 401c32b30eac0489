"""Reports in Markdown, HTML and the terminal, and verification."""

from mutants.mutant import Mutant

MARKDOWN = "branchrank/report/markdown.py"
HTML = "branchrank/report/html.py"
TERMINAL = "branchrank/report/terminal.py"
VERIFY = "branchrank/report/verify_tables.py"
TEST_MARKDOWN = "tests/report/test_report_markdown.py"
TEST_TERMINAL = "tests/report/test_terminal.py"
TEST_VERIFY = "tests/report/test_verify.py"

MUTANTS = (
    Mutant(
        "markdown-unescaped",
        MARKDOWN,
        'return _SPECIAL.sub(r"\\\\\\1", " ".join(safe(text).split()))',
        'return " ".join(safe(text).split())',
        (f"{TEST_MARKDOWN}::test_text_is_no_markup",),
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
        "branchrank/report/result.py",
        "return Strong(predictor) if predictor == judgement.winner else predictor",
        "return Strong(predictor)",
        (f"{TEST_MARKDOWN}::test_nothing_is_bold_without_a_passed_test",),
    ),
    Mutant(
        "pilot-not-announced",
        "branchrank/measures/verdicts.py",
        "PILOT_BELOW = 50",
        "PILOT_BELOW = 5",
        (f"{TEST_MARKDOWN}::test_under_fifty_questions_the_heading_says_pilot",),
    ),
    Mutant(
        "failures-not-announced",
        TERMINAL,
        "        if row.failures or row.fallbacks:\n",
        "        if row.fallbacks:\n",
        (f"{TEST_TERMINAL}::test_a_pilot_and_failures_are_announced",),
    ),
    Mutant(
        "names-steer-the-terminal",
        TERMINAL,
        '    return Text(safe(cell.text), style="bold") if isinstance(cell, Strong) else Text(safe(cell))\n',
        '    return Text(cell.text, style="bold") if isinstance(cell, Strong) else Text(str(cell))\n',
        (f"{TEST_TERMINAL}::test_names_cannot_steer_the_terminal",),
    ),
    Mutant(
        "verify-trusts-the-digests",
        VERIFY,
        "        elif digest is not None and digest_file(path) != digest:\n",
        "        elif digest is not None and not digest_file(path):\n",
        (f"{TEST_VERIFY}::test_tampering_is_found_and_named",),
    ),
    Mutant(
        "verify-trusts-the-judgement",
        VERIFY,
        "    faults = [*_judgement_faults(row, question)]\n",
        "    faults: list[str] = []\n",
        (f"{TEST_VERIFY}::test_rewriting_the_digests_hides_no_contradiction",),
    ),
    Mutant(
        "verify-skips-the-tables",
        "branchrank/report/verify.py",
        "    findings += check_tables(run)\n",
        "",
        (f"{TEST_VERIFY}::test_tampering_is_found_and_named",),
    ),
)
