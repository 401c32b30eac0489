"""What a person sees: safe text, progress, errors, exit codes."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any, Protocol

import click

from branchrank.errors import BranchRankError
from branchrank.printable import safe as safe

INTERRUPTED = 130
TERMINATED = 143


def say(line: str) -> None:
    """Tell the person something, beside the output."""
    click.echo(safe(line), err=True)


class Terminated(SystemExit):
    """SIGTERM arrived."""


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    raise Terminated(TERMINATED)


class Command(click.Command):
    """A click command whose errors are a message, a remedy and an exit code, never a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a user's mistake ends it with its exit code."""
        with contextlib.suppress(ValueError):  # not the main thread
            signal.signal(signal.SIGTERM, _terminate)
        try:
            return super().invoke(ctx)
        except BranchRankError as error:
            click.secho(f"error: {safe(error.message)}", fg="red", err=True)
            if error.remedy:
                click.echo(f"  to mend it: {safe(error.remedy)}", err=True)
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            click.echo("interrupted; what was finished is kept", err=True)
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:
            sys.stderr.close()
            ctx.exit(0)


class Group(click.Group):
    """A group of such commands."""

    command_class = Command


Group.group_class = Group


class Progress(Protocol):
    """Told how far a stage of the work is."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """``done`` of ``total`` units of ``stage`` are finished; a total of 0 is unknown."""


def _silent(stage: str, done: int, total: int) -> None:
    """Say nothing."""


@contextlib.contextmanager
def progress_bars(quiet: bool = False) -> Iterator[Progress]:
    """Progress on standard error: ``progress(stage, done, total)`` from any part of the work.

    Where standard error is not a terminal each stage is announced once, in one line.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    console = Console(stderr=True)
    if quiet:
        yield _silent
        return
    if not console.is_terminal:
        seen: set[str] = set()

        def announce(stage: str, done: int, total: int) -> None:
            if stage not in seen:
                seen.add(stage)
                click.echo(f"{stage} ({total})" if total else stage, err=True)

        yield announce
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bars(*columns, console=console) as bars:
        tasks: dict[str, Any] = {}

        def update(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total or None)
            bars.update(tasks[stage], completed=done, total=total or None)

        yield update
