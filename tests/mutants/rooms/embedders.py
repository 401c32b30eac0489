"""Embedding models over HTTP, and the cache of vectors."""

from mutants.mutant import Mutant

CACHE = "branchrank/embedders/cache.py"
HTTP = "branchrank/embedders/http.py"
NOMIC = "branchrank/embedders/nomic_bert.py"
TEST_CACHE = "tests/embedders/test_embedding_cache.py"
TEST_HTTP = "tests/embedders/test_embedders_http.py"
TEST_NOMIC = "tests/embedders/test_nomic_bert.py"

MUTANTS = (
    Mutant(
        "token-cache-grows-without-limit",
        "branchrank/embedders/sqlite_blobs.py",
        "while limit and _used(connection) + coming > limit:",
        "while False:",
        (
            "tests/embedders/test_token_cache.py::test_the_file_stays_below_its_limit_by_evicting_the_oldest_rows",
        ),
    ),
    Mutant(
        "colbert-vector-of-the-first-token-alone",
        "branchrank/embedders/colbert.py",
        "vectors[number] = tokens[-1].sum(axis=0)",
        "vectors[number] = tokens[-1][0]",
        ("tests/embedders/test_colbert.py::test_a_texts_own_vector_is_the_mean_of_its_token_vectors",),
    ),
    Mutant(
        "stanfords-colbert-is-read-without-its-projection",
        "branchrank/embedders/colbert.py",
        "        or _is_stanford(folder)\n",
        "",
        ("tests/embedders/test_colbert.py::test_the_identity_covers_everything_that_the_vectors_depend_on",),
    ),
    Mutant(
        "colbert-with-a-random-projection",
        "branchrank/embedders/colbert.py",
        "        if not modules_of(folder):\n",
        "        if False:\n",
        ("tests/embedders/test_colbert.py::test_what_can_not_be_loaded_safely_is_a_model_error",),
    ),
    Mutant(
        "any-module-of-pylate-is-accepted",
        "branchrank/embedders/sentence_transformers.py",
        "and module.type != PYLATE_DENSE",
        'and not module.type.startswith("pylate.")',
        ("tests/embedders/test_colbert.py::test_what_can_not_be_loaded_safely_is_a_model_error",),
    ),
    Mutant(
        "colbert-markers-not-fetched-from-the-hub",
        "branchrank/embedders/hub.py",
        ', "artifact.metadata"]',
        "]",
        (
            "tests/embedders/test_embedders_sentence_transformers.py"
            "::test_a_colbert_checkpoint_of_the_hub_comes_with_its_markers",
        ),
    ),
    Mutant(
        "positions-turned-backwards",
        "branchrank/embedders/nomic_graph.py",
        "turned_first{n} = Sub(first_cos{n}, second_sin{n})",
        "turned_first{n} = Add(first_cos{n}, second_sin{n})",
        (
            "tests/embedders/test_nomic.py::test_the_vectors_and_the_identity_are_those_of_sentence_transformers",
        ),
    ),
    Mutant(
        "int8-vectors-under-the-identity-of-float32",
        "branchrank/embedders/minilm.py",
        "            dtype=precision,\n",
        "",
        ("tests/embedders/test_nomic.py::test_int8_vectors_are_near_and_have_an_identity_of_their_own",),
    ),
    Mutant(
        "one-index-for-all-precisions",
        "branchrank/index/workspace_folder.py",
        'if settings.embedder_precision != "float32":',
        "if False:",
        ("tests/embedders/test_nomic.py::test_indexes_of_two_precisions_can_exist_side_by_side",),
    ),
    Mutant(
        "a-precision-ignored-where-there-is-one",
        "branchrank/embedders/__init__.py",
        'if precision != "float32" and (settings.embedder == NONE or route in _routes()):',
        "if False:",
        ("tests/embedders/test_nomic.py::test_a_precision_that_an_embedder_does_not_have_is_an_error",),
    ),
    Mutant(
        "query-tokens-with-special-ones",
        "branchrank/embedders/minilm.py",
        "self._unit(rows)[1:-1]",
        "self._unit(rows)",
        (
            "tests/embedders/test_embedders_minilm.py"
            "::test_token_vectors_equal_those_of_sentence_transformers",
        ),
    ),
    Mutant(
        "query-tokens-with-the-prefix",
        "branchrank/embedders/sentence_transformers.py",
        "[~special][self._prefix_tokens :]",
        "[~special]",
        (
            "tests/embedders/test_embedders_sentence_transformers.py"
            "::test_a_querys_tokens_leave_out_the_prefix_and_special_tokens",
        ),
    ),
    Mutant(
        "cache-key-without-the-identity",
        CACHE,
        'space = hashlib.sha256(digest_of(identity).encode("ascii"))',
        'space = hashlib.sha256(identity.name.encode("ascii"))',
        (f"{TEST_CACHE}::test_another_identity_shares_nothing",),
    ),
    Mutant(
        "queries-share-keys-with-documents",
        CACHE,
        'cache_keys(identity, f"\\0{identity.query_prefix}", [text])',
        "cache_keys(identity, identity.query_prefix, [text])",
        (f"{TEST_CACHE}::test_a_query_is_kept_apart_from_a_document_of_the_same_text",),
    ),
    Mutant(
        "damaged-vectors-answer",
        "branchrank/embedders/sqlite_blobs.py",
        " and checksum == vector_checksum(key, blob)",
        "",
        (f"{TEST_CACHE}::test_swapped_rows_are_misses",),
    ),
    Mutant(
        "batches-kept-at-the-end-only",
        CACHE,
        "zip(batches, embedded, strict=True):",
        "list(zip(batches, embedded, strict=True)):",
        (f"{TEST_CACHE}::test_a_batch_is_kept_before_the_next_is_embedded",),
    ),
    Mutant(
        "query-prefix-before-documents",
        HTTP,
        '[f"{self.prefixes.document}{text}" for text in batch]',
        '[f"{self.prefixes.query}{text}" for text in batch]',
        (f"{TEST_HTTP}::test_documents_and_queries_get_their_prefixes_and_unit_rows",),
    ),
    Mutant(
        "embedding-key-sent-to-any-host",
        HTTP,
        "if key and host == (own_host or named):",
        "if key:",
        (f"{TEST_HTTP}::test_a_key_is_sent_only_to_its_own_host",),
    ),
    Mutant(
        "missing-vectors-accepted",
        HTTP,
        "if len(vectors) != len(texts) or len(lengths) != 1 or not all(lengths):",
        "if len(lengths) != 1 or not all(lengths):",
        (f"{TEST_HTTP}::test_an_incomplete_or_wrong_answer_is_a_model_error",),
    ),
    Mutant(
        "vectors-not-of-unit-length",
        "branchrank/embedders/protocol.py",
        "(vectors / lengths).astype(np.float32)",
        "vectors.astype(np.float32)",
        ("tests/embedders/test_embedders_fake.py::test_every_text_has_a_unit_row_of_its_own",),
    ),
    Mutant(
        "nomic-rotary-base-not-mapped",
        NOMIC,
        '"rope_theta": float(published.rotary_emb_base)',
        '"rope_theta": 1000.0',
        (f"{TEST_NOMIC}::test_a_published_checkpoint_gives_the_vectors_of_the_published_architecture",),
    ),
    Mutant(
        "nomic-layer-norm-epsilon-not-mapped",
        NOMIC,
        '        "layer_norm_eps": published.layer_norm_epsilon,\n',
        "",
        (f"{TEST_NOMIC}::test_a_published_checkpoint_gives_the_vectors_of_the_published_architecture",),
    ),
    Mutant(
        "nomic-biases-left-out",
        NOMIC,
        '    "qkv_proj_bias": (False,),\n',
        "",
        (f"{TEST_NOMIC}::test_a_value_that_cannot_be_honored_is_an_error_that_names_it",),
    ),
    Mutant(
        "nomic-missing-weights-random",
        NOMIC,
        "if missing := sorted(expected - found):",
        "if missing := sorted(set[str]()):",
        (f"{TEST_NOMIC}::test_weights_that_are_missing_or_too_many_are_refused",),
    ),
    Mutant(
        "misspelled-embedder-goes-to-the-hub",
        "branchrank/embedders/__init__.py",
        'if meant and "/" not in embedder',
        'if not meant and "/" not in embedder',
        (
            "tests/embedders/test_embedders_sentence_transformers.py"
            "::test_a_misspelled_name_gets_a_suggestion_without_contacting_the_hub",
        ),
    ),
    Mutant(
        "cache-not-compared-with-what-was-opened",
        "branchrank/embedders/sqlite_blobs.py",
        "        check_opened(root, relative)\n",
        "",
        ("tests/index/test_links.py::test_a_cache_is_not_used_through_a_link_that_is_swapped_in",),
    ),
)
