"""``branchrank questions``: add, label, check, re-anchor, mine, split and generate questions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

import branchrank
from branchrank.cli.generation import generate
from branchrank.cli.labeling import agreement, label
from branchrank.cli.options import data_dir_option
from branchrank.cli.terminal import Group, safe
from branchrank.cli.writing import add
from branchrank.errors import QuestionError

QUESTIONS = click.argument(
    "questions", required=False, type=click.Path(path_type=Path, dir_okay=False, exists=False)
)

#: A warning is printed if a split's share differs from the requested share by more than this number.
WARN_BEYOND = 0.05


@click.group("questions", cls=Group)
def command() -> None:
    """Add, label, check, re-anchor, mine, split or generate questions."""


for each in (add, label, agreement, generate):
    command.add_command(each)


@command.command("check")
@QUESTIONS
@data_dir_option
def check(questions: Path | None, data_dir: Path) -> None:
    """Check the gold of QUESTIONS (by default the question file of the workspace) against the corpus.

    Changed or missing gold lines are errors (exit code 3). Leakage and duplicate questions are only reported
    as warnings.
    """
    with branchrank.Workspace.open(data_dir) as workspace:
        checked = workspace.questions.check(questions)
    path, notes, result = checked.path, checked.notes, checked.result
    for note in notes:
        click.echo(f"note: {safe(note)}")
    for finding in result.findings:
        click.echo(safe(str(finding)))
    found = result.coverage
    click.echo(
        f"{path}: {found.questions} questions, {found.unanswerable} unanswerable, "
        f"{found.file_level} with a whole page as gold"
    )
    click.echo(
        f"the gold covers {found.documents_asked} of {found.documents} documents "
        f"and {found.sections_asked} of {found.sections} sections"
    )
    if found.leakage is not None:
        click.echo(f"{found.leakage:.0%} of a question's content words are in its gold, on average")
    if result.errors:
        raise QuestionError(
            f"{path}: {result.errors} gold items do not match the corpus",
            remedy=f"branchrank questions reanchor {path} --data-dir {data_dir}",
        )
    click.echo(f"all gold matches the corpus; {len(result.findings)} warnings")


@command.command("reanchor")
@QUESTIONS
@data_dir_option
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The question file to write. Default: QUESTIONS.",
)
def reanchor(questions: Path | None, data_dir: Path, output: Path | None) -> None:
    """Update the line numbers of the gold in QUESTIONS after you have edited the corpus."""
    with branchrank.Workspace.open(data_dir) as workspace:
        result = workspace.questions.reanchor(questions, output)
    for move in result.moved:
        before = f"{move.before.source}:{move.before.line_start}" if move.before else "no lines"
        click.echo(safe(f"{move.question_id}: {before} -> {move.after.source}:{move.after.line_start}"))
    for problem in result.problems:
        click.echo(safe(str(problem)))
    if result.problems:
        raise QuestionError(
            f"{len(result.problems)} gold items could not be found again",
            remedy=f"correct them in {result.path}",
        )
    click.echo(f"{result.path}: {len(result.moved)} gold items moved")


@command.command("mine")
@click.argument("corpus", required=False)
@data_dir_option
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="The question file to write.",
)
def mine(corpus: str | None, data_dir: Path, output: Path) -> None:
    """Make questions from the cross-references in CORPUS (by default the corpus of the workspace).

    The text of each link becomes a question, and the section that the link points to becomes the gold.
    """
    with branchrank.Workspace.open(data_dir) as workspace:
        mined = workspace.questions.mine(output, corpus)
        place = corpus or workspace.folder.corpus_root
    click.echo(f"{mined.links} cross-references that have link text")
    click.echo(f"  dropped: {_counts(mined.dropped_links)}")
    click.echo(f"{mined.queries} distinct link texts")
    click.echo(f"  dropped: {_counts(mined.dropped_queries)}")
    if not mined.questions:
        raise QuestionError(
            f"the corpus {place} has no cross-reference that can become a question",
            remedy="write questions with `branchrank questions add` or `branchrank questions generate`",
        )
    pages = sum(question.gold_level == "file" for question in mined.questions)
    click.echo(f"{len(mined.questions)} questions, {pages} with a whole page as gold")
    click.echo(f"  overlap with the heading: {_counts(mined.overlaps)}")
    click.echo(f"written to {output}")


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())


@command.command("split")
@QUESTIONS
@data_dir_option
@click.option(
    "--share",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.3,
    show_default=True,
    help="Share of the questions to put into the tuning file.",
)
@click.option("--seed", type=int, default=42, show_default=True, help="Random seed.")
def split(questions: Path | None, data_dir: Path, share: float, seed: int) -> None:
    """Split QUESTIONS into the files NAME-tuning.jsonl and NAME-test.jsonl.

    By default, QUESTIONS is the question file of the workspace. NAME is the file name of QUESTIONS without
    the extension. All questions about the same document are put into the same file.
    """
    with branchrank.Workspace.open(data_dir) as workspace:
        made = workspace.questions.split(questions, share=share, seed=seed)
    for part in made.parts:
        click.echo(f"{part.path}: {part.questions} questions on {part.documents} documents")
    if abs(made.share - share) > WARN_BEYOND:
        total = sum(part.questions for part in made.parts)
        click.echo(
            f"warning: the tuning file has {made.share:.0%} of the questions instead of {share:.0%}, because "
            f"questions that share documents stay together; the largest group has "
            f"{made.largest_group} of {total} questions",
            err=True,
        )
