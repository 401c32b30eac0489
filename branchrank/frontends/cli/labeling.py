"""Label and generate questions: the commands ``questions label``, ``agreement`` and ``generate``."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import branchrank
from branchrank.core.errors import InputError, LLMError, UsageError
from branchrank.core.io.progress import shown_progress
from branchrank.core.records import Span
from branchrank.frontends.cli.index import cost
from branchrank.frontends.cli.options import (
    BASE_URL,
    DATA_DIR,
    FILE,
    LLM_OPTIONS,
    OUTPUT,
    REQUIRED_URL,
    RUN,
    SHARE,
    flag,
    given_flags,
    settings_options,
    switch,
)
from branchrank.frontends.cli.terminal import Command, safe, say, typed_lines
from branchrank.questions.anchoring import typed_span
from branchrank.questions.generation import GenerationOptions
from branchrank.questions.labels import Choice

if TYPE_CHECKING:
    from branchrank.questions.labels import Proposals
    from branchrank.runs.passage_pools import Agreement, Labeling, PassageToLabel
    from branchrank.search.systems.llm_choice import CallBounds


@click.command("generate", cls=Command, resumes=True)
@OUTPUT
@DATA_DIR
@flag("--count", "Number of questions to write.", 100, click.IntRange(1))
@flag("--per-section", "Number of questions to request for each section.", 1, click.IntRange(1, 10))
@flag(
    "--max-leakage",
    "Reject a question if more than this share of its content words occurs in its quoted answer.",
    0.8,
    SHARE,
)
@switch("--dry-run", "Print an estimate of the LLM calls and tokens, and exit.")
@REQUIRED_URL
@LLM_OPTIONS
@settings_options("engine")
def generate(
    output: Path, data_dir: Path, dry_run: bool, base_url: str, model: str, quiet: bool, **given: Any
) -> None:
    """Generate questions about the workspace's corpus with an LLM, and store them in the file OUTPUT.

    The gold of each question is an exact quotation from the corpus. If the command is interrupted, run it
    again to resume. Finished LLM calls are not repeated. The command stops after three failed calls in a row,
    or after twenty calls in a row without a usable question. OUTPUT keeps the questions that were written
    before the command stopped.
    """
    options = GenerationOptions(**given)
    with (
        branchrank.Workspace.open(data_dir, settings=given_flags(), notify=say) as opened,
        shown_progress(not quiet) as bars,
    ):
        if dry_run:
            _print_estimate(*opened.questions.estimate_generation(options))
            return
        result, spent = opened.questions.generate(
            output, options, base_url=base_url, model=model, progress=bars
        )
    click.echo(cost(spent))
    click.echo(f"{result.sections_asked} sections sent to the LLM, {result.failed_calls} calls failed")
    for reason, number in result.rejected.items():
        click.echo(f"  rejected, {reason}: {number}")
    if result.questions:
        click.echo(f"{output}: {len(result.questions)} questions, mean leakage {result.mean_leakage:.0%}")
    if result.stopped:
        raise LLMError(
            f"{result.stopped}; {len(result.questions)} of {options.count} questions were written",
            remedy="fix the cause, and run the command again; finished calls are not repeated",
        )
    if not result.questions:
        raise InputError(
            "all of the LLM's questions were rejected", remedy="try a larger model, or --max-leakage 1"
        )


def _print_estimate(least: CallBounds, most: CallBounds) -> None:
    click.echo(f"{most.calls} sections have enough text for a question")
    for bound, what in ((least, "if every question is accepted"), (most, "at most")):
        click.echo(f"  {what}: {bound.calls} LLM calls, about {bound.tokens} tokens")


#: Maps what an annotator types to the label that is stored.
KEYS: dict[str, Choice] = {"y": "yes", "yes": "yes", "p": "partly", "partly": "partly", "n": "no", "no": "no"}
HINT = "y(es), p(artly), n(o), s(kip), q(uit); y 12-14 if only lines 12 to 14 answer the question"
#: The maximum number of lines to show from a passage.
MOST_LINES = 60


@click.command("label", cls=Command, resumes=True)
@click.argument("run", type=RUN)
@DATA_DIR
@flag(
    "--output",
    "The question file to add the labels to. The file is created if it does not exist.",
    kind=FILE,
    required=True,
)
@flag("--annotator", "Your name, which is stored with each label.", required=True)
@flag("--depth", "Label the hits of each system up to this rank.", 5, click.IntRange(1, 1000))
@flag(
    "--questions",
    "The question file. Needed only if the run does not store the text of its questions.",
    kind=FILE,
)
@switch(
    "--accept-proposals",
    "Store the LLM's labels without asking for confirmation. Reports say that an LLM labeled these passages.",
)
@flag("--base-url", BASE_URL)
@LLM_OPTIONS
def label(
    run: Path, data_dir: Path, accept_proposals: bool, base_url: str, model: str, quiet: bool, **asked: Any
) -> None:
    """Show the passages that the systems in RUN returned, and ask whether each passage answers its question.

    The first hits of all systems are pooled and shown in random order, without the names of the systems.
    Passages that overlap the gold are not shown. Only gold that a label for one of the shown passages added
    hides no other passage. A passage inside another passage is not shown if it has at least three quarters
    of the other's lines. The label `yes` adds the passage to the question's gold in the output file, unless
    it overlaps gold. The labels `partly` and `no` are recorded, but add no gold. Labels are read line by
    line, from a terminal or a pipe. Every label is saved immediately. If the command is interrupted, run it
    again to resume.

    With --base-url, an LLM proposes a label for each passage, and you confirm or change it.
    """
    if accept_proposals and not base_url:
        raise UsageError("--accept-proposals needs an LLM", remedy="--base-url URL --model NAME")
    with contextlib.ExitStack() as opened:
        workspace = opened.enter_context(
            branchrank.Workspace.open(data_dir, settings=given_flags(), notify=say)
        )
        labeling = workspace.questions.label(branchrank.Run.load(run), **asked)
        proposals = None
        if base_url:
            proposals = opened.enter_context(
                workspace.questions.label_proposals(base_url=base_url, model=model)
            )
        if accept_proposals and proposals is not None:
            _accept(labeling, proposals)
        else:
            _ask(labeling, proposals, quiet=quiet)
    _print_counts(labeling)


def _ask(labeling: Labeling, proposals: Proposals | None, *, quiet: bool) -> None:
    """Show the passages one by one, and read a label for each, until the input ends."""
    passages = labeling.waiting()
    answers = filter(None, (" ".join(line.lower().split()) for line in typed_lines("answers it? ")))
    if not quiet and passages:
        say(f"{len(passages)} passages to label; {HINT}")
    asked = ""
    for number, passage in enumerate(passages, start=1):
        if passage.question.id != asked:
            click.echo()
            click.secho(safe(passage.question.question), bold=True)
            asked = passage.question.id
        _show_passage(passage, f"[{number}/{len(passages)}]")
        proposal = None
        if proposals is not None:
            proposal = proposals(passage.question, passage.heading, passage.text)
            proposed = proposal.label if proposal is not None else "nothing, the call failed"
            click.echo(f"{proposals.model} proposes: {proposed}")
        for answer in answers:
            word, _, lines = answer.partition(" ")
            if word in ("q", "quit"):
                return
            if word in ("s", "skip"):
                break
            try:
                if word not in KEYS:
                    raise UsageError(f"{word!r} is not a label; type {HINT}")
                narrowed = _narrowed(passage, word, lines)
                made = labeling.add(passage, KEYS[word], answer=narrowed, proposal=proposal)
            except UsageError as error:
                say(error.message)
                continue
            if made.label == "yes" and made.gold is None:
                say("the label is saved, but added no gold, because the lines overlap gold")
            break
        else:
            return  # the input has ended


def _accept(labeling: Labeling, proposals: Proposals) -> None:
    """Store the LLM's proposals as labels. If an LLM call fails, the passage gets no label."""
    for passage in labeling.waiting():
        proposal = proposals(passage.question, passage.heading, passage.text)
        if proposal is not None:
            labeling.add(passage, proposal.label, proposal=proposal._replace(accepted=True))


def _narrowed(passage: PassageToLabel, word: str, lines: str) -> Span | None:
    """Return the lines that the annotator typed after ``yes``, or ``None`` if no lines were typed."""
    if not lines:
        return None
    if KEYS[word] != "yes":
        raise UsageError(f"line numbers can only follow y or yes, not {word!r}")
    return typed_span(passage.span.source, lines)


def _show_passage(passage: PassageToLabel, place: str) -> None:
    span = passage.span
    click.secho(
        safe(f"{place} {span.source}:{span.line_start}-{span.line_end}  {passage.heading}"), fg="cyan"
    )
    show_lines(passage.text.split("\n"), span.line_start)


def show_lines(lines: Sequence[str], start: int, most: int = MOST_LINES) -> None:
    """Print the first lines with their numbers, and how many lines are not printed."""
    for number, line in enumerate(lines[:most], start=start):
        click.echo(f"{number:>6}  {safe(line.rstrip())}")
    if len(lines) > most:
        from branchrank.runs.words import plural

        click.echo(f"        ... {plural(len(lines) - most, 'more line')}")


def _print_counts(labeling: Labeling) -> None:
    counts, left = labeling.counts(), len(labeling.waiting())
    done = ", ".join(f"{count} {name}" for name, count in counts.items())
    if not sum(counts.values()):
        click.echo("no passage was labeled" if left else "all passages are already labeled")
        return
    click.echo(safe(f"{labeling.output}: labels by {labeling.annotator}: {done}; {left} passages left"))


@click.command("agreement", cls=Command)
@click.argument("first", type=FILE)
@click.argument("second", type=FILE)
@flag(
    "--annotator annotators",
    "Annotator whose labels are compared, if a file has labels from several annotators. Give the flag "
    "twice: once for FIRST and once for SECOND.",
    multiple=True,
)
def agreement(first: Path, second: Path, annotators: tuple[str, ...]) -> None:
    """Print Cohen's kappa, which measures how much more often two annotators agree than they would by chance.

    FIRST and SECOND are question files with labels. Only passages that both annotators labeled are compared.
    The confidence intervals assume that the passages are independent of each other.
    """
    from branchrank.runs.passage_pools import agreement as compared

    labels, gold = compared(first, second, annotators)
    click.echo(
        f"{labels.n} passages are labeled by both annotators; "
        f"rows: {safe(str(first))}, columns: {safe(str(second))}"
    )
    click.echo("".join(f"{name:>8}" for name in ("", *labels.categories)))
    for name, row in zip(labels.categories, labels.table, strict=True):
        click.echo("".join(f"{each:>8}" for each in (name, *row)))
    for title, found in (("yes, partly, no", labels), ("yes or not (gold)", gold)):
        click.echo(f"{title}: {_kappa(found)}")


def _kappa(found: Agreement) -> str:
    agreed = f"they agree on {found.observed:.0%}"
    if found.kappa is None or found.low is None or found.high is None:
        return f"{agreed}; kappa is not defined, because both annotators used the same single label"
    return f"kappa {found.kappa:.2f} (95% interval {found.low:.2f} to {found.high:.2f}); {agreed}"
