"""Find the definitions in source code with tree-sitter, as a program that parses one file after another.

tree-sitter's recovery from errors takes quadratic time or more on some input, such as thousands of nested
parentheses, and nothing inside the process can interrupt it. The reader therefore starts this program as a
child process (:mod:`branchrank.documents.source_code`), and the operating system ends the process when one
file has taken too much CPU time or memory.

1. Functions, methods, classes and types are definitions, however deep they are nested. The decorators,
   attributes and comments directly above a definition belong to it.
2. Each line of code belongs to the innermost definition around it, or to the module. Code after a nested
   definition therefore starts a section of its own, on the level of that definition.
3. A definition that does not start its line belongs to the section that owns the line, and so does the
   second of two definitions that start on one line.
4. Comments outside functions, and docstrings, are prose.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import re
import resource
import signal
import sys
from functools import cache
from typing import Any

#: The grammar of each suffix: the module, and the function in it that returns the language.
GRAMMARS = {
    ".py": ("tree_sitter_python", "language"),
    ".pyi": ("tree_sitter_python", "language"),
    **dict.fromkeys((".js", ".jsx", ".mjs", ".cjs"), ("tree_sitter_javascript", "language")),
    **dict.fromkeys((".ts", ".mts", ".cts"), ("tree_sitter_typescript", "language_typescript")),
    ".tsx": ("tree_sitter_typescript", "language_tsx"),
    ".go": ("tree_sitter_go", "language"),
    ".rs": ("tree_sitter_rust", "language"),
    ".java": ("tree_sitter_java", "language"),
    **dict.fromkeys((".c", ".h"), ("tree_sitter_c", "language")),
    **dict.fromkeys((".cpp", ".cc", ".cxx", ".hpp", ".hh", ".hxx"), ("tree_sitter_cpp", "language")),
}
#: A line that only a C++ header contains.
_CPP = re.compile(rb"(?m)^\s*(?:class|namespace|template|using|public|private|protected)\b")

#: The types of nodes that are definitions, in all languages.
_DEFINITIONS = frozenset(
    re.findall(
        r"\w+",
        "abstract_class_declaration annotation_type_declaration class_declaration class_definition "
        "class_specifier compact_constructor_declaration concept_definition constructor_declaration "
        "enum_declaration enum_item enum_specifier field_definition function_declaration "
        "function_definition function_item generator_function_declaration impl_item "
        "interface_declaration internal_module macro_definition method_declaration method_definition "
        "mod_item module namespace_definition public_field_definition record_declaration struct_item "
        "struct_specifier trait_item type_alias type_alias_declaration type_spec union_item "
        "union_specifier variable_declarator",
    )
)
_FUNCTION = re.compile(r"(?:.*_)?(?:function|method|constructor|macro|field)_.*|variable_declarator")
#: Definitions only if they have a body: ``struct point p;`` and ``mod tests;`` define nothing.
_WITH_BODY = re.compile(r".*_specifier|mod_item|module")
#: Definitions only if their value is one of these: ``const f = () => 1``.
_WITH_VALUE = re.compile(r"variable_declarator|.*field_definition")
_VALUES = ("arrow_function", "class", "function_expression", "generator_function")
#: Nodes around definitions. The first definition in a wrapper starts where the wrapper starts.
_WRAPPERS = frozenset(
    re.findall(
        r"\w+",
        "ambient_declaration declaration decorated_definition export_statement expression_statement "
        "lexical_declaration template_declaration type_declaration type_definition "
        "variable_declaration",
    )
)
#: Nodes directly above a definition that belong to it.
_ABOVE = frozenset(
    re.findall(
        r"\w+",
        "access_specifier attribute_item block_comment comment decorator line_comment "
        "template_parameter_list",
    )
)
#: Nodes that start no section, because the nodes in them are on the same level as those around them.
_TRANSPARENT = re.compile(r"preproc_(?:if|el).*|linkage_specification|ERROR")
_TITLE_LENGTH = 80
#: Bytes of memory that the process may use. Parsing a file of 1 MB takes about a tenth of this.
_MEMORY = 2**30


class CodeOutline:
    """The definitions and the prose of one file. Lines are numbered from 1.

    ``definitions`` contains the level, the title and the first line of each section. The level of a
    definition that is not inside another one is 1. ``joined`` contains the lines of the definitions that
    start no section. ``prose`` contains the first and last lines of comments and docstrings.
    """

    def __init__(self, content: bytes) -> None:
        self.lines = content.split(b"\n")
        self.indents = [len(line) - len(line.lstrip()) for line in self.lines]
        self.starts: dict[int, int] = {}
        self.owners: dict[int, int] = {}
        self.code: list[tuple[int, bool, int, int, str, int]] = []
        self.definitions: list[tuple[int, str, int]] = []
        self.joined: list[int] = []
        self.prose: list[tuple[int, int]] = []

    def walk(self, root: Any) -> None:
        """Visit all nodes below ``root``, the root of a tree-sitter tree."""
        pending = [(root, 1, 0, False)]
        while pending:
            node, level, owner, in_function = pending.pop()
            if title_of(node):
                level += 1
                owner = self.owners.pop(node.id, owner)
                in_function = in_function or bool(_FUNCTION.fullmatch(node.type))
            children = node.named_children
            self._docstring(node, children)
            self._children(node, children, (level, owner), in_function)
            pending += (
                (child, level, owner, in_function)
                for child in children
                if child.named_child_count and child.type not in _ABOVE
            )
        self._finish()

    def _children(self, node: Any, children: list[Any], place: tuple[int, int], in_function: bool) -> None:
        """Find the definitions and the other code among the children of a node.

        ``place`` is the level of the children, and the first line of the definition around them, or 0.
        """
        level, owner = place
        is_wrapper = node.type in _WRAPPERS
        start = self.starts.pop(node.id, 0)  # the first line of what is directly above the child, or 0
        end = 0
        for child in children:
            first = _first(child)
            if child.type in _ABOVE:
                if self._begins_line(child) and not is_wrapper:
                    start = start if start and first <= end + 1 else first
                    end = _last(child)
                if "comment" in child.type and not in_function:
                    self._add_prose(child)
                continue
            if not start or (first > end + 1 and not is_wrapper):
                start = first if self._begins_line(child) else 0
            title = title_of(child)
            if title and start:
                self.code.append((start, False, level, start, title, first))
                self.owners[child.id] = start
            elif title:
                self.joined.append(first)
            elif _wraps(child):
                self.starts[child.id] = start
            elif is_wrapper:
                continue
            elif start and not _TRANSPARENT.fullmatch(child.type):
                self.code.append((start, True, level, owner, "", first))
            start, is_wrapper = 0, False

    def _docstring(self, node: Any, children: list[Any]) -> None:
        """Add the docstring of a Python module, class or function."""
        if node.type in ("module", "block"):
            first = next((child for child in children if child.type != "comment"), None)
            if first is not None and [child.type for child in first.children] == ["string"]:
                self._add_prose(first)

    def _add_prose(self, node: Any) -> None:
        row, column = node.end_point
        if self._begins_line(node) and (not column or not self.lines[row][column:].strip()):
            self.prose.append((_first(node), _last(node)))

    def _begins_line(self, node: Any) -> bool:
        row, column = node.start_point
        return bool(column <= self.indents[row])

    def _first_words(self, first: int) -> str:
        line = _decoded(self.lines[first - 1][: 4 * _TITLE_LENGTH])
        return re.split(r"[=({\[;:]", line)[0].strip()[:_TITLE_LENGTH] or line[:_TITLE_LENGTH]

    def _finish(self) -> None:
        """Sort the sections, and keep one of those that start on the same line.

        Other code starts a section if another definition owns the lines before it.
        """
        current = 0
        for start, is_other, level, owner, title, first in sorted(self.code):
            if is_other and owner == current:
                continue
            if not self.definitions or self.definitions[-1][2] < start:
                self.definitions.append((level, title or self._first_words(first), start))
                current = owner
            elif not is_other:
                self.joined.append(start)
        self.joined.sort()
        self.prose.sort()


def title_of(node: Any) -> str:
    """Return the name of a definition, or an empty string for another node."""
    kind = node.type
    if kind not in _DEFINITIONS:
        return ""
    body, value = node.child_by_field_name("body"), node.child_by_field_name("value")
    if _WITH_BODY.fullmatch(kind) and body is None:
        return ""
    if _WITH_VALUE.fullmatch(kind) and (value is None or value.type not in _VALUES):
        return ""
    if kind == "impl_item" and body is not None:
        header = node.text[: body.start_byte - node.start_byte]
        return _decoded(header[: 4 * _TITLE_LENGTH])[:_TITLE_LENGTH]
    named = node if kind.endswith("_specifier") and not node.child_by_field_name("name") else None
    name = _name(node if named is None else node.parent)
    if receiver := node.child_by_field_name("receiver"):
        owner = re.search(rb"(\w+)\s*(?:\[[^\]]*\])?\s*\)$", receiver.text[-400:])
        return f"{_decoded(owner[1])}.{name}" if owner else name
    return name


def _name(node: Any) -> str:
    found = [node.child_by_field_name(field) for field in ("name", "property", "declarator")]
    name = next(filter(None, found), None)
    while name is not None and name.type.endswith("_declarator") and name.named_child_count:
        name = name.child_by_field_name("declarator") or name.named_children[-1]
    return "" if name is None else _decoded(name.text[: 4 * _TITLE_LENGTH])[:_TITLE_LENGTH]


def _wraps(node: Any) -> bool:
    """Return whether a node is a wrapper with a definition in it, such as ``export const f = () => 1``."""
    for _ in range(3):
        if node.type not in _WRAPPERS:
            return False
        children = node.named_children
        if any(map(title_of, children)):
            return True
        node = next((child for child in children if child.type in _WRAPPERS), node)
    return False


def _first(node: Any) -> int:
    line: int = node.start_point.row + 1
    return line


def _last(node: Any) -> int:
    """Return the last line of a node. A comment of Rust ends at the start of the next line."""
    row, column = node.end_point
    last: int = row + (column > 0)
    return last


def _decoded(text: bytes) -> str:
    return " ".join(text.decode(errors="ignore").split())


@cache
def _parser(module: str, function: str) -> Any:
    from tree_sitter import Language, Parser

    return Parser(Language(getattr(importlib.import_module(module), function)()))


def outline(suffix: str, content: bytes) -> CodeOutline:
    """Parse a file, and find its definitions."""
    grammar = GRAMMARS[".cpp" if suffix == ".h" and _CPP.search(content) else suffix]
    found = CodeOutline(content)
    found.walk(_parser(*grammar).parse(content).root_node)
    return found


def main() -> None:
    """Read files from the standard input, and write a line of JSON with the outline of each file.

    Each file is preceded by a line with its suffix, its size and the seconds of CPU time that it may take.
    Without a handler for SIGPROF, the operating system ends the process when this time is over.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError, ValueError):  # macOS has no such limit
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    while header := sys.stdin.buffer.readline():
        suffix, size, seconds = header.decode().split()
        content = sys.stdin.buffer.read(int(size))
        signal.setitimer(signal.ITIMER_PROF, float(seconds))
        found = outline(suffix, content)
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps([found.definitions, found.joined, found.prose]), flush=True)


if __name__ == "__main__":
    main()
