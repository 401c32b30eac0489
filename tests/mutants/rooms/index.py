"""Index builds, generations, the reader, and atomic files."""

from mutants.mutant import Mutant

GENERATIONS = "branchrank/index/generations.py"
READER = "branchrank/index/reader.py"
BUILD = "branchrank/index/build.py"
ADOPTION = "branchrank/index/adoption.py"
TEST_ADOPT = "tests/cli/test_adopt_command.py"
TEST_BUILD = "tests/index/test_index_build.py"
TEST_FAULTS = "tests/index/test_index_faults.py"
TEST_ARTIFACTS = "tests/test_artifacts.py"
TEST_STORES = "tests/doors/test_vector_stores.py"

TEST_TOKENS = "tests/index/test_token_vectors.py"

TEST_OPENING = "tests/index/test_opening.py"

MUTANTS = (
    Mutant(
        "stamps-without-the-time-of-the-entry",
        "branchrank/index/stamps.py",
        "status.st_mtime_ns, status.st_ctime_ns",
        "status.st_mtime_ns, 0",
        (f"{TEST_OPENING}::test_a_changed_byte_is_detected_even_with_unchanged_timestamps",),
    ),
    Mutant(
        "every-file-read-at-each-opening",
        "branchrank/index/stamps.py",
        "if known.get(name) == stamp:",
        "if False:",
        (f"{TEST_OPENING}::test_an_unchanged_file_is_not_read_again",),
    ),
    Mutant(
        "check-trusts-stamps",
        "branchrank/index/stamps.py",
        "known = {} if all_files else _read(generation)",
        "known = _read(generation)",
        (f"{TEST_OPENING}::test_check_reads_even_files_with_a_matching_stamp",),
    ),
    Mutant(
        "records-decoded-at-opening",
        "branchrank/index/records_file.py",
        "        self._by_span: NDArray[np.int32] = by_span\n",
        "        self._by_span = by_span\n        self._decoder = msgspec.json.Decoder(record_type)\n"
        "        list(self.stream())\n",
        (f"{TEST_OPENING}::test_no_record_is_decoded_until_it_is_asked_for",),
    ),
    Mutant(
        "documents-opened-at-opening",
        "branchrank/index/corpus_changes.py",
        "elif _has_state(found, entry.size, modified_ns.get(source)):",
        "elif False:",
        (f"{TEST_OPENING}::test_documents_of_an_unchanged_corpus_are_not_opened",),
    ),
    Mutant(
        "tree-of-objects",
        "branchrank/index/tree_file.py",
        "    return Tree.opened(nodes, links)",
        "    return Tree(nodes.values())",
        (f"{TEST_OPENING}::test_tree_navigation_decodes_no_node",),
    ),
    Mutant(
        "token-vectors-of-another-precision-copied",
        "branchrank/index/token_vectors.py",
        "if manifest.settings.token_vectors != precision:",
        "if False:",
        (f"{TEST_TOKENS}::test_vectors_of_another_precision_or_model_are_not_copied",),
    ),
    Mutant(
        "unchanged-token-vectors-computed-again",
        "branchrank/index/token_vectors.py",
        "known = _previous(workspace, precision, held)",
        "known: dict[str, TokenVectors] = {}",
        (f"{TEST_TOKENS}::test_unchanged_chunks_are_copied_from_the_index_in_use",),
    ),
    Mutant(
        "model-runs-twice-for-vector-and-tokens",
        BUILD,
        "ChunkEmbedding(workspace.index_settings, embedder, executor, vectors)",
        "ChunkEmbedding(workspace.index_settings, embedder, executor, {})",
        (f"{TEST_TOKENS}::test_the_model_runs_once_for_a_chunks_vector_and_its_tokens",),
    ),
    Mutant(
        "damaged-token-vectors-answer",
        READER,
        "        check_digests(self.directory, _tokens(self.manifest.digests, of_tokens=True))\n",
        "",
        (f"{TEST_TOKENS}::test_a_damaged_file_is_refused_at_first_use_and_rebuilt",),
    ),
    Mutant(
        "token-vectors-that-nobody-asked-for-are-kept",
        BUILD,
        "if index.manifest.settings.token_vectors != workspace.index_settings.token_vectors:",
        "if False:",
        (f"{TEST_TOKENS}::test_unused_token_vectors_are_ignored_by_searches_and_dropped_by_builds",),
    ),
    Mutant(
        "file-renamed-before-it-is-flushed",
        "branchrank/io/artifacts.py",
        "                stream.flush()\n                os.fsync(stream.fileno())\n",
        "                stream.flush()\n",
        (f"{TEST_ARTIFACTS}::test_a_file_is_flushed_before_it_gets_its_name_and_the_folder_after",),
    ),
    Mutant(
        "failed-write-leaves-its-temporary-file",
        "branchrank/io/artifacts.py",
        "                os.unlink(name)\n            raise\n",
        "                pass\n            raise\n",
        (f"{TEST_ARTIFACTS}::test_a_write_that_fails_leaves_the_old_file_and_nothing_else",),
    ),
    Mutant(
        "a-pipe-in-place-of-the-manifest-waits",
        "branchrank/index/generations.py",
        "os.O_RDONLY | os.O_NONBLOCK)",
        "os.O_RDONLY)",
        (
            "tests/damaged_files/test_damaged_files.py"
            "::test_changes_that_once_caused_a_traceback_or_a_hang_are_refused",
        ),
    ),
    Mutant(
        "manifest-unchecked",
        "branchrank/index/reader.py",
        "pin.directory, {MANIFEST: report.manifest_digest} | _tokens(",
        "pin.directory, _tokens(",
        ("tests/index/test_calibration.py::test_a_changed_threshold_is_found",),
    ),
    Mutant(
        "digests-unchecked",
        "branchrank/index/stamps.py",
        "        if found != digest:\n",
        "        if not found:\n",
        (f"{TEST_BUILD}::test_every_file_is_checked_before_it_is_used",),
    ),
    Mutant(
        "changed-files-of-the-same-size-unnoticed",
        "branchrank/index/corpus_changes.py",
        "return file.mtime_ns != mtime_ns and digest_file(Path(file.path)) != entry.digest",
        "return False",
        (f"{TEST_BUILD}::test_only_a_changed_document_is_embedded_again",),
    ),
    Mutant(
        "excludes-unchecked",
        READER,
        "if manifest.exclude != workspace.exclude:",
        "if False:",
        (f"{TEST_BUILD}::test_an_exclude_is_part_of_the_index",),
    ),
    Mutant(
        "another-model-of-the-same-name-accepted",
        READER,
        "if embedder.identity != self.manifest.embedder:",
        "if embedder.identity.name != self.manifest.embedder.name:",
        (f"{TEST_BUILD}::test_a_model_that_changed_under_its_name_is_refused",),
    ),
    Mutant(
        "reader-holds-no-generation",
        GENERATIONS,
        "if number < current - 1 and self._is_free(path):",
        "if number < current - 1:",
        (f"{TEST_BUILD}::test_a_reader_keeps_the_generation_that_it_opened",),
    ),
    Mutant(
        "two-builders-at-once",
        GENERATIONS,
        "            lock.acquire()\n",
        "            pass\n",
        (f"{TEST_FAULTS}::test_a_second_builder_is_refused",),
    ),
    Mutant(
        "auto-never-uses-chroma",
        READER,
        'settings.vector_store == "auto" and count <= EXACT_UP_TO)',
        'settings.vector_store == "auto")',
        (f"{TEST_BUILD}::test_auto_searches_exactly_up_to_the_crossover",),
    ),
    Mutant(
        "numpy-searches-by-default",
        "branchrank/settings/parts.py",
        '    ] = "chroma"\n',
        '    ] = "auto"\n',
        (f"{TEST_STORES}::test_the_report_states_the_recall_of_chroma",),
    ),
    Mutant(
        "link-to-chroma-unchecked",
        READER,
        "        places.append(workspace.data_dir / CHROMA)\n",
        "        pass\n",
        (f"{TEST_STORES}::test_a_collection_that_was_moved_away_is_an_error",),
    ),
    Mutant(
        "moved-chroma-rebuilt-in-silence",
        "branchrank/index/opening.py",
        "    except (BusyError, LostCollectionError):\n",
        "    except BusyError:\n",
        (f"{TEST_STORES}::test_a_collection_that_was_moved_away_is_an_error",),
    ),
    Mutant(
        "chroma-opened-for-every-benchmark",
        "branchrank/bench/opening.py",
        "            if searches_vectors(systems):\n",
        "            if systems:\n",
        (f"{TEST_STORES}::test_chroma_is_imported_only_where_it_searches",),
    ),
    Mutant(
        "recall-of-half-the-depth",
        "branchrank/bench/store_recall.py",
        "vectors, depth)\n",
        "vectors, depth // 2)\n",
        (f"{TEST_STORES}::test_the_report_states_the_recall_of_chroma",),
    ),
    Mutant(
        "chroma-probe-skipped",
        "branchrank/stores/vectors_chroma.py",
        "                self._probe()\n",
        "",
        ("tests/index/test_chroma_safety.py::test_vectors_of_another_index_are_refused",),
    ),
    Mutant(
        "given-chunks-beyond-the-file-accepted",
        "branchrank/index/user_files.py",
        "elif not 1 <= given.line_start <= given.line_end <= line_counts[given.source]:",
        "elif not 1 <= given.line_start <= given.line_end:",
        (f"{TEST_BUILD}",),
    ),
    Mutant(
        "adopted-vectors-embedded-again",
        "branchrank/index/embedding.py",
        "        if adopted is not None:\n            return adopted, 0\n",
        "",
        (f"{TEST_ADOPT}::test_existing_vectors_are_kept_and_only_a_sample_is_embedded",),
    ),
    Mutant(
        "adopted-vectors-not-compared",
        "branchrank/embedders/agreement.py",
        "LEAST_COSINE = 0.999",
        "LEAST_COSINE = -1.0",
        (f"{TEST_ADOPT}::test_vectors_of_another_model_are_refused_and_the_fix_indexes",),
    ),
    Mutant(
        "adopted-chroma-opened-in-place",
        "branchrank/stores/chroma_reading.py",
        "with connected(copy) as client:",
        "with connected(folder) as client:",
        (f"{TEST_ADOPT}::test_an_adopted_workspace_answers_with_real_lines",),
    ),
    Mutant(
        "adopted-folder-with-links",
        "branchrank/io/safe_open.py",
        "            if _is_link(name, descriptor):",
        "            if not name:",
        (f"{TEST_ADOPT}::test_symbolic_links_and_oversized_files_are_refused",),
    ),
    Mutant(
        "adopted-chunks-of-other-documents",
        ADOPTION,
        "if adoption.corpus_digest != corpus.digest:",
        "if not adoption.corpus_digest:",
        (f"{TEST_ADOPT}::test_after_an_edit_of_the_documents_the_folder_is_adopted_again",),
    ),
    Mutant(
        "adopted-lines-not-compared-with-the-text",
        "branchrank/corpus/placing.py",
        'if text in normalize("\\n".join(self._lines[source][lines[0] - 1 : lines[1]])):',
        "if lines:",
        (f"{TEST_ADOPT}::test_chunks_without_a_vector_are_embedded_and_unknown_texts_left_out",),
    ),
    Mutant(
        "remedy-names-a-workspace-in-their-folder",
        "branchrank/index/workspace_folder.py",
        'here.with_name(f"{here.name}-branchrank")',
        "here",
        (f"{TEST_ADOPT}::test_the_fix_for_a_foreign_folder_as_workspace_is_a_command_that_works",),
    ),
    Mutant(
        "every-index-calibrated",
        "branchrank/index/calibration.py",
        "threshold=found.suggested if found.empties else DISTANCE_THRESHOLD,",
        "threshold=found.suggested,",
        ("tests/index/test_calibration.py",),
    ),
)
