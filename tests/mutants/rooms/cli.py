"""The commands: flags, exit codes, messages."""

from mutants.mutant import Mutant

QUERYING = "branchrank/cli/querying.py"
TERMINAL = "branchrank/cli/terminal.py"
TEST_QUERIES = "tests/cli/test_queries.py"
TEST_REFUSALS = "tests/cli/test_refusals.py"

MUTANTS = (
    Mutant(
        "failed-runs-exit-with-0",
        "branchrank/cli/benchmarking.py",
        "    if run.failed:\n        raise FailedRunError(",
        "    if not run.directory:\n        raise FailedRunError(",
        (
            "tests/cli/test_failed_runs.py"
            "::test_a_predictor_that_fails_every_query_ends_the_command_with_code_9",
        ),
    ),
    Mutant(
        "top-k-10-by-default",
        QUERYING,
        'click.IntRange(1, 1000), default=5, show_default=True, help="Number of hits."',
        'click.IntRange(1, 1000), default=10, show_default=True, help="Number of hits."',
        (f"{TEST_QUERIES}::test_top_k_is_5_and_a_smaller_top_k_gives_a_prefix",),
    ),
    Mutant(
        "errors-exit-with-0",
        TERMINAL,
        "            ctx.exit(error.exit_code)\n",
        "            ctx.exit(0)\n",
        (f"{TEST_REFUSALS}::test_a_mistake_gives_a_message_and_a_fix_and_an_exit_code",),
    ),
    Mutant(
        "remedies-not-printed",
        TERMINAL,
        '        click.echo(f"  fix: {safe(redact(remedy))}", err=True)\n',
        "        pass\n",
        (f"{TEST_REFUSALS}::test_a_mistake_gives_a_message_and_a_fix_and_an_exit_code",),
    ),
    Mutant(
        "interruption-exits-with-1",
        TERMINAL,
        "INTERRUPTED = 130",
        "INTERRUPTED = 1",
        (f"{TEST_REFUSALS}::test_an_interruption_has_its_exit_code",),
    ),
    Mutant(
        "interrupted-benchmark-says-nothing",
        TERMINAL,
        "        if not self.resumes:\n",
        "        if self.resumes:\n",
        ("tests/cli/test_first_slips.py::test_an_interrupted_benchmark_says_how_to_continue",),
    ),
    Mutant(
        "readers-that-go-away-are-errors",
        TERMINAL,
        "    ctx.exit(0)\n",
        "    ctx.exit(1)\n",
        ("tests/cli/test_first_slips.py::test_a_closed_output_pipe_is_not_an_error",),
    ),
    Mutant(
        "documents-steer-the-terminal",
        "branchrank/io/printable.py",
        'if character in "\\n\\t" or unicodedata.category(character) not in _HIDDEN',
        'if character in "\\n\\t" or character',
        (f"{TEST_QUERIES}::test_document_text_cannot_control_the_terminal",),
    ),
    Mutant(
        "section-flag-ignored",
        "branchrank/systems/builtin.py",
        'return {"returns": part.returns, **lines}',
        'return {"returns": "passage", **lines}',
        (
            "tests/settings/test_systems.py"
            "::test_every_predictor_of_sections_and_chunks_returns_what_is_asked_for",
        ),
    ),
    Mutant(
        "filter-flag-ignored",
        "branchrank/cli/retrieve.py",
        "workspace.retrieve(text, predictor, top_k, filters=filters)",
        "workspace.retrieve(text, predictor, top_k)",
        (
            "tests/acceptance/test_document_002_qdrant.py::TestBm25SparseSearch"
            "::test_sparse_search_with_filters",
        ),
    ),
    Mutant(
        "demo-overwrites-files",
        "branchrank/demo.py",
        "        if not target.exists():\n",
        "        if target:\n",
        ("tests/cli/test_demo.py::test_a_second_call_finishes_a_copy_that_was_interrupted",),
    ),
    Mutant(
        "demo-takes-any-folder",
        "branchrank/demo.py",
        "if not ours and any(folder.iterdir()):",
        "if not folder.exists():",
        ("tests/cli/test_demo.py::test_the_demo_does_not_change_a_folder_with_other_files",),
    ),
    Mutant(
        "paths-of-reports-printed-absolute",
        "branchrank/cli/terminal.py",
        "str(path.relative_to(here) if path.is_relative_to(here) else path)",
        "str(path)",
        ("tests/cli/test_demo.py::test_the_demo_prints_the_table_and_the_path_of_the_report",),
    ),
    Mutant(
        "init-overwrites-files",
        "branchrank/starter_files.py",
        "for path, text in texts.items() if path not in kept}",
        "for path, text in texts.items()}",
        ("tests/cli/test_init.py::test_init_overwrites_nothing",),
    ),
    Mutant(
        "examples-are-not-warned-of",
        "branchrank/runs/warnings.py",
        "    count = sum(EXAMPLE in question.extra for question in questions)\n",
        "    count = 0\n",
        ("tests/cli/test_init.py::test_the_printed_commands_work_in_order",),
    ),
    Mutant(
        "choices-without-suggestion",
        TERMINAL,
        'raise click.BadParameter(f"{error.message}{near}", ctx, error.param) from None',
        "raise",
        ("tests/cli/test_first_slips.py::test_a_typo_gets_the_nearest_name",),
    ),
    Mutant(
        "aborted-prompts-exit-with-1",
        TERMINAL,
        "except (KeyboardInterrupt, click.Abort):",
        "except KeyboardInterrupt:",
        ("tests/cli/test_first_slips.py::test_end_of_input_at_a_prompt_is_an_interruption",),
    ),
    Mutant(
        "closed-input-is-not-replaced",
        TERMINAL,
        "        if getattr(sys, name) is None:\n",
        "        if not name:\n",
        ("tests/cli/test_first_slips.py::test_no_command_has_a_traceback_for_a_closed_input",),
    ),
)
