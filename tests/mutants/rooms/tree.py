"""The PageIndex tree: build and navigation."""

from mutants.mutant import Mutant

BUILD = "branchrank/tree/build.py"
NAVIGATE = "branchrank/tree/navigate.py"
TEST_BUILD = "tests/tree/test_tree_build.py"
TEST_NAVIGATE = "tests/tree/test_tree_navigate.py"

MUTANTS = (
    Mutant(
        "end-of-a-subtree-one-late",
        "branchrank/tree/rows.py",
        "ends[rows] = higher[np.searchsorted(higher, rows) + 1]",
        "ends[rows] = np.minimum(higher[np.searchsorted(higher, rows) + 1] + 1, count)",
        (f"{TEST_NAVIGATE}::test_a_subtree_is_a_range_of_rows",),
    ),
    Mutant(
        "last-toctree-wins",
        "branchrank/tree/toctree.py",
        "if target in parents or (_is_pattern(path) and target == document.source):",
        "if _is_pattern(path) and target == document.source:",
        (f"{TEST_BUILD}::test_a_page_in_several_toctrees_belongs_to_the_first_in_source_order",),
    ),
    Mutant(
        "toctree-cycles-kept",
        "branchrank/tree/toctree.py",
        "if _is_above(target, document.source, parents):",
        "if target == document.source:",
        (f"{TEST_BUILD}::test_cycles_are_broken_and_noted",),
    ),
    Mutant(
        "children-reversed-in-pre-order",
        NAVIGATE,
        "waiting.extend((child, depth + 1) for child in reversed(node.children))",
        "waiting.extend((child, depth + 1) for child in node.children)",
        (f"{TEST_NAVIGATE}::test_nodes_are_in_pre_order_whatever_the_order_given",),
    ),
    Mutant(
        "overlapping-section-of-the-last-line-missed",
        NAVIGATE,
        "np.minimum(self.table.line_ends[rows], span.line_end)",
        "np.minimum(self.table.line_ends[rows], span.line_end - 1)",
        (f"{TEST_NAVIGATE}::test_overlapping_agrees_with_looking_at_every_node",),
    ),
    Mutant(
        "fewest-shared-lines-first",
        NAVIGATE,
        "np.lexsort((self.table.ties[rows[found]], -shared[found]))",
        "np.lexsort((self.table.ties[rows[found]], shared[found]))",
        (f"{TEST_NAVIGATE}::test_overlapping_sections_come_with_the_most_shared_lines_first",),
    ),
)
