from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from support.worlds import make_workspace

from branchrank.core.records import GoldItem, Question
from branchrank.documents.loading import corpus_lines, load_corpus
from branchrank.frontends.cli.main import main
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.questions.question_checks import QuestionCheck, check_questions
from branchrank.questions.question_files import write_questions


@pytest.fixture
def workspace(tmp_path: Path) -> WorkspaceFolder:
    return make_workspace(tmp_path)


def ask(
    identifier: str, text: str, source: str = "guide/brewing.md", start: int = 5, end: int = 8
) -> Question:
    gold = GoldItem(source_file=source, answer_line_start=start, answer_line_end=end)
    return Question(id=identifier, question=text, gold=(gold,))


def checked(workspace: WorkspaceFolder, *questions: Question) -> QuestionCheck:
    root = workspace.corpus_root
    return check_questions(questions, load_corpus(root).documents, corpus_lines(root))


def found(result: QuestionCheck) -> list[tuple[str, str, str]]:
    return [(each.severity, each.check, each.question_id) for each in result.findings]


@pytest.mark.parametrize(
    ("text", "leaks"),
    [
        ("choosing temperatures", True),
        ("how do I choose a temperature?", True),
        ("green tea wants 75 degrees, black 95", True),
        ("green tea wants 75 degrees, oolong 95", False),
        ("green tea degrees", False),
    ],
)
def test_leakage(workspace: WorkspaceFolder, text: str, leaks: bool) -> None:
    result = checked(workspace, ask("a", text))
    assert found(result) == ([("warning", "leakage", "a")] if leaks else [])


def test_the_title_of_a_page_leaks_where_the_page_is_gold(workspace: WorkspaceFolder) -> None:
    gold = (GoldItem(source_file="guide/brewing.md"),)
    leaking = Question(id="a", question="brewing?", gold=gold, gold_level="file")
    sound = Question(id="b", question="choosing a temperature", gold=gold, gold_level="file")
    assert found(checked(workspace, leaking, sound)) == [("warning", "leakage", "a")]


def test_duplicates_by_text_and_by_words(workspace: WorkspaceFolder) -> None:
    result = checked(
        workspace,
        ask("a", "How hot should matcha be?"),
        ask("b", "how hot  should `matcha` be?"),
        ask("c", "matcha: how hot should it be?"),
        ask("d", "how hot should hojicha be?"),
        ask("e", "how often should matcha be stirred?"),
        ask("f", "must matcha be stirred?"),
    )
    assert [(each.check, each.question_id) for each in result.findings] == [
        ("duplicates", "b"),
        ("duplicates", "c"),
    ]
    assert [("text" in each.message, "words" in each.message) for each in result.findings] == [
        (True, False),
        (False, True),
    ]


def test_coverage(workspace: WorkspaceFolder) -> None:
    result = checked(
        workspace,
        ask("a", "matcha heat"),
        ask("b", "profile of heat in matcha", start=1, end=6),
        Question(id="c", question="oolong", gold=(GoldItem(source_file="install.rst"),), gold_level="file"),
        Question(id="d", question="coffee", answerable=False),
    )
    assert (result.questions, result.unanswerable, result.file_level) == (4, 1, 1)
    assert (result.documents, result.documents_asked) == (5, 2)
    assert result.sections_asked == 3, "brewing and its first section, and the page install.rst"
    assert result.leakage == pytest.approx((0 + 1 / 3) / 2), (
        "of profile, heat and matcha only one stands there"
    )


def run_check(workspace: WorkspaceFolder, *questions: Question) -> tuple[int, str]:
    write_questions(workspace.questions_path, questions)
    result = CliRunner().invoke(main, ["questions", "check", "--data-dir", str(workspace.data_dir)])
    return result.exit_code, result.output


def test_warnings_do_not_change_the_exit_code(workspace: WorkspaceFolder) -> None:
    code, output = run_check(workspace, ask("a", "choosing temperatures"), ask("b", "oolong heat"))
    assert code == 0
    assert "warning: question 'a' has" in output
    assert "; 1 warnings" in output
    assert "1 of 5 documents" in output


def test_errors_exit_with_3_and_the_remedy(workspace: WorkspaceFolder) -> None:
    code, output = run_check(workspace, ask("a", "oolong heat", start=900, end=901))
    assert code == 3
    assert "error: question 'a': lines 900-901 are" in output
    assert "branchrank questions reanchor" in output
