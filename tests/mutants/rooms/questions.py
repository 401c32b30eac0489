"""Question files, samples, splits and checks."""

from mutants.mutant import Mutant

FILES = "branchrank/questions/question_files.py"
SPLITS = "branchrank/questions/splits.py"
TEST_FILES = "tests/questions/test_questions.py"
TEST_SPLITS = "tests/questions/test_splits.py"

MUTANTS = (
    Mutant(
        "sample-ignores-the-seed",
        FILES,
        'return hashlib.sha256(f"{seed}\\x00{question.id}".encode()).hexdigest()',
        'return hashlib.sha256(f"\\x00{question.id}".encode()).hexdigest()',
        (f"{TEST_FILES}::test_the_seed_and_the_id_draw_the_sample_and_nothing_else",),
    ),
    Mutant(
        "sample-is-the-head-of-the-file",
        FILES,
        "drawn = sorted(questions, key=draw)[:size] if size else list(questions)",
        "drawn = list(questions)[:size] if size else list(questions)",
        (f"{TEST_FILES}::test_a_larger_sample_holds_the_smaller_one_and_the_files_order_changes_nothing",),
    ),
    Mutant(
        "questions-without-gold-accepted",
        FILES,
        "if known.answerable and not gold:",
        "if False:",
        (f"{TEST_FILES}::test_a_wrong_line_is_named_by_its_number",),
    ),
    Mutant(
        "line-numbers-from-zero",
        FILES,
        "for number, line in enumerate(lines, start=1):",
        "for number, line in enumerate(lines):",
        (f"{TEST_FILES}::test_a_wrong_line_is_named_by_its_number",),
    ),
    Mutant(
        "alternates-forgotten",
        FILES,
        "    gold.extend(known.alternates)\n",
        "",
        (f"{TEST_FILES}::test_a_question_survives_its_line",),
    ),
    Mutant(
        "unknown-keys-dropped",
        FILES,
        "return {**line, **question.extra}",
        "return line",
        (f"{TEST_FILES}::test_reading_and_writing_keeps_every_key",),
    ),
    Mutant(
        "digest-depends-on-the-files-order",
        FILES,
        "ordered = sorted(questions, key=lambda question: question.id)",
        "ordered = list(questions)",
        (f"{TEST_FILES}::test_the_digest_is_of_the_questions_in_any_order",),
    ),
    Mutant(
        "split-ignores-aliases",
        SPLITS,
        " | frozenset(question.source_aliases)",
        "",
        (f"{TEST_SPLITS}::test_no_document_is_in_both_halves_and_the_order_does_not_matter",),
    ),
    Mutant(
        "split-ignores-the-seed",
        SPLITS,
        'return hashlib.sha256(f"{seed}\\x00{name}".encode()).hexdigest()',
        "return hashlib.sha256(name.encode()).hexdigest()",
        (f"{TEST_SPLITS}::test_a_larger_share_contains_the_smaller_and_the_seed_matters",),
    ),
    Mutant(
        "leakage-over-the-gold-words",
        "branchrank/questions/checks.py",
        "elif len(words) >= LEAKING_WORDS and shares.get(question.id) == 1:",
        "elif len(words) >= LEAKING_WORDS and shares.get(question.id, 0) >= 0.5:",
        ("tests/questions/test_question_checks.py::test_leakage",),
    ),
)
