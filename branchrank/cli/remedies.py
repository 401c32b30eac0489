"""Change the fix in an error message, so that the fix mentions only flags of the running command.

Errors are raised in the library, so a suggested fix may mention flags that the running command does not have.

1. If a fix lists several flags (``--a or --b``), only the flags that the command has are kept.
2. If the command has none of the listed flags, the flags are replaced with the setting's key in
   ``branchrank.toml``.
3. Commands with the ``--base-url`` flag do not run systems. If such a command fails, the fix does not mention
   settings in ``branchrank.toml``.
4. A command that is quoted in a fix (``branchrank index ...``) is not changed.
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
    """Return the fix for an error. The returned fix mentions only flags that ``command`` has."""
    has = {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}
    settings = {setting.flag: setting for part in PARTS for setting in settings_of(part)}

    def fitted(found: re.Match[str]) -> str:
        return _fitted(found[0], has, settings)

    clauses = [_PIECES.sub(fitted, clause) for clause in _CLAUSES.split(remedy)]
    if _OWN_LLM in has:
        clauses = [clause for clause in clauses if _PLACE not in clause]
    return "".join(clauses)


def _fitted(text: str, has: set[str], settings: dict[str, Setting]) -> str:
    """Remove from a list of flags all flags that the command does not have.

    ``has`` contains the flags of the command. If no flag is left, return the keys of the flags' settings in
    ``branchrank.toml``.
    """
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
