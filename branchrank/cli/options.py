"""Flags made from the settings records, so that flags, TOML keys and docs can't drift apart."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from branchrank.settings import Setting, Settings, settings_of

F = TypeVar("F", bound=Callable[..., Any])

#: Click's context key under which the flags that were given are collected.
_GIVEN = "branchrank.settings"
DEFAULT_DATA_DIR = Path("data")
DEFAULT_REPORTS = Path("reports")
DEMO_FOLDER = Path("branchrank-demo")


def settings_options(*parts: type[Settings], only: frozenset[str] | None = None) -> Callable[[F], F]:
    """Add a flag for every setting of the parts (of those named in ``only``, as ``section.name``)."""

    def decorate(function: F) -> F:
        for part in reversed(parts):
            for setting in reversed(settings_of(part)):
                if only is None or f"{setting.section}.{setting.name}" in only:
                    function = _option(setting)(function)
        return function

    return decorate


def _option(setting: Setting) -> Callable[[F], F]:
    return click.option(
        f"{setting.flag}/{opposite(setting.flag)}" if setting.type is bool else setting.flag,
        type=_click_type(setting),
        is_flag=setting.type is bool,
        multiple=setting.several,
        default=None,
        expose_value=False,
        help=_help(setting),
        callback=_collect(setting),
    )


def opposite(flag: str) -> str:
    """The flag that switches off what ``flag`` switches on: ``--hybrid-llm`` for ``--hybrid-no-llm``."""
    return flag.replace("-no-", "-", 1) if "-no-" in flag else flag.replace("--", "--no-", 1)


def _click_type(setting: Setting) -> Any:
    if setting.choices:
        return click.Choice(setting.choices)
    if setting.type is bool:
        return None
    return setting.type if setting.type in (int, float) else str


def _help(setting: Setting) -> str:
    default = "" if setting.default in ("", False, None) else f" Default {setting.default}."
    allowed = "" if setting.low is None else f" {setting.allowed[:1].upper()}{setting.allowed[1:]}."
    text = setting.description[:1].upper() + setting.description[1:]
    return f"{text}.{default}{allowed}{' Repeatable.' if setting.several else ''}"


def _collect(setting: Setting) -> Callable[[click.Context, click.Parameter, Any], Any]:
    def callback(context: click.Context, _parameter: click.Parameter, value: Any) -> Any:
        if value is not None and value != ():
            _give(context, f"{setting.section}.{setting.name}", value)
        return value

    return callback


def _give(context: click.Context, key: str, value: Any) -> None:
    """Store the value of a flag; of two flags for one setting, only one can be given."""
    given = context.meta.setdefault(_GIVEN, {})
    if key in given:
        raise click.UsageError(
            "--all-pairs compares every pair of predictors, so no --baseline can be named with it: "
            "leave out one of the two"
        )
    given[key] = value


def all_pairs_option(function: F) -> F:
    """Add ``--all-pairs``, short for ``--baseline all-pairs``."""

    def callback(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
        if value:
            _give(context, "benchmark.baseline", "all-pairs")

    return click.option(
        "--all-pairs",
        is_flag=True,
        expose_value=False,
        callback=callback,
        help="Compare every pair of predictors, not only each with the baseline.",
    )(function)


def given_flags() -> Mapping[str, Any]:
    """The settings that the running command's flags gave, by ``section.name``."""
    given: Mapping[str, Any] = click.get_current_context().meta.get(_GIVEN, {})
    return given


def data_dir_option(function: F) -> F:
    """Add ``--data-dir``."""
    return click.option(
        "--data-dir",
        type=click.Path(path_type=Path, file_okay=False),
        default=DEFAULT_DATA_DIR,
        show_default=True,
        help="The workspace: indexes, tree, questions and caches of one corpus.",
    )(function)


def filter_option(function: F) -> F:
    """Add ``--filter``."""
    return click.option(
        "--filter",
        "filters",
        multiple=True,
        metavar="KEY=VALUE",
        help="Search only documents whose file_path (or source) is VALUE or matches it as a glob. "
        "Repeatable: a document must pass every filter.",
    )(function)


def typed_command() -> str:
    """Return the running command as it was typed, for ``run.json``."""
    return shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])


QUIET = click.option("--quiet", is_flag=True, help="No progress.")
FRESH = click.option("--fresh", is_flag=True, help="Start over where an interrupted run of this plan exists.")
REPORTS = click.option(
    "--reports",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("reports"),
    show_default=True,
    help="Where the run's directory is made.",
)


def running_options(function: F) -> F:
    """The flags of the commands that start a run."""
    for option in (
        all_pairs_option,
        QUIET,
        click.option(
            "--seal",
            type=click.Path(path_type=Path, dir_okay=False),
            help="If FILE does not exist: write the plan to it and stop. If it exists: refuse any other "
            "plan, and say in the report that the run matches it.",
        ),
        click.option(
            "--dry-run", is_flag=True, help="Print the plan and its estimated LLM cost; run nothing."
        ),
        FRESH,
        REPORTS,
    ):
        function = option(function)
    return function
