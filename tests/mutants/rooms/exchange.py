"""BEIR runs, comparisons of TREC runs, frames, LaTeX tables, datasets by id."""

from mutants.mutant import Mutant

TABLE = "branchrank/runs/results_table.py"
LATEX = "branchrank/report/latex.py"
RANKING = "branchrank/systems/document_ranking.py"
FRAMES = "branchrank/runs/pyterrier_frames.py"
DATASETS = "branchrank/corpus/ir_dataset.py"
BEIR = "branchrank/workspace_beir.py"
TEST_TREC = "tests/runs/test_trec_comparison.py"
TEST_LATEX = "tests/report/test_latex.py"
TEST_BEIR = "tests/cli/test_beir_run.py"
TEST_FRAMES = "tests/runs/test_pyterrier_frames.py"
TEST_DATASETS = "tests/corpus/test_ir_dataset.py"
TEST_TIES = "tests/runs/test_tie_order.py"

MUTANTS = (
    Mutant(
        "every-difference-marked",
        TABLE,
        'if each.measure == measure and each.verdict in ("better", "worse")',
        "if each.measure == measure and each.differing",
        (f"{TEST_LATEX}::test_the_table_has_a_line_for_each_system_its_best_bold_and_marked",),
    ),
    Mutant(
        "means-called-hit-rates",
        "branchrank/report/rates.py",
        '    return "Hit rates and means" if any(shares) else "Means"',
        '    return "Hit rates"',
        (f"{TEST_BEIR}::test_the_report_of_a_beir_run_uses_the_terms_of_graded_judgments",),
    ),
    Mutant(
        "judged-documents-called-pages",
        "branchrank/report/facts.py",
        "if not answerable or not all(map(is_judged, answerable)):",
        "if True:",
        (f"{TEST_BEIR}::test_the_report_of_a_beir_run_uses_the_terms_of_graded_judgments",),
    ),
    Mutant(
        "letters-mark-the-candidate-alone",
        TABLE,
        "        others |= {each.candidate for each in found if each.baseline == system}\n",
        "",
        (f"{TEST_TREC}::test_all_pairs_are_one_family_and_marked_with_letters",),
    ),
    Mutant(
        "measures-of-a-run-under-other-names",
        TABLE,
        "{labels[each.name]: run.scores.per_question(name, each) for each in chosen}",
        "{labels[each.name]: run.scores.per_question(name, run.primary) for each in chosen}",
        (f"{TEST_BEIR}::test_the_table_is_what_ir_measures_computes_from_the_exported_runs",),
    ),
    Mutant(
        "runs-cut-off-compared",
        "branchrank/runs/trec_comparison.py",
        "if missing and not missing_is_zero:",
        "if missing and False:",
        (f"{TEST_TREC}::test_a_run_that_lacks_a_query_is_refused_or_scores_0",),
    ),
    Mutant(
        "latex-names-unescaped",
        LATEX,
        "return _SPECIAL.sub(lambda found: _ESCAPED[found[0]], _CONTROL.sub(",
        "return str(_CONTROL.sub(",
        (f"{TEST_LATEX}::test_a_runs_report_has_a_latex_table",),
    ),
    Mutant(
        "latex-of-datasets-without-denominators",
        LATEX,
        """{', '.join(asked)}""",
        """{', '.join(found.datasets)}""",
        ("tests/report/test_datasets.py::test_the_table_as_latex",),
    ),
    Mutant(
        "latex-bold-is-the-lowest",
        TABLE,
        "system.means[measure].value >= max(",
        "system.means[measure].value <= min(",
        (f"{TEST_LATEX}::test_the_table_has_a_line_for_each_system_its_best_bold_and_marked",),
    ),
    Mutant(
        "chunks-ranked-as-documents",
        RANKING,
        'group=Group(by="document", members=1)',
        "group=Group(members=1)",
        (f"{TEST_BEIR}::test_every_system_ranks_whole_documents_to_the_full_depth",),
    ),
    Mutant(
        "late-interaction-cut-at-its-cap",
        RANKING,
        "fuse = msgspec.structs.replace(fuse, cap=0)",
        "fuse = msgspec.structs.replace(fuse, k=fuse.k)",
        (f"{TEST_BEIR}::test_every_system_ranks_whole_documents_to_the_full_depth",),
    ),
    Mutant(
        "grades-not-scored",
        BEIR,
        'else f"graded_{found.name}"',
        'else f"strict_{found.name}"',
        (f"{TEST_BEIR}::test_the_table_is_what_ir_measures_computes_from_the_exported_runs",),
    ),
    Mutant(
        "other-workspace-indexed-over",
        BEIR,
        "        if corpus != entries_place(name):\n",
        "        if not corpus:\n",
        (f"{TEST_BEIR}::test_the_workspace_of_another_corpus_is_not_indexed_over",),
    ),
    Mutant(
        "index-built-before-the-check",
        BEIR,
        "    _check(planned)\n",
        "",
        (f"{TEST_BEIR}::test_mistakes_are_reported_before_any_work",),
    ),
    Mutant(
        "changed-entries-kept",
        "branchrank/corpus/beir.py",
        'kept.read_text(encoding="utf-8") == digest',
        'bool(kept.read_text(encoding="utf-8"))',
        (f"{TEST_BEIR}::test_entries_that_changed_are_unpacked_again",),
    ),
    Mutant(
        "judged-queries-clustered-by-document",
        "branchrank/measures/matching.py",
        "question.gold[0].relevance is not None",
        "question.gold[0].relevance == -1",
        (f"{TEST_BEIR}::test_the_tests_are_those_of_the_exported_runs",),
    ),
    Mutant(
        "datasets-downloaded-unasked",
        DATASETS,
        "        if not allowed:\n",
        "        if not identifier:\n",
        (f"{TEST_DATASETS}::test_nothing_is_downloaded_without_a_request",),
    ),
    Mutant(
        "downloads-stay-refused",
        DATASETS,
        "            kind.stream = stream\n",
        "            del stream\n",
        (f"{TEST_DATASETS}::test_the_package_downloads_again_afterwards",),
    ),
    Mutant(
        "frames-ranked-from-one",
        FRAMES,
        "for rank, (document, score) in enumerate(ranked)",
        "for rank, (document, score) in enumerate(ranked, start=1)",
        (f"{TEST_FRAMES}::test_the_columns_are_those_of_pyterriers_data_model",),
    ),
    Mutant(
        "number-ids-compared-as-numbers",
        FRAMES,
        "        if str(docno) in judged:\n",
        "        if docno in judged:\n",
        (f"{TEST_FRAMES}::test_wrong_qrels_are_refused",),
    ),
    Mutant(
        "ties-by-id-ascending",
        "branchrank/measures/trec.py",
        "rank += sum(run[other].key > key for other in tied)",
        "rank += sum(run[other].key < key for other in tied)",
        (f"{TEST_TIES}::test_the_documented_tie_order_matches_trec_eval_and_the_code",),
    ),
    Mutant(
        "ties-in-double-precision",
        "branchrank/measures/trec.py",
        "dtype=np.float32",
        "dtype=np.float64",
        (f"{TEST_TIES}::test_the_documented_tie_order_matches_trec_eval_and_the_code",),
    ),
    Mutant(
        "vectors-of-nothing-searched",
        "branchrank/systems/checks.py",
        "if embedder == NONE and any(",
        "if not embedder and any(",
        (f"{TEST_BEIR}::test_mistakes_are_reported_before_any_work",),
    ),
)
