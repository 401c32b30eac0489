"""The base classes of all commands, which print help and errors, set exit codes and write safely.

``--help`` of a command with many flags shows the command's own flags and the settings in :data:`COMMON`.
``--help-all`` shows all flags. The flags of settings are below the titles of their settings groups.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import sys
import traceback
import webbrowser
from collections.abc import Iterable, Iterator
from io import TextIOWrapper
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import click

from branchrank.core.errors import BranchRankError, Remedy, StorageError, remedy_text
from branchrank.core.io.printable import Redactor, environment_secrets
from branchrank.core.io.printable import safe as safe
from branchrank.core.settings import PARTS, settings_of

INTERRUPTED = 130
TERMINATED = 143
#: The error numbers of a full, read-only or failing disk. Printing raises these errors if standard output is
#: redirected to such a disk.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


def say(line: str) -> None:
    """Print a message to standard error."""
    click.echo(safe(line), err=True)


def shown_path(path: Path) -> str:
    """Format a path for printing. A path inside the working directory is shown relative to that directory."""
    here = Path.cwd()
    return safe(str(path.relative_to(here) if path.is_relative_to(here) else path))


def browse(path: Path) -> None:
    """Open a file in the browser."""
    if not webbrowser.open(path.as_uri()):
        say(f"no browser could be opened; the report is {shown_path(path)}")


def typed_lines(prompt: str) -> Iterator[str]:
    """Yield each line of standard input. The prompt is printed only in a terminal."""
    shown = prompt if sys.stdin.isatty() else ""
    with contextlib.suppress(EOFError):
        while True:
            yield input(shown)


def print_notes(notes: Iterable[str], *, quiet: bool = False) -> None:
    """Print notes to standard error. If ``quiet`` is true, print only their number."""
    shown = list(notes)
    if quiet and len(shown) > 1:
        shown = [f"{len(shown)} notes about the documents; without --quiet, each is printed"]
    for note in shown:
        say(f"note: {note}")


def import_from_here() -> None:
    """Add the working directory to Python's import path."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)


def show_error(error: BranchRankError, command: click.Command) -> None:
    """Print an error message and its suggested fix, with API keys removed.

    The suggested fix mentions only flags that ``command`` has.
    """
    redact = _redactor()
    click.secho(f"error: {safe(redact(error.message))}", fg="red", err=True)
    if remedy := fix_for(error.remedies, command):
        click.echo(f"  fix: {safe(redact(remedy))}", err=True)


def _redactor() -> Redactor:
    return Redactor(environment_secrets(os.environ))


def _print_fault(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the traceback of an unexpected exception, with API keys removed."""
    sys.stderr.write(_redactor()("".join(traceback.format_exception(kind, error, trace))))


class Terminated(SystemExit):
    """Raised when the process receives SIGTERM."""


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    raise Terminated(TERMINATED)


def _open_closed_streams() -> None:
    """Open the null device in place of each standard stream that was closed when the process started."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - for the process


class Command(click.Command):
    """A click command that reports errors with a message, a fix and an exit code instead of a traceback.

    If ``resumes`` is true, an interrupted command can be run again to resume its work.
    """

    def __init__(self, *arguments: Any, resumes: bool = False, **named: Any) -> None:
        self.resumes = resumes
        super().__init__(*arguments, **named)
        self.context_settings.setdefault("help_option_names", ["-h", "--help"])
        self.has_many_flags = sum(isinstance(each, click.Option) for each in self.params) > MANY
        if self.has_many_flags:
            self.params.append(help_all_option())

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the first sentence of the help text, which click would cut to ``limit`` characters."""
        return super().get_short_help_str(max(limit, 1000))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the flags to the help text, with settings grouped under headings if there are many flags."""
        if self.has_many_flags:
            write_options(self, ctx, formatter)
        else:
            super().format_options(ctx, formatter)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. The error for a setting that the command has no flag for says where it is."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            settings = {each.flag: each for part in PARTS for each in settings_of(part)}
            if setting := settings.get(error.option_name):
                table = "indexes" if setting.section in ("index", "bm25") else "systems"
                own = f"[{table}.NAME] of the experiment or " if self.name == "run" else ""
                place = f"{own}[{setting.section}] of branchrank.toml"
                text = f"No such option {error.option_name!r}: set {setting.name} in {place}."
                raise click.NoSuchOption(error.option_name, text, ctx=ctx) from None
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Turn a :class:`BranchRankError` into an error message and an exit code."""
        with contextlib.suppress(ValueError):  # raised outside the main thread
            signal.signal(signal.SIGTERM, _terminate)
        _open_closed_streams()
        sys.excepthook = _print_fault
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="replace")  # prints ? for a character the terminal can't show
        try:
            return super().invoke(ctx)
        except BranchRankError as error:
            show_error(error, self)
            ctx.exit(error.exit_code)
        except (KeyboardInterrupt, click.Abort):  # a prompt raises Abort on Ctrl-C and at end of input
            click.echo(self._interrupted(ctx), err=True)
            ctx.exit(INTERRUPTED)
        except OSError as error:
            if error.errno not in FULL:
                raise
            click.secho(f"error: {safe(str(error))}", fg="red", err=True)
            ctx.exit(StorageError.exit_code)

    def _interrupted(self, ctx: click.Context) -> str:
        if not self.resumes:
            return "interrupted"
        fresh = " without --fresh" if ctx.params.get("fresh") else ""
        return f"interrupted; to resume, run the same command again{fresh} (finished work is kept)"


class CommandGroup(click.Group):
    """A click group whose subcommands report errors as :class:`Command` does."""

    command_class = Command


CommandGroup.group_class = CommandGroup


#: A command with more flags than this has ``--help-all``.
MANY = 26
#: The settings whose flags are in the ``--help`` of commands with many flags.
COMMON = frozenset(
    {
        *("--embedder", "--top-k", "--return", "--sample-size", "--latency-sample"),
        *("--primary", "--measure", "--baseline", "--delta", "--jobs", "--max-calls"),
        *("--hybrid-base-url", "--hybrid-model", "--pageindex-base-url", "--pageindex-model"),
        "--hybrid-candidate-cap",
    }
)
HELP_ALL = "--help-all"
_EVERYTHING = "branchrank.help_all"


def help_all_option() -> click.Option:
    """Return the ``--help-all`` flag."""

    def show(context: click.Context, _parameter: click.Parameter, asked: bool) -> None:
        if asked and not context.resilient_parsing:
            context.meta[_EVERYTHING] = True
            click.echo(context.get_help(), color=context.color)
            context.exit()

    return click.Option(
        [HELP_ALL], is_flag=True, is_eager=True, expose_value=False, callback=show, help="Show every flag."
    )


def write_options(command: click.Command, context: click.Context, formatter: click.HelpFormatter) -> None:
    """Write a command's own flags, and its settings under the titles of their groups."""
    titles = {setting.flag: part.title for part in PARTS for setting in settings_of(part)}
    found: dict[str, list[tuple[str, str]]] = {}
    for option in command.get_params(context):
        flag = option.opts[0]
        is_setting = flag in titles and not option.expose_value
        if (
            isinstance(option, click.Option)
            and (record := option.get_help_record(context))
            and (not is_setting or flag in COMMON or _EVERYTHING in context.meta)
        ):
            found.setdefault(titles[flag] if is_setting else "Options", []).append(record)
    for heading, records in found.items():
        with formatter.section(heading):
            formatter.write_dl(records)


_OWN_LLM = "--base-url"


def fix_for(remedies: Iterable[Remedy], command: click.Command) -> str:
    """Return the fix for an error as text. The text mentions only flags that ``command`` has.

    If the command has none of a remedy's flags, their keys in ``branchrank.toml`` are named. A remedy with a
    flag or a value that the command lacks is left out.
    """
    own = {flag: option for option in command.params for flag in (*option.opts, *option.secondary_opts)}
    settings = {setting.flag: setting for part in PARTS for setting in settings_of(part)}

    def accepts(flag: str, value: str) -> bool:
        choices = getattr(own[flag].type, "choices", ()) if flag in own else settings[flag].choices
        return not value or value in (choices or (value,))

    def described(remedy: Remedy) -> str:
        named = remedy.flags.split()
        known = [settings[flag] for flag in named if flag in settings]
        # `questions generate` has --base-url where `benchmark` has --hybrid-base-url.
        short = [f"--{setting.name}".replace("_", "-") for setting in known]
        flags = [flag for flag in named if flag in own] or [flag for flag in short if flag in own]
        if not all(accepts(flag, remedy.value) for flag in flags or [setting.flag for setting in known]):
            return ""
        if not named or flags:
            return remedy.naming(dict.fromkeys(flags))
        if "experiment" in own and named == ["--questions"]:
            return remedy.naming(["`questions` in the experiment"])
        if not known or _OWN_LLM in own:
            return ""
        equals = f" = {json.dumps(remedy.value)}" if remedy.value else ""
        keys = " or ".join(f"{setting.name}{equals} in [{setting.section}]" for setting in known)
        return remedy.text.replace("{}", f"{keys} of branchrank.toml", 1)

    return remedy_text(remedies, described)
