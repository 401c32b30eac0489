"""Implement ``--help``, which shows a command's common flags, and ``--help-all``, which shows all its flags.

1. For a command in :data:`COMMON`, ``--help`` shows only the headings and flags that :data:`COMMON` lists.
2. ``--help-all`` also shows the remaining flags, under the titles of their settings groups. Flags without a
   settings group are listed under "Other".
3. For a command that is not in :data:`COMMON`, ``--help`` shows all flags in one list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import click

from branchrank.settings import PARTS, settings_of

#: Maps each heading in a command's ``--help`` to the flags below the heading.
Headings = Mapping[str, Sequence[str]]

_HYBRID_LLM = ("--hybrid-base-url", "--hybrid-model", "--hybrid-no-llm")
_PAGEINDEX_LLM = ("--pageindex-base-url", "--pageindex-model", "--pageindex-no-llm")
_STATISTICS = ("--mode", "--primary", "--measure", "--baseline", "--all-pairs", "--delta")
_SAMPLE = ("--sample-size", "--sample-seed")

#: Maps each command to the headings and flags in the command's ``--help``.
COMMON: dict[str, Headings] = {
    "benchmark": {
        "Questions and sample": ("--questions", "--split", "--sample-size"),
        "Workspace and predictors": ("--data-dir", "--predictor", "--embedder", "--top-k", "--filter"),
        "LLM (off unless you give an endpoint)": (*_HYBRID_LLM, *_PAGEINDEX_LLM, "--max-calls"),
        "Statistics": (*_STATISTICS, "--latency-sample"),
        "Output": ("--reports", "--fresh", "--dry-run", "--quiet"),
    },
    "run": {
        "Sample": _SAMPLE,
        "Statistics": (*_STATISTICS, "--latency-sample"),
        "LLM": ("--max-calls", "--max-tokens", "--llm-record", "--llm-replay"),
        "Output": ("--reports", "--fresh", "--dry-run", "--jobs", "--quiet"),
    },
    "beir run": {
        "Queries and sample": ("--split", "--remove-query", *_SAMPLE),
        "Workspace and predictors": ("--data-dir", "--predictor", "--embedder", "--vector-store", "--top-k"),
        "Statistics": ("--measure", "--baseline", "--all-pairs", "--delta", "--alpha"),
        "Output": ("--latex", "--reports", "--fresh", "--jobs", "--quiet"),
    },
    "questions label": {
        "Labels": ("--output", "--annotator", "--depth", "--seed", "--data-dir", "--questions"),
        "LLM (off unless you give an endpoint)": (
            "--base-url",
            "--model",
            "--accept-proposals",
            "--max-calls",
        ),
        "Output": ("--quiet",),
    },
    "retrieve": {
        "Search": ("--data-dir", "--predictor", "--top-k", "--filter", "--return", "--embedder"),
        "Tuning": ("--local-vector-top-n", "--local-bm25-top-n", "--local-rrf-k", "--grep-ranking"),
        "Output": ("--json", "--quiet"),
    },
    "hybrid": {
        "Search": ("--data-dir", "--top-k", "--filter", "--return", "--embedder"),
        "LLM (off unless you give an endpoint)": ("--hybrid-base-url", "--hybrid-model", "--no-llm"),
        "Tuning": (
            "--hybrid-vector-top-n",
            "--hybrid-bm25-top-n",
            "--hybrid-candidate-cap",
            "--hybrid-neighbor-depth",
            "--hybrid-reranker",
        ),
        "Output": ("--json", "--quiet"),
    },
    "serve": {
        "Workspace and predictors": ("--data-dir", "--predictor", "--embedder", "--return"),
        "Address and access": ("--host", "--port", "--token-file", "--allowed-host", "--allowed-origin"),
        "Load": ("--threads", "--queue"),
        "LLM (off unless you give an endpoint)": (*_HYBRID_LLM, *_PAGEINDEX_LLM),
        "Output": ("--quiet",),
    },
    "tui": {
        "Search": ("--data-dir", "--mode", "--embedder", "--grep-ranking", "--grep-context-lines"),
        "LLM (off unless you give an endpoint)": _HYBRID_LLM,
        "Output": ("--quiet",),
    },
}
HELP_ALL = "--help-all"
_EVERYTHING = "branchrank.help_all"


def entry_name(command: click.Command) -> str:
    """Return the key of a command in :data:`COMMON`, such as ``run``, or ``beir run`` for a subcommand."""
    return str(getattr(command, "help_name", "") or command.name)


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
    """Write a command's flags, grouped under the headings that :data:`COMMON` lists for the command."""
    everything = bool(context.meta.get(_EVERYTHING))
    for heading, options in grouped(command, context, everything=everything):
        with formatter.section(heading):
            formatter.write_dl([record for each in options if (record := each.get_help_record(context))])


def grouped(
    command: click.Command, context: click.Context, *, everything: bool
) -> Iterator[tuple[str, list[click.Parameter]]]:
    """Yield each heading with its flags.

    Flags that :data:`COMMON` does not list for the command are included only if ``everything`` is true.
    """
    by_flag = {flag: option for option in command.get_params(context) for flag in option.opts}
    last = {HELP_ALL, *command.get_help_option_names(context)}
    shown = set(last)
    for heading, flags in COMMON[entry_name(command)].items():
        yield heading, [by_flag[flag] for flag in flags]
        shown |= {name for flag in flags for name in by_flag[flag].opts}
    if everything:
        for heading, flags in _others(by_flag, shown).items():
            yield heading, [by_flag[flag] for flag in flags]
    yield "Help", list(dict.fromkeys(by_flag[flag] for flag in by_flag if flag in last))


def _others(by_flag: Mapping[str, click.Parameter], shown: set[str]) -> dict[str, list[str]]:
    """Return the flags that are not in ``shown``, keyed by the title of their settings group."""
    titles = {setting.flag: part.title for part in PARTS for setting in settings_of(part)}
    found: dict[str, list[str]] = {}
    for flag, option in by_flag.items():
        if flag not in shown and isinstance(option, click.Option) and not option.hidden:
            found.setdefault(titles.get(flag, "Other"), []).append(flag)
    return found


_FLAG = r"--[a-z][a-z0-9-]*"
_PIECES = re.compile(rf"branchrank [a-z-]+[^,;`)]*|{_FLAG}(?:(?:, | or ){_FLAG})*")
_CLAUSES = re.compile(r"(?=, or |; )")
_OWN_LLM = "--base-url"
_PLACE = "of branchrank.toml"


def remedy_for(remedy: str, command: click.Command) -> str:
    """Return the fix for an error. The returned fix mentions only flags that ``command`` has.

    If the command has none of the flags in a list, the list is replaced with the keys of the flags' settings
    in ``branchrank.toml``.
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
        return (
            f"{' or '.join(f'{each.name} in [{each.section}]' for each in known)} {_PLACE}" if known else text
        )

    clauses = [_PIECES.sub(fitted, clause) for clause in _CLAUSES.split(remedy)]
    return "".join(clause for clause in clauses if _OWN_LLM not in has or _PLACE not in clause)
