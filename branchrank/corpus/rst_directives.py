"""Tables of RST directives, and functions that parse RST's explicit markup (lines that start with ``..``).

If a directive is not in this module's tables, the directive's argument and body are read as prose with inline
markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from branchrank.corpus.rst_inline import normalize_name

#: Directives whose body is code, which is kept unchanged.
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
#: Directives whose argument is a language, a path or a class name instead of visible text.
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
#: Maps each directive whose argument is a version to the words that the page shows before the version.
VERSIONS = {
    "versionadded": "New in version",
    "versionchanged": "Changed in version",
    "versionremoved": "Removed in version",
    "deprecated": "Deprecated since version",
}
#: Directive options whose value is visible on the page.
READABLE_OPTIONS = frozenset(["alt", "caption", "header", "subtitle", "synopsis", "title"])
#: Names of fields at the top of a file that configure how the page is built.
PAGE_FIELDS = frozenset(["nocomments", "no-search", "nosearch", "orphan", "tocdepth"])

#: Matches ``_name:`` in a target such as ``.. _name:``. The groups are a name in backquotes and a plain name.
TARGET = re.compile(r"_(?:`([^`]+)`|((?![ _])(?:[^:\\]|\\.)+)|_):(?:\s+|$)")
_SUBSTITUTION = re.compile(r"\|([^|]+)\|\s+([\w-]+)::\s*(.*)")
_DIRECTIVE = re.compile(r"((?:[^\W_]|[-._+:](?=[^\W_]))+) ?::(?:\s+|$)")
_FIELD = re.compile(r":([^\s:`][^:`]*):(?:\s+|$)")


def match_directive(text: str) -> tuple[str, str] | None:
    """Return the name and the argument if ``text`` starts with a directive, else ``None``.

    ``text`` is a line without the two dots at its start. The name is in lower case. The argument is the text
    after the two colons.
    """
    match = _DIRECTIVE.match(text)
    return (match[1].lower(), text[match.end() :].strip()) if match else None


def match_field(text: str) -> tuple[str, str] | None:
    """If ``text`` starts with a field, return its name and the first line of its body, else ``None``."""
    match = _FIELD.match(text)
    return (match[1], text[match.end() :]) if match else None


def match_option(line: str) -> tuple[str, str] | None:
    """If ``line`` is a directive's option, return its name and the first line of its value, else ``None``.

    An option is a field whose name is a single word.
    """
    field = match_field(line.strip())
    return field if field and " " not in field[0] else None


def base_name(name: str) -> str:
    """Return a directive's name without its domain, for example ``directive`` for ``rst:directive``."""
    return name.rpartition(":")[2]


def definitions(lines: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the texts of the ``|name| replace::`` definitions in a file, and the URIs of its named targets.

    The keys of both returned dictionaries are normalized names.
    """
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
    """Return the title and target of a toctree entry ``title <target>``, or ``None`` for other entries."""
    title, _, target = entry[:-1].rpartition("<") if entry.endswith(">") else ("", "", "")
    if not title.strip() or not target or ">" in target:
        return None
    return title.rstrip(), target.strip()
