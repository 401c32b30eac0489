"""BM25, exact vectors, Chroma and SQLite FTS5."""

from mutants.mutant import Mutant

BM25 = "branchrank/stores/bm25.py"
EXACT = "branchrank/stores/vectors_exact.py"
CHROMA = "branchrank/stores/vectors_chroma.py"
FTS5 = "branchrank/stores/sqlite_fts5.py"
TEST_SERVER = "tests/index/test_index_server.py"
TEST_BM25 = "tests/stores/test_bm25.py"
TEST_VECTORS = "tests/stores/test_vector_contract.py"
TEST_SQLITE = "tests/stores/test_sqlite_file.py"

EXISTING = "branchrank/stores/qdrant_existing.py"
PLACED = "branchrank/systems/branches/qdrant_placed.py"
TEST_EXISTING = "tests/systems/test_qdrant_existing.py"

MUTANTS = (
    Mutant(
        "panics-of-chroma-uncaught",
        "branchrank/stores/chroma_client.py",
        "        if not isinstance(error, Exception) and not _is_panic(error):\n",
        "        if not isinstance(error, Exception):\n",
        (
            "tests/damaged_files/test_damaged_files.py"
            "::test_a_database_that_crashes_chromas_compiled_code_is_refused",
        ),
    ),
    Mutant(
        "multivectors-of-another-model",
        PLACED,
        "    if alike < _LEAST_ALIKE * len(pairs):\n",
        "    if False:\n",
        (f"{TEST_EXISTING}::test_multivectors_of_another_model_are_refused",),
    ),
    Mutant(
        "bm25-numbers-of-parts-mixed",
        "branchrank/stores/bm25_weights.py",
        "tokens.append(renumbered[part.tokens])",
        "tokens.append(part.tokens)",
        (f"{TEST_BM25}::test_weights_have_the_bits_of_bm25s_however_the_texts_are_divided",),
    ),
    Mutant(
        "interrupted-upload-starts-over",
        "branchrank/stores/chroma_upload.py",
        "    if found == made_for:\n",
        "    if False:\n",
        (f"{TEST_SERVER}::test_a_killed_upload_resumes_with_the_missing_vectors",),
    ),
    Mutant(
        "foreign-collection-replaced",
        "branchrank/stores/chroma_upload.py",
        "    if found is None:\n",
        "    if False:\n",
        (f"{TEST_SERVER}::test_a_foreign_collection_is_never_replaced",),
    ),
    Mutant(
        "collection-of-another-index-searched",
        "branchrank/stores/vectors_chroma.py",
        "                self._check_owner(made_for)\n",
        "",
        (f"{TEST_SERVER}::test_the_collection_of_another_index_is_refused",),
    ),
    Mutant(
        "bm25-without-length-normalization",
        "branchrank/stores/bm25_weights.py",
        "b=settings.b, delta=delta",
        "b=0.0, delta=delta",
        (f"{TEST_BM25}::test_scores_match_the_published_formulas",),
    ),
    Mutant(
        "bm25-counts-a-repeated-word-once",
        BM25,
        "np.float32(count) * weights[column]",
        "weights[column]",
        (f"{TEST_BM25}::test_a_repeated_word_counts_again_and_the_order_of_words_does_not",),
    ),
    Mutant(
        "bm25-returns-documents-that-score-nothing",
        BM25,
        "scoring = np.flatnonzero(scores > 0)",
        "scoring = np.flatnonzero(scores >= 0)",
        (f"{TEST_BM25}::test_best_first_ties_by_id_and_nothing_without_a_score",),
    ),
    Mutant(
        "bm25-files-of-two-builds-mixed",
        BM25,
        "    if found != digest:\n",
        "    if not found:\n",
        (f"{TEST_BM25}::test_files_of_two_builds_are_never_read_together",),
    ),
    Mutant(
        "bm25-arrays-unpickled",
        "branchrank/stores/arrays.py",
        "[np.asarray(array) for array in map_npys(stream, count)]",
        "[np.load(stream, allow_pickle=True) for _ in range(count)]",
        (f"{TEST_BM25}::test_no_file_is_unpickled",),
    ),
    Mutant(
        "stop-words-indexed",
        "branchrank/stores/analyzer.py",
        'if form.strip("_") and form not in stopped)',
        'if form.strip("_"))',
        ("tests/stores/test_analyzer.py::test_each_setting_changes_the_tokens",),
    ),
    Mutant(
        "ties-by-row-not-by-id",
        "branchrank/stores/strings.py",
        "places[order] = np.arange(len(order), dtype=np.int32)",
        "places[:] = np.arange(len(order), dtype=np.int32)",
        (f"{TEST_VECTORS}::test_equal_scores_are_sorted_by_id_even_at_the_cutoff",),
    ),
    Mutant(
        "worst-scores-first",
        "branchrank/stores/ordering.py",
        "rows[pool]], -scores[pool]))",
        "rows[pool]], scores[pool]))",
        (f"{TEST_VECTORS}::test_the_nearest_come_best_first",),
    ),
    Mutant(
        "vectors-of-another-shape-accepted",
        EXACT,
        "if matrix.dtype != np.float32 or matrix.shape != (rows, dimension):",
        "if matrix.dtype != np.float32:",
        (f"{TEST_VECTORS}::test_an_array_of_another_shape_or_type_is_refused",),
    ),
    Mutant(
        "chroma-cuts-inside-a-tie",
        CHROMA,
        "if len(ranking) < n or ranking[n - 1].score - ranking[-1].score < _TIE:",
        "if len(ranking) < n:",
        (f"{TEST_VECTORS}::test_equal_scores_are_sorted_by_id_even_at_the_cutoff",),
    ),
    Mutant(
        "fts5-exact-matches-not-preferred",
        FTS5,
        "return (self.exact + self.bm25 / (1.0 + self.bm25)) / 2.0",
        "return (1.0 + self.bm25 / (1.0 + self.bm25)) / 2.0",
        ("tests/stores/test_sqlite_fts5.py::test_a_prefix_of_a_word_matches",),
    ),
    Mutant(
        "sqlite-file-without-checksums",
        "branchrank/stores/sqlite_file.py",
        "if not isinstance(encoded, bytes) or checksum != _checksum(encoded):",
        "if not isinstance(encoded, bytes):",
        (f"{TEST_SQLITE}::test_a_modified_chunk_is_refused_when_it_is_read",),
    ),
    Mutant(
        "fts5-digest-unchecked",
        "branchrank/stores/sqlite_file.py",
        "if header.fts_digest != _fts_digest(self._connection):",
        "if not header.fts_digest:",
        (f"{TEST_SQLITE}::test_a_modified_file_is_refused",),
    ),
    Mutant(
        "existing-shard-opened-in-place",
        EXISTING,
        "return edge().EdgeShard.load(str(copy))",
        "return edge().EdgeShard.load(str(shards[0]))",
        (f"{TEST_EXISTING}::test_the_points_are_hits_with_their_lines_and_the_collection_stays",),
    ),
    Mutant(
        "existing-filter-after-the-ranking",
        PLACED,
        "        if not lookup.query.filters:\n            return None\n        admitted",
        "        if lookup.query.filters is not None:\n            return None\n        admitted",
        (f"{TEST_EXISTING}::test_a_filter_applies_before_the_ranking",),
    ),
    Mutant(
        "existing-vectors-not-compared",
        PLACED,
        "    if not pairs:\n        return\n",
        "    if pairs:\n        return\n",
        (f"{TEST_EXISTING}::test_vectors_of_another_model_are_refused",),
    ),
    Mutant(
        "existing-sparse-terms-not-compared",
        PLACED,
        "_LEAST_TERMS = 0.8",
        "_LEAST_TERMS = -1.0",
        (f"{TEST_EXISTING}::test_sparse_vectors_of_another_kind_are_not_searched",),
    ),
    Mutant(
        "pickle-makes-any-class",
        "branchrank/stores/pickled_data.py",
        'if f"{module}.{name}" not in self.records:',
        "if not name:",
        (f"{TEST_EXISTING}::test_a_class_that_is_not_a_record_is_refused",),
    ),
    Mutant(
        "search-file-not-compared-with-what-was-opened",
        "branchrank/stores/sqlite_file.py",
        "                check_opened(root, path.relative_to(root).as_posix())\n",
        "",
        (
            "tests/index/test_links.py::"
            "test_a_link_that_is_swapped_in_before_sqlite_opens_the_search_file_is_refused",
        ),
    ),
    Mutant(
        "chroma-not-compared-with-what-was-opened",
        "branchrank/stores/chroma_client.py",
        "            check_opened(root or location, place.relative_to(root or location).as_posix())\n",
        "            pass\n",
        ("tests/index/test_links.py::test_chromas_database_is_not_read_through_a_link_that_is_swapped_in",),
    ),
    Mutant(
        "chroma-by-relative-path",
        "branchrank/stores/chroma_client.py",
        "path=str(location.absolute())",
        "path=str(location)",
        ("tests/index/test_chroma_safety.py::test_a_relative_path_is_relative_to_the_working_directory",),
    ),
)
