"""Command-line flags, which are generated from the settings so that flags, TOML keys and docs agree."""

from __future__ import annotations

import contextlib
import math
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

from branchrank.core.errors import BranchRankError, RunError, UsageError
from branchrank.core.io.printable import safe_line
from branchrank.core.records import SEED
from branchrank.core.settings import (
    DEFAULT_DATA_DIR,
    DEFAULT_REPORTS,
    PARTS,
    LLMSettings,
    Setting,
    settings_of,
)
from branchrank.core.spec import FusionMethod
from branchrank.frontends.cli.terminal import safe

if TYPE_CHECKING:
    from branchrank.library import ResultsTable

F = TypeVar("F", bound=Callable[..., Any])

#: The key under which click's context stores the settings that were given as flags.
_GIVEN = "branchrank.settings"
_FLAGS = "branchrank.settings.flags"
#: The key under which click's context stores the settings that ``--fusion`` stands for.
_SHARED = "branchrank.shared_settings"
#: The key under which click's context stores the path and the tables of branchrank.toml.
_TABLES = "branchrank.tables"
FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)


class NumberRange(click.FloatRange):
    """A range of numbers. Click's own range contains NaN."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        number = super().convert(value, param, ctx)
        return self.fail(f"{value} is not a number", param, ctx) if math.isnan(number) else number


SHARE = NumberRange(0, 1)
POSITIVE_SHARE = NumberRange(0, 1, min_open=True)
OPEN_SHARE = NumberRange(0, 1, min_open=True, max_open=True)


class RunFolder(click.Path):
    """The directory of a run, given as a path, the start of a path or name, or ``latest``.

    Unless ``verified`` is false, each file that has changed since the run is a warning.
    """

    def __init__(self, status: str = "finished", *, verified: bool = True) -> None:
        super().__init__(path_type=Path, file_okay=False)
        self.status, self.verified = status, verified

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the run's directory."""
        from branchrank.runs.directory import LATEST, RUN_FOLDERS, find_run

        try:
            found = find_run(Path(str(super().convert(value, param, ctx))), self.status)
        except UsageError as error:
            self.fail(f"{error.message}; {error.remedy}", param, ctx)
        if found == Path(LATEST) and not found.exists():
            folders = " or ".join(map(str, RUN_FOLDERS))
            self.fail(f"there is no {self.status} run in {folders}", param, ctx)
        if self.verified:
            _warn_of_changes(found)
        return found

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None) -> str:
        """Return what an error about a missing run adds."""
        return f"Give a run, or 'latest' for the newest {self.status} run."


RUN = RunFolder()


def _warn_of_changes(directory: Path) -> None:
    from branchrank.runs.directory import changed_files, check_files, read_run

    with contextlib.suppress(RunError, OSError, ValueError):  # the command itself reports these
        run = read_run(directory)
        check_files(directory)
        if run.digests:
            for name, message in changed_files(directory, run):
                click.echo(
                    safe_line(f"warning: {directory / name} {message}; see branchrank verify"), err=True
                )


def flag(names: str, text: str, default: Any = None, kind: Any = None, **details: Any) -> Callable[[F], F]:
    """Return a decorator that adds a flag with the help ``text``, and its default if there is one.

    ``names`` contains the flag's names, and optionally the name of its parameter. ``kind`` is click's type.
    A flag with neither a ``kind`` nor ``details`` is a text, which is empty by default.
    """
    if default is None and kind is None and not details:
        default = ""
    if default is not None:
        details["default"] = default
    if default not in (None, "", ()):
        details.setdefault("show_default", True)
    return click.option(*names.split(), type=kind, help=text, **details)


def switch(names: str, text: str) -> Callable[[F], F]:
    """Return a decorator that adds a flag without a value."""
    return click.option(*names.split(), is_flag=True, help=text)


def together(*decorators: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return a decorator that adds several flags, which ``--help`` shows in this order."""

    def decorate(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def settings_options(*names: str) -> Callable[[F], F]:
    """Return a decorator that adds a flag for each named setting.

    A name is that of a section (``local``, for all its settings) or of one setting (``index.embedder``).
    """
    return together(*(_option(each) for name in names for each in _settings(name)))


def _settings(name: str) -> Sequence[Setting]:
    section, _, setting = name.partition(".")
    found = settings_of({part.section: part for part in PARTS}[section])
    return [{each.name: each for each in found}[setting]] if setting else found


class SettingOption(click.Option):
    """The flag of a setting. In ``--help``, its default is the value in the workspace's branchrank.toml."""

    def __init__(self, *names: Any, setting: Setting, **details: Any) -> None:
        self.setting = setting
        super().__init__(*names, **details)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the flag and its help text."""
        found, setting = super().get_help_record(ctx), self.setting
        path, tables = _config(ctx)
        own = tables.get(setting.section, {}).get(setting.name)
        if found is not None and own is not None:
            own_default = f" Default: {own} (in {safe(str(path))})."
            found = found[0], found[1].replace(f" Default: {setting.default}.", own_default)
        return found


def _config(ctx: click.Context) -> tuple[Path, Mapping[str, Any]]:
    """Return the path of the workspace's branchrank.toml and its tables, which are read once per command."""
    from branchrank.index.workspace_folder import CONFIG, read_config

    if _TABLES not in ctx.meta:
        path, tables = (ctx.params.get("data_dir") or DEFAULT_DATA_DIR) / CONFIG, {}
        with contextlib.suppress(BranchRankError):  # a command reports the errors of the file, not its help
            tables = read_config(path)[1]
        ctx.meta[_TABLES] = path, tables
    found: tuple[Path, Mapping[str, Any]] = ctx.meta[_TABLES]
    return found


def _option(setting: Setting) -> Callable[[F], F]:
    return click.option(
        f"{setting.flag}/{opposite(setting.flag)}" if setting.type is bool else setting.flag,
        cls=SettingOption,
        setting=setting,
        type=_click_type(setting),
        is_flag=setting.type is bool,
        multiple=setting.several,
        default=None,
        expose_value=False,
        help=_help(setting),
        callback=partial(_give, f"{setting.section}.{setting.name}"),
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


def _give(key: str, context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Store the value of a flag. Raise an error if another flag has already set the same setting."""
    if value is None or value == ():
        return
    given = context.meta.setdefault(_GIVEN, {})
    flags, flag_name = context.meta.setdefault(_FLAGS, {}), parameter.opts[0]
    if key in given:
        first, second = flags[key], flag_name
        raise click.UsageError(f"{first} and {second} cannot be given together: remove {first} or {second}")
    given[key], flags[key] = value, flag_name


def _share(context: click.Context, _parameter: click.Parameter, fusion: str | None) -> None:
    if fusion:
        order = "rrf" if fusion == "rrf" else "scores"
        shared = {"local.fusion": fusion, "hybrid.fusion": fusion, "hybrid.passage_order": order}
        context.meta[_SHARED] = shared


def given_flags() -> Mapping[str, Any]:
    """Return the settings that the user gave as flags of the running command, keyed by ``section.name``.

    ``--fusion`` gives three settings. The flag of one of these settings overrides it.
    """
    meta = click.get_current_context().meta
    return {**meta.get(_SHARED, {}), **meta.get(_GIVEN, {})}


def typed_command() -> str:
    """Return the running command as the user typed it, for ``run.json``."""
    return shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])


def write_latex(path: Path | None, table: ResultsTable) -> None:
    """Write the table as LaTeX to ``path``. If ``path`` is ``None``, do nothing."""
    if path is not None:
        from branchrank import library

        library.write_latex(path, table)
        click.echo(f"written: {safe(str(path))}")


JSON = switch("--json as_json", "Print one JSON object.")
QUIET = switch("--quiet", "Show no progress.")
VERBOSE = switch(
    "--verbose", "Also print each comparison, and hit rates by gold level and for half and full hits."
)
OPEN = switch("--open open_report", "Open the report in the browser.")
FRESH = switch("--fresh", "Start over instead of resuming an interrupted run.")
LATEX = flag("--latex", "Also write the table to this file as LaTeX (booktabs).", kind=FILE)
REPORTS = flag("--reports", "The folder in which the run's directory is created.", DEFAULT_REPORTS, FOLDER)
DATA_DIR = flag(
    "--data-dir",
    "The workspace, a folder with the indexes, tree, questions and caches of one corpus.",
    DEFAULT_DATA_DIR,
    FOLDER,
    is_eager=True,  # so that --help can read the workspace's settings
)
WHERE = flag(
    "--where",
    "Use only questions whose SLICE has this VALUE. SLICE is gold, kind, difficulty, overlap, content, "
    "size or depth. Repeatable.",
    metavar="SLICE=VALUE",
    multiple=True,
)
FILTER = flag(
    "--filter filters",
    "Search only documents whose KEY (file_path or source) matches VALUE (a path or glob pattern). "
    "Repeatable. A document must match every filter.",
    metavar="KEY=VALUE",
    multiple=True,
)
FUSION = click.option(
    "--fusion",
    type=click.Choice([method for method in get_args(FusionMethod) if method != "none"]),
    expose_value=False,
    callback=_share,
    help="How local and hybrid fuse their branches and order their passages: by ranks (rrf), or by scores. "
    "Short for --local-fusion, --hybrid-fusion and --hybrid-passage-order, which override this flag.",
)
#: Short for ``--baseline all-pairs``.
ALL_PAIRS = click.option(
    "--all-pairs",
    flag_value="all-pairs",
    expose_value=False,
    callback=partial(_give, "benchmark.baseline"),
    help="Compare every pair of predictors, instead of each predictor with the baseline.",
)
#: The flags of all commands that start a run.
RUNNING = together(
    REPORTS,
    flag("--name", "Name of this run in lists and in its report. It changes no result.", "", metavar="TEXT"),
    FRESH,
    switch("--dry-run", "Print the indexes to build, the queries and the estimated LLM cost, and exit."),
    flag(
        "--seal",
        "If FILE does not exist, write the plan to FILE and exit. If FILE exists, run only if the "
        "plan is equal to the plan in FILE. The report of such a run states that the plans are equal.",
        kind=FILE,
    ),
    QUIET,
    VERBOSE,
    OPEN,
    ALL_PAIRS,
)
TRUST = switch(
    "--trust",
    "Use the hosts, models, files, classes and commands that the run names. Without this flag, "
    "the command lists them and stops. API keys are sent to the hosts.",
)
PASS_ENV = flag(
    "--pass-env",
    "Name of an environment variable that an agent's command gets, such as an API key. Repeatable.",
    multiple=True,
    metavar="NAME",
)
#: The flags for a run's workspace, its questions, and the permission to use what the run names.
ACCESS = together(
    flag(
        "--data-dir",
        "The run's workspace, if it has moved. Default: the workspace that the run names.",
        kind=FOLDER,
    ),
    flag(
        "--questions",
        "The question file. Needed only if the run does not store the text of its questions. "
        "Default: the copy in the run, or the question file of the workspace.",
        kind=FILE,
    ),
    TRUST,
    PASS_ENV,
)
OUTPUT = click.argument("output", type=FILE)
#: The settings of the LLM client. Without a fallback for a failed LLM call, there is no --on-llm-failure.
_LLM = [f"llm.{each.name}" for each in settings_of(LLMSettings) if each.name != "on_failure"]
LLM_OPTIONS = together(
    flag("--model", "Model name. Not needed if the endpoint has only one model."),
    flag("--seed", "Random seed.", SEED, click.IntRange(0)),
    QUIET,
    settings_options(*_LLM, "cache"),
)
BASE_URL = "Base URL of an OpenAI-compatible endpoint."
REQUIRED_URL = flag("--base-url", BASE_URL, required=True)
#: The settings for the size of the returned passages.
RETURNS = ("benchmark.returns", "benchmark.passage_lines")
