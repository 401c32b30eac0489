"""Implement ``--help`` and ``--help-all`` of a command with many flags, and fit suggested fixes to a command.

``--help`` shows the command's own flags and the settings in :data:`COMMON`. ``--help-all`` shows all flags.
The flags of settings are below the titles of their settings groups.
"""

from __future__ import annotations

import re

import click

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


_FLAG = r"--[a-z][a-z0-9-]*"
_PIECES = re.compile(rf"branchrank [a-z-]+[^,;`)]*|{_FLAG}(?:(?:, | or ){_FLAG})*")
_VALUED = re.compile(rf"({_FLAG})(?: ([a-z]\w*))?")
_CLAUSES = re.compile(r"(?=, or |; )")
_OWN_LLM = "--base-url"
_PLACE = "of branchrank.toml"


def remedy_for(remedy: str, command: click.Command) -> str:
    """Return the fix for an error. The returned fix mentions only flags that ``command`` has.

    If the command has none of the flags in a list, the list is replaced with the keys of the flags' settings
    in ``branchrank.toml``. An alternative with a flag or a value that the command lacks is left out.
    """
    has = {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}
    settings = {setting.flag: setting for part in PARTS for setting in settings_of(part)}

    def fitted(found: re.Match[str]) -> str:
        text = found[0]
        flags = re.findall(_FLAG, text) if text.startswith("--") else []
        known = [settings[flag] for flag in flags if flag in settings]
        # `questions generate` has --base-url where `benchmark` has --hybrid-base-url.
        own = [f"--{each.name}".replace("_", "-") for each in known]
        if kept := [flag for flag in flags if flag in has] or [flag for flag in own if flag in has]:
            return " or ".join(dict.fromkeys(kept))
        if flags == ["--questions"] and "experiment" in has:
            return "`questions` in the experiment"
        return (
            f"{' or '.join(f'{each.name} in [{each.section}]' for each in known)} {_PLACE}" if known else text
        )

    choices = {setting.flag: setting.choices for setting in settings.values()} | {
        flag: tuple(getattr(option.type, "choices", ())) for option in command.params for flag in option.opts
    }

    def works(clause: str) -> bool:
        named = () if "branchrank " in clause else _VALUED.findall(clause)
        return all(
            flag in choices and (not value or value in (choices[flag] or value)) for flag, value in named
        )

    first, *others = _CLAUSES.split(remedy)
    clauses = [_PIECES.sub(fitted, clause) for clause in (first, *filter(works, others))]
    return "".join(clause for clause in clauses if _OWN_LLM not in has or _PLACE not in clause)
