"""RST's explicit markup: how to read the argument and body of each known directive, and definitions.

A directive that is not listed here is read like the text around it: its argument and its body are prose
with inline markup, and bodies can be nested.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from branchrank.corpus.rst_inline import normalize_name

#: Directives whose body is code, kept word for word.
VERBATIM = frozenset(
    [
        "code",
        "code-block",
        "code-cell",
        "code-tab",
        "console",
        "digraph",
        "doctest",
        "graph",
        "graphviz",
        "ipython",
        "jinja",
        "math",
        "mermaid",
        "parsed-literal",
        "plantuml",
        "productionlist",
        "prompt",
        "raw",
        "shell",
        "snippet",
        "sourcecode",
        "terminal",
        "testcleanup",
        "testcode",
        "testoutput",
        "testsetup",
        "uml",
    ]
)
#: Directives whose argument and body are not visible on the page.
SILENT = frozenset(
    [
        "currentmodule",
        "default-domain",
        "default-role",
        "highlight",
        "include",
        "index",
        "literalinclude",
        "meta",
        "role",
        "sectnum",
        "tabularcolumns",
        "toctree",
    ]
)
#: Directives whose argument is not visible text: a language, a path or a class name.
SILENT_ARGUMENT = frozenset(
    [
        "code",
        "code-block",
        "code-cell",
        "code-tab",
        "container",
        "cssclass",
        "figure",
        "highlight",
        "ifconfig",
        "image",
        "ipython",
        "only",
        "prompt",
        "raw",
        "rst-class",
        "snippet",
        "sourcecode",
    ]
)
#: Directives whose argument begins with a version, and the words that the page shows before it.
VERSIONS = {
    "versionadded": "New in version",
    "versionchanged": "Changed in version",
    "versionremoved": "Removed in version",
    "deprecated": "Deprecated since version",
}
#: Options whose value is shown on the page.
READABLE_OPTIONS = frozenset(["alt", "caption", "header", "subtitle", "synopsis", "title"])
#: Names of fields at the top of a file that configure how the page is built.
PAGE_FIELDS = frozenset(["nocomments", "no-search", "nosearch", "orphan", "tocdepth"])

#: ``_name: uri`` after ``.. ``; groups: quoted name, plain name.
TARGET = re.compile(r"_(?:`([^`]+)`|((?![ _])(?:[^:\\]|\\.)+)|_):(?:\s+|$)")
_SUBSTITUTION = re.compile(r"\|([^|]+)\|\s+([\w-]+)::\s*(.*)")
_DIRECTIVE = re.compile(r"((?:[^\W_]|[-._+:](?=[^\W_]))+) ?::(?:\s+|$)")
_FIELD = re.compile(r":([^\s:`][^:`]*):(?:\s+|$)")


def match_directive(text: str) -> tuple[str, str] | None:
    """Name (in lower case) and first argument line if ``.. text`` starts a directive, else ``None``."""
    match = _DIRECTIVE.match(text)
    return (match[1].lower(), text[match.end() :].strip()) if match else None


def match_field(text: str) -> tuple[str, str] | None:
    """Name and first body line if the text starts with a field, else ``None``."""
    match = _FIELD.match(text)
    return (match[1], text[match.end() :]) if match else None


def match_option(line: str) -> tuple[str, str] | None:
    """Name and first value line if the line is a directive's option (a field with a one-word name)."""
    field = match_field(line.strip())
    return field if field and " " not in field[0] else None


def base_name(name: str) -> str:
    """The name without its domain: ``rst:directive`` is ``directive``."""
    return name.rpartition(":")[2]


def definitions(lines: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """The texts of a file's ``|name| replace::`` definitions and the URIs of its named targets, by name."""
    substitutions: dict[str, str] = {}
    targets: dict[str, str] = {}
    for content in _explicit_contents(lines):
        if content.startswith("|"):
            match = _SUBSTITUTION.match(content)
            if match and match[2] == "replace":
                substitutions[normalize_name(match[1])] = match[3]
        elif content.startswith("_") and (match := TARGET.match(content)):
            name, uri = match[1] or match[2], content[match.end() :].strip()
            if name and uri:
                targets[normalize_name(name.replace("\\", ""))] = uri
    return substitutions, targets


def _explicit_contents(lines: list[str]) -> Iterator[str]:
    for line in lines:
        stripped = line.lstrip()
        if stripped.startswith((".. _", ".. |")):
            yield stripped[3:].strip()


def split_entry(entry: str) -> tuple[str, str] | None:
    """Title and target of the toctree entry ``title <target>``; ``None`` for any other entry."""
    title, _, target = entry[:-1].rpartition("<") if entry.endswith(">") else ("", "", "")
    if not title.strip() or not target or ">" in target:
        return None
    return title.rstrip(), target.strip()
