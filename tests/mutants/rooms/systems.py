"""The engine, systems as data, rerank, tree search, branch kinds and search tools."""

from mutants.mutant import Mutant

ENGINE = "branchrank/systems/engine.py"
FUSING = "branchrank/systems/fusing.py"
BUILTIN = "branchrank/systems/builtin.py"
RERANK = "branchrank/systems/rerank.py"
TOOLS = "branchrank/systems/search_tools.py"
HITS = "branchrank/systems/hits.py"
SOURCES = "branchrank/systems/sources.py"
TEST_ENGINE = "tests/systems/test_engine.py"
TEST_QDRANT = "tests/systems/test_qdrant_search.py"
TEST_DOCUMENTS = "tests/systems/test_document_search.py"
TEST_RERANK = "tests/systems/test_rerank.py"
TEST_TOOLS = "tests/systems/test_tools.py"
TEST_TREE = "tests/systems/test_tree_search.py"
TEST_TREE_LLM = "tests/systems/test_tree_search_llm.py"
TEST_LINES = "tests/systems/test_passage_lines.py"
TEST_ORDER = "tests/systems/test_passage_order.py"
TEST_SCORES = "tests/systems/test_score_fusion.py"
TOKENS = "branchrank/systems/token_vectors.py"
TEST_RESCORE = "tests/systems/test_rescore.py"
TEST_FILTERS = "tests/doors/test_filters.py"
TEST_THRESHOLD = "tests/acceptance/test_document_000_threshold.py::TestTheDefaultThresholdAndTheModel"

MUTANTS = (
    Mutant(
        "qdrant-filled-from-the-start",
        "branchrank/stores/qdrant_server.py",
        "if key not in {str(point.id) for point in held}]",
        "]",
        (f"{TEST_QDRANT}::test_an_interrupted_upload_sends_only_missing_points",),
    ),
    Mutant(
        "qdrant-without-shards",
        "branchrank/stores/qdrant_server.py",
        "shard_number=storage.shards or None,",
        "shard_number=None,",
        (f"{TEST_QDRANT}::test_the_layout_of_a_cluster_is_in_the_requests",),
    ),
    Mutant(
        "maxsim-of-qdrant-is-a-sum",
        "branchrank/stores/qdrant_points.py",
        "score / len(tokens) for key",
        "score for key",
        ("tests/systems/test_qdrant_multivectors.py::test_qdrants_maxsim_matches_ours",),
    ),
    Mutant(
        "late-interaction-never-asks-the-store",
        ENGINE,
        "self.token_vectors.maxsim(query, first, trace, store)",
        "self.token_vectors.maxsim(query, first, trace)",
        (
            "tests/systems/test_qdrant_multivectors.py::test_the_stage_uses_qdrant_and_gives_the_same_ranking_as_local_files",
        ),
    ),
    Mutant(
        "memo-without-a-limit",
        "branchrank/systems/memo.py",
        "            while self._is_full():\n",
        "            while False:\n",
        ("tests/systems/test_memo.py::test_a_memo_of_thousands_of_questions_stays_within_its_bytes",),
    ),
    Mutant(
        "memo-drops-what-was-used-last",
        "branchrank/systems/memo.py",
        "            entry = self._kept.pop(key, None)\n            if entry is not None:\n"
        "                self._kept[key] = entry\n",
        "            entry = self._kept.get(key)\n            if entry is not None:\n",
        ("tests/systems/test_memo.py::test_the_least_recently_used_entry_is_evicted_first",),
    ),
    Mutant(
        "maxsim-of-all-candidates",
        ENGINE,
        "for entry in candidates[: slot.candidates])",
        "for entry in candidates)",
        (f"{TEST_RESCORE}::test_the_first_candidates_get_the_weighted_maxsim_on_top",),
    ),
    Mutant(
        "maxsim-weight-ignored",
        ENGINE,
        "add_scores(candidates, scores, slot.weight)",
        "add_scores(candidates, scores, 1.0)",
        (f"{TEST_RESCORE}::test_the_first_candidates_get_the_weighted_maxsim_on_top",),
    ),
    Mutant(
        "token-vectors-without-the-breadcrumb",
        TOKENS,
        "embedded_text(self._index.chunks[chunk])",
        "self._index.chunks[chunk].text",
        (f"{TEST_RESCORE}::test_the_first_candidates_get_the_weighted_maxsim_on_top",),
    ),
    Mutant(
        "computed-token-vectors-are-not-cached",
        TOKENS,
        "if self._cache is not None:",
        "if False:",
        (f"{TEST_RESCORE}::test_computed_vectors_are_cached_in_the_workspace",),
    ),
    Mutant(
        "late-interaction-over-http-accepted",
        "branchrank/systems/checks.py",
        'if system.rescore.method == "maxsim":',
        "if False:",
        (f"{TEST_RESCORE}::test_an_embedder_behind_a_server_is_refused_before_any_work",),
    ),
    Mutant(
        "qdrant-fetches-n-not-twice-n",
        "branchrank/systems/stages.py",
        "return 2 * k if branch.doubled else branch.top_n",
        "return k if branch.doubled else branch.top_n",
        (f"{TEST_QDRANT}::test_each_branch_fetches_twice_as_many",),
    ),
    Mutant(
        "branches-run-one-after-the-other",
        ENGINE,
        "if len(branches) > 1 and any(kind.waits for kind in kinds):",
        "if False:",
        (f"{TEST_TOOLS}::test_both_sides_run_at_the_same_time",),
    ),
    Mutant(
        "pool-cut-to-k",
        ENGINE,
        "candidates = candidates[: system.fuse.cap]",
        "candidates = candidates[:5]",
        (f"{TEST_ENGINE}::test_the_cap_bounds_the_candidates_whatever_k_is",),
    ),
    Mutant(
        "exclusion-after-the-cut",
        ENGINE,
        "result = search(lookup._replace(n=lookup.n + removable))",
        "result = search(lookup)",
        (f"{TEST_ENGINE}::test_exclusion_does_not_shrink_the_pool",),
    ),
    Mutant(
        "excluded-spans-ranked",
        ENGINE,
        "[entry for entry in result.ranking if admits(entry.key)][:limit]",
        "[entry for entry in result.ranking][:limit]",
        (f"{TEST_ENGINE}::test_nothing_inside_an_excluded_span_is_ranked",),
    ),
    Mutant(
        "memo-key-without-the-filters",
        ENGINE,
        "asked = (query.text, query.keywords, query.excluded, query.filters)",
        "asked = (query.text, query.keywords, query.excluded)",
        (f"{TEST_ENGINE}::test_a_filter_leaves_the_other_documents_out_of_every_ranking",),
    ),
    Mutant(
        "unit-interval-not-scaled",
        FUSING,
        "(slot.k + 1) / (sum(weights.values()) or 1.0)",
        "1.0",
        (f"{TEST_DOCUMENTS}::test_the_hybrid_score_is_rrf_scaled_to_one",),
    ),
    Mutant(
        "fusion-weight-swapped",
        BUILTIN,
        '"branches.qdrant-dense.weight": part.fusion_weight,\n'
        '        "branches.qdrant-sparse.weight": 1.0 - part.fusion_weight,',
        '"branches.qdrant-dense.weight": 1.0 - part.fusion_weight,\n'
        '        "branches.qdrant-sparse.weight": part.fusion_weight,',
        (f"{TEST_QDRANT}::test_the_weight_chooses_the_branch",),
    ),
    Mutant(
        "enable-hybrid-ignored",
        BUILTIN,
        "    if part.enable_hybrid:\n        return system\n",
        "    return system\n",
        (f"{TEST_QDRANT}::test_a_collection_without_sparse_vectors_is_searched_with_a_notice",),
    ),
    Mutant(
        "grown-hits-are-not-replaced",
        HITS,
        "while len(found) < k and start < len(candidates):",
        "if candidates:",
        (
            f"{TEST_LINES}::test_the_top_k_is_a_prefix_of_the_top_k_plus_n",
            f"{TEST_LINES}::test_several_passages_of_one_section_are_returned",
        ),
    ),
    Mutant(
        "duplicate-texts-returned",
        "branchrank/systems/passage_layout.py",
        "        if text in self._texts:\n            return None\n",
        "",
        (f"{TEST_LINES}::test_duplicate_text_is_returned_once",),
    ),
    Mutant(
        "failed-rerank-leads-passages",
        ENGINE,
        'reranked = "yes" if done else "failed"',
        'reranked = "yes"',
        (f"{TEST_ORDER}::test_when_the_llm_fails_each_section_returns_its_best_passage",),
    ),
    Mutant(
        "excluded-passages-in-the-pool",
        "branchrank/systems/passage_order.py",
        "            if chunk.id not in banned:\n                section_of",
        "            if True:\n                section_of",
        (f"{TEST_ORDER}::test_excluded_passages_are_not_in_the_pool",),
    ),
    Mutant(
        "missing-candidates-score-zero",
        ENGINE,
        "                | dict(self._scorer(lookup.branch.kind)(lookup, union))\n",
        "",
        (f"{TEST_SCORES}::test_the_score_is_the_cosine_and_half_the_share_of_the_best_bm25",),
    ),
    Mutant(
        "ranks-fused-as-scores",
        "branchrank/systems/checks.py",
        'if system.fuse.method == "score":',
        "if False:",
        ("tests/systems/test_problems.py::test_an_impossible_system_is_refused_before_any_query",),
    ),
    Mutant(
        "fts5-fused-by-its-squeezed-score",
        "branchrank/systems/branches/fts5.py",
        "return lambda lookup, keys: table.bm25(_words(lookup), keys)",
        "return lambda lookup, keys: {}",
        (f"{TEST_SCORES}::test_a_score_does_not_depend_on_which_branch_found_the_candidate",),
    ),
    Mutant(
        "alpha-swapped",
        BUILTIN,
        'weights = {"branches.fts5.weight": 1.0 - alpha, "branches.dense.weight": alpha}',
        'weights = {"branches.fts5.weight": alpha, "branches.dense.weight": 1.0 - alpha}',
        (f"{TEST_DOCUMENTS}::test_alpha_blends_from_keyword_to_semantic",),
    ),
    Mutant(
        "documents-not-grouped",
        ENGINE,
        'if system.group.by == "document":',
        "if False:",
        (f"{TEST_DOCUMENTS}::test_a_hit_is_its_documents_best_chunk",),
    ),
    Mutant(
        "document-search-mode-ignored",
        "branchrank/systems/document_search.py",
        'if mode == "hybrid":',
        "if True:",
        (f"{TEST_DOCUMENTS}::test_the_keyword_score_is_the_fts5_score",),
    ),
    Mutant(
        "embedding-section-unchecked",
        "branchrank/systems/document_search.py",
        "    if model != embedder:\n",
        "    if not model:\n",
        (f"{TEST_DOCUMENTS}::test_a_model_other_than_that_of_the_index_is_refused",),
    ),
    Mutant(
        "fallback-order-reversed",
        "branchrank/systems/llm_stages.py",
        "                return candidates, False\n",
        "                return list(reversed(candidates)), False\n",
        ("tests/systems/test_llm_stages.py::test_a_failed_rerank_keeps_the_fused_order_and_says_why",),
    ),
    Mutant(
        "fallback-not-reported",
        "branchrank/systems/llm_stages.py",
        '            self.trace.fallbacks.append(f"rerank: {result.fallback}")\n',
        "",
        ("tests/systems/test_llm_stages.py::test_a_failed_rerank_keeps_the_fused_order_and_says_why",),
    ),
    Mutant(
        "first-stage-ties-by-id-alone",
        RERANK,
        "key=lambda c: (-c.fused_score, -c.evidence, -c.lexical_score, c.id)",
        "key=lambda c: (-c.fused_score, c.id)",
        (f"{TEST_RERANK}::test_the_first_stage_orders_by_fused_then_evidence_then_lexical_then_id",),
    ),
    Mutant(
        "rerank-shuffle-ignores-the-seed",
        "branchrank/systems/llm_choice.py",
        'random.Random(f"{context.seed}/{context.repeat}/{query}")',
        'random.Random(f"{query}")',
        (f"{TEST_RERANK}::test_the_shuffle_is_recorded_and_follows_seed_and_repeat",),
    ),
    Mutant(
        "rerank-weights-swapped",
        RERANK,
        '{"first": 1.0 - weight, "reranked": weight}',
        '{"first": weight, "reranked": 1.0 - weight}',
        (f"{TEST_RERANK}::test_candidates_that_the_llm_omits_follow_in_fused_order",),
    ),
    Mutant(
        "one-failed-page-counts-as-success",
        RERANK,
        "        fallback=faults[0] if faults else None,\n        shown=tuple(choice.shown",
        "        fallback=None,\n        shown=tuple(choice.shown",
        (f"{TEST_RERANK}::test_one_failed_batch_of_two_is_a_fallback",),
    ),
    Mutant(
        "lexical-fallback-of-a-step-removed",
        "branchrank/systems/tree_search_llm.py",
        "else [self.tree.node(key) for key in self.lexical(page, step).picked]",
        "else []",
        (f"{TEST_TREE_LLM}::test_a_failed_step_falls_back_to_lexical_with_a_reason",),
    ),
    Mutant(
        "lexical-walk-after-no-choice-removed",
        "branchrank/systems/tree_search.py",
        "        steps += walk(tree, settings, lexical)\n",
        "",
        (f"{TEST_TREE_LLM}::test_picking_nothing_at_all_falls_back_to_the_lexical_walk",),
    ),
    Mutant(
        "beam-one-too-wide",
        "branchrank/systems/tree_search.py",
        "if len(children) <= settings.beam:",
        "if len(children) <= settings.beam + 1:",
        (f"{TEST_TREE}::test_the_walk_follows_at_most_beam_children",),
    ),
    Mutant(
        "walk-one-step-too-deep",
        "branchrank/systems/tree_search.py",
        "for number in range(1, settings.depth + 1):",
        "for number in range(1, settings.depth + 2):",
        (f"{TEST_TREE}::test_depth_bounds_the_walk_and_folders_are_never_hits",),
    ),
    Mutant(
        "status-counts-passages-not-files",
        TOOLS,
        'return self._answer("grep_search", found, found.found.get("grep", 0), "files")',
        'return self._answer("grep_search", found, len(found.hits), "files")',
        (f"{TEST_TOOLS}::test_grep_counts_every_file_once_whatever_the_limit",),
    ),
    Mutant(
        "listeners-not-told",
        TOOLS,
        "            listener(status)\n",
        "            pass\n",
        (f"{TEST_TOOLS}::test_every_search_notifies_its_listeners",),
    ),
    Mutant(
        "threshold-keeps-what-lies-at-it",
        "branchrank/systems/branches/vectors.py",
        "if squared_distance(entry.score) < threshold]",
        "if squared_distance(entry.score) <= threshold]",
        (f"{TEST_TOOLS}::test_vector_search_drops_what_is_at_or_past_the_threshold",),
    ),
    Mutant(
        "dropped-chunks-not-reported",
        TOOLS,
        "notices=(*retrieval.remarks, *fallbacks),",
        "notices=fallbacks,",
        (f"{TEST_TOOLS}::test_vector_search_drops_what_is_at_or_past_the_threshold",),
    ),
    Mutant(
        "keywords-ignored-by-grep",
        "branchrank/systems/branches/grep.py",
        "words = lookup.query.keywords.strip() or lookup.query.text",
        "words = lookup.query.text",
        (f"{TEST_TOOLS}::test_if_one_side_is_empty_the_other_keeps_its_order",),
    ),
    Mutant(
        "ranks-in-hits-from-zero",
        HITS,
        "key: Placement(rank=rank, score=columns.scores[rank - 1])",
        "key: Placement(rank=rank - 1, score=columns.scores[rank - 1])",
        (f"{TEST_TOOLS}::test_hybrid_fuses_both_sides_by_rrf",),
    ),
    Mutant(
        "section-instead-of-passage",
        HITS,
        'if self.system.returns != "passage":',
        "if True:",
        (f"{TEST_ENGINE}::test_a_hit_is_exactly_the_chunk_it_returns",),
    ),
    Mutant(
        "cosine-as-distance",
        "branchrank/stores/vectors.py",
        "return max(0.0, 2.0 - 2.0 * similarity)",
        "return max(0.0, 1.0 - similarity)",
        (f"{TEST_TOOLS}::test_vector_search_reports_squared_distances",),
    ),
    Mutant(
        "filter-is-a-prefix",
        "branchrank/systems/query.py",
        "return source == self.pattern or fnmatch.fnmatchcase(source, self.pattern)",
        'return source.startswith(self.pattern.partition("*")[0])',
        ("tests/systems/test_query.py::test_a_filter_is_the_path_itself_or_a_glob",),
    ),
    Mutant(
        "branch-of-the-wrong-unit-accepted",
        "branchrank/systems/checks.py",
        "    if branch.unit not in kind.units:\n",
        "    if not kind.units:\n",
        ("tests/systems/test_checks.py::test_an_impossible_system_is_described",),
    ),
    Mutant(
        "dot-product-in-qdrant",
        "branchrank/stores/qdrant_embedded.py",
        "distance=qdrant.Distance.Cosine)",
        "distance=qdrant.Distance.Dot)",
        ("tests/stores/test_qdrant.py::test_dense_scores_are_cosines",),
    ),
    Mutant(
        "calibration-suggests-the-median",
        "branchrank/index/calibration.py",
        "COVERAGE = 0.95",
        "COVERAGE = 0.5",
        (f"{TEST_TOOLS}::test_calibration_suggests_a_threshold_that_keeps_the_branch",),
    ),
    Mutant(
        "given-threshold-replaced-by-the-calibrated-one",
        BUILTIN,
        '.vector_score_threshold"] == DEFAULT',
        '.vector_score_threshold"] != ""',
        (f"{TEST_THRESHOLD}::test_a_threshold_that_the_user_sets_is_not_calibrated_and_a_warning_is_shown",),
    ),
    Mutant(
        "calibrated-threshold-not-used",
        "branchrank/systems/branches/vectors.py",
        'index.manifest.distance.threshold if asked == "calibrated" else asked',
        '0.5 if asked == "calibrated" else asked',
        (f"{TEST_THRESHOLD}::test_search_results_show_the_calibrated_threshold",),
    ),
    Mutant(
        "notices-left-out-of-the-text",
        TOOLS,
        "[*notes, *(results",
        "[*(results",
        (f"{TEST_THRESHOLD}::test_a_threshold_that_the_user_sets_is_not_calibrated_and_a_warning_is_shown",),
    ),
    Mutant(
        "rank-after-the-expansion",
        HITS,
        "if name not in self.expanded:",
        "if True:",
        ("tests/systems/test_hits.py",),
    ),
    Mutant(
        "grep-filters-after-its-cut",
        "branchrank/systems/branches/grep.py",
        "sources=admitted)",
        "sources=None)",
        (
            f"{TEST_FILTERS}::test_the_library_filters_before_ranking[one-grep]",
            f"{TEST_FILTERS}::test_mcp",
        ),
    ),
    Mutant(
        "tree-walk-goes-through-filtered-documents",
        "branchrank/systems/branches/tree.py",
        "sources.tree(filters),",
        "sources.tree(()),",
        (f"{TEST_FILTERS}::test_the_library_filters_before_ranking",),
    ),
)
