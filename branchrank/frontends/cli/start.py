"""Get started: the commands ``demo``, ``init``, ``corpus``, ``settings`` and ``plugins``."""

from __future__ import annotations

import shlex
import sys
from operator import attrgetter
from pathlib import Path

import click

from branchrank import Workspace
from branchrank.core.errors import CorpusError, UsageError
from branchrank.core.io.printable import value_to_show
from branchrank.core.io.progress import shown_progress
from branchrank.core.io.table import plain, table_of
from branchrank.core.settings import DEFAULT, DEFAULT_DATA_DIR, DEMO_FOLDER, PARTS, resolve, settings_of
from branchrank.frontends.cli.benchmark import report_run
from branchrank.frontends.cli.options import DATA_DIR, FOLDER, OPEN, QUIET, VERBOSE, switch
from branchrank.frontends.cli.terminal import Command, CommandGroup, print_notes, safe, say


@click.command("demo", cls=Command, resumes=True)
@click.argument("folder", default=DEMO_FOLDER, type=FOLDER)
@OPEN
@VERBOSE
@switch("--fresh", "Run the benchmark again even if a finished run exists.")
@QUIET
def demo(folder: Path, open_report: bool, verbose: bool, fresh: bool, quiet: bool) -> None:
    """Compare eight systems on the bundled sample, and write all files to FOLDER (default: branchrank-demo).

    The sample has 31 documents and 430 questions. The command copies the sample into FOLDER, indexes the
    documents, and runs the predictors local and hybrid (with RRF and with score fusion), pageindex,
    late-interaction, bm25 and dense. The demo needs neither an LLM nor the network. If the command is
    interrupted, run it again to resume. Existing files in FOLDER are not overwritten.
    """
    from branchrank import library

    run = library.demo(folder, fresh=fresh, notify=say, progress=not quiet)

    def show() -> None:
        run.print(verbose=verbose)
        place = shlex.quote(str(folder))
        click.echo(safe(f'  branchrank retrieve --data-dir {place} "how do I compare two runs"'))
        view = "" if folder == DEMO_FOLDER else f" {place}/reports --data-dir {place}"
        click.echo(safe(f"  branchrank view{view}"))
        click.echo("  branchrank init PATH/TO/YOUR/DOCS")

    report_run(run, show, open_report=open_report)


@click.command("init", cls=Command)
@click.argument("folder", required=False)
@DATA_DIR
def init(folder: str | None, data_dir: Path) -> None:
    """Set up a benchmark on the documents in FOLDER (by default docs or doc in the working directory).

    The command writes branchrank.toml to the workspace, and writes questions.jsonl and experiment.toml to the
    working directory. The file questions.jsonl contains three example questions about the documents, and
    experiment.toml compares three systems. Existing files are not changed.
    """
    from branchrank import library
    from branchrank.index.embedders.protocol import MODEL
    from branchrank.index.workspace_folder import CONFIG

    try:
        made = library.init(folder, data_dir)
    except CorpusError as error:
        if folder is not None or not sys.stdin.isatty():
            raise
        say(error.message)
        made = library.init(click.prompt("Folder of the documents", err=True), data_dir)
    print_notes(made.notes)
    click.echo(safe(f"{made.documents} documents in {made.corpus}"))
    for path in made.written:
        embedder = f" (embedder: {MODEL})" if path.name == CONFIG else ""
        click.echo(safe(f"written: {path}{embedder}"))
    for path in made.kept:
        click.echo(safe(f"kept, already exists: {path}"))
    place = "" if data_dir == DEFAULT_DATA_DIR else f" --data-dir {shlex.quote(str(data_dir))}"
    click.echo("\nnext:")
    for line in (
        f'branchrank retrieve{place} "something that you always have to look up"',
        f"branchrank questions add questions.jsonl{place}",
        "branchrank run experiment.toml",
        f"branchrank view{place}",
    ):
        click.echo(safe(f"  {line}"))
    click.echo(
        "\nThe first command builds the index. Replace the examples in questions.jsonl with questions that"
    )
    click.echo("your readers ask: only their questions show which system is better for you.")


@click.group("corpus", cls=CommandGroup)
def corpus() -> None:
    """Fetch corpora by name, and list the available corpora.

    Every command that takes a corpus name also takes a folder.
    """


@corpus.command("add")
@click.argument("name")
@click.option("--questions", is_flag=True, help="Also write NAME-questions.jsonl, the questions about NAME.")
@click.option("--from", "source", type=FOLDER, help="A folder with the file, which is not downloaded then.")
@QUIET
def add_corpus(name: str, questions: bool, source: Path | None, quiet: bool) -> None:
    """Download the corpus NAME, check its digest, and store its documents. No downloaded code is executed.

    NAME can also be ir:ID for a dataset from the ir-datasets package, such as ir:beir/scifact/test.
    """
    from branchrank.documents.named import known_corpora
    from branchrank.library import add_corpus, write_corpus_questions

    written = write_corpus_questions(name) if questions else None
    with shown_progress(not quiet) as progress:
        path = add_corpus(name, progress=progress, source=source)
    click.echo(f"{name}: {path}")
    entry = known_corpora().get(name)
    if entry is not None:
        exclude = "".join(f" --exclude {shlex.quote(pattern)}" for pattern in entry.exclude)
        exclude += " --code" if entry.code else ""
        click.echo(f"license: {entry.license}")
        click.echo(f"questions: {written}\n\nnext:" if written else "\nnext:")
        click.echo(f"  branchrank index {name} --data-dir data/{name} --embedder all-MiniLM-L6-v2{exclude}")
        if written:
            click.echo(f"  branchrank benchmark --data-dir data/{name} --questions {written}")


@corpus.command("list")
def list_corpora() -> None:
    """List the available corpora with their licenses, and the folder of each corpus that was fetched."""
    from branchrank.library import list_corpora

    for corpus in list_corpora():
        questions = ", with questions" if corpus.questions else ""
        place = corpus.place or "not fetched"
        click.echo(f"{corpus.name}: {corpus.description}, {corpus.license}{questions} ({place})")


@click.command("settings", cls=Command)
@DATA_DIR
def settings(data_dir: Path) -> None:
    """List the value, origin, range and meaning of every setting in this workspace."""
    wrong: UsageError | None = None
    calibrated = ""
    try:
        workspace = Workspace.open(data_dir)
        resolved, calibrated = workspace.settings, workspace.calibrated_distance
    except UsageError as error:
        # The error message tells the user to run `branchrank settings`. If the settings in the workspace are
        # invalid, the command must therefore list the default settings.
        wrong, resolved = error, resolve(environment={})
    for part in PARTS:
        click.secho(f"[{part.section}]", bold=True)
        for setting in settings_of(part):
            value = getattr(resolved.parts[part.section], setting.name)
            origin = resolved.origins[f"{part.section}.{setting.name}"]
            allowed = f"; {setting.allowed}" if setting.allowed else ""
            shown = value_to_show(setting.name, value) if isinstance(value, str) else value
            click.echo(f"  {setting.name} = {shown!r}  ({origin})")
            click.secho(f"      {setting.flag}: {setting.description}{allowed}", dim=True)
            if setting.name == "vector_score_threshold" and origin == DEFAULT and calibrated:
                click.echo(f"      in use: {calibrated}")
    if wrong is not None:
        raise wrong


@click.command("plugins", cls=Command)
def plugins() -> None:
    """List what installed packages add to BranchRank, with the reason if it cannot be used."""
    from branchrank.plugins import Plugin, list_plugins

    columns = {heading: attrgetter(heading) for heading in Plugin._fields}
    listed = table_of("plugins", list_plugins(), columns, labels=len(columns))
    click.echo("\n".join(plain(listed)) if listed.rows else "No installed package adds anything.")
