"""What a person sees: safe text, progress, errors, exit codes."""

from __future__ import annotations

import contextlib
import errno
import signal
import sys
from io import TextIOWrapper
from types import FrameType
from typing import Any

import click

from branchrank.errors import BranchRankError, StorageError
from branchrank.printable import safe as safe
from branchrank.progress_bars import progress_bars as progress_bars

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
