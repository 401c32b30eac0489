"""``branchrank questions``: check, re-anchor, mine, split and generate question files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import click

from branchrank.cli.generation import generate
from branchrank.cli.options import data_dir_option, resolved_settings
from branchrank.cli.terminal import Group, safe
from branchrank.errors import QuestionError
from branchrank.index.workspace_folder import WorkspaceFolder

QUESTIONS = click.argument(
    "questions", required=False, type=click.Path(path_type=Path, dir_okay=False, exists=False)
)

#: How far a split may be off its share without a warning.
WARN_BEYOND = 0.05


@click.group("questions", cls=Group)
def command() -> None:
    """Check, re-anchor, mine, split and generate questions."""


command.add_command(generate)


@command.command("check")
@QUESTIONS
@data_dir_option
def check(questions: Path | None, data_dir: Path) -> None:
    """Check QUESTIONS (default: the workspace's) against the corpus.

    Gold that does not hold is an error (exit code 3). Leakage and duplicates are warnings.
    """
    from branchrank.corpus.loading import load_corpus
    from branchrank.questions.anchoring import corpus_lines
    from branchrank.questions.checks import check_questions
    from branchrank.questions.question_files import load_questions, without_absent

    workspace = WorkspaceFolder(data_dir, resolved_settings(data_dir))
    path = questions or workspace.questions_path
    loaded = load_questions(path)
    root, exclude = workspace.corpus_root, workspace.exclude
    lines = corpus_lines(root, exclude)
    present, notes = without_absent(loaded, lines)
    result = check_questions(present, load_corpus(root, exclude).documents, lines)
    for note in notes:
        click.echo(f"note: {safe(note)}")
    for finding in result.findings:
        click.echo(safe(str(finding)))
    found = result.coverage
    click.echo(
        f"{path}: {found.questions} questions, {found.unanswerable} unanswerable, "
        f"{found.file_level} with a page as gold"
    )
    click.echo(
        f"they ask about {found.documents_asked} of {found.documents} documents "
        f"and {found.sections_asked} of {found.sections} sections"
    )
    if found.leakage is not None:
        click.echo(f"{found.leakage:.0%} of a question's content words stand in its gold, on average")
    if result.errors:
        raise QuestionError(
            f"{path}: {result.errors} gold items do not hold",
            remedy=f"branchrank questions reanchor {path} --data-dir {data_dir}",
        )
    click.echo(f"all gold holds; {len(result.findings)} warnings")


@command.command("reanchor")
@QUESTIONS
@data_dir_option
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="Default: QUESTIONS itself.")
def reanchor(questions: Path | None, data_dir: Path, output: Path | None) -> None:
    """Move the gold of QUESTIONS to where its lines or quotes stand now."""
    from branchrank.questions.anchoring import corpus_lines
    from branchrank.questions.anchoring import reanchor as moved
    from branchrank.questions.question_files import load_questions, may_be_absent, write_questions

    workspace = WorkspaceFolder(data_dir, resolved_settings(data_dir))
    path = questions or workspace.questions_path
    loaded = load_questions(path)
    result = moved(loaded, corpus_lines(workspace.corpus_root, workspace.exclude))
    asked = {question.id: question for question in loaded}
    problems = [
        problem
        for problem in result.problems
        if not may_be_absent(asked[problem.question_id].gold[problem.item], asked[problem.question_id])
    ]
    for move in result.moved:
        before = f"{move.before.source}:{move.before.line_start}" if move.before else "no lines"
        click.echo(safe(f"{move.question_id}: {before} -> {move.after.source}:{move.after.line_start}"))
    write_questions(output or path, result.questions)
    for problem in problems:
        click.echo(safe(str(problem)))
    if problems:
        raise QuestionError(f"{len(problems)} gold items could not be found again", remedy="edit them")
    click.echo(f"{output or path}: {len(result.moved)} gold items moved")


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
    """Make navigational questions from the cross references of CORPUS (default: the workspace's)."""
    from branchrank.corpus.loading import load_corpus
    from branchrank.corpus.named import locate_corpus
    from branchrank.questions.anchoring import corpus_lines, reanchor
    from branchrank.questions.mining import LINK_REASONS, QUERY_REASONS, mine_questions
    from branchrank.questions.question_files import write_questions

    if corpus is None:
        workspace = WorkspaceFolder(data_dir, resolved_settings(data_dir))
        root, exclude = workspace.corpus_root, workspace.exclude
    else:
        root, exclude = locate_corpus(corpus), ()
    mined = mine_questions(load_corpus(root, exclude).documents)
    click.echo(f"{mined.links} links with a text of their own")
    click.echo(f"  dropped: {_counts(mined.dropped, LINK_REASONS)}")
    click.echo(f"{mined.queries} distinct texts")
    click.echo(f"  dropped: {_counts(mined.dropped, QUERY_REASONS)}")
    if not mined.questions:
        raise QuestionError(
            f"the corpus {root} has no cross reference that makes a question",
            remedy="write questions yourself, or `branchrank questions generate`",
        )
    pages = sum(question.gold_level == "file" for question in mined.questions)
    click.echo(f"{len(mined.questions)} questions, {pages} with a page as gold")
    click.echo(f"  overlap with the heading: {_counts(mined.overlaps, mined.overlaps)}")
    write_questions(output, reanchor(mined.questions, corpus_lines(root, exclude)).questions)
    click.echo(f"written to {output}")


def _counts(counts: Mapping[str, int], names: Iterable[str]) -> str:
    return ", ".join(f"{counts[name]} {name}" for name in names)


@command.command("split")
@QUESTIONS
@data_dir_option
@click.option(
    "--share",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.3,
    show_default=True,
    help="Share of the questions that is for tuning.",
)
@click.option("--seed", type=int, default=42, show_default=True, help="Seed of the draw.")
def split(questions: Path | None, data_dir: Path, share: float, seed: int) -> None:
    """Split QUESTIONS (default: the workspace's) by document into FILE-tuning.jsonl and FILE-test.jsonl."""
    from branchrank.questions.question_files import load_questions, write_questions
    from branchrank.questions.splits import largest_group, sources_of, split_questions

    path = questions or WorkspaceFolder(data_dir, resolved_settings(data_dir)).questions_path
    loaded = load_questions(path)
    halves = split_questions(loaded, share, seed)
    for name, half in zip(halves._fields, halves, strict=True):
        output = path.with_name(f"{path.stem}-{name}.jsonl")
        write_questions(output, half)
        documents = len(frozenset[str]().union(*map(sources_of, half)))
        click.echo(f"{output}: {len(half)} questions on {documents} documents")
    found = len(halves.tuning) / len(loaded)
    if abs(found - share) > WARN_BEYOND:
        click.echo(
            f"warning: {found:.0%} of the questions are for tuning instead of {share:.0%}, as questions that "
            f"share documents stay together; the largest such group holds {largest_group(loaded)} of "
            f"{len(loaded)}",
            err=True,
        )
