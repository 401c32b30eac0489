"""``branchrank questions add``: add one question; its gold is picked in the terminal UI or given by flags."""

from __future__ import annotations

from pathlib import Path

import click

import branchrank
from branchrank.cli.options import data_dir_option
from branchrank.cli.querying import open_workspace
from branchrank.cli.terminal import Command, safe, say
from branchrank.cli.tui import on_terminal, search_on_terminal
from branchrank.errors import BranchRankError, UsageError
from branchrank.records import Span

#: The flags to suggest when there is no terminal to pick a passage in.
FLAGS = "--question TEXT --source FILE --lines 5-8"


@click.command("add", cls=Command)
@click.argument("questions", required=False, type=click.Path(path_type=Path, dir_okay=False))
@data_dir_option
@click.option("--question", default="", help="The question. Without --source: what to search for first.")
@click.option(
    "--source",
    "sources",
    multiple=True,
    help="The file that answers it, below the corpus's folder. Repeatable, each with its own --lines.",
)
@click.option("--lines", "lines", multiple=True, metavar="A-B", help="The lines that answer it, such as 5-8.")
@click.option("--unanswerable", is_flag=True, help="Nothing in the corpus answers the question.")
@click.option("--quote", default="", help="A few words of the lines, which find them again after an edit.")
@click.option("--id", "id_", default="", help="Default: made from the question and its files.")
@click.option("--kind", default="", help="Its kind, such as how-to, concept, lookup, error.")
@click.option("--difficulty", default="", help="Its difficulty, such as easy, medium, hard.")
@click.option("--quiet", is_flag=True, help="No progress.")
def add(
    questions: Path | None,
    data_dir: Path,
    question: str,
    sources: tuple[str, ...],
    lines: tuple[str, ...],
    unanswerable: bool,
    quote: str,
    id_: str,
    kind: str,
    difficulty: str,
    quiet: bool,
) -> None:
    """Add a question to QUESTIONS (default: the workspace's), with a digest of the lines that answer it.

    Without --source you search in the terminal UI: F4 picks a passage, then you type the question and may
    narrow the lines. The file is made if it is missing; its other lines stay as they are.
    """
    if len(sources) != len(lines):
        raise UsageError("each --source needs its own --lines", remedy=FLAGS)
    if unanswerable and sources:
        raise UsageError("--unanswerable contradicts --source", remedy="leave one of them out")
    gold = [
        _span(source, *branchrank.library.read_lines(each))
        for source, each in zip(sources, lines, strict=True)
    ]
    if (sources or unanswerable) and not question:
        raise UsageError("the question is missing", remedy='--question "how do I ..."')
    if not sources and not unanswerable and not on_terminal():
        raise UsageError("without a terminal, flags say what answers the question", remedy=FLAGS)
    with open_workspace(data_dir, {}, quiet=quiet) as workspace:
        if not sources and not unanswerable:
            picked = _pick(workspace, question)
            if picked is None:
                say("no passage was picked, so no question was added")
                return
            question, span = picked
            gold = [span]
        added = workspace.questions.add(
            question, gold, questions, id=id_, quote=quote, kind=kind, difficulty=difficulty
        )
    for warning in added.warnings:
        say(f"warning: {warning}")
    click.echo(safe(f"{added.path}: added {added.question.id}"))


def _pick(workspace: branchrank.Workspace, query: str) -> tuple[str, Span] | None:
    """Return a question's wording and the lines picked for it; ``None`` if nothing was picked."""
    choice = search_on_terminal(workspace, query=query, choosing=True)
    if choice is None:
        return None
    hit = choice.hit
    click.secho(safe(f"{hit.source}:{hit.line_start}-{hit.line_end}"), bold=True)
    for number, line in enumerate(workspace.tools.file_text(hit.source).split("\n"), start=1):
        if hit.line_start <= number <= hit.line_end:
            click.echo(f"{number:>6}  {safe(line.rstrip())}")
    question = click.prompt("Question", default=safe(query or choice.query))
    while True:
        given = click.prompt("Lines that answer it", default=f"{hit.line_start}-{hit.line_end}")
        try:
            return question, _span(hit.source, *branchrank.library.read_lines(given))
        except BranchRankError as error:
            say(error.message)


def _span(source: str, start: int, end: int) -> Span:
    return Span(source=source, line_start=start, line_end=end)
