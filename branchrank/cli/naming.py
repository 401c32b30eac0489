"""Flags that say what ``resume`` and ``verify`` may use besides the files in a run's directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def access_options(function: F) -> F:
    """Add the flags for a run's workspace, its questions, and the permission to use what the run names."""
    for option in (
        click.option(
            "--trust",
            is_flag=True,
            help="Use the hosts, models, files and predictor classes that the run names. Without this flag, "
            "the command lists them and stops. API keys are sent to the hosts.",
        ),
        click.option(
            "--questions",
            type=click.Path(path_type=Path, dir_okay=False),
            help="The question file. Needed only if the run does not store the text of its questions. "
            "Default: the copy in the run, or the question file of the workspace.",
        ),
        click.option(
            "--data-dir",
            type=click.Path(path_type=Path, file_okay=False),
            help="The run's workspace, if it has moved. Default: the workspace that the run names.",
        ),
    ):
        function = option(function)
    return function
