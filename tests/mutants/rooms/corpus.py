"""Readers, sections, chunks and discovery."""

from mutants.mutant import Mutant

SECTIONS = "branchrank/corpus/sections.py"
CHUNKING = "branchrank/corpus/chunking.py"
TEST_SECTIONS = "tests/corpus/test_sections.py"
TEST_CHUNKING = "tests/corpus/test_chunking.py"

MUTANTS = (
    Mutant(
        "own-span-ends-one-line-late",
        SECTIONS,
        "own_ends = [*(start - 1 for start in starts[1:]), line_count]",
        "own_ends = [*(start for start in starts[1:]), line_count]",
        (f"{TEST_SECTIONS}::test_own_spans_partition_the_lines_and_ids_are_unique",),
    ),
    Mutant(
        "equal-heading-levels-nest",
        SECTIONS,
        "headings[open_headings[-1]].level >= heading.level",
        "headings[open_headings[-1]].level > heading.level",
        (f"{TEST_SECTIONS}::test_skipped_levels_are_nested_and_repeated_siblings_are_numbered",),
    ),
    Mutant(
        "chunk-budget-ignores-the-breadcrumb",
        CHUNKING,
        "budget = capacity - breadcrumb_tokens",
        "budget = capacity",
        (f"{TEST_CHUNKING}::test_blocks_are_packed_up_to_the_target_less_the_breadcrumb",),
    ),
    Mutant(
        "chunk-limit-of-the-embedder-ignored",
        CHUNKING,
        "capacity = min(target_tokens, limit_tokens)",
        "capacity = target_tokens",
        (f"{TEST_CHUNKING}::test_the_limit_is_kept_when_it_is_below_the_target",),
    ),
    Mutant(
        "links-followed-out-of-the-corpus",
        "branchrank/corpus/discovery.py",
        "if entry.is_dir(follow_symlinks=False):",
        "if entry.is_dir(follow_symlinks=True):",
        ("tests/corpus/test_discovery.py::test_links_are_not_followed_regardless_of_their_target",),
    ),
    Mutant(
        "discovery-order-of-the-disk",
        "branchrank/corpus/discovery.py",
        "files=tuple(sorted(files, key=lambda file: file.source)),",
        "files=tuple(files),",
        ("tests/corpus/test_discovery.py::test_documents_come_in_the_order_of_their_sources",),
    ),
    Mutant(
        "digest-depends-on-the-order",
        "branchrank/corpus/loading.py",
        "return digest_of(sorted(digests))",
        "return digest_of(list(digests))",
        ("tests/corpus/test_loading.py::test_the_digest_does_not_depend_on_the_order",),
    ),
    Mutant(
        "last-line-break-opens-a-line",
        "branchrank/corpus/lines.py",
        "    if len(lines) > 1 and not lines[-1]:\n        lines.pop()\n",
        "",
        ("tests/corpus/test_rst_odd.py::test_an_empty_file_is_one_empty_line",),
    ),
)
