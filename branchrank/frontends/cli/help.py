"""Implement ``--help`` and ``--help-all`` of a command with many flags, and fit suggested fixes to a command.

``--help`` shows the command's own flags and the settings in :data:`COMMON`. ``--help-all`` shows all flags.
The flags of settings are below the titles of their settings groups.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import click

from branchrank.core.errors import Remedy, remedy_text
from branchrank.core.settings import PARTS, settings_of

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
