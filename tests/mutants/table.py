"""Ways to break the product, a test of each: the acceptance tests, the faults of a disk, the secrets.

There is one for each class of acceptance tests, which that class alone must notice.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """``old``, which occurs exactly once in the file ``path``, becomes ``new``; the test ``test`` must fail.

    ``path`` and ``test`` (a pytest id) are relative to the project's root.
    """

    name: str
    path: str
    old: str
    new: str
    test: str

    def mutated(self, text: str) -> str:
        """The file's text with the defect. Raises ``ValueError`` if it can't be made."""
        if (count := text.count(self.old)) != 1 or self.old == self.new:
            raise ValueError(f"{self.name}: {self.path} has the text to replace {count} times, not once")
        return text.replace(self.old, self.new)


CARD = "tests/acceptance/test_card.py"
HYBRID = "tests/acceptance/test_document_000_hybrid_retrieval.py"
THRESHOLD = "tests/acceptance/test_document_000_threshold.py::TestTheDefaultThresholdAndTheModel"
BM25 = "tests/acceptance/test_document_001_bm25_grep.py"
QDRANT = "tests/acceptance/test_document_002_qdrant.py"
LLM = "tests/acceptance/test_document_003_llm.py"
PLAN = "tests/acceptance/test_document_003_plan.py"
SQLITE = "tests/acceptance/test_document_004_sqlite_search.py"
ENGINE = "branchrank/search/systems/engine.py"
TOOLS = "branchrank/search/systems/search_tools.py"
BUILTIN = "branchrank/search/systems/builtin.py"
SETTINGS = "branchrank/core/settings/systems.py"
SUMMARY = "branchrank/runs/summary.py"
PLACES = "tests/faults/test_disk_faults.py::test_every_disk_operation_fails_once"
REFUSED = "tests/damaged_files/test_damaged_files.py::test_links_and_decompression_bombs_are_refused"
MUTATED_INPUTS = "tests/fuzz/test_fuzz.py::test_mutated_inputs_are_read_or_refused"
FOUND_INPUTS = "tests/fuzz/test_fuzz.py::test_an_input_that_failed_once_is_read_or_refused"
SEEDS = "tests/fuzz/test_fuzz.py::test_the_seeds_are_valid"
LEAVES = "tests/security/test_secrets_leave_nothing.py::test_no_flow_stores_a_secret"
REACHES = "tests/security/test_sockets.py::test_common_commands_open_no_network_connection"

# fmt: off
_ACCEPTANCE = (
    Mutant("given-threshold-replaced-by-the-calibrated-one", BUILTIN,
        '.vector_score_threshold"] == DEFAULT', '.vector_score_threshold"] != ""',
        THRESHOLD + "::test_a_threshold_that_the_user_sets_is_not_calibrated_and_a_warning_is_shown"),
    Mutant("dry-run-hides-the-index", "branchrank/frontends/cli/benchmark.py",
        'where = f" on index {safe(row.index)}" if row.index else ""', 'where = ""',
        CARD + "::TestKind::test_experiment_harness"),
    Mutant("expansion-not-traced", ENGINE,
        '        trace.add("expansion", "node", reached)\n', "",
        CARD + "::TestShape::test_hybrid_maps_and_expands_a_vector_shortlist_and_fuses_it_with_global_bm25"),
    Mutant("hits-printed-without-their-file", "branchrank/frontends/cli/search.py",
        "click.style(safe_line(hit.span.citation), bold=True)",
        'click.style(f"{hit.line_start}-{hit.line_end}", bold=True)',
        CARD + "::TestUsedBy::test_smoke_test_of_cli_queries"),
    Mutant("context-is-nine-lines-by-default", SETTINGS,
        "context_lines: Annotated[int, Meta(ge=0, le=100)] = 10",
        "context_lines: Annotated[int, Meta(ge=0, le=100)] = 9",
        HYBRID + "::TestContextWindowEnrichmentForGrepResults::test_requirement"),
    Mutant("tools-search-what-is-excluded", TOOLS,
        "excluded=self._within.excluded)", "excluded=())",
        "tests/search/test_agent.py::test_tools_show_nothing_that_the_query_excludes"),
    Mutant("tools-read-what-is-excluded", TOOLS,
        "for span in self._within.excluded:", "for span in ():",
        "tests/search/test_agent.py::test_tools_show_nothing_that_the_query_excludes"),
    Mutant("exact-keywords-dropped", TOOLS,
        "found = self._retrieve(system, semantic_query, limit, filters, exact_keywords)",
        "found = self._retrieve(system, semantic_query, limit, filters)",
        HYBRID + "::TestHybridSearchCombiningExactKeywordAndVectorRetrieval::test_one_source_returns_empty"),
    Mutant("vector-search-without-a-threshold", TOOLS,
        '_alone("vector_search", branch)', '_alone("vector_search", Branch(kind="dense"))',
        HYBRID + "::TestVectorSearchThreshold"),
    Mutant("refused-files-are-not-an-error", "branchrank/frontends/serve/mcp.py",
        "content=[TextContent(text=text)], is_error=True)",
        "content=[TextContent(text=text)])",
        HYBRID + "::TestDocumentReadingWithExplicitErrorReporting::test_file_not_found"),
    Mutant("status-counts-only-returned-hits", TOOLS,
        '    return sum(len(stage.keys) for stage in found.trace if stage.stage == "fusion")',
        "    return len(found.hits)",
        HYBRID + "::TestSearchFeedbackAndCitations::test_enhanced_search_log_feedback"),
    Mutant("status-not-wired-to-the-terminal-ui", "branchrank/frontends/serve/tui.py",
        "            self.call_from_thread(self._say, *said)\n", "",
        HYBRID + "::TestSearchFeedbackAndCitations::test_requirement"),
    Mutant("matched-lines-not-returned", "branchrank/frontends/serve/mcp.py",
        "matched_lines=hit.matched,", "matched_lines=(),",
        BM25 + "::TestContextWindowEnrichmentForGrepResults::test_grep_match_with_context_window"),
    Mutant("grep-without-length-normalization", "branchrank/search/files/grep_search.py",
        "saturation = K1 * (1 - B + B * lengths / lengths.mean())", "saturation = K1 * np.ones(len(lengths))",
        BM25 + "::TestBm25ScoringAndRankingOfGrepResults::test_bm25_ranking_applied_to_grep_output"),
    Mutant("ranking-setting-ignored", "branchrank/search/systems/branches/indexed.py",
        'options.get("ranking", settings.ranking)',
        'options.get("ranking", "order")',
        BM25 + "::TestHybridSearchCombiningBm25AndVectorRetrieval"
        "::test_hybrid_search_drops_grep_results_below_the_25th_percentile"),
    Mutant("collections-use-the-dot-product", "branchrank/index/stores/qdrant_store.py",
        '"distance": models.Distance.COSINE', '"distance": models.Distance.DOT',
        QDRANT + "::TestSparseAndDenseVectorStorage::test_collection_creation_with_hybrid_vectors"),
    Mutant("enable-hybrid-false-ignored", BUILTIN,
        'only_dense = tuple(branch for branch in system.branches if branch.kind != "qdrant-sparse")',
        "only_dense = system.branches",
        QDRANT + "::TestSparseAndDenseVectorStorage::test_dense_only_fallback"),
    Mutant("qdrant-weights-swapped", BUILTIN,
        '"branches.qdrant-dense.weight": part.fusion_weight or float(not part.enable_hybrid),\n'
        '        "branches.qdrant-sparse.weight": 1.0 - part.fusion_weight,',
        '"branches.qdrant-dense.weight": 1.0 - part.fusion_weight,\n'
        '        "branches.qdrant-sparse.weight": part.fusion_weight,',
        QDRANT + "::TestHybridSearchWithReciprocalRankFusion::test_fusion_weight_configuration"),
    Mutant("worst-points-first", "branchrank/index/stores/qdrant_store.py",
        "return -entry.score, entry.key", "return entry.score, entry.key",
        QDRANT + "::TestBm25SparseSearch::test_sparse_search_on_text_fields"),
    Mutant("only-as-many-candidates-as-results", "branchrank/search/systems/system_checks.py",
        "return 2 * k if branch.doubled else branch.top_n", "return k if branch.doubled else branch.top_n",
        QDRANT + "::TestSearchResultFusion::test_result_count"),
    Mutant("sparse-and-dense-search-run-in-sequence", ENGINE,
        "with ThreadPoolExecutor(len(branches)) as pool:", "with ThreadPoolExecutor(1) as pool:",
        QDRANT + "::TestPerformanceAndCaching::test_concurrent_sparse_and_dense_search"),
    Mutant("branches-opened-again-for-every-query", ENGINE,
        "        if key not in self._opened:\n            with self._lock:\n"
        "                if key not in self._opened:\n",
        "        if key:\n            with self._lock:\n                if key:\n",
        "tests/search/test_engine.py::test_a_branch_is_opened_once_for_all_queries"),
    Mutant("llm-gets-candidates-past-the-cap", ENGINE,
        "            candidates = candidates[: system.fuse.cap]\n",
        "            candidates = candidates[:]\n",
        LLM + "::TestStageCLLMFinalRerank::test_the_llm_gets_no_more_candidates_than_the_cap"),
    Mutant("fallback-ordered-by-fused-score", "branchrank/search/systems/rerank.py",
        "    if fault and not gathering:\n", "    if fault:\n",
        LLM + "::TestFallbackOrderIfTheLLMFails::test_the_fallback_sorts_by_evidence_then_by_lexical_score"),
    Mutant("fallback-reversed", "branchrank/search/systems/rerank.py",
        "    return rescore(candidates, order)\n",
        "    return rescore(candidates, order[::-1] if fault else order)\n",
        LLM + "::TestFallbackOrderIfTheLLMFails::test_the_fallback_sorts_by_evidence_then_by_lexical_score"),
    Mutant("lexical-score-removed-from-the-tree-search", "branchrank/search/systems/branches/tree.py",
        "self.lexical(page, step).picked if answer.value is None", "() if answer.value is None",
        LLM + "::TestFallbackOrderIfTheLLMFails::test_the_tree_search_falls_back_to_the_lexical_score"),
    Mutant("no-llm-flag-ignored", BUILTIN,
        "    if part.base_url and not part.no_llm:\n", "    if part.base_url:\n",
        LLM + "::TestFlags::test_the_no_llm_flag_turns_off_the_llm"),
    Mutant("decisions-not-cached", "branchrank/search/llm/gateway.py",
        "            self._cache.put(request, self.model, recorded, self._endpoint)\n", "            pass\n",
        LLM + "::TestDecisionCache"),
    Mutant("completions-not-counted", SUMMARY,
        "per_query(sum(call.prompt_tokens + call.completion_tokens for call in of.calls))",
        "per_query(sum(call.prompt_tokens for call in of.calls))",
        LLM + "::TestEvaluation"),
    Mutant("global-bm25-returns-one-section", SETTINGS,
        'Branch(kind="bm25", unit="node", top_n=80)', 'Branch(kind="bm25", unit="node", top_n=1)',
        PLAN + "::TestUpdatedRollout::test_2_hybrid_uses_global_bm25_instead_of_lexical_overlap"),
    Mutant("hybrid-weights-swapped", SETTINGS,
        '"vector_weight": "branches.dense.weight",', '"vector_weight": "branches.bm25.weight",',
        PLAN + "::TestNotes::test_bm25_and_rrf_tuning_flags"),
    Mutant("cap-keeps-the-worst-candidates", ENGINE,
        "            candidates = candidates[: system.fuse.cap]\n",
        "            candidates = candidates[-system.fuse.cap :]\n",
        PLAN + "::TestWhyHybrid"),
    Mutant("shortlist-does-not-use-chroma", "branchrank/index/stores/chroma.py",
        "        if n <= 0 or n >= len(self.ids):\n", "        if n:\n",
        PLAN + "::TestStageAVectorShortlist::test_2_a_chunk_that_chroma_omits_is_not_a_dense_hit"),
    Mutant("candidate-files-not-produced", "branchrank/search/ranking/expansion.py",
        "in best[: file_roots if depth else 0]:", "in best[:0]:",
        PLAN + "::TestStageAVectorShortlist::test_the_output_is_candidate_nodes_and_candidate_files"),
    Mutant("file-roots-score-too-low", "branchrank/search/ranking/expansion.py",
        "FILE_ROOT_SHARE = 0.5", "FILE_ROOT_SHARE = 0.4",
        PLAN + "::TestStageBTreeExpansion::test_the_expansion_adds_a_few_file_roots_inferred_from_stage_a"),
    Mutant("responses-without-the-predictor", "branchrank/frontends/serve/http_api.py",
        "RetrieveAnswer(predictor=name,", 'RetrieveAnswer(predictor="",',
        PLAN + "::TestIntegrationPlan::test_3_post_retrieve_returns_the_same_format_for_every_predictor"),
    Mutant("imported-chunks-ignored", "branchrank/index/contents.py",
        "    if given is None:\n", "    if True:\n",
        PLAN + "::TestDataAndArtifactRequirements::test_existing_chunks_and_nodes_are_reused"),
    Mutant("same-sample-for-every-seed", "branchrank/questions/question_files.py",
        'return hashlib.sha256(f"{seed}\\0{name}".encode()).hexdigest()',
        'return hashlib.sha256(f"\\0{name}".encode()).hexdigest()',
        PLAN + "::TestEvaluationPlan::test_a_b_c_use_the_same_question_sample_and_seed"),
    Mutant("summary-reports-p50-as-p95", SUMMARY,
        "self.warm.percentile(TOTAL, 0.95)",
        "self.warm.percentile(TOTAL, 0.5)",
        PLAN + "::TestEvaluationPlan::test_the_report_has_p50_and_p95_latency_per_query"),
    Mutant("ten-hits-by-default", "branchrank/frontends/cli/search.py",
        'passages.", 5, click', 'passages.", 10, click',
        PLAN + "::TestSuggestedDefaults::test_final_top_k_is_5"),
    Mutant("chunks-without-a-node-dropped", "branchrank/search/systems/sources.py",
        "return (file.id,) if file is not None else ()", "return ()",
        PLAN + "::TestRisksAndMitigations::test_a_chunk_that_overlaps_no_node_maps_to_the_file_root"),
    Mutant("sweep-without-all-combinations", "branchrank/runs/bench/experiment.py",
        "for values in itertools.product(*lists)]",
        "for values in zip(*lists, strict=False)]",
        PLAN + "::TestRolloutPhases::test_4_a_sweep_tunes_candidate_limits_and_neighbor_policy"),
    Mutant("mode-flag-ignored", "branchrank/frontends/cli/search.py",
        "workspace.search_documents(query, mode=mode, **limits)",
        'workspace.search_documents(query, mode="keyword", **limits)',
        SQLITE + "::TestModes::test_the_mode_selects_the_branches_that_are_searched"),
    Mutant("explain-crashes", "branchrank/frontends/cli/search.py",
        'f"{word} rank {placement.rank}, {measured}', 'f"{word} rank {placement.place}, {measured}',
        SQLITE + "::TestModes::test_explain_shows_every_part_of_a_score"),
    Mutant("no-partial-terms", "branchrank/index/stores/sqlite_fts5.py",
        "if len(found) < n and begun:", "if not found and not begun:",
        SQLITE + "::TestKeywordSearch"),
    Mutant("semantic-search-by-words", "branchrank/search/systems/builtin.py",
        '"semantic": "dense"}', '"semantic": "fts5"}',
        SQLITE + "::TestSemanticSearch::test_semantic_search_ranks_by_cosine_similarity"),
    Mutant("alpha-is-the-keyword-weight", BUILTIN,
        'weights = {"branches.fts5.weight": 1.0 - alpha, "branches.dense.weight": alpha}',
        'weights = {"branches.fts5.weight": alpha, "branches.dense.weight": 1.0 - alpha}',
        SQLITE + "::TestHybridSearch"),
    Mutant("documents-ungrouped-by-default", SETTINGS,
        'group=Group(by="document", aggregate="max", members=3)',
        'group=Group(by="none", aggregate="max", members=3)',
        SQLITE + "::TestHowScoringWorks::test_one_long_document_does_not_dominate"),
    Mutant("final-limit-ignored", "branchrank/workspace.py",
        "k = self.settings.part(RetrievalSettings).final_limit", "k = 12",
        SQLITE + "::TestTuning::test_final_limit_limits_the_results"),
)
_FAULTS = (
    Mutant("files-written-in-place", "branchrank/core/io/files.py",
        'path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")\n        try:\n'
        '            with temporary.open("xb")',
        'path\n        try:\n            with temporary.open("wb")',
        PLACES + "[init]"),
    Mutant("a-full-disk-is-not-said", "branchrank/core/io/files.py",
        "            temporary.unlink(missing_ok=True)\n            raise\n",
        "            temporary.unlink(missing_ok=True)\n            return\n",
        PLACES + "[init]"),
    Mutant("finished-before-the-report-is-written", "branchrank/runs/bench/running.py",
        "        run.publish()\n",
        "        write_run(directory, sealed(directory, run.record, digests))\n        run.publish()\n",
        PLACES + "[benchmark]"),
    Mutant("what-a-killed-run-left-stays", "branchrank/runs/bench/running.py",
        "            clear_temporary(directory)\n", "            pass\n",
        PLACES + "[benchmark]"),
    Mutant("a-link-of-a-killed-build-stays", "branchrank/index/generations.py",
        'link.with_name(f".{link.name}.tmp")', 'link.with_name(f".{link.name}.{os.getpid()}.tmp")',
        PLACES + "[first index]"),
    Mutant("what-a-killed-writer-left-stays", "branchrank/core/io/files.py",
        "            fcntl.flock(descriptor, fcntl.LOCK_EX)\n            remove_temporary(folder, name)\n",
        "            fcntl.flock(descriptor, fcntl.LOCK_EX)\n",
        "tests/questions/test_labeling.py::test_a_killed_process_keeps_each_label_and_leaves_no_file"),
    Mutant("deep-nesting-is-a-traceback", "branchrank/core/io/files.py",
        "NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)",
        "NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError)",
        FOUND_INPUTS + "[run-json/nested-5000]"),
    Mutant("compact-rows-unpack-without-limit", "branchrank/runs/rows.py",
        "            if found > most:\n", "            if found > 1000 * most:\n",
        REFUSED),
    Mutant("links-in-a-run-are-followed", "branchrank/runs/directory.py",
        "            open_beneath(directory, name).close()\n", "            (directory / name).stat()\n",
        REFUSED),
    Mutant("a-query-is-an-expression-of-fts5", "branchrank/index/stores/sqlite_fts5.py",
        """f'"{_tokens(term, analyze)}"{"*" if prefix else ""}'""",
        "term + ('*' if prefix else '')",
        FOUND_INPUTS + "[fts5-query/operators]"),
    Mutant("a-reply-names-what-it-was-not-shown", "branchrank/search/llm/prompts.py",
        "    named = list(dict.fromkeys(known[word] for word in words if word in known))\n",
        "    named = list(dict.fromkeys(known.get(word, word) for word in words))\n",
        MUTATED_INPUTS + "[llm-reply]"),
    Mutant("grep-sees-a-pattern", "branchrank/search/files/grep_search.py",
        "        literal = re.escape(folded(self.text))\n", "        literal = folded(self.text)\n",
        FOUND_INPUTS + "[grep-query/parenthesis]"),
)
_SECURITY = (
    Mutant("manifest-keeps-the-password", "branchrank/index/index_build.py",
        "            settings=without_credentials(self.settings),",
        "            settings=self.settings,",
        LEAVES),
    Mutant("embedding-errors-echo-the-header", "branchrank/index/embedders/endpoint_embedder.py",
        '        text = Redactor(self.endpoint.secrets)(content.decode("utf-8", "replace"))\n'
        "        for secret in self.endpoint.secrets:  # The redactor ignores very short keys.\n"
        '            text = text.replace(secret, "[key]")\n',
        '        text = content.decode("utf-8", "replace")\n',
        LEAVES),
    Mutant("a-command-phones-home", "branchrank/frontends/cli/search.py",
        "    if query is not None:\n        _answer(query, predictor,",
        "    import contextlib\n    import urllib.request\n\n    with contextlib.suppress(OSError):\n"
        '        urllib.request.urlopen("https://updates.example/version", timeout=1)\n'
        "    if query is not None:\n        _answer(query, predictor,",
        REACHES),
)
# fmt: on

ROOMS = {"acceptance": _ACCEPTANCE, "faults": _FAULTS, "security": _SECURITY}
