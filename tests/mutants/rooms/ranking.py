"""Fusions, evidence, expansion, grouping and passage choice."""

from mutants.mutant import Mutant

FUSION = "branchrank/ranking/fusion.py"
EVIDENCE = "branchrank/ranking/evidence.py"
AROUND = "branchrank/ranking/neighborhood.py"
TEST_FUSION = "tests/ranking/test_fusion.py"
GROWTH = "branchrank/ranking/passage_growth.py"
TEST_GROWTH = "tests/ranking/test_passage_growth.py"
TEST_TREE = "tests/ranking/test_tree_ranking.py"

MAXSIM = "branchrank/ranking/maxsim.py"
TEST_MAXSIM = "tests/ranking/test_maxsim.py"

MUTANTS = (
    Mutant(
        "maxsim-takes-the-worst-match",
        MAXSIM,
        "np.maximum.reduceat(",
        "np.minimum.reduceat(",
        (f"{TEST_MAXSIM}::test_a_value_computed_by_hand",),
    ),
    Mutant(
        "maxsim-sums-instead-of-averaging",
        MAXSIM,
        ".sum(axis=1) / len(query.scales)",
        ".sum(axis=1)",
        (f"{TEST_MAXSIM}::test_a_value_computed_by_hand",),
    ),
    Mutant(
        "maxsim-in-float32-past-its-exact-range",
        MAXSIM,
        "documents.shape[1] <= _EXACT_IN_FLOAT32",
        "documents.shape[1] > 0",
        (f"{TEST_MAXSIM}::test_the_largest_products_of_bytes_are_exact",),
    ),
    Mutant(
        "token-rows-lose-unit-length",
        MAXSIM,
        "lengths = np.sqrt(np.square(values, dtype=np.float64).sum(axis=1))",
        "lengths = np.full(len(values), 127.0)",
        (f"{TEST_MAXSIM}::test_a_row_that_is_kept_as_bytes_has_unit_length_again",),
    ),
    Mutant(
        "other-candidates-get-no-second-score",
        MAXSIM,
        "scores.get(entry.key, lowest)",
        "scores.get(entry.key, 9.0)",
        (f"{TEST_MAXSIM}::test_scored_candidates_stay_above_the_others",),
    ),
    Mutant(
        "rrf-ranks-from-zero",
        FUSION,
        "for rank in range(1, len(scores) + 1)]",
        "for rank in range(len(scores))]",
        (f"{TEST_FUSION}::test_rrf_adds_reciprocal_ranks_from_one",),
    ),
    Mutant(
        "rrf-constant-6",
        FUSION,
        "RRF_K = 60",
        "RRF_K = 6",
        (f"{TEST_FUSION}::test_rrf_weights_multiply_and_zero_removes_the_branch",),
    ),
    Mutant(
        "fusion-weights-ignored",
        FUSION,
        "fused.get(key, 0.0) + weight * share",
        "fused.get(key, 0.0) + share",
        (f"{TEST_FUSION}::test_rrf_weights_multiply_and_zero_removes_the_branch",),
    ),
    Mutant(
        "shares-count-as-much-as-cosines",
        FUSION,
        "SHARE = 0.5",
        "SHARE = 1.0",
        (f"{TEST_FUSION}::test_score_fusion_adds_the_cosine_and_half_of_the_relative_bm25_score",),
    ),
    Mutant(
        "shares-of-the-sum",
        FUSION,
        "best = max(ranking.scores, default=0.0)",
        "best = sum(ranking.scores)",
        (f"{TEST_FUSION}::test_score_fusion_adds_the_cosine_and_half_of_the_relative_bm25_score",),
    ),
    Mutant(
        "further-passages-rank-as-the-first",
        "branchrank/ranking/passage_choice.py",
        "1.0 / (section * own)",
        "1.0 / section",
        ("tests/ranking/test_passage_choice.py::test_a_passage_scores_by_both_ranks",),
    ),
    Mutant(
        "passages-grow-over-those-above",
        GROWTH,
        "[section[0], *(end + 1 for _, end in others if end < first)]",
        "[section[0]]",
        (f"{TEST_GROWTH}::test_passages_fill_their_section_and_never_overlap",),
    ),
    Mutant(
        "room-on-one-side-is-lost",
        GROWTH,
        "    before = min(room_before, missing - after)\n",
        "",
        (f"{TEST_GROWTH}::test_a_passage_grows_on_both_sides",),
    ),
    Mutant(
        "ties-break-by-id-descending",
        "branchrank/ranking/lists.py",
        "ordered = sorted(scores.items(), key=itemgetter(0))",
        "ordered = sorted(scores.items(), key=itemgetter(0), reverse=True)",
        (f"{TEST_FUSION}::test_ties_break_by_key",),
    ),
    Mutant(
        "dbsf-not-clipped-and-two-deviations",
        FUSION,
        "(score - mean + 3 * deviation) / (6 * deviation)",
        "(score - mean + 2 * deviation) / (6 * deviation)",
        (f"{TEST_FUSION}::test_dbsf_places_the_mean_in_the_middle",),
    ),
    Mutant(
        "min-max-scaling-keeps-its-floor",
        FUSION,
        "return [(score - low) / (high - low) for score in scores]",
        "return [score / high for score in scores]",
        (f"{TEST_FUSION}::test_convex_normalizes_each_branch_to_the_unit_interval",),
    ),
    Mutant(
        "evidence-weights-swapped",
        EVIDENCE,
        "PROXIMITY_WEIGHT = 0.6\nRANK_WEIGHT = 0.3",
        "PROXIMITY_WEIGHT = 0.3\nRANK_WEIGHT = 0.6",
        (f"{TEST_TREE}::test_evidence_follows_its_formula",),
    ),
    Mutant(
        "evidence-takes-the-worst-rank",
        EVIDENCE,
        "best_rank.setdefault(node, rank)",
        "best_rank[node] = rank",
        (f"{TEST_TREE}::test_evidence_follows_its_formula",),
    ),
    Mutant(
        "negative-similarity-not-clamped",
        EVIDENCE,
        "min(1.0, max(0.0, best_similarity[node]))",
        "min(1.0, best_similarity[node])",
        (f"{TEST_TREE}::test_a_chunk_can_support_several_nodes_and_negative_similarity_adds_no_proximity",),
    ),
    Mutant(
        "parent-and-child-shares-swapped",
        AROUND,
        "PARENT_SHARE = 0.75\nCHILD_SHARE = 0.7\n",
        "PARENT_SHARE = 0.7\nCHILD_SHARE = 0.75\n",
        (f"{TEST_TREE}::test_neighbors_inherit_their_shares",),
    ),
    Mutant(
        "preceding-sibling-preferred",
        AROUND,
        "[*range(1, siblings + 1), *range(-1, -siblings - 1, -1)]",
        "[*range(-1, -siblings - 1, -1), *range(1, siblings + 1)]",
        (
            "tests/ranking/test_neighborhood.py::test_of_two_siblings_at_the_same_distance_the_following_one_comes_first",
        ),
    ),
    Mutant(
        "file-roots-of-the-worst-files",
        "branchrank/ranking/expansion.py",
        "key=lambda entry: (-entry[1], ties[entry[0]])",
        "key=lambda entry: (entry[1], ties[entry[0]])",
        (f"{TEST_TREE}::test_file_roots_come_from_the_best_files_first",),
    ),
    Mutant(
        "group-mean-over-one-member",
        "branchrank/ranking/grouping.py",
        "sum(entry.score for entry in shown) / len(shown)",
        "max(entry.score for entry in shown)",
        (f"{TEST_TREE}::test_averaging_ranks_a_document_by_the_mean_of_its_shown_members",),
    ),
    Mutant(
        "passage-by-the-first-signal-alone",
        "branchrank/ranking/passage_choice.py",
        "for number, signal in enumerate(signals)",
        "for number, signal in enumerate(signals[:1])",
        (f"{TEST_TREE}::test_the_passage_with_the_best_combined_score_is_chosen",),
    ),
)
