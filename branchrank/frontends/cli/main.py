"""The ``branchrank`` command, whose subcommands are imported when they are used."""

from __future__ import annotations

import importlib

import click

from branchrank import __version__
from branchrank.frontends.cli.terminal import CommandGroup

#: Maps each heading in ``--help`` to its commands. Each command has its module in
#: ``branchrank.frontends.cli`` (``module`` or ``module:function``) and its help text.
HEADINGS: dict[str, dict[str, tuple[str, str]]] = {
    "Start": {
        "demo": ("start:demo", "Benchmark eight systems on the bundled sample. Try this first."),
        "init": ("start:init", "Write starter files for a benchmark on your documents."),
    },
    "Index documents": {
        "index": ("index:index", "Build the index of a documentation folder."),
        "pageindex": ("index:tree", "Build, show, check, summarize, import or export the PageIndex tree."),
        "corpus": ("start:corpus", "Fetch corpora by name, and list the available corpora."),
        "adopt": ("index:adopt", "Create a workspace from your own chunks, vectors and nodes."),
        "check": ("index:check", "Check the files of the index for damage."),
        "calibrate": ("index:calibrate", "Suggest a distance threshold for the embedding model."),
    },
    "Search": {
        "retrieve": ("search:retrieve", "Find passages, with the local or another predictor."),
        "hybrid": ("search:hybrid", "Find passages, with tree neighbors and LLM reranking."),
        "ask": ("search:ask", "Answer a question with an LLM that searches, and cite lines."),
        "search": ("search:search", "Find documents: keyword, semantic or hybrid."),
        "tui": ("search:tui", "Search in a terminal UI."),
        "serve": ("servers:serve", "Serve retrieval over HTTP."),
        "mcp": ("servers:mcp", "Serve the search tools over the Model Context Protocol (MCP)."),
    },
    "Write questions": {
        "questions": ("questions", "Add, label, check, re-anchor, mine, split or generate questions."),
    },
    "Benchmark": {
        "benchmark": ("benchmark:benchmark", "Run predictors on the same questions, and write a report."),
        "run": ("benchmark:run", "Run the experiment in a TOML file."),
        "beir": ("benchmark:beir", "Benchmark on a BEIR folder, or convert its queries to questions."),
        "resume": ("benchmark:resume", "Resume an interrupted run."),
        "tune": ("planning:tune", "Tune weights by cross-validation on mined questions."),
        "power": ("planning:power", "Power analysis: what can n questions detect?"),
    },
    "Read results": {
        "list": ("runs:list_runs", "List the runs."),
        "view": ("servers:view", "Look at runs and label questions on a local web page."),
        "show": ("runs:show_run", "Print a run's table."),
        "explain": ("runs:explain", "Show the candidates of one question after every stage."),
        "advise": ("compare:advise", "Recommend a system within limits, and the next experiment."),
        "compare": ("compare:compare", "Compare two runs question by question."),
        "datasets": ("compare:datasets", "Compare systems over several datasets."),
        "gate": ("compare:gate", "Check a run for regressions against a baseline run."),
        "verify": ("runs:verify", "Recompute every number in a run and report any mismatch."),
        "report": ("runs:report", "Regenerate the report of a run."),
    },
    "Exchange and settings": {
        "export-trec": ("runs:export_trec", "Export a run as TREC run files and qrels."),
        "score-trec": ("runs:score_trec", "Score TREC run files with qrels."),
        "compare-trec": ("runs:compare_trec", "Compare TREC run files, with tests and intervals."),
        "settings": ("start:settings", "List every setting with its value and range."),
        "plugins": ("start:plugins", "List what installed packages add: readers, branches, measures."),
    },
}
VERBS = {verb: each for verbs in HEADINGS.values() for verb, each in verbs.items()}


class LazyGroup(CommandGroup):
    """A command group that imports the module of a subcommand only when the subcommand is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of their headings."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a command and return the command."""
        if cmd_name not in VERBS:
            return None
        module, _, name = VERBS[cmd_name][0].partition(":")
        imported = importlib.import_module(f"branchrank.frontends.cli.{module}")
        command: click.Command = getattr(imported, name or "command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands under their headings, without importing their modules."""
        widest = max(map(len, VERBS))
        for heading, verbs in HEADINGS.items():
            with formatter.section(heading):
                # Names are padded to the same length, so that the descriptions of all commands are aligned.
                formatter.write_dl([(verb.ljust(widest), text) for verb, (_, text) in verbs.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="branchrank")
def main() -> None:
    """Benchmark retrieval pipelines over documentation for quality, latency and LLM cost."""


main.commands = {verb: click.Command(verb) for verb in VERBS}  # placeholders, for click's suggestions

if __name__ == "__main__":
    main()
