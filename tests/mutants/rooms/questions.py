"""Question files, samples, splits and checks."""

from mutants.mutant import Mutant

FILES = "branchrank/questions/question_files.py"
SPLITS = "branchrank/questions/splits.py"
TEST_FILES = "tests/questions/test_questions.py"
TEST_SPLITS = "tests/questions/test_splits.py"

LABELS = "branchrank/questions/labels.py"
TEST_LABELING = "tests/questions/test_labeling.py"

MUTANTS = (
    Mutant(
        "sample-ignores-the-seed",
        FILES,
        'return hashlib.sha256(f"{seed}\\x00{question.id}".encode()).hexdigest()',
        'return hashlib.sha256(f"\\x00{question.id}".encode()).hexdigest()',
        (f"{TEST_FILES}::test_only_the_seed_and_the_ids_determine_the_sample",),
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
        (f"{TEST_FILES}::test_the_error_for_a_wrong_line_has_its_number",),
    ),
    Mutant(
        "line-numbers-from-zero",
        FILES,
        "for number, line in enumerate(lines, start=1):",
        "for number, line in enumerate(lines):",
        (f"{TEST_FILES}::test_the_error_for_a_wrong_line_has_its_number",),
    ),
    Mutant(
        "alternates-forgotten",
        FILES,
        "    gold.extend(known.alternates)\n",
        "",
        (f"{TEST_FILES}::test_a_question_is_written_and_read_back",),
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
        (f"{TEST_FILES}::test_the_digest_does_not_depend_on_the_order",),
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
    Mutant(
        "partly-is-gold",
        LABELS,
        'wanted = label == "yes" and (by == "person" or accept)',
        'wanted = label != "no" and (by == "person" or accept)',
        (f"{TEST_LABELING}::test_a_yes_becomes_gold_and_the_rest_is_recorded",),
    ),
    Mutant(
        "an-llms-proposal-is-gold",
        "branchrank/cli/labeling.py",
        "                    _label(word),\n",
        "                    proposed or _label(word),\n",
        (f"{TEST_LABELING}::test_proposals_are_shown_and_only_a_person_decides",),
    ),
    Mutant(
        "an-llms-gold-is-not-marked",
        "branchrank/cli/labeling.py",
        'proposed, by="llm", model=proposals.model, accept=True',
        "proposed, model=proposals.model, accept=True",
        (f"{TEST_LABELING}::test_accepted_proposals_are_marked_and_the_report_says_so",),
    ),
    Mutant(
        "labels-add-overlapping-gold",
        LABELS,
        "    if wanted and not _overlaps(found, question, gold):\n",
        "    if wanted:\n",
        (f"{TEST_LABELING}::test_lines_that_overlap_gold_add_no_gold",),
    ),
    Mutant(
        "passages-in-the-systems-order",
        "branchrank/runs/labeling.py",
        'spans = sorted(self._pool[key], key=lambda span: self._drawn(f"{span.source}:{span.line_start}"))',
        "spans = list(self._pool[key])",
        (f"{TEST_LABELING}::test_the_seed_orders_the_passages_of_a_question",),
    ),
    Mutant(
        "labels-are-asked-for-again",
        "branchrank/runs/labeling.py",
        "        return not settled and not is_labeled(question, span, self.annotator, self.lines)\n",
        "        return not settled\n",
        (f"{TEST_LABELING}::test_an_interrupted_pass_resumes_where_it_stopped",),
    ),
    Mutant(
        "kappa-without-chance",
        "branchrank/measures/agreement.py",
        "kappa = (observed - expected) / (1 - expected)",
        "kappa = observed",
        (f"{TEST_LABELING}::test_kappa_matches_a_textbook_example",),
    ),
    Mutant(
        "kappas-error-without-the-cells-apart",
        "branchrank/measures/agreement.py",
        "spread = agreed + (1 - kappa) ** 2 * apart",
        "spread = agreed",
        (f"{TEST_LABELING}::test_kappa_matches_a_textbook_example",),
    ),
    Mutant(
        "added-questions-have-no-digest",
        "branchrank/questions/writing.py",
        "        answer_digest=lines_digest(_text(span, lines)),\n",
        "        answer_digest=None,\n",
        ("tests/questions/test_adding.py::test_the_new_line_has_the_digest_of_its_gold_lines",),
    ),
)
