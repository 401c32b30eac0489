"""Grep passages, their terms, and read_file."""

from mutants.mutant import Mutant

GREP = "branchrank/files/grep.py"
READ = "branchrank/files/read_file.py"
TEST_GREP = "tests/files/test_grep.py"
TEST_READ = "tests/files/test_read_file.py"

MUTANTS = (
    Mutant(
        "nine-lines-of-context",
        GREP,
        "CONTEXT_LINES = 10",
        "CONTEXT_LINES = 9",
        (f"{TEST_GREP}::test_a_match_includes_ten_lines_before_and_after",),
    ),
    Mutant(
        "windows-that-touch-chain",
        GREP,
        "if groups and line.number - groups[-1][-1].number <= reach:",
        "if groups and line.number - groups[-1][-1].number <= 2 * reach:",
        (
            f"{TEST_GREP}::test_matches_within_twenty_lines_share_a_passage",
            f"{TEST_GREP}::test_adjacent_windows_are_not_merged",
        ),
    ),
    Mutant(
        "percentile-filter-off",
        GREP,
        'PERCENTILE if ranking == "bm25" else 0.0',
        "0.0",
        (f"{TEST_GREP}::test_scores_below_the_first_quartile_are_dropped_and_ten_are_kept",),
    ),
    Mutant(
        "every-term-weighs-the-same",
        GREP,
        "weights.append(math.log1p((max(files, holding) - holding + 0.5) / (holding + 0.5)))",
        "weights.append(1.0)",
        (f"{TEST_GREP}::test_rare_terms_have_a_higher_weight",),
    ),
    Mutant(
        "terms-are-regular-expressions",
        "branchrank/files/terms.py",
        "literal = re.escape(self.text)",
        "literal = self.text",
        (f"{TEST_GREP}::test_terms_are_literal",),
    ),
    Mutant(
        "stop-words-searched",
        "branchrank/files/terms.py",
        "(stopped if stop else found).append((match.start(), term))",
        "found.append((match.start(), term))",
        ("tests/files/test_terms.py::test_terms_of_a_question",),
    ),
    Mutant(
        "sources-filter-ignored",
        GREP,
        "self._sources = None if sources is None else frozenset(sources)",
        "self._sources = None",
        (f"{TEST_GREP}::test_only_the_given_sources_count",),
    ),
    Mutant(
        "paths-outside-the-folder-allowed",
        READ,
        "if named.is_relative_to(start):",
        "if True:",
        (f"{TEST_READ}::test_each_refusal_has_its_code",),
    ),
    Mutant(
        "size-limit-off-by-one",
        READ,
        "if len(content) > self._size_limit:",
        "if len(content) > self._size_limit + 1:",
        (f"{TEST_READ}::test_each_refusal_has_its_code",),
    ),
    Mutant(
        "binary-files-are-text",
        READ,
        'if "\\0" in text:',
        "if not text:",
        (f"{TEST_READ}::test_each_refusal_has_its_code",),
    ),
)
