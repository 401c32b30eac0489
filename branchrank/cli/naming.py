"""Flags of ``resume`` and ``verify`` that name what a run uses outside its directory."""

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
    """Add the flags; :func:`given_names` takes the values of all but the settings."""
    for option in (
        settings_options(*PARTS, only=frozenset(reaching_settings())),
        click.option(
            "--allow",
            "allowed",
            multiple=True,
            help="A host, model or file that a system or an index of the run's experiment file names. "
            "Repeatable.",
        ),
        click.option("--api-endpoint", default="", help="The URL of the run's predictor api."),
        click.option(
            "--predictor", "predictors", multiple=True, help="A class module:Class of the run. Repeatable."
        ),
        click.option(
            "--questions",
            "questions_file",
            type=click.Path(path_type=Path, dir_okay=False),
            help="The question file, if the run does not store the wording. Default: the run's copy or the "
            "workspace's.",
        ),
        click.option(
            "--data-dir",
            type=click.Path(path_type=Path, file_okay=False),
            help="The workspace of the run. Default: data, if the run was made there.",
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
    """Return what the flags of the running command name."""
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
