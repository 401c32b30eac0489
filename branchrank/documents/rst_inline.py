"""Convert inline RST to readable text with docutils' inline parser.

1. A paragraph without markup characters is returned unchanged.
2. In paragraphs with markup characters, docutils finds the markup. The readable text of a role is ``title``
   if the role's content has the form ``title <target>``, otherwise the whole content. Unfinished markup is
   kept as written.
3. Every line break of the source is kept, so that the n-th line of the text is the readable text of the n-th
   line of the source.

The parsing time of docutils is quadratic in the length of a paragraph, so long paragraphs are parsed in
parts. The substitutions in a file may add at most as many characters as the file contains, or 10,000
characters if the file is shorter. A substitution ``|name|`` that would exceed this limit is replaced with
``name``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, Literal
from urllib.parse import quote

from docutils import nodes
from docutils.frontend import get_default_settings
from docutils.languages import get_language
from docutils.parsers.rst import Parser
from docutils.parsers.rst.states import Inliner
from docutils.utils import new_document, unescape

from branchrank.documents.document import Reference
from branchrank.documents.markdown_text import html_text

_MARKUP = re.compile(r"[`*|\\]|_(?!\w)")
#: Matches a letter after a backslash, usually in a Windows path. docutils replaces the backslash with NUL.
_ESCAPED_WORD = re.compile(r"\x00(\w)")
_EXTERNAL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//")
#: Roles whose content is code, so ``a <b>`` in the content is not split into a title and a target.
_LITERAL_ROLES = frozenset(["code", "literal", "math", "samp", "kbd", "command", "regexp", "raw", "file"])
_PART_CHARACTERS = 2000

_SETTINGS = get_default_settings(Parser)
_SETTINGS.file_insertion_enabled = False
_SETTINGS.raw_enabled = False
_SETTINGS.report_level = 5
_SETTINGS.halt_level = 5
_SETTINGS.warning_stream = False

_BASE = Inliner()
_BASE.init_customizations(_SETTINGS)
_PATTERNS = _BASE.patterns  # compiled from class attributes, so all instances can share them


class InlineReader:
    """Reads the inline markup in one file and collects the file's cross-references.

    ``substitutions`` maps the name in ``|name|`` to its text, and ``targets`` maps the name in ```name`_`` to
    its URI. The keys of ``substitutions`` and ``targets`` are normalized by :func:`normalize_name`.
    Substitutions add at most ``growth`` characters to the file.
    """

    def __init__(
        self,
        source: str,
        substitutions: Mapping[str, str],
        targets: Mapping[str, str],
        *,
        growth: int,
    ) -> None:
        document = new_document(source, _SETTINGS)
        self._inliner = _Inliner()
        self._memo = SimpleNamespace(
            document=document,
            reporter=document.reporter,
            language=get_language(_SETTINGS.language_code, document.reporter),
        )
        self._parent = nodes.paragraph()
        self._substitutions = substitutions
        self._targets = targets
        self._growth = growth
        self.references: list[Reference] = []

    def read(self, text: str, line: int) -> str:
        """Convert inline RST that starts at ``line`` to readable text with the same line breaks."""
        if not _MARKUP.search(text):
            return text
        results: list[str] = []
        for part in _parts(text):
            results.append(self._read_part(part, line))
            line += results[-1].count("\n")
        return "".join(results)

    def _read_part(self, text: str, line: int) -> str:
        found, _ = self._inliner.parse(text, line, self._memo, self._parent)
        result = ""
        breaks = 0
        for node in found:
            readable = self._readable(node, line + breaks)
            lost = _source(node).count("\n") - readable.count("\n")
            result += readable + "\n" * lost
            breaks += readable.count("\n") + max(lost, 0)
        return result + "\n" * (text.count("\n") - breaks)

    def _readable(self, node: nodes.Node, line: int) -> str:
        if isinstance(node, nodes.Text):
            return unescape(_ESCAPED_WORD.sub(r"\\\1", str(node)))
        text = node.astext()
        assert isinstance(node, nodes.Element)
        if isinstance(node, nodes.substitution_reference):
            return self._substitute(text)
        if isinstance(node, nodes.footnote_reference | nodes.citation_reference):
            return node.rawsource.removesuffix("_")
        target = self._target(node)
        if target is not None:
            role, name = target
            self.references.append(Reference(role=role, text=" ".join(text.split()), target=name, line=line))
        return text

    def _substitute(self, name: str) -> str:
        replacement = self._substitutions.get(normalize_name(name), name)
        growth = max(0, len(replacement) - len(name))
        if growth > self._growth:
            return name
        self._growth -= growth
        return replacement

    def _target(self, node: nodes.Element) -> tuple[Literal["ref", "doc", "link"], str] | None:
        role = node.get("role")
        if role in ("ref", "doc"):
            return ("ref" if role == "ref" else "doc"), node["target"]
        if not isinstance(node, nodes.reference):
            return None
        name = node.get("refname", "")
        uri = node.get("refuri") or self._targets.get(name)
        if not uri and node.rawsource.startswith("`"):
            uri = f"#{quote(name)}"  # a label or a title
        if not uri or _EXTERNAL.match(uri):
            return None
        return "link", uri


class _Inliner(Inliner):
    """docutils' inline parser, changed to accept every role and not to search for standalone URIs."""

    def __init__(self) -> None:
        super().__init__()
        self.patterns = _PATTERNS

    def problematic(self, text: str, rawsource: str, message: Any) -> nodes.problematic:
        return nodes.problematic(rawsource, text)

    def interpreted(
        self, rawsource: str, text: str, role: str, lineno: int
    ) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        content = unescape(text, True).replace("\\\\", "\\")
        node = nodes.inline(rawsource, "")
        if role.startswith("raw-html"):
            content = html_text(content)
        elif role not in _LITERAL_ROLES:
            title, target = _split_title(content)
            if target:
                node["role"], node["target"] = role, target
            content = title
        node += nodes.Text(content)
        return [node], []

    def phrase_ref(
        self, before: str, after: str, rawsource: str, escaped: str, text: str | None = None
    ) -> tuple[str, list[nodes.Node], str, list[nodes.Node]]:
        title, target = _split_title(unescape(escaped, True).replace("\\\\", "\\"))
        node = nodes.reference(rawsource, "")
        if target.endswith("_") and not target.endswith("\\_"):
            node["refname"] = normalize_name(target[:-1])
        elif target:
            node["refuri"] = "".join(target.split())
        else:
            node["refname"] = normalize_name(title)
        node += nodes.Text(title)
        return before, [node], after, []


def normalize_name(name: str) -> str:
    """Return a reference name in lower case with single spaces, the form in which RST compares names."""
    return " ".join(name.lower().split())


def _split_title(content: str) -> tuple[str, str]:
    """Split ``title <target>`` into the title and the target.

    Content without a title is returned with an empty target. Angle brackets around the content are removed,
    and so is a leading ``~`` or ``!``.
    """
    if content.endswith(">"):
        title, opened, target = content[:-1].rpartition("<")
        if opened and title.strip():
            return title.rstrip(), target.strip()
        if opened:
            return target, ""
    return content.lstrip("~!"), ""


def _source(node: nodes.Node) -> str:
    return str(node) if isinstance(node, nodes.Text) else getattr(node, "rawsource", "")


def _parts(text: str) -> Iterator[str]:
    """Split text into parts of at most ``_PART_CHARACTERS`` characters, at line breaks or spaces if any."""
    start = 0
    while len(text) - start > _PART_CHARACTERS:
        limit = start + _PART_CHARACTERS
        cut = text.rfind("\n", start, limit) + 1 or text.rfind(" ", start, limit) + 1 or limit
        yield text[start:cut]
        start = cut
    yield text[start:]
