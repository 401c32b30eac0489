"""Settings, their layers, and the built-in systems that they set."""

from mutants.mutant import Mutant

SYSTEMS = "branchrank/settings/systems.py"
TEST_SYSTEMS = "tests/settings/test_systems.py"
BY_DEFAULT = (f"{TEST_SYSTEMS}::test_the_default_of_a_predictor_has_not_changed",)

MUTANTS = (
    Mutant(
        "alias-of-another-branch",
        SYSTEMS,
        'vector_weight="branches.dense.weight",\n)\nclass LocalSettings',
        'vector_weight="branches.bm25.weight",\n)\nclass LocalSettings',
        (f"{TEST_SYSTEMS}::test_an_alias_sets_its_address_and_nothing_else",),
    ),
    Mutant("cap-of-20", SYSTEMS, "fuse=Fuse(k=60, cap=30)", "fuse=Fuse(k=60, cap=20)", BY_DEFAULT),
)
