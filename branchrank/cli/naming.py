"""Flags that allow ``resume`` and ``verify`` to use the files, hosts and classes of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from branchrank.cli.options import given_flags, settings_options
from branchrank.cli.terminal import import_from_here
from branchrank.settings import PARTS, EngineSettings, reaching_settings

if TYPE_CHECKING:
    from branchrank.library import Named

F = TypeVar("F", bound=Callable[..., Any])
_ENGINE = f"{EngineSettings.section}."


def naming_options(function: F) -> F:
    """Add flags for the hosts, models, files and classes that the command may use."""
    for option in (
        settings_options(*PARTS, only=frozenset(reaching_settings())),
        click.option(
            "--allow",
            "allowed",
            multiple=True,
            help="Allow the command to use this host, model or file from the run's experiment file. "
            "Repeatable.",
        ),
        click.option("--api-endpoint", default="", help="URL to which the `api` predictor sends requests."),
        click.option(
            "--predictor",
            "predictors",
            multiple=True,
            help="Allow the command to import this predictor class of the run (module:Class). Repeatable.",
        ),
        click.option(
            "--questions",
            "questions_file",
            type=click.Path(path_type=Path, dir_okay=False),
            help="The question file. Needed only if the run does not store the text of its questions. "
            "Default: the copy in the run, or the question file of the workspace.",
        ),
        click.option(
            "--data-dir",
            type=click.Path(path_type=Path, file_okay=False),
            help="The run's workspace. Needed only if the run did not use the default workspace (`data`).",
        ),
    ):
        function = option(function)
    return function


def given_names(
    data_dir: Path | None,
    questions_file: Path | None,
    predictors: tuple[str, ...],
    api_endpoint: str,
    allowed: tuple[str, ...],
) -> Named:
    """Return the files, hosts, classes and settings that the user gave as flags."""
    from branchrank.library import Named

    if any(":" in name for name in predictors):
        import_from_here()
    return Named(
        data_dir=data_dir,
        questions=questions_file,
        predictors=predictors,
        api_endpoint=api_endpoint,
        settings={key: value for key, value in given_flags().items() if not key.startswith(_ENGINE)},
        engine={key: value for key, value in given_flags().items() if key.startswith(_ENGINE)},
        allowed=allowed,
    )
