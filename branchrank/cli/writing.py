"""``branchrank questions add``: add a question, with gold from flags or from the terminal UI."""

from __future__ import annotations

from pathlib import Path

import click

import branchrank
from branchrank.cli.options import data_dir_option
from branchrank.cli.querying import open_workspace
from branchrank.cli.terminal import Command, safe, say
from branchrank.cli.tui import on_terminal, search_on_terminal
from branchrank.errors import BranchRankError, UsageError
from branchrank.questions.anchoring import read_lines
from branchrank.records import Span

#: The flags that an error suggests if the command runs without a terminal.
FLAGS = "--question TEXT --source FILE --lines 5-8"
#: The maximum number of gold lines printed for a new question.
SHOWN_LINES = 5


@click.command("add", cls=Command)
@click.argument("questions", required=False, type=click.Path(path_type=Path, dir_okay=False))
@data_dir_option
@click.option(
    "--question",
    default="",
    help="The text of the question. Without --source, the terminal UI opens with the search results for this "
    "text.",
)
@click.option(
    "--source",
    "sources",
    multiple=True,
    help="File that answers the question, relative to the corpus folder. Repeatable. Each --source needs one "
    "--lines.",
)
@click.option(
    "--lines",
    "lines",
    multiple=True,
    metavar="A-B",
    help="The lines of the file that answer the question, such as 5-8. Repeatable.",
)
@click.option("--unanswerable", is_flag=True, help="Add a question that the corpus does not answer.")
@click.option(
    "--quote",
    default="",
    help="A few words from the gold lines. The quote helps to find the lines again after the file is edited.",
)
@click.option(
    "--id", "id_", default="", help="The question's id. Default: an id made from the text and the files."
)
@click.option("--kind", default="", help="The question's kind, such as how-to, concept, lookup or error.")
@click.option("--difficulty", default="", help="The question's difficulty, such as easy, medium or hard.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
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
    """Add a question to QUESTIONS (by default the question file of the workspace).

    Without --source, the terminal UI opens. In the terminal UI, search for the passage that answers the
    question, and press F4. Then enter the question and the line numbers of the answer. A digest of the gold
    lines is stored with the question. The file QUESTIONS is created if it does not exist.
    """
    if len(sources) != len(lines):
        raise UsageError(
            f"there are {len(sources)} --source and {len(lines)} --lines; each --source needs one --lines",
            remedy=FLAGS,
        )
    if unanswerable and sources:
        raise UsageError(
            "--unanswerable and --source cannot be given together",
            remedy="remove --unanswerable or --source",
        )
    gold = [_span(source, *read_lines(each)) for source, each in zip(sources, lines, strict=True)]
    if (sources or unanswerable) and not question:
        raise UsageError("the question is missing", remedy='--question "how do I ..."')
    if not sources and not unanswerable and not on_terminal():
        raise UsageError("without a terminal, the question and its gold must be given as flags", remedy=FLAGS)
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
    for span, texts in zip(gold, added.gold_lines, strict=True):
        # The lines show the user whether the line numbers are correct.
        for number, text in enumerate(texts[:SHOWN_LINES], start=span.line_start):
            click.echo(safe(f"{number:>6}  {text.rstrip()}"))
        if len(texts) > SHOWN_LINES:
            click.echo(f"{'':>6}  ... ({len(texts) - SHOWN_LINES} more)")


def _pick(workspace: branchrank.Workspace, query: str) -> tuple[str, Span] | None:
    """Ask for a question and its gold lines. Return ``None`` if the user picks no passage."""
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
            return question, _span(hit.source, *read_lines(given))
        except BranchRankError as error:
            say(error.message)


def _span(source: str, start: int, end: int) -> Span:
    return Span(source=source, line_start=start, line_end=end)
