"""The ``branchrank`` command: one verb per module, imported when it is used."""

from __future__ import annotations

import importlib

import click

from branchrank import __version__
from branchrank.cli.terminal import Group

#: Verb -> where in ``branchrank.cli`` its command is (``module`` or ``module:name``), and ``--help``'s line.
VERBS: dict[str, tuple[str, str]] = {
    "demo": ("demo", "Benchmark the bundled sample: the first thing to try."),
    "init": ("init", "Start a benchmark of your own documents."),
    "index": ("index", "Build the index of a documentation folder."),
    "adopt": ("adopt", "Take over chunks, a Chroma collection and nodes of your own."),
    "corpus": ("corpus", "Fetch and list corpora by name."),
    "retrieve": ("retrieve", "Search with the local predictor."),
    "hybrid": ("hybrid", "Search with the hybrid predictor."),
    "benchmark": ("benchmark", "Run predictors over the same questions and report."),
    "pageindex": ("pageindex", "Build, show, check, import and export the PageIndex tree."),
    "questions": ("questions", "Write, label, check, re-anchor, mine, split and generate questions."),
    "run": ("run", "Run an experiment file."),
    "tune": ("tune", "Choose weights by cross-validation on mined questions."),
    "resume": ("resume", "Resume an interrupted run."),
    "list": ("runs:list_runs", "List the runs."),
    "show": ("runs:show_run", "Print a run's table."),
    "search": ("search", "Search the SQLite file: keyword, semantic or hybrid."),
    "check": ("check", "Compare every file of the index with its digest."),
    "calibrate": ("calibrate", "Suggest a distance threshold for the embedding model."),
    "compare": ("compare:compare", "Compare two runs question by question."),
    "datasets": ("datasets:datasets", "Compare systems over several datasets: macro average and test."),
    "gate": ("compare:gate", "Check a run for regressions against a baseline: exit code 0, 1 or 10."),
    "explain": ("explain:explain", "Show one question of a run stage by stage."),
    "verify": ("verify:verify", "Recompute every printed number of a run."),
    "report": ("verify:report", "Regenerate a report."),
    "power": ("power:power", "Power analysis: what can n questions detect?"),
    "serve": ("serve", "Serve retrieval over HTTP."),
    "export-trec": ("trec:export_trec", "Write a run as TREC runs and qrels."),
    "score-trec": ("trec:score_trec", "Score TREC runs with qrels."),
    "compare-trec": ("trec:compare_trec", "Compare TREC runs: tests, intervals, a LaTeX table."),
    "beir": ("beir", "Benchmark on BEIR folders, and make questions from them."),
    "mcp": ("mcp", "Offer the search tools over the Model Context Protocol."),
    "tui": ("tui", "Search in the terminal."),
    "settings": ("settings", "List every setting with its default and range."),
}


#: Heading of ``--help`` -> its verbs. Every verb is below one of them.
HEADINGS: dict[str, tuple[str, ...]] = {
    "Start": ("demo", "init"),
    "Index documents": ("index", "pageindex", "corpus", "adopt", "check", "calibrate"),
    "Search": ("retrieve", "hybrid", "search", "tui", "serve", "mcp"),
    "Write questions": ("questions",),
    "Benchmark": ("benchmark", "run", "beir", "resume", "tune", "power"),
    "Read results": ("list", "show", "explain", "compare", "datasets", "gate", "verify", "report"),
    "Exchange and settings": ("export-trec", "score-trec", "compare-trec", "settings"),
}


class LazyGroup(Group):
    """A group that imports a verb's module only when the verb is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs in the order of the table."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the verb's module."""
        if cmd_name not in VERBS:
            return None
        module, _, name = VERBS[cmd_name][0].partition(":")
        command: click.Command = getattr(
            importlib.import_module(f"branchrank.cli.{module}"), name or "command"
        )
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs below their headings, without importing any."""
        widest = max(map(len, VERBS))
        for heading, verbs in HEADINGS.items():
            with formatter.section(heading):
                # Padded to the longest name, so that the descriptions of all headings are aligned.
                formatter.write_dl([(verb.ljust(widest), VERBS[verb][1]) for verb in verbs])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="branchrank")
def main() -> None:
    """Benchmark retrieval pipelines over documentation: quality, latency and LLM cost."""


if __name__ == "__main__":
    main()
