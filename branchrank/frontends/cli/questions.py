"""The commands ``questions add``, ``check``, ``reanchor``, ``mine``, ``import`` and ``split``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

import branchrank
from branchrank.core.errors import BranchRankError, QuestionError, UsageError
from branchrank.core.records import SEED, GoldItem, Question, Span
from branchrank.frontends.cli.labeling import agreement, generate, label, show_lines
from branchrank.frontends.cli.options import DATA_DIR, FILE, OPEN_SHARE, QUIET, flag, switch
from branchrank.frontends.cli.search import on_terminal, open_workspace, search_on_terminal
from branchrank.frontends.cli.terminal import Command, CommandGroup, safe, say
from branchrank.questions.anchoring import gold_repair, new_question, typed_span
from branchrank.questions.question_checks import largest_group, shared_documents, sources_of
from branchrank.questions.question_files import with_needs
from branchrank.runs.words import plural

#: The flags that an error suggests if the command runs without a terminal.
FLAGS = "--question TEXT --source FILE --lines 5-8"
#: The maximum number of gold lines printed for a new question.
GOLD_LINES = 5


@click.command("add", cls=Command)
@click.argument("questions", required=False, type=FILE)
@DATA_DIR
@flag(
    "--question",
    "The text of the question. Without --source, the terminal UI opens with the search results for this "
    "text.",
)
@flag(
    "--source sources",
    "File that answers the question, relative to the corpus folder. Repeatable. Each --source needs one "
    "--lines.",
    multiple=True,
)
@flag(
    "--lines lines",
    "The lines of the file that answer the question, such as 5-8. Repeatable.",
    multiple=True,
    metavar="A-B",
)
@flag(
    "--need needs",
    "Lines that are needed together with the lines of each other --need, such as guide.md:5-8. Separate "
    "alternatives with commas. Repeatable.",
    multiple=True,
    metavar="FILE:A-B",
)
@switch("--unanswerable", "Add a question that the corpus does not answer.")
@flag(
    "--quote",
    "A few words from the gold lines. The quote helps to find the lines again after the file is edited.",
)
@flag("--id", "The question's id. Default: an id made from the text and the files.")
@flag("--kind", "The question's kind, such as how-to, concept, lookup or error.")
@flag("--difficulty", "The question's difficulty, such as easy, medium or hard.")
@QUIET
def add(questions: Path | None, data_dir: Path, question: str, quote: str, quiet: bool, **given: Any) -> None:
    """Add questions to QUESTIONS (by default the question file of the workspace).

    Without --source, the terminal UI opens. In the terminal UI, search for the passage that answers a
    question, and press F4. Then enter the question and the line numbers of the answer. The terminal UI opens
    again for the next question, until you leave it with Ctrl+Q. A digest of the gold lines is stored with
    each question. The file QUESTIONS is created if it does not exist.
    """
    if quote and given["unanswerable"]:
        raise UsageError("--quote needs gold lines", remedy=FLAGS)
    needed = [[GoldItem.of(span) for span in _needed(each)] for each in given.pop("needs")]
    sources, lines, unanswerable = (given.pop(name) for name in ("sources", "lines", "unanswerable"))
    gold = _given_gold(question, sources, lines, unanswerable, bool(needed))

    def made(text: str, spans: Sequence[Span], quote: str = quote) -> Question:
        items, needs = with_needs([GoldItem.of(each) for each in spans], needed)
        if quote:
            items = (replace(items[0], answer_quote=quote), *items[1:])
        listed = len(spans) if needs else None
        return Question(
            question=text, gold=items, needs=needs, listed=listed, answerable=bool(items), **given
        )

    with open_workspace(data_dir, quiet=quiet) as workspace:
        if gold is not None:
            _add(workspace, made(question, gold), questions)
            return
        count = 0
        while picked := _pick(workspace, question, made):
            _add(workspace, picked, questions)
            # These flags are about the first question.
            question, count, given["id"], made = "", count + 1, "", partial(made, quote="")
        if not count:
            say("no passage was picked, so no question was added")


def _add(workspace: branchrank.Workspace, question: Question, questions: Path | None) -> None:
    """Add a question, and print its gold lines, which show the user whether the line numbers are correct."""
    added = workspace.questions.add(question, questions)
    for warning in added.warnings:
        say(f"warning: {warning}")
    click.echo(safe(f"{added.path}: added {added.question.id}"))
    spans = [item.span for item in added.question.gold if item.span is not None]
    for span, texts in zip(spans, added.gold_lines, strict=True):
        show_lines(texts, span.line_start, GOLD_LINES)


def _needed(text: str) -> Iterator[Span]:
    """Yield the alternatives of one --need."""
    for place in text.split(","):
        source, _, lines = place.rpartition(":")
        if not source or not re.fullmatch(r"\d+(-\d+)?", lines):
            raise UsageError(f"--need {text!r} is not a file with lines", remedy="--need guide.md:5-8")
        yield typed_span(source, lines)


def _given_gold(
    question: str, sources: tuple[str, ...], lines: tuple[str, ...], unanswerable: bool, needs: bool
) -> list[Span] | None:
    """Return the gold that was given as flags, or ``None`` if it is to be picked in the terminal UI."""
    if len(sources) != len(lines):
        raise UsageError(
            f"there are {len(sources)} --source and {len(lines)} --lines; each --source needs one --lines",
            remedy=FLAGS,
        )
    if unanswerable and (sources or needs):
        named = "--source" if sources else "--need"
        raise UsageError(
            f"--unanswerable and {named} cannot be given together", remedy=f"remove --unanswerable or {named}"
        )
    gold = [typed_span(source, each) for source, each in zip(sources, lines, strict=True)]
    if sources or needs or unanswerable:
        if not question:
            raise UsageError("the question is missing", remedy='--question "how do I ..."')
        return gold
    if not on_terminal():
        raise UsageError("without a terminal, the question and its gold must be given as flags", remedy=FLAGS)
    return None


def _pick(
    workspace: branchrank.Workspace, query: str, made: Callable[[str, Sequence[Span]], Question]
) -> Question | None:
    """Ask for a question and its gold lines, until the lines can be gold.

    Return ``None`` if the user picks no passage. ``made`` makes the question.
    """
    choice = search_on_terminal(workspace, query=query, choosing=True)
    if choice is None:
        return None
    hit = choice.hit
    click.secho(safe(f"{hit.source}:{hit.line_start}-{hit.line_end}"), bold=True)
    lines = workspace.tools.reader.text(hit.source).split("\n")
    shown = lines[hit.line_start - 1 : hit.line_end]
    show_lines(shown, hit.line_start, len(shown))
    text = click.prompt("Question", default=safe(query or choice.query))
    while True:
        given = click.prompt("Lines that answer it", default=f"{hit.line_start}-{hit.line_end}")
        try:
            question = made(text, [typed_span(hit.source, given)])
            new_question(question, {hit.source: lines})
        except BranchRankError as error:
            say(error.message)
        else:
            return question


QUESTIONS = click.argument("questions", required=False, type=FILE)

#: A warning is printed if a split's share differs from the requested share by more than this number.
WARN_BEYOND = 0.05


@click.group("questions", cls=CommandGroup)
def command() -> None:
    """Add, import, label, check, re-anchor, mine, split or generate questions."""


for each in (add, label, agreement, generate):
    command.add_command(each)


@command.command("check")
@QUESTIONS
@DATA_DIR
def check(questions: Path | None, data_dir: Path) -> None:
    """Check the gold of QUESTIONS (by default the question file of the workspace) against the corpus.

    Changed or missing gold lines are errors (exit code 3). Leakage and duplicate questions are only reported
    as warnings.
    """
    with branchrank.Workspace.open(data_dir) as workspace:
        result = workspace.questions.check(questions)
        path = questions or workspace.folder.questions_path
    for note in result.notes:
        click.echo(f"note: {safe(note)}")
    for finding in result.findings:
        click.echo(safe(str(finding)))
    click.echo(
        f"{path}: {result.questions} questions, {result.unanswerable} unanswerable, "
        f"{result.file_level} with a whole page as gold"
    )
    click.echo(
        f"the gold is in {result.documents_asked} of {result.documents} documents "
        f"and {result.sections_asked} of {result.sections} sections"
    )
    if result.leakage is not None:
        click.echo(f"{result.leakage:.0%} of a question's content words are in its gold, on average")
    if result.errors:
        raise QuestionError(
            f"{path}: the gold does not match the corpus in {plural(result.errors, 'place')}",
            remedy=gold_repair(path, data_dir, moves=result.moves),
        )
    click.echo(f"all gold matches the corpus; {len(result.findings)} warnings")


@command.command("reanchor")
@QUESTIONS
@DATA_DIR
@flag("--output", "The question file to write. Default: QUESTIONS.", kind=FILE)
def reanchor(questions: Path | None, data_dir: Path, output: Path | None) -> None:
    """Update the line numbers of the gold and the labels in QUESTIONS after you have edited the corpus."""
    with branchrank.Workspace.open(data_dir) as workspace:
        result = workspace.questions.reanchor(questions, output)
        path = output or questions or workspace.folder.questions_path
    for move in result.moved:
        before = f"{move.before.source}:{move.before.line_start}" if move.before else "no lines"
        name = f"{move.question_id}{', label' if move.label else ''}"
        click.echo(safe(f"{name}: {before} -> {move.after.source}:{move.after.line_start}"))
    for problem in result.problems:
        click.echo(safe(str(problem)))
    if lost := sum(not each.label for each in result.problems):
        raise QuestionError(
            f"{plural(lost, 'gold item')} could not be found again",
            remedy=gold_repair(path, data_dir, moves=False),
        )
    labels = sum(each.label for each in result.moved)
    click.echo(
        f"{path}: {plural(len(result.moved) - labels, 'gold item')} and {plural(labels, 'label')} moved"
    )


@command.command("mine")
@click.argument("corpus", required=False)
@DATA_DIR
@flag("--output", "The question file to write.", kind=FILE, required=True)
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


#: The most addresses without gold that `import` prints.
MOST_UNPLACED = 50


@command.command("import")
@click.argument("file", type=FILE)
@DATA_DIR
@flag(
    "--output",
    "The question file to add the questions to. The file is created if it does not exist. Default: the "
    "question file of the workspace.",
    kind=FILE,
)
def import_asked(file: Path, data_dir: Path, output: Path | None) -> None:
    """Add the questions of a search log or of exported tickets, FILE, with the clicked pages as gold.

    FILE is CSV or JSON Lines with the columns query (or question, search_term, subject), count (or clicks)
    and url (or clicked, link), or page and anchor. Rows with the same query are merged. A URL becomes gold if
    the corpus has its page and anchor. Questions without such a page are added, too: label them in
    `branchrank view`. Questions that are already in the question file are left unchanged.
    """
    with branchrank.Workspace.open(data_dir) as workspace:
        done = workspace.questions.import_asked(file, output)
    left_out = f", {done.without_query} without a query left out" * bool(done.without_query)
    click.echo(f"{plural(done.rows, 'row')}, {plural(done.queries, 'question')}{left_out}")
    if done.ignored:
        click.echo(safe(f"  ignored columns: {', '.join(done.ignored)}"))
    for site, count in done.sites.items():
        click.echo(safe(f"  gold from {site or 'the corpus folder'}: {plural(count, 'link')}"))
    for each in done.unplaced[:MOST_UNPLACED]:
        times = f"{plural(each.clicks, 'click')}, {plural(each.questions, 'question')}"
        click.echo(safe(f"  no gold: {' '.join(filter(None, (each.address, f'({each.reason}; {times})')))}"))
    if (more := len(done.unplaced) - MOST_UNPLACED) > 0:
        click.echo(f"  no gold: {more} more addresses, in the key `unplaced` of their questions")
    pages = sum(question.gold_level == "file" for question in done.questions)
    unlabeled = sum(not question.answerable for question in done.questions)
    click.echo(
        f"{done.path}: {plural(len(done.questions), 'question')} added, {pages} with a whole page as gold, "
        f"{unlabeled} to label; {done.queries - len(done.questions)} already there"
    )


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())


@command.command("split")
@QUESTIONS
@DATA_DIR
@flag("--share", "Share of the questions to put into the tuning file.", 0.3, OPEN_SHARE)
@flag("--seed", "Random seed.", SEED, int)
def split(questions: Path | None, data_dir: Path, share: float, seed: int) -> None:
    """Split QUESTIONS into the files NAME-tuning.jsonl and NAME-test.jsonl.

    By default, QUESTIONS is the question file of the workspace. NAME is the file name of QUESTIONS without
    the extension. All questions whose first gold item is in the same document are put into the same file.
    Documents that have gold in both files, as alternates, are listed.
    """
    with branchrank.Workspace.open(data_dir) as workspace:
        parts = workspace.questions.split(questions, share=share, seed=seed)
    for path, part in parts.items():
        documents = frozenset[str]().union(*map(sources_of, part))
        click.echo(f"{path}: {len(part)} questions on {len(documents)} documents")
    if shared := shared_documents(*parts.values()):
        count = plural(len(shared), "document")
        click.echo(safe(f"{count} with gold of both files, as alternates: {', '.join(shared)}"), err=True)
    everything = [each for part in parts.values() for each in part]
    made = len(next(iter(parts.values()))) / len(everything)
    if abs(made - share) > WARN_BEYOND:
        click.echo(
            f"warning: the tuning file has {made:.0%} of the questions instead of {share:.0%}, because "
            f"questions that share documents stay together; the largest group has "
            f"{largest_group(everything)} of {len(everything)} questions",
            err=True,
        )
