"""Explicit markup: what a directive's argument and body are, as far as its name says so; definitions.

A directive that is named nowhere here is read like the text around it: its argument and its body are
prose with inline markup, and bodies nest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from branchrank.corpus.rst_inline import normalize_name

#: The body is code, word for word.
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
#: Neither argument nor body is text that a reader of the page sees.
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
#: The argument is a language, a path or a class name.
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
#: Directives whose argument begins with a version, and what it means.
VERSIONS = {
    "versionadded": "New in version",
    "versionchanged": "Changed in version",
    "versionremoved": "Removed in version",
    "deprecated": "Deprecated since version",
}
#: Options whose value is shown on the page.
READABLE_OPTIONS = frozenset(["alt", "caption", "header", "subtitle", "synopsis", "title"])
#: Field names at the top of a file that steer the build of the page.
PAGE_FIELDS = frozenset(["nocomments", "no-search", "nosearch", "orphan", "tocdepth"])

#: ``_name: uri`` behind ``.. ``; groups: quoted name, plain name.
TARGET = re.compile(r"_(?:`([^`]+)`|((?![ _])(?:[^:\\]|\\.)+)|_):(?:\s+|$)")
_SUBSTITUTION = re.compile(r"\|([^|]+)\|\s+([\w-]+)::\s*(.*)")
_DIRECTIVE = re.compile(r"((?:[^\W_]|[-._+:](?=[^\W_]))+) ?::(?:\s+|$)")
_FIELD = re.compile(r":([^\s:`][^:`]*):(?:\s+|$)")


def match_directive(text: str) -> tuple[str, str] | None:
    """Name (in lower case) and first argument line of the directive that ``.. text`` begins."""
    match = _DIRECTIVE.match(text)
    return (match[1].lower(), text[match.end() :].strip()) if match else None


def match_field(text: str) -> tuple[str, str] | None:
    """Name and first body line of the field that the text begins with."""
    match = _FIELD.match(text)
    return (match[1], text[match.end() :]) if match else None


def match_option(line: str) -> tuple[str, str] | None:
    """Name and first value line of a directive's option, which is a field of one word."""
    field = match_field(line.strip())
    return field if field and " " not in field[0] else None


def base_name(name: str) -> str:
    """The name without its domain: ``rst:directive`` is ``directive``."""
    return name.rpartition(":")[2]


def definitions(lines: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Text of the ``|name| replace::`` definitions and URIs of the named targets of a file."""
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
