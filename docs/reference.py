"""Write ``commands.md`` and ``settings.md`` from the commands and the settings records.

Run ``python docs/reference.py`` after you change a command or a setting. A test checks that the pages are
up to date.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from textwrap import fill

import click

from branchrank.cli.main import main
from branchrank.settings import PARTS, Setting, Settings, settings_of

DOCS = Path(__file__).parent
#: Command name -> the script for this command in the top folder of a clone.
DOORS = {
    "retrieve": "retrieve.py",
    "hybrid": "hybrid_retrieve.py",
    "benchmark": "benchmark_run.py",
    "pageindex": "pageindex_common.py",
}

COMMANDS_HEAD = """\
# Commands

This page lists every command of `branchrank` with its arguments and flags. `branchrank COMMAND --help`
prints the same text. If a command has many flags, `--help` prints only the most common, and `--help-all`
prints all. A clone contains scripts that run four of these commands: `retrieve.py` for
`branchrank retrieve`, `hybrid_retrieve.py` for `branchrank hybrid`, `benchmark_run.py` for
`branchrank benchmark`, and `pageindex_common.py` for `branchrank pageindex`.

[Settings](settings.md) describes the flags that change settings, with their defaults and ranges. Each
command below links to the groups of settings whose flags it accepts.

`python docs/reference.py` generates this page.
"""

SETTINGS_HEAD = """\
# Settings

This page lists every setting with its flag, default, allowed values and meaning, in one table per part.
`branchrank settings` prints the settings with their values in a workspace and the origin of each value.

## Origins of a value

A setting can be set at four levels. A later level overrides the earlier levels:

1. the default;
2. the workspace's `branchrank.toml`: `rrf_k = 20` below `[local]`;
3. the environment: `BRANCHRANK_LOCAL_RRF_K=20`;
4. the flag: `--local-rrf-k 20`.

The environment variable of a setting is named `BRANCHRANK_<PART>_<SETTING>`, in capitals. The value of a
boolean setting is `true`, `false`, `yes`, `no`, `1` or `0`.

A value of the wrong type or outside its range is an error, and all wrong values are reported together.
`run.json` records every value of a run with its origin.

`python docs/reference.py` generates this page.
"""


def commands_page() -> str:
    """Return the text of ``commands.md``."""
    context = click.Context(main, info_name="branchrank")
    sections = [section for name in main.list_commands(context) for section in _command(name, context)]
    return "\n".join([COMMANDS_HEAD, *sections])


def settings_page() -> str:
    """Return the text of ``settings.md``."""
    return "\n".join([SETTINGS_HEAD, *(_part(part) for part in PARTS)])


def _command(name: str, context: click.Context) -> Iterator[str]:
    """Yield the section about a top-level command, then a section about each of its subcommands."""
    assert isinstance(context.command, click.Group)
    command = context.command.get_command(context, name)
    assert command is not None
    own = click.Context(command, info_name=name, parent=context)
    yield _described(command, own, level=2)
    if isinstance(command, click.Group):
        for below in command.list_commands(own):
            found = command.get_command(own, below)
            assert found is not None
            yield _described(found, click.Context(found, info_name=below, parent=own), level=3)


def _described(command: click.Command, context: click.Context, level: int) -> str:
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [f"{'#' * level} {context.command_path}", "", _wrapped(command.help or ""), ""]
    if not isinstance(command, click.Group):
        lines += ["```text", f"{context.command_path} {usage}", "```", ""]
    door = DOORS.get(context.command_path.removeprefix("branchrank "))
    if door:
        lines += [f"In a clone, you can also run `python {door}`.", ""]
    own = [option for option in _options(command) if not _sets_a_setting(option)]
    if own:
        lines += ["| flag | default | meaning |", "| --- | --- | --- |", *map(_row, own), ""]
    parts = _parts_taken(command)
    if parts:
        sections = " and ".join(part for part in (", ".join(parts[:-1]), parts[-1]) if part)
        lines += [_wrapped(f"`{context.command_path}` also accepts the flags of {sections}."), ""]
    return "\n".join(lines)


def _options(command: click.Command) -> list[click.Option]:
    return [param for param in command.params if isinstance(param, click.Option) and not param.hidden]


def _sets_a_setting(option: click.Option) -> bool:
    """Return whether an option only changes a setting, and is not passed to the command's function."""
    return not option.expose_value and any(flag in option.opts for flag in _sections_by_flag())


def _sections_by_flag() -> dict[str, str]:
    return {setting.flag: part.section for part in PARTS for setting in settings_of(part)}


def _parts_taken(command: click.Command) -> list[str]:
    sections = _sections_by_flag()
    taken = [
        sections[flag]
        for option in _options(command)
        if _sets_a_setting(option)
        for flag in option.opts
        if flag in sections
    ]
    return [f"[`[{section}]`](settings.md#{section})" for section in dict.fromkeys(taken)]


def _row(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    kind = "" if option.is_flag else f" {option.make_metavar(click.Context(click.Command('x'))).lower()}"
    repeated = option.default if isinstance(option.default, tuple) else (option.default,)
    shown = ", ".join(str(value) for value in repeated if value not in (None, "", False))
    if option.is_flag:
        shown = ("on" if option.default else "off") if option.secondary_opts else ""
    elif shown.startswith("Sentinel"):
        shown = ""
    return f"| {names}{_cell(kind)} | {_cell(shown)} | {_cell(_text(option.help or ''))} |"


def _part(part: type[Settings]) -> str:
    lines = [
        f"## {part.section}",
        "",
        _wrapped(f"`[{part.section}]`: {part.__doc__}"),
        "",
        "| setting | flag | default | allowed | meaning |",
        "| --- | --- | --- | --- | --- |",
        *(_setting(setting) for setting in settings_of(part)),
        "",
    ]
    return "\n".join(lines)


def _setting(setting: Setting) -> str:
    default = str(setting.default).lower() if isinstance(setting.default, bool) else str(setting.default)
    default = "unset" if setting.default is None else f"`{default}`" if default else "empty"
    return (
        f"| `{setting.name}` | `{setting.flag}` | {default} | {_cell(setting.allowed)} | "
        f"{_cell(setting.description)} |"
    )


def _text(text: str) -> str:
    r"""Return help text as Markdown, with one line per paragraph, single backticks and without ``\b``."""
    paragraphs = text.replace("\b\n", "").replace("``", "`").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _wrapped(text: str) -> str:
    paragraphs = _text(text).split("\n\n")
    return "\n\n".join(fill(part, 106, break_long_words=False, break_on_hyphens=False) for part in paragraphs)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    (DOCS / "commands.md").write_text(commands_page(), encoding="utf-8")
    (DOCS / "settings.md").write_text(settings_page(), encoding="utf-8")
