"""What a person sees: safe text, progress, errors, exit codes."""

from __future__ import annotations

import contextlib
import errno
import signal
import sys
from collections.abc import Iterator
from functools import cached_property
from io import TextIOWrapper
from types import FrameType
from typing import Any, Protocol

import click

from branchrank.errors import BranchRankError, StorageError
from branchrank.printable import safe as safe

INTERRUPTED = 130
TERMINATED = 143
HELP = ["-h", "--help"]
#: A disk that takes no more, wherever it is met; standard output may lie on one.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


def say(line: str) -> None:
    """Tell the person something, beside the output."""
    click.echo(safe(line), err=True)


class Terminated(SystemExit):
    """SIGTERM arrived."""


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    raise Terminated(TERMINATED)


class Command(click.Command):
    """A click command whose errors are a message, a remedy and an exit code, never a traceback."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.context_settings.setdefault("help_option_names", HELP)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a user's mistake ends it with its exit code."""
        with contextlib.suppress(ValueError):  # not the main thread
            signal.signal(signal.SIGTERM, _terminate)
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="replace")  # what a terminal can't show is a question mark
        try:
            return super().invoke(ctx)
        except BranchRankError as error:
            click.secho(f"error: {safe(error.message)}", fg="red", err=True)
            if error.remedy:
                click.echo(f"  fix: {safe(error.remedy)}", err=True)
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            click.echo("interrupted; what was finished is kept", err=True)
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:
            sys.stderr.close()
            ctx.exit(0)
        except OSError as error:
            if error.errno not in FULL:
                raise
            click.secho(f"error: {safe(str(error))}", fg="red", err=True)
            ctx.exit(StorageError.exit_code)


class Group(click.Group):
    """A group of such commands."""

    command_class = Command

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.context_settings.setdefault("help_option_names", HELP)


Group.group_class = Group


class ProgressDisplay(Protocol):
    """Told how far a stage of the work is."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """``done`` of ``total`` units of ``stage`` are finished; a total of 0 is unknown."""

    def status(self, text: str) -> None:
        """Show a line that replaces the one before, such as running costs."""


class Quiet:
    """Says nothing."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Nothing."""

    def status(self, text: str) -> None:
        """Nothing."""


class Announcements:
    """For where standard error is no terminal: each stage once, in one line; the last status at the end."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.last = ""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Announce a stage when it is new."""
        if stage not in self.seen:
            self.seen.add(stage)
            say(f"{stage} ({total})" if total else stage)

    def status(self, text: str) -> None:
        """Keep the line."""
        self.last = text


class Bars:
    """A bar per stage, drawn from the first step on; the status is shown behind the stage that moved last."""

    def __init__(self) -> None:
        self.tasks: dict[str, Any] = {}
        self.moving = ""

    @cached_property
    def bars(self) -> Any:
        """The bars, on standard error."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[text]}", markup=False),
        )
        made = Progress(*columns, console=Console(stderr=True))
        made.start()
        return made

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Move a stage's bar."""
        if stage not in self.tasks:
            self.tasks[stage] = self.bars.add_task(stage, total=total or None, text="")
        self.moving = stage
        self.bars.update(self.tasks[stage], completed=done, total=total or None)

    def status(self, text: str) -> None:
        """Replace the status."""
        if self.moving:
            self.bars.update(self.tasks[self.moving], text=safe(text))

    def close(self) -> None:
        """Leave the bars as they are."""
        if self.tasks:
            self.bars.stop()


@contextlib.contextmanager
def progress_bars(quiet: bool = False) -> Iterator[ProgressDisplay]:
    """Progress on standard error: ``progress(stage, done, total)`` from any part of the work."""
    if quiet:
        yield Quiet()
    elif not sys.stderr.isatty():
        announcements = Announcements()
        try:
            yield announcements
        finally:  # what an interrupted command has spent is said too
            if announcements.last:
                say(announcements.last)
    else:
        with contextlib.closing(Bars()) as bars:
            yield bars
