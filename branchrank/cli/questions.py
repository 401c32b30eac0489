"""``branchrank questions``: check, re-anchor, mine, split and generate question files."""

from __future__ import annotations

from pathlib import Path

import click

from branchrank.cli.options import data_dir_option, resolved_settings
from branchrank.cli.terminal import Group, safe
from branchrank.errors import QuestionError
from branchrank.stores.workspace import Workspace

QUESTIONS = click.argument(
    "questions", required=False, type=click.Path(path_type=Path, dir_okay=False, exists=False)
)


@click.group("questions", cls=Group)
def command() -> None:
    """Check, re-anchor, mine, split and generate questions."""


@command.command("check")
@QUESTIONS
@data_dir_option
def check(questions: Path | None, data_dir: Path) -> None:
    """Check QUESTIONS (default: the workspace's) against the corpus."""
    from branchrank.bench.anchoring import check_anchors, corpus_lines
    from branchrank.bench.questions import load_questions

    workspace = Workspace(data_dir, resolved_settings(data_dir))
    path = questions or workspace.questions_path
    loaded = load_questions(path)
    problems = check_anchors(loaded, corpus_lines(workspace.corpus_root, workspace.exclude))
    for problem in problems:
        click.echo(safe(str(problem)))
    if problems:
        raise QuestionError(
            f"{path}: {len(problems)} of {len(loaded)} questions have gold that does not hold",
            remedy=f"branchrank questions reanchor {path} --data-dir {data_dir}",
        )
    click.echo(f"{path}: {len(loaded)} questions, their gold holds")


@command.command("reanchor")
@QUESTIONS
@data_dir_option
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="Default: QUESTIONS itself.")
def reanchor(questions: Path | None, data_dir: Path, output: Path | None) -> None:
    """Move the gold of QUESTIONS to where its lines or quotes stand now."""
    from branchrank.bench.anchoring import corpus_lines
    from branchrank.bench.anchoring import reanchor as moved
    from branchrank.bench.questions import load_questions, write_questions

    workspace = Workspace(data_dir, resolved_settings(data_dir))
    path = questions or workspace.questions_path
    result = moved(load_questions(path), corpus_lines(workspace.corpus_root, workspace.exclude))
    for move in result.moved:
        before = f"{move.before.source}:{move.before.line_start}" if move.before else "no lines"
        click.echo(safe(f"{move.question_id}: {before} -> {move.after.source}:{move.after.line_start}"))
    write_questions(output or path, result.questions)
    for problem in result.problems:
        click.echo(safe(str(problem)))
    if result.problems:
        raise QuestionError(f"{len(result.problems)} gold items could not be found again", remedy="edit them")
    click.echo(f"{output or path}: {len(result.moved)} gold items moved")
