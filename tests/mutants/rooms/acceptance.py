"""A mutant for each class of acceptance tests, caught by that class alone."""

from mutants.mutant import Mutant

CARD = "tests/acceptance/test_card.py"
HYBRID = "tests/acceptance/test_document_000_hybrid_retrieval.py"
THRESHOLD = "tests/acceptance/test_document_000_threshold.py::TestTheDefaultThresholdAndTheModel"
BM25 = "tests/acceptance/test_document_001_bm25_grep.py"
QDRANT = "tests/acceptance/test_document_002_qdrant.py"
LLM = "tests/acceptance/test_document_003_llm.py"
PLAN = "tests/acceptance/test_document_003_plan.py"
SQLITE = "tests/acceptance/test_document_004_sqlite_search.py"

ENGINE = "branchrank/systems/engine.py"
TOOLS = "branchrank/systems/search_tools.py"
BUILTIN = "branchrank/systems/builtin.py"
SETTINGS = "branchrank/settings/systems.py"
SUMMARY = "branchrank/runs/summary.py"

_CARD = (
    Mutant(
        "dry-run-hides-the-index",
        "branchrank/cli/benchmarking.py",
        'where = f" on index {safe(row.index)}" if row.index else ""',
        'where = ""',
        (f"{CARD}::TestKind::test_experiment_harness",),
    ),
    Mutant(
        "bm25s-not-declared",
        "pyproject.toml",
        '    "bm25s>=0.3,<0.4",\n',
        "",
        (f"{CARD}::TestPackages::test_the_package_is_a_dependency",),
    ),
    Mutant(
        "hybrid-script-is-missing",
        "hybrid_retrieve.py",
        "",
        None,
        (f"{CARD}::TestTopLevel::test_the_file_or_folder_exists",),
    ),
    Mutant(
        "expansion-not-traced",
        ENGINE,
        '        trace.add("expansion", "node", reached)\n',
        "",
        (
            f"{CARD}::TestShape::test_hybrid_maps_and_expands_a_vector_shortlist_and_fuses_it_with_global_bm25",
        ),
    ),
    Mutant(
        "hits-printed-without-their-file",
        "branchrank/cli/querying.py",
        'click.style(f"{safe_line(hit.source)}:{hit.line_start}-{hit.line_end}", bold=True)',
        'click.style(f"{hit.line_start}-{hit.line_end}", bold=True)',
        (f"{CARD}::TestUsedBy::test_smoke_test_of_cli_queries",),
    ),
)

_HYBRID = (
    Mutant(
        "context-is-nine-lines-by-default",
        SETTINGS,
        'description="lines shown before and after a match")] = 10',
        'description="lines shown before and after a match")] = 9',
        (f"{HYBRID}::TestContextWindowEnrichmentForGrepResults::test_requirement",),
    ),
    Mutant(
        "exact-keywords-dropped",
        TOOLS,
        "found = self._retrieve(system, semantic_query, limit, filters, exact_keywords)",
        "found = self._retrieve(system, semantic_query, limit, filters)",
        (
            f"{HYBRID}::TestHybridSearchCombiningExactKeywordAndVectorRetrieval::test_one_source_returns_empty",
        ),
    ),
    Mutant(
        "vector-search-without-a-threshold",
        TOOLS,
        '_alone("vector_search", branch)',
        '_alone("vector_search", Branch(kind="dense"))',
        (f"{HYBRID}::TestVectorSearchThreshold",),
    ),
    Mutant(
        "refused-files-are-not-an-error",
        "branchrank/serve/mcp.py",
        "content=[TextContent(text=str(refusal))], is_error=True)",
        "content=[TextContent(text=str(refusal))])",
        (f"{HYBRID}::TestDocumentReadingWithExplicitErrorReporting::test_file_not_found",),
    ),
    Mutant(
        "status-counts-only-returned-hits",
        TOOLS,
        '    return sum(len(stage.keys) for stage in found.trace if stage.stage == "fusion")',
        "    return len(found.hits)",
        (f"{HYBRID}::TestSearchFeedbackAndCitations::test_enhanced_search_log_feedback",),
    ),
    Mutant(
        "status-not-wired-to-the-terminal-ui",
        "branchrank/serve/tui.py",
        "        self._searches.tools.listen(self._tell)\n",
        "",
        (f"{HYBRID}::TestSearchFeedbackAndCitations::test_requirement",),
    ),
)

_BM25 = (
    Mutant(
        "matched-lines-not-returned",
        "branchrank/serve/mcp.py",
        "matched_lines=list(hit.matched),",
        "matched_lines=[],",
        (f"{BM25}::TestContextWindowEnrichmentForGrepResults::test_grep_match_with_context_window",),
    ),
    Mutant(
        "grep-without-length-normalization",
        "branchrank/files/grep.py",
        "saturation = K1 * (1 - B + B * lengths / lengths.mean())",
        "saturation = K1 * np.ones(len(lengths))",
        (f"{BM25}::TestBm25ScoringAndRankingOfGrepResults::test_bm25_ranking_applied_to_grep_output",),
    ),
    Mutant(
        "ranking-setting-ignored",
        "branchrank/systems/branches/grep.py",
        'lookup.branch.options.get("ranking", settings.ranking)',
        'lookup.branch.options.get("ranking", "none")',
        (
            f"{BM25}::TestHybridSearchCombiningBm25AndVectorRetrieval"
            "::test_hybrid_search_drops_grep_results_below_the_25th_percentile",
        ),
    ),
)

_QDRANT = (
    Mutant(
        "collections-use-the-dot-product",
        "branchrank/stores/qdrant.py",
        '"distance": models.Distance.COSINE',
        '"distance": models.Distance.DOT',
        (f"{QDRANT}::TestSparseAndDenseVectorStorage::test_collection_creation_with_hybrid_vectors",),
    ),
    Mutant(
        "enable-hybrid-false-ignored",
        BUILTIN,
        'only_dense = tuple(branch for branch in system.branches if branch.kind != "qdrant-sparse")',
        "only_dense = system.branches",
        (f"{QDRANT}::TestSparseAndDenseVectorStorage::test_dense_only_fallback",),
    ),
    Mutant(
        "qdrant-weights-swapped",
        BUILTIN,
        '"branches.qdrant-dense.weight": part.fusion_weight,\n'
        '        "branches.qdrant-sparse.weight": 1.0 - part.fusion_weight,',
        '"branches.qdrant-dense.weight": 1.0 - part.fusion_weight,\n'
        '        "branches.qdrant-sparse.weight": part.fusion_weight,',
        (f"{QDRANT}::TestHybridSearchWithReciprocalRankFusion::test_fusion_weight_configuration",),
    ),
    Mutant(
        "worst-points-first",
        "branchrank/stores/qdrant.py",
        "return -entry.score, entry.key",
        "return entry.score, entry.key",
        (f"{QDRANT}::TestBm25SparseSearch::test_sparse_search_on_text_fields",),
    ),
    Mutant(
        "only-as-many-candidates-as-results",
        "branchrank/systems/checks.py",
        "return 2 * k if branch.doubled else branch.top_n",
        "return k if branch.doubled else branch.top_n",
        (f"{QDRANT}::TestSearchResultFusion::test_result_count",),
    ),
    Mutant(
        "sparse-and-dense-search-run-in-sequence",
        ENGINE,
        "with ThreadPoolExecutor(len(branches)) as pool:",
        "with ThreadPoolExecutor(1) as pool:",
        (f"{QDRANT}::TestPerformanceAndCaching::test_concurrent_sparse_and_dense_search",),
    ),
    Mutant(
        "branches-opened-again-for-every-query",
        ENGINE,
        "        found = self._searches.get(kind)\n        if found is None:\n"
        "            with self._lock:\n                if kind not in self._searches:\n",
        "        found = None\n        if found is None:\n"
        "            with self._lock:\n                if kind:\n",
        ("tests/systems/test_engine.py::test_a_branch_is_opened_once_for_all_queries",),
    ),
)

_LLM = (
    Mutant(
        "llm-gets-candidates-past-the-cap",
        ENGINE,
        "            candidates = candidates[: system.fuse.cap]\n",
        "            candidates = candidates[:]\n",
        (f"{LLM}::TestStageCLLMFinalRerank::test_the_llm_gets_no_more_candidates_than_the_cap",),
    ),
    Mutant(
        "fallback-ordered-by-fused-score",
        "branchrank/systems/rerank.py",
        "        if not gathering:\n",
        "        if candidates:\n",
        (
            f"{LLM}::TestFallbackOrderIfTheLLMFails::test_the_fallback_sorts_by_evidence_then_by_lexical_score",
        ),
    ),
    Mutant(
        "fallback-reversed",
        "branchrank/systems/rerank.py",
        "    return rescore(candidates, result.order), result.fallback is None\n",
        "    order = result.order[::-1] if result.fallback else result.order\n"
        "    return rescore(candidates, order), result.fallback is None\n",
        (
            f"{LLM}::TestFallbackOrderIfTheLLMFails::test_the_fallback_sorts_by_evidence_then_by_lexical_score",
        ),
    ),
    Mutant(
        "lexical-score-removed-from-the-tree-search",
        "branchrank/systems/branches/tree_steps.py",
        "else [self.tree.node(key) for key in self.lexical(page, step).picked]",
        "else []",
        (f"{LLM}::TestFallbackOrderIfTheLLMFails::test_the_tree_search_falls_back_to_the_lexical_score",),
    ),
    Mutant(
        "no-llm-flag-ignored",
        BUILTIN,
        "    if part.base_url and not part.no_llm:\n",
        "    if part.base_url:\n",
        (f"{LLM}::TestFlags::test_the_no_llm_flag_turns_off_the_llm",),
    ),
    Mutant(
        "decisions-not-cached",
        "branchrank/llm/gateway.py",
        "            self._cache.put(request, self.model, recorded, self._endpoint)\n",
        "            pass\n",
        (f"{LLM}::TestDecisionCache",),
    ),
    Mutant(
        "completions-not-counted",
        SUMMARY,
        "sum(call.prompt_tokens + call.completion_tokens for call in calls) / len(rows)",
        "sum(call.prompt_tokens for call in calls) / len(rows)",
        (f"{LLM}::TestEvaluation",),
    ),
)

_PLAN = (
    Mutant(
        "global-bm25-returns-one-section",
        SETTINGS,
        'Branch(kind="bm25", unit="node", top_n=80)',
        'Branch(kind="bm25", unit="node", top_n=1)',
        (f"{PLAN}::TestUpdatedRollout::test_2_hybrid_uses_global_bm25_instead_of_lexical_overlap",),
    ),
    Mutant(
        "hybrid-weights-swapped",
        SETTINGS,
        'vector_weight="branches.dense.weight",\n    candidate_cap="fuse.cap",',
        'vector_weight="branches.bm25.weight",\n    candidate_cap="fuse.cap",',
        (f"{PLAN}::TestNotes::test_bm25_and_rrf_tuning_flags",),
    ),
    Mutant(
        "cap-keeps-the-worst-candidates",
        ENGINE,
        "            candidates = candidates[: system.fuse.cap]\n",
        "            candidates = candidates[-system.fuse.cap :]\n",
        (f"{PLAN}::TestWhyHybrid",),
    ),
    Mutant(
        "shortlist-does-not-use-chroma",
        "branchrank/stores/chroma.py",
        "        if n <= 0 or n >= len(self.ids):\n",
        "        if n:\n",
        (f"{PLAN}::TestStageAVectorShortlist::test_2_a_chunk_that_chroma_omits_is_not_a_dense_hit",),
    ),
    Mutant(
        "candidate-files-not-produced",
        "branchrank/ranking/expansion.py",
        "in best[:file_roots]:",
        "in best[:0]:",
        (f"{PLAN}::TestStageAVectorShortlist::test_the_output_is_candidate_nodes_and_candidate_files",),
    ),
    Mutant(
        "file-roots-score-too-low",
        "branchrank/ranking/expansion.py",
        "FILE_ROOT_SHARE = 0.5",
        "FILE_ROOT_SHARE = 0.4",
        (f"{PLAN}::TestStageBTreeExpansion::test_the_expansion_adds_a_few_file_roots_inferred_from_stage_a",),
    ),
    Mutant(
        "responses-without-the-predictor",
        "branchrank/serve/http.py",
        "RetrieveAnswer(predictor=name,",
        'RetrieveAnswer(predictor="",',
        (f"{PLAN}::TestIntegrationPlan::test_3_post_retrieve_returns_the_same_format_for_every_predictor",),
    ),
    Mutant(
        "imported-chunks-ignored",
        "branchrank/index/contents.py",
        "    if workspace.chunks_file is None:\n",
        "    if True:\n",
        (f"{PLAN}::TestDataAndArtifactRequirements::test_existing_chunks_and_nodes_are_reused",),
    ),
    Mutant(
        "same-sample-for-every-seed",
        "branchrank/questions/question_files.py",
        'return hashlib.sha256(f"{seed}\\x00{question.id}".encode()).hexdigest()',
        'return hashlib.sha256(f"\\x00{question.id}".encode()).hexdigest()',
        (f"{PLAN}::TestEvaluationPlan::test_a_b_c_use_the_same_question_sample_and_seed",),
    ),
    Mutant(
        "summary-reports-p50-as-p95",
        SUMMARY,
        "latency_p95_ms=warm.percentile(TOTAL, 0.95),",
        "latency_p95_ms=warm.percentile(TOTAL, 0.5),",
        (f"{PLAN}::TestEvaluationPlan::test_the_report_has_p50_and_p95_latency_per_query",),
    ),
    Mutant(
        "ten-hits-by-default",
        "branchrank/cli/querying.py",
        "click.IntRange(1, 1000), default=5,",
        "click.IntRange(1, 1000), default=10,",
        (f"{PLAN}::TestSuggestedDefaults::test_final_top_k_is_5",),
    ),
    Mutant(
        "chunks-without-a-node-dropped",
        "branchrank/systems/sources.py",
        "return (file.id,) if file is not None else ()",
        "return ()",
        (f"{PLAN}::TestRisksAndMitigations::test_a_chunk_that_overlaps_no_node_maps_to_the_file_root",),
    ),
    Mutant(
        "sweep-without-all-combinations",
        "branchrank/bench/experiment.py",
        "for values in itertools.product(*lists.values()):",
        "for values in zip(*lists.values(), strict=False):",
        (f"{PLAN}::TestRolloutPhases::test_4_a_sweep_tunes_candidate_limits_and_neighbor_policy",),
    ),
)

_SQLITE = (
    Mutant(
        "mode-flag-ignored",
        "branchrank/cli/search.py",
        "workspace.search_documents(query, mode=mode, filters=filters)",
        'workspace.search_documents(query, mode="keyword", filters=filters)',
        (f"{SQLITE}::TestModes::test_the_mode_selects_the_branches_that_are_searched",),
    ),
    Mutant(
        "explain-crashes",
        "branchrank/cli/search.py",
        'f"{word} rank {placement.rank}, {measured}',
        'f"{word} rank {placement.place}, {measured}',
        (f"{SQLITE}::TestModes::test_explain_shows_every_part_of_a_score",),
    ),
    Mutant(
        "no-partial-terms",
        "branchrank/stores/sqlite_fts5.py",
        "if len(found) < n and begun:",
        "if not found and not begun:",
        (f"{SQLITE}::TestKeywordSearch",),
    ),
    Mutant(
        "embedding-section-not-needed",
        "branchrank/systems/document_systems.py",
        "        _check_section(settings, mode)\n",
        "        pass\n",
        (f"{SQLITE}::TestSemanticSearch::test_semantic_search_requires_an_embedding_section",),
    ),
    Mutant(
        "alpha-is-the-keyword-weight",
        BUILTIN,
        'weights = {"branches.fts5.weight": 1.0 - alpha, "branches.dense.weight": alpha}',
        'weights = {"branches.fts5.weight": alpha, "branches.dense.weight": 1.0 - alpha}',
        (f"{SQLITE}::TestHybridSearch",),
    ),
    Mutant(
        "documents-ungrouped-by-default",
        SETTINGS,
        'group=Group(by="document", aggregate="max", members=3)',
        'group=Group(by="none", aggregate="max", members=3)',
        (f"{SQLITE}::TestHowScoringWorks::test_one_long_document_does_not_dominate",),
    ),
    Mutant(
        "final-limit-ignored",
        "branchrank/systems/searcher.py",
        "k = self.settings.part(RetrievalSettings).final_limit",
        "k = 12",
        (f"{SQLITE}::TestTuning::test_final_limit_limits_the_results",),
    ),
)

_THRESHOLD = (
    Mutant(
        "given-threshold-replaced-by-the-calibrated-one",
        BUILTIN,
        '.vector_score_threshold"] == DEFAULT',
        '.vector_score_threshold"] != ""',
        (f"{THRESHOLD}::test_a_threshold_that_the_user_sets_is_not_calibrated_and_a_warning_is_shown",),
    ),
)

MUTANTS = (*_THRESHOLD, *_CARD, *_HYBRID, *_BM25, *_QDRANT, *_LLM, *_PLAN, *_SQLITE)
