"""The library's door: Workspace and Run, and the public names."""

from mutants.mutant import Mutant

COMPARISON = "branchrank/runs/predictor_comparison.py"
TEST_RUN = "tests/test_run.py"
TEST_CITIZEN = "tests/test_library_citizen.py"

MUTANTS = (
    Mutant(
        "compare-swaps-candidate-and-baseline",
        COMPARISON,
        "                (baseline, run.scores.per_question(baseline, chosen)),\n"
        "                (candidate, run.scores.per_question(candidate, chosen)),\n",
        "                (candidate, run.scores.per_question(candidate, chosen)),\n"
        "                (baseline, run.scores.per_question(baseline, chosen)),\n",
        (f"{TEST_RUN}::test_a_positive_difference_means_that_the_candidate_is_better",),
    ),
    Mutant(
        "declared-comparisons-not-adjusted",
        COMPARISON,
        "            if (declared.candidate, declared.baseline) == (candidate, baseline):\n",
        "            if (declared.candidate, declared.baseline) == (baseline, candidate):\n",
        (f"{TEST_RUN}::test_a_declared_comparison_is_the_one_of_the_report",),
    ),
    Mutant(
        "delta-of-a-comparison-ignored",
        COMPARISON,
        "return run.settings.delta if delta is None else delta",
        "return run.settings.delta",
        (f"{TEST_RUN}::test_a_declared_comparison_is_the_one_of_the_report",),
    ),
    Mutant(
        "report-of-a-cut-replaces-the-runs",
        "branchrank/run.py",
        "        if into is None and self.conditions:\n",
        "        if into is None and not self.predictors:\n",
        (f"{TEST_RUN}::test_a_cut_is_a_run_that_does_not_overwrite_reports",),
    ),
    Mutant(
        "total-failures-not-named",
        "branchrank/runs/warnings.py",
        'if own and all(row.status == "failed" for row in own):',
        "if not own:",
        (
            "tests/cli/test_failed_runs.py::test_a_predictor_that_fails_every_query_ends_the_command_with_code_9",
        ),
    ),
    Mutant(
        "closed-workspaces-keep-their-index-open",
        "branchrank/systems/searcher.py",
        "self._index = self._resources.enter_context(self._build())",
        "self._index = self._build()",
        (f"{TEST_CITIZEN}::test_a_closed_workspace_leaves_nothing_open",),
    ),
    Mutant(
        "filters-of-the-library-ignored",
        "branchrank/systems/searcher.py",
        "conditions = read_filters(filters)",
        "conditions = ()",
        (
            "tests/acceptance/test_document_002_qdrant.py::TestBm25SparseSearch"
            "::test_sparse_search_with_filters",
        ),
    ),
    Mutant(
        "k-of-the-library-is-10",
        "branchrank/systems/searcher.py",
        'system: str | System = "hybrid",\n        k: int = 5,\n        *,\n        keywords: str = "",\n'
        "        filters: str | Sequence[str] = (),\n    ) -> list[Hit]:",
        'system: str | System = "hybrid",\n        k: int = 10,\n        *,\n        keywords: str = "",\n'
        "        filters: str | Sequence[str] = (),\n    ) -> list[Hit]:",
        (
            "tests/acceptance/test_document_003_plan.py::TestSuggestedDefaults"
            "::test_final_top_k_is_5_in_the_library",
        ),
    ),
    Mutant(
        "the-import-loads-pandas",
        "branchrank/__init__.py",
        "import logging\n\n",
        "import logging\n\nimport pandas\n\n",
        ("tests/test_public_names.py::test_the_import_loads_nothing_heavy",),
    ),
)
