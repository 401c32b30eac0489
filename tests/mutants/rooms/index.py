"""Index builds, generations, the reader, and atomic files."""

from mutants.mutant import Mutant

GENERATIONS = "branchrank/index/generations.py"
READER = "branchrank/index/reader.py"
BUILD = "branchrank/index/build.py"
TEST_BUILD = "tests/index/test_index_build.py"
TEST_FAULTS = "tests/index/test_index_faults.py"
TEST_ARTIFACTS = "tests/test_artifacts.py"

MUTANTS = (
    Mutant(
        "file-renamed-before-it-is-flushed",
        "branchrank/artifacts.py",
        "                stream.flush()\n                os.fsync(stream.fileno())\n",
        "                stream.flush()\n",
        (f"{TEST_ARTIFACTS}::test_a_file_is_flushed_before_it_gets_its_name_and_the_folder_after",),
    ),
    Mutant(
        "failed-write-leaves-its-temporary-file",
        "branchrank/artifacts.py",
        "                os.unlink(name)\n            raise\n",
        "                pass\n            raise\n",
        (f"{TEST_ARTIFACTS}::test_a_write_that_fails_leaves_the_old_file_and_nothing_else",),
    ),
    Mutant(
        "digests-unchecked",
        "branchrank/index/manifest.py",
        "        if found != digest:\n",
        "        if not found:\n",
        (f"{TEST_BUILD}::test_every_file_is_checked_before_it_answers",),
    ),
    Mutant(
        "changed-files-of-the-same-size-unnoticed",
        READER,
        "elif file.size != entry.size or (",
        "elif file.size != entry.size and (",
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
        (f"{TEST_BUILD}::test_a_reader_keeps_its_generation",),
    ),
    Mutant(
        "two-builders-at-once",
        GENERATIONS,
        "            lock.acquire()\n",
        "            pass\n",
        (f"{TEST_FAULTS}::test_a_second_builder_is_kept_out",),
    ),
    Mutant(
        "auto-never-uses-chroma",
        READER,
        'settings.vector_store == "auto" and count <= EXACT_UP_TO)',
        'settings.vector_store == "auto")',
        (f"{TEST_BUILD}::test_auto_searches_exactly_up_to_the_crossover",),
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
        "every-index-calibrated",
        "branchrank/index/calibration.py",
        "threshold=found.suggested if found.empties else DISTANCE_THRESHOLD,",
        "threshold=found.suggested,",
        ("tests/index/test_calibration.py",),
    ),
    Mutant(
        "older-index-never-measured",
        "branchrank/index/build.py",
        "if not index.manifest.distance.probes:",
        "if False:",
        (
            "tests/index/test_calibration.py::test_indexing_again_measures_an_older_index_and_embeds_no_document",
        ),
    ),
)
