"""Search one workspace: the commands ``retrieve``, ``hybrid``, ``ask``, ``search`` and ``tui``."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import branchrank
from branchrank.core.errors import BranchRankError, LLMError, UsageError
from branchrank.core.io.printable import encodable, printable_json, safe_line
from branchrank.core.io.progress import no_notice
from branchrank.core.records import Hit, LLMCall, Retrieval
from branchrank.frontends.cli.options import (
    DATA_DIR,
    FILTER,
    FUSION,
    JSON,
    QUIET,
    RETURNS,
    flag,
    given_flags,
    settings_options,
    switch,
    together,
)
from branchrank.frontends.cli.terminal import Command, safe, say, show_error, typed_lines

if TYPE_CHECKING:
    from branchrank.frontends.serve.tui import ChosenResult
    from branchrank.search.systems.builtin import Mode
    from branchrank.workspace import Workspace

#: The maximum number of lines to show from each hit.
SHOWN_LINES = 4


def open_workspace(data_dir: Path, *, quiet: bool = False, **more: object) -> Workspace:
    """Open the workspace with the command's flags and ``more`` settings. A missing index is built."""
    from branchrank import Workspace

    settings = {**given_flags(), **more}
    return Workspace.open(data_dir, settings=settings, rebuild=True, notify=say, progress=not quiet)


def _answer_queries(
    workspace: Workspace, *, query: str | None, predictor: str, as_json: bool, **limits: Any
) -> None:
    """Answer ``query``. If ``query`` is ``None``, answer each line of standard input up to an empty line."""
    if query is not None:
        _answer(query, predictor, workspace.retrieve(query, predictor, **limits), as_json)
        return
    if sys.stdin.isatty():
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401 - turns on line editing at the prompt
        click.echo(f"{predictor}: type a question, or press Enter to quit", err=True)
    asked = sys.stdin.isatty()
    for line in typed_lines("> "):
        if not (text := encodable(line.strip())):
            break
        asked = True
        try:
            _answer(text, predictor, workspace.retrieve(text, predictor, **limits), as_json)
        except BranchRankError as error:
            show_error(error, click.get_current_context().command)
    if not asked:
        command = click.get_current_context().command_path
        raise UsageError("there is no query", remedy=f'{command} "how do I ..."')


def _answer(query: str, predictor: str, retrieval: Retrieval, as_json: bool) -> None:
    notices = (*retrieval.remarks, *_llm_errors(retrieval.calls))
    if as_json:
        answer = {
            "query": query,
            "predictor": predictor,
            "hits": retrieval.hits,
            "stage_ms": {stage: round(ms, 3) for stage, ms in retrieval.stage_ms.items()},
            "fallbacks": retrieval.fallbacks,
            "notices": notices,
        }
        click.echo(printable_json(answer))  # printed as bytes, because JSON is UTF-8 in any terminal
        return
    _show_notes([*notices, *(f"fallback: {each}" for each in retrieval.fallbacks)], retrieval.calls)
    if not retrieval.hits:
        click.echo("nothing found")
    for rank, hit in enumerate(retrieval.hits, start=1):
        show_hit(rank, hit)


def _llm_errors(calls: Sequence[LLMCall]) -> Iterable[str]:
    return dict.fromkeys(f"LLM: {call.failure}" for call in calls if call.detail)


def _show_notes(notes: Iterable[str], calls: Sequence[LLMCall]) -> None:
    for note in notes:
        click.secho(safe(note), fg="yellow", err=True)
    if calls:
        click.secho(branchrank.library.spent_line(calls), dim=True, err=True)


def _place(hit: Hit) -> str:
    return click.style(safe_line(hit.span.citation), bold=True)


def show_hit(rank: int, hit: Hit) -> None:
    """Print a hit's location, its score, its rank in each branch, and the beginning of its text."""
    click.echo(f"{rank:>2}. {_place(hit)}  {safe_line(hit.breadcrumb)}")
    reasons = safe(", ".join(hit.reasons))
    click.secho(f"    score {hit.score:.4f}{'  ' + reasons if reasons else ''}", dim=True)
    show_passage(hit.plain)


def show_passage(text: str, indent: int = 4) -> None:
    """Print the first lines of a passage, and the number of lines that are not printed."""
    margin = " " * indent
    width = max(20, min(100, shutil.get_terminal_size((104, 24)).columns - indent))
    lines = [line for line in text.splitlines() if line.strip()]
    for line in lines[:SHOWN_LINES]:
        text = safe(line.strip())
        click.echo(f"{margin}{text if len(text) <= width else f'{text[: width - 1]}…'}")
    if len(lines) > SHOWN_LINES:
        from branchrank.runs.words import plural

        click.secho(f"{margin}... {plural(len(lines) - SHOWN_LINES, 'more line')}", dim=True)


def query_text(_context: click.Context, _parameter: click.Parameter, text: str | None) -> str | None:
    """Reject an empty query, and make other queries encodable as UTF-8 (click callback)."""
    if text is not None and not text.strip():
        raise click.BadParameter("the query is empty; write the question in quotes")
    return None if text is None else encodable(text)


TOP_K = flag("--top-k -k k", "Maximum number of passages.", 5, click.IntRange(1, 1000))
#: The argument and the flags that ``retrieve`` and ``hybrid`` share.
QUERY_OPTIONS = together(
    click.argument("query", required=False, callback=query_text),
    DATA_DIR,
    TOP_K,
    FILTER,
    FUSION,
    settings_options(*RETURNS),
    switch("--json as_json", "Print one JSON object per query."),
    QUIET,
)


@click.command("retrieve", cls=Command)
@QUERY_OPTIONS
@flag(
    "--predictor",
    "The predictor to search with. Default: the table [system] of branchrank.toml, or local.",
)
@settings_options("local", "grep", "qdrant", "retrieval", "bm25", "index", "cache")
def retrieve(data_dir: Path, quiet: bool, predictor: str, **given: Any) -> None:
    """Search with the local predictor (vectors and BM25 over chunks, fused with RRF) or another predictor.

    Use this command for passages, fast and without an LLM, or to try any other predictor. Use
    `branchrank hybrid` if an LLM should rerank, or if an answer may be in a section next to the one that
    matches. Use `branchrank search` to find documents, by words and the beginnings of words.

    Without QUERY, the command prompts for queries and keeps the index loaded between queries.
    """
    with open_workspace(data_dir, quiet=quiet) as workspace:
        predictor = predictor or workspace.default_predictors("local")[0]
        _answer_queries(workspace, predictor=predictor, **given)


@click.command("hybrid", cls=Command)
@QUERY_OPTIONS
@switch("--no-llm", "Do not rerank with an LLM (same as --hybrid-no-llm).")
@settings_options("hybrid", "llm", "bm25", "index", "cache")
def hybrid(data_dir: Path, quiet: bool, no_llm: bool, **given: Any) -> None:
    """Search with the hybrid predictor (vectors with tree neighbors, BM25 over nodes, RRF, LLM reranking).

    Use this command if an LLM should rerank (--hybrid-base-url), or if an answer may be in a section next to
    the one that matches. Use `branchrank retrieve` for passages without an LLM or with another predictor, and
    `branchrank search` to find documents, by words and the beginnings of words.

    Without QUERY, the command prompts for queries and keeps the index loaded between queries.
    """
    own = {"hybrid.no_llm": True} if no_llm else {}
    with open_workspace(data_dir, quiet=quiet, **own) as workspace:
        workspace.check_llm("hybrid")
        _answer_queries(workspace, predictor="hybrid", **given)


@click.command("ask", cls=Command)
@click.argument("question", callback=query_text)
@DATA_DIR
@TOP_K
@flag("--predictor system", "The agent to ask: agent, agent-grep, agent-vector or agent-memory.", "agent")
@FILTER
@JSON
@QUIET
@settings_options("agent", "llm", "grep", "bm25", "index", "cache")
def ask(question: str, data_dir: Path, as_json: bool, quiet: bool, **given: Any) -> None:
    """Ask an LLM that searches the workspace with tools, and print its answer and the lines that it cites.

    The LLM is an OpenAI-compatible endpoint (--agent-base-url, --agent-model). It searches with grep and the
    vectors of the index, and reads files (--agent-tools). Each call of a tool is a line on standard error.

    If the agent ends without an answer, the passages that its tools found are printed, and the exit code is
    7.
    """
    with open_workspace(data_dir, quiet=quiet) as workspace:
        answer = workspace.ask(question, notify=no_notice if quiet else say, **given)
    if as_json:
        click.echo(printable_json(answer))
    else:
        _show_notes([*answer.notices, *_llm_errors(answer.calls)], answer.calls)
        if answer.text:
            click.echo(f"{safe(answer.text)}\n")
        for rank, hit in enumerate(answer.citations, start=1):
            click.echo(f"{rank:>2}. {_place(hit)}")
            show_passage(hit.plain.strip().partition("\n")[0])
        if answer.answered and not answer.citations:
            click.echo("nothing cited")
    if not answer.answered:
        shown = "; the passages are those that its tools found" if answer.citations else ""
        raise LLMError(f"there is no answer ({'; '.join(answer.fallbacks)}){shown}")


@click.command("search", cls=Command)
@click.argument("query", callback=query_text)
@DATA_DIR
@flag(
    "--mode",
    "`keyword` finds words and prefixes of words, `semantic` finds the nearest embeddings, and `hybrid` "
    "combines the two.",
    "keyword",
    click.Choice(["keyword", "semantic", "hybrid"]),
)
@FILTER
@switch("--explain", "Show how each score was computed.")
@JSON
@QUIET
@settings_options("retrieval", "embedding.model", "index.embedder")
def search(
    query: str, data_dir: Path, mode: Mode, explain: bool, as_json: bool, quiet: bool, **limits: Any
) -> None:
    """Search the workspace for QUERY, and print the best documents with their best chunks.

    Use this command to find documents, by words and the beginnings of words, or by meaning. Use
    `branchrank retrieve` for the passages that a benchmark measures, and `branchrank hybrid` for passages
    that an LLM reranks.

    The modes semantic and hybrid search the vectors of the index.
    """
    with open_workspace(data_dir, quiet=quiet) as workspace:
        hits = workspace.search_documents(query, mode=mode, **limits)
    if as_json:
        click.echo(printable_json({"query": query, "mode": mode, "results": hits}))
        return
    if not hits:
        click.echo("nothing found")
    for rank, hit in enumerate(hits, start=1):
        _show(rank, hit, explain)


def _show(rank: int, hit: Hit, explain: bool) -> None:
    """Print a document's score, its chunks, and the beginning of its best chunk."""
    title = hit.source if hit.members else hit.id
    click.echo(f"{rank:>2}. {click.style(safe_line(title), bold=True)}  {hit.score:.4f}")
    for number, chunk in enumerate(hit.members or (hit,)):
        click.echo(f"    {chunk.line_start}-{chunk.line_end}  {safe_line(chunk.breadcrumb)}")
        if explain:
            click.secho(f"      {safe(_explanation(chunk))}", dim=True)
        if number == 0:
            show_passage(chunk.plain, indent=6)


def _explanation(chunk: Hit) -> str:
    """Return an explanation of how a chunk's score was computed."""
    parts = [f"score {chunk.score:.4f}"]
    for name, word, measured in (("fts5", "keyword", "score"), ("dense(chunks)", "vector", "cosine")):
        placement = chunk.branches.get(name)
        if placement is not None:
            note = f" ({chunk.notes[name]})" if name in chunk.notes else ""
            parts.append(f"{word} rank {placement.rank}, {measured} {placement.score:.4f}{note}")
    return "; ".join(parts)


PREDICTORS = ("local", "hybrid", "late-interaction")


def on_terminal() -> bool:
    """Return whether the process runs in an interactive terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def search_on_terminal(
    workspace: Workspace, *, mode: str = "", query: str = "", choosing: bool = False
) -> ChosenResult | None:
    """Run the terminal UI until the user quits. With ``choosing``, return the result that the user picked."""
    from branchrank.frontends.serve.service import Searches, Service
    from branchrank.frontends.serve.tui import SearchApp

    searches = Searches(Service(workspace, PREDICTORS))
    return SearchApp(searches, mode=mode, query=query, choosing=choosing).run()


@click.command("tui", cls=Command)
@click.argument("query", required=False, default="")
@DATA_DIR
@flag(
    "--mode",
    "Search mode at the start. F2 switches to the next mode. Default: the first available mode of "
    "predictor-late-interaction (needs token vectors), predictor-hybrid (needs an LLM) and predictor-local.",
    kind=click.Choice(["grep", "vector", "hybrid", *(f"predictor-{name}" for name in PREDICTORS)]),
)
@QUIET
@settings_options("grep", "local", "hybrid", "llm", "index", "cache")
def tui(query: str, data_dir: Path, mode: str | None, quiet: bool) -> None:
    """Search in a terminal UI that shows the results, the source of the selected result, and a log.

    The search modes are grep, vector and hybrid. The mode hybrid fuses the results of grep and vector, and
    takes separate keywords for grep. The predictors local, hybrid and late-interaction are also search modes.
    """
    if not on_terminal():
        raise UsageError(
            "the terminal UI needs a terminal, but the input or output is not one",
            remedy="branchrank search QUERY",
        )
    with open_workspace(data_dir, quiet=quiet) as workspace:
        search_on_terminal(workspace, mode=mode or "", query=query)
