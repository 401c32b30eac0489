"""Command-line flags, which are generated from the settings so that flags, TOML keys and docs agree."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from branchrank.cli.terminal import safe
from branchrank.settings import Setting, Settings, settings_of

if TYPE_CHECKING:
    from branchrank.library import ResultsTable

F = TypeVar("F", bound=Callable[..., Any])

#: The key under which click's context stores the settings that were given as flags.
_GIVEN = "branchrank.settings"
DEFAULT_DATA_DIR = Path("data")
DEFAULT_REPORTS = Path("reports")
DEMO_FOLDER = Path("branchrank-demo")
FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
QUIET = click.option("--quiet", is_flag=True, help="Show no progress.")
WHERE = click.option(
    "--where",
    metavar="SLICE=VALUE",
    multiple=True,
    help="Use only questions whose SLICE has this VALUE. SLICE is gold, kind, difficulty, overlap, content, "
    "size or depth. Repeatable.",
)


def settings_options(*parts: type[Settings], only: frozenset[str] | None = None) -> Callable[[F], F]:
    """Return a decorator that adds a flag for each setting in ``parts``.

    If ``only`` is given, only the settings with these names (``section.name``) get a flag.
    """

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
    """Return the flag with the opposite effect, such as ``--hybrid-llm`` for ``--hybrid-no-llm``."""
    return flag.replace("-no-", "-", 1) if "-no-" in flag else flag.replace("--", "--no-", 1)


def _click_type(setting: Setting) -> Any:
    if setting.choices:
        return click.Choice(setting.choices)
    if setting.type is bool:
        return None
    return setting.type if setting.type in (int, float) else str


def _help(setting: Setting) -> str:
    default = "" if setting.default in ("", False, None) else f" Default: {setting.default}."
    if setting.low is None:
        allowed = ""
    elif setting.high is None:
        allowed = f" {setting.allowed[:1].upper()}{setting.allowed[1:]}."
    else:
        allowed = f" Range: {setting.allowed}."
    text = setting.description[:1].upper() + setting.description[1:]
    return f"{text}.{default}{allowed}{' Repeatable.' if setting.several else ''}"


def _collect(setting: Setting) -> Callable[[click.Context, click.Parameter, Any], Any]:
    def callback(context: click.Context, _parameter: click.Parameter, value: Any) -> Any:
        if value is not None and value != ():
            _give(context, f"{setting.section}.{setting.name}", value)
        return value

    return callback


def _give(context: click.Context, key: str, value: Any) -> None:
    """Store the value of a flag. Raise an error if another flag has already set the same setting."""
    given = context.meta.setdefault(_GIVEN, {})
    if key in given:
        raise click.UsageError(
            "--baseline and --all-pairs cannot be given together: remove --baseline or --all-pairs"
        )
    given[key] = value


def all_pairs_option(function: F) -> F:
    """Add the ``--all-pairs`` flag, short for ``--baseline all-pairs``, to a command."""

    def callback(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
        if value:
            _give(context, "benchmark.baseline", "all-pairs")

    return click.option(
        "--all-pairs",
        is_flag=True,
        expose_value=False,
        callback=callback,
        help="Compare every pair of predictors, instead of each predictor with the baseline.",
    )(function)


def given_flags() -> Mapping[str, Any]:
    """Return the settings that the user gave as flags of the running command, keyed by ``section.name``."""
    given: Mapping[str, Any] = click.get_current_context().meta.get(_GIVEN, {})
    return given


def data_dir_option(function: F) -> F:
    """Add the ``--data-dir`` flag to a command."""
    return click.option(
        "--data-dir",
        type=FOLDER,
        default=DEFAULT_DATA_DIR,
        show_default=True,
        help="The workspace, a folder with the indexes, tree, questions and caches of one corpus.",
    )(function)


def filter_option(function: F) -> F:
    """Add the ``--filter`` flag to a command."""
    return click.option(
        "--filter",
        "filters",
        multiple=True,
        metavar="KEY=VALUE",
        help="Search only documents whose KEY (file_path or source) matches VALUE (a path or glob pattern). "
        "Repeatable. A document must match every filter.",
    )(function)


def typed_command() -> str:
    """Return the running command as the user typed it, for ``run.json``."""
    return shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])


FRESH = click.option("--fresh", is_flag=True, help="Start over instead of resuming an interrupted run.")
REPORTS = click.option(
    "--reports",
    type=FOLDER,
    default=Path("reports"),
    show_default=True,
    help="The folder in which the run's directory is created.",
)


def running_options(function: F) -> F:
    """Add the flags that are shared by all commands that start a run."""
    for option in (
        all_pairs_option,
        QUIET,
        click.option(
            "--seal",
            type=FILE,
            help="If FILE does not exist, write the plan to FILE and exit. If FILE exists, run only if the "
            "plan is equal to the plan in FILE. The report of such a run states that the plans are equal.",
        ),
        click.option(
            "--dry-run",
            is_flag=True,
            help="Print the number of queries and the estimated LLM cost, and exit.",
        ),
        FRESH,
        REPORTS,
    ):
        function = option(function)
    return function


def latex_option(function: F) -> F:
    """Add the ``--latex`` flag to a command."""
    return click.option("--latex", type=FILE, help="Also write the table to this file as LaTeX (booktabs).")(
        function
    )


def write_latex(path: Path | None, table: ResultsTable) -> None:
    """Write the table as LaTeX to ``path``. If ``path`` is ``None``, do nothing."""
    if path is not None:
        from branchrank import library

        library.write_latex(path, table)
        click.echo(f"written: {safe(str(path))}")


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
            type=FILE,
            help="The question file. Needed only if the run does not store the text of its questions. "
            "Default: the copy in the run, or the question file of the workspace.",
        ),
        click.option(
            "--data-dir",
            type=FOLDER,
            help="The run's workspace, if it has moved. Default: the workspace that the run names.",
        ),
    ):
        function = option(function)
    return function
