"""Adapt the fix that an error suggests to the flags that the running command has.

Errors are raised in the library, so a fix may mention flags that the running command does not have.

1. In a list of flags in a fix (``--a or --b``), only the flags that the command has are kept.
2. If the command has none of the listed flags, the fix names the setting's key in ``branchrank.toml``
   instead.
3. If the command has the flag ``--base-url``, it runs no systems, so clauses about settings of systems are
   removed.
4. A command that is quoted in the fix (``branchrank index ...``) is not changed.
"""

from __future__ import annotations

import re

import click

from branchrank.settings import PARTS, Setting, settings_of

_FLAG = r"--[a-z][a-z0-9-]*"
_PIECES = re.compile(rf"branchrank [a-z-]+[^,;`)]*|{_FLAG}(?:(?:, | or ){_FLAG})*")
_CLAUSES = re.compile(r"(?=, or |; )")
_OWN_LLM = "--base-url"
_PLACE = "of branchrank.toml"


def remedy_for(remedy: str, command: click.Command) -> str:
    """Return the fix of an error, reduced to the flags that ``command`` has."""
    has = {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}
    settings = {setting.flag: setting for part in PARTS for setting in settings_of(part)}

    def fitted(found: re.Match[str]) -> str:
        return _fitted(found[0], has, settings)

    clauses = [_PIECES.sub(fitted, clause) for clause in _CLAUSES.split(remedy)]
    if _OWN_LLM in has:
        clauses = [clause for clause in clauses if _PLACE not in clause]
    return "".join(clauses)


def _fitted(text: str, has: set[str], settings: dict[str, Setting]) -> str:
    """Adapt a part of a fix. The part is a list of flags or a quoted command."""
    if not text.startswith("--"):
        return text
    flags = re.findall(_FLAG, text)
    known = [settings[flag] for flag in flags if flag in settings]
    kept = [flag for flag in flags if flag in has]
    # `questions generate` has --base-url where `benchmark` has --hybrid-base-url.
    kept = kept or [flag for each in known if (flag := f"--{each.name}".replace("_", "-")) in has]
    if kept:
        return " or ".join(dict.fromkeys(kept))
    places = [f"{each.name} in [{each.section}]" for each in known]
    return f"{' or '.join(places)} {_PLACE}" if places else text
