"""Generated documents that grow: every opener of a markup, in every way in which a file can repeat it.

A shape is a prefix, a unit that is repeated, and a suffix. A unit begins a construct of the markup and never
ends it, or nests, or makes a parser look ahead. A way repeats it: on one line, on lines and in paragraphs of
its own, in long paragraphs, in a heading, a table or a raw HTML block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple


class Shape(NamedTuple):
    """One way to fill a file of any size; ``name`` is unique."""

    name: str
    source: str
    prefix: str
    unit: str
    suffix: str

    def content(self, size: int) -> bytes:
        """The file with about ``size`` bytes."""
        times = max(1, (size - len(self.prefix) - len(self.suffix)) // len(self.unit.encode()))
        return (self.prefix + self.unit * times + self.suffix).encode()


MARKDOWN_UNITS = {
    "letters": "a", "words": "word ", "spaces": " ", "tabs": "\t", "wide": "字", "emoji": "😀",
    "commas": ",", "less": "<", "tag-start": "<a", "tag-close": "</", "component-start": "<Aa ",
    "component-name": "<Aa", "component-long": "<Aa{", "tag-alternating": '<a b="<a b=\'',
    "tag-attribute": "<a b='", "tag-double": '<a b="', "comment-start": "<!--", "declaration": "<!A ",
    "instruction": "<?", "cdata": "<![CDATA[", "script": "<script>", "pre": "<pre>", "div": "<div>",
    "div-close": "</div>", "anchor": "<a id=x>", "bracket": "[", "brackets": "[]", "close-bracket": "]",
    "image": "![", "link": "[a](", "link-open": "[a](<b", "link-title": '[a](b "', "link-whole": "[a](b)",
    "reference": "[a][", "footnote": "[^a]", "footnote-start": "[^", "inline-footnote": "^[",
    "parenthesis": "(", "star": "*", "star-letter": "*a ", "star-right": "a**", "mixed-stars": "*a_ ",
    "underscore": "_", "tilde": "~~a", "backtick": "`", "backtick-rise": "`a``", "role": "{a}`b` ",
    "role-open": "{a}`", "role-titled": "{ref}`a <", "brace": "{", "braces": "{}", "explicit": "{#a}",
    "explicit-open": "{#a", "explicit-comment": "{/*#a", "jsx-comment": "{/*", "jsx-space": "{' '",
    "entity": "&", "entity-name": "&amp;", "entity-number": "&#1", "backslash": "\\", "escape": "\\*",
    "pipe": "|", "cell": "|a", "dash": "-", "dash-item": "- ", "number-item": "1. ", "quote": ">",
    "quotes": "> ", "hash": "#", "hash-space": "# ", "equals": "=", "colon": ":", "url": "http://a.",
    "autolink": "<http://a", "mail": "<a@b", "crumb": "a > ", "greater": "a >", "title-words": 'a\' "',
}  # fmt: skip
MARKDOWN_LINES = {
    "heading": "# a\n", "subheading": "## a\n\n", "setext": "a\n=\n", "setext-block": "a\nb\n---\n",
    "empty-heading": "#\n", "item": "- a\n", "item-loose": "- a\n\n", "ordered": "1. a\n", "quote": "> a\n",
    "lazy-quote": "> a\nb\n", "fence": "```\n", "fence-directive": "```{note}\n", "tilde-fence": "~~~\n\n",
    "colon-fence": ":::note\n", "colon-toctree": ":::{toctree}\n", "code": "    a\n", "row": "|a|b|\n",
    "table": "|a|\n|-|\n", "definition": "[a]: b\n", "definition-title": '[a]: b "\n',
    "definition-open": "[a]:\n", "definition-bracket": "[\n", "footnote": "[^a]: b\n", "target": "(a)=\n",
    "admonition": "!!! note\n", "admonition-nested": "!!! note\n    a\n", "import": "import {\n",
    "export": "export const a = {\n\n", "jsx-comment": "{/*\n", "component": "<Aa\n",
    "component-closed": "<Aa>\n\n", "component-attribute": "<Aa b={\n", "html": "<div\n",
    "html-closed": "<div>\n\n", "html-comment": "<!--\n", "script": "<script>\n\n", "instruction": "<?\n\n",
    "hard-break": "a\\\n", "backtick": "`a\n", "star": "*a\n", "link": "[a](\n", "rule": "---\n",
    "front-matter": "title: a\n", "blank": "\n", "return": "a\r\n", "stair": "- a\n  - b\n    - c\n",
    "brackets": "[a]\n[b]\n",
}  # fmt: skip
RST_UNITS = {
    "letters": "a", "words": "word ", "spaces": " ", "tabs": "\t", "wide": "字", "emoji": "😀",
    "backtick": "`", "backtick-letter": "`a ", "literal": "``", "literal-open": "``a ", "star": "*",
    "star-letter": "*a ", "strong": "**a ", "bar": "|", "bar-letter": "|a ", "substitution": "|a| ",
    "underscore": "_", "reference": "a_ ", "anonymous": "a__ ", "phrase": "`a`_ ", "phrase-target": "`a <b",
    "phrase-open": "`a <", "role": ":a:`b` ", "role-open": ":a:`b ", "role-colons": ":a:",
    "role-target": ":ref:`a <b> ", "footnote": "[1]_ ", "bracket": "[", "footnote-open": "[#a",
    "backslash": "\\", "escape": "\\*", "target": "_`a` ", "target-open": "_`a ", "colon": ":",
    "colons": "::", "field": ":a ", "directive": ".. a", "dots": ".", "bullet": "- ", "enumerator": "1. ",
    "roman": "i", "parenthesis": "(a) ", "grid": "+-", "grid-double": "+=", "simple": "= ", "dash": "-",
    "equals": "=", "quote": '"', "quoted": '\'a" ', "less": "<", "greater": ">>> ", "mail": "a@b ",
    "url": "http://a ", "crumb": "a > ", "label": "a-", "name": "a+",
}  # fmt: skip
RST_LINES = {
    "heading": "a\n=\n", "heading-blank": "a\n====\n\n", "overline": "=\na\n=\n\n", "rule": "----\n\n",
    "adornment": "====\n", "label": ".. _a:\n\n", "label-tight": ".. _a:\n", "anchor": ".. class:: a\n\n",
    "anchor-tight": ".. class:: a\n", "comment": ".. a\n\n", "comment-empty": "..\n",
    "directive": ".. note::\n\n   a\n\n", "directive-open": ".. note::\n",
    "directive-option": ".. note:: a\n   :b: c\n", "directive-long": ".. note:: a\n   b\n",
    "code": ".. code::\n\n", "code-open": ".. code::\n", "toctree": ".. toctree::\n\n   a\n",
    "substitution": ".. |a| replace:: b\n", "target": ".. _a: b\n", "target-quoted": ".. _`a:\n",
    "footnote": ".. [1] a\n", "footnote-open": ".. [\n", "bullet": "- a\n", "bullet-loose": "- a\n\n",
    "bullet-empty": "-\n", "enumerator": "1. a\n", "enumerator-letter": "a. b\n", "roman": "i.\n",
    "field": ":a: b\n", "field-long": ":a: b\n  c\n", "option": "-a b  c\n", "definition": "a\n  b\n",
    "quote": "  a\n", "quote-loose": "  a\n\n", "literal": "a::\n\n", "literal-block": "a::\n\n  b\n\n",
    "literal-quoted": "::\n\n> a\n", "line-block": "| a\n", "doctest": ">>> a\n", "anonymous": "__ a\n",
    "grid": "+-+-+\n", "grid-row": "+--+--+\n|a |b |\n", "simple": "== ==\n",
    "simple-open": "== ==\na  b\n", "simple-closed": "== ==\na  b\n== ==\n\n", "paragraph": "*a `b\n",
    "break": "a\\\n", "blank": "\n", "tab": "\ta\n", "return": "a\r\n",
    "stair": "* a\n\n  * b\n\n    * c\n\n",
}  # fmt: skip
_LONG_PARAGRAPH = 9_000
_INLINE_WAYS = {
    "line": ("", "{}", "\n"),
    "lines": ("", "{}\n", ""),
    "pairs": ("", "{} {}\n", ""),
    "paragraphs": ("", "{}\n\n", ""),
    "letters": ("", "{}a", "\n"),
    "long-paragraphs": ("", "{long}\n\n", ""),
    "opened": ("{}", "a", "\n"),
    "opened-spaces": ("{}", " ", "b\n"),
    "opened-words": ("{}", "a ", "\n"),
}
_MARKDOWN_WAYS = {
    **_INLINE_WAYS,
    "heading": ("# a", "{}", "b\n"),
    "heading-end": ("# a", "{}", "\n"),
    "opened-heading": ("# {}", "a", "\n"),
    "opened-html": ("<div>\n{}", "a", "\n"),
    "opened-words-html": ("<div>\n{}", "a ", "\n"),
    "html": ("<div>\n", "{}", "\n"),
    "html-lines": ("<div>\n", "{}\n", ""),
    "cell": ("|a|\n|-|\n|", "{}", "|\n"),
    "rows": ("|a|\n|-|\n", "|{}|\n", ""),
    "item": ("- ", "{}", "\n"),
    "code-span": ("`", "{}", "\n"),
    "component": ("<Aa ", "{}", "\n"),
    "component-lines": ("<Aa\n", "{}\n", ""),
    "definition": ("[a]: ", "{}", "\n"),
    "label": ("[", "{}", "]\n"),
    "front-matter": ("---\ntitle: ", "{}", "b\n---\n"),
    "front-blank": ("---\ntitle:", "{}", "\n---\n"),
    "front-key": ("---\ntitle", "{}", "\n---\n"),
    "fence-info": ("```", "{}", "\na\n```\n"),
    "directive-title": ("```{note} ", "{}", "\na\n```\n"),
    "colon-title": (":::note ", "{}", "\na\n:::\n"),
    "target": ("(", "{}", ")=\n"),
}
_RST_WAYS = {
    **_INLINE_WAYS,
    "title": ("", "{}", "b\n====\n"),
    "opened-title": ("{}", "a", "\n====\n"),
    "overlined": ("====\na ", "{}", "b\n====\n"),
    "cell": ("==== ====\na    ", "{}", "\n==== ====\n"),
    "rows": ("==== ====\n", "a    {}\n", "==== ====\n"),
    "grid-rows": ("+----+----+\n", "|{} |a   |\n+----+----+\n", ""),
    "item": ("- ", "{}", "\n"),
    "explicit": (".. ", "{}", "\n"),
    "explicit-lines": ("", ".. {}\n", ""),
    "argument": (".. note:: ", "{}", "\n"),
    "option": (".. note::\n   :a: ", "{}", "\n"),
    "field": (":a: ", "{}", "\n"),
    "field-name": (":", "{}", ": a\n"),
    "label": (".. _", "{}", ": a\n"),
    "substitution": (".. |", "{}", "| replace:: b\n"),
    "replaced": (".. |a| replace:: ", "{}", "\n\n|a|\n"),
    "role": (":a:`", "{}", "`\n"),
    "toctree": (".. toctree::\n\n   ", "{}", "<b>\n"),
    "indented": ("a\n\n", "  {}\n", ""),
}
_LINE_WAYS = {
    "repeated": ("", "{}", ""),
    "after-text": ("a\n\n", "{}", ""),
    "after-heading": ("a\n====\n\n", "{}", ""),
    "unclosed-fence": ("```\n", "{}", ""),
    "in-item": ("- ", "{}", ""),
}
_OWN = {
    "long-title": Shape("long-title", "page.md", "# " + "long " * 400 + "\n", "## a\n", ""),
    "long-path": Shape(
        "long-path",
        "page.md",
        "".join(f"{'#' * depth} {'long' * 40}\n" for depth in range(1, 6)),
        "###### a\n",
        "",
    ),
    "long-rst-title": Shape("long-rst-title", "page.rst", "long " * 400 + "\n====\n\n", "a\n----\n\n", ""),
    "deep-rst-path": Shape(
        "deep-rst-path",
        "page.rst",
        "".join(f"{'long' * 20}\n{character * 80}\n\n" for character in "=-~^+*#<>:.,;!?$%&'()/@[]_`{|}"),
        'a\n""""\n\n',
        "",
    ),
    "replacement": Shape("replacement", "page.rst", ".. |a| replace:: " + "b" * 3000 + "\n\n", "|a| ", "\n"),
    "replacement-lines": Shape(
        "replacement-lines", "page.rst", ".. |a| replace:: " + "b " * 1500 + "\n\n", "|a|\n\n", ""
    ),
    "reference": Shape(
        "reference", "page.rst", ".. _a: " + "b" * 3000 + "\n\n", "a_ ", "\n"
    ),
    "quoted-block": Shape("quoted-block", "page.rst", "a::\n\n", "> b\n", ""),
    "wide-simple": Shape("wide-simple", "page.rst", "", "= ", "\na\n= =\n"),
    "words-line": Shape("words-line", "page.md", "", "The quick brown fox jumps. ", "\n"),
    "words-lines": Shape("words-lines", "page.md", "", "The quick brown fox jumps over the lazy dog.\n", ""),
    "words-rst": Shape("words-rst", "page.rst", "", "The quick brown fox jumps. ", "\n"),
    "html-elements": Shape("html-elements", "page.html", "<main>", "<ul id=a><li><a href=b>c</a><h2>d\n", ""),
    "html-line": Shape("html-line", "page.html", "", "<h2>a</h2><p>b</p>", "\n"),
    "asciidoc-cells": Shape("asciidoc-cells", "page.adoc", "|===\n", "|a", "\n"),
    "asciidoc-blocks": Shape("asciidoc-blocks", "page.adoc", "", "----\n-----\n<<a,link:a[\n", ""),
    "notebook-line": Shape(
        "notebook-line",
        "page.ipynb",
        '{"nbformat": 4, "cells": [{"cell_type": "markdown", "source": "',
        "# a\\n",
        '"}]}',
    ),
    "words-entry": Shape("words-entry", "entry.beir", "", "The quick brown fox jumps. ", "\n"),
    "long-word-crumb": Shape("long-word-crumb", "page.md", "# " + "😀" * 2000 + "\n\n", "a b c\n", ""),
}  # fmt: skip


class WideTable(Shape):
    """A table with as many columns as the size allows; ``prefix`` is a border's unit, ``unit`` a row's."""

    def content(self, size: int) -> bytes:
        """A table of three lines and about ``size`` bytes."""
        times = max(2, size // (3 * len(self.unit)))
        border = self.prefix * times + self.suffix
        row = self.unit * times + ("|" if self.suffix == "+" else "")
        return f"{border}\n{row}\n{border}\n".encode()


def _wide_tables() -> Iterator[Shape]:
    """Tables of which only the number of columns grows."""
    for name, border, row in (("grid", "+-", "| "), ("grid-wide", "+--", "|a "), ("simple", "=  ", "a  ")):
        suffix = "+" if "+" in border else "="
        yield WideTable(f"rst/columns/{name}", "page.rst", border, row, suffix)


def _crossed(
    kind: str, source: str, units: Mapping[str, str], ways: Mapping[str, tuple[str, str, str]]
) -> Iterator[Shape]:
    for way, (prefix, pattern, suffix) in ways.items():
        for name, unit in units.items():
            many = unit * (_LONG_PARAGRAPH // len(unit.encode()))
            repeated = pattern.replace("{long}", many).replace("{}", unit)
            yield Shape(f"{kind}/{way}/{name}", source, prefix.replace("{}", unit), repeated, suffix)


def family() -> dict[str, Shape]:
    """All shapes by name."""
    shapes = [
        *_crossed("md", "page.md", MARKDOWN_UNITS, _MARKDOWN_WAYS),
        *_crossed("mdx", "page.mdx", MARKDOWN_UNITS, _MARKDOWN_WAYS),
        *_crossed("rst", "page.rst", RST_UNITS, _RST_WAYS),
        *_crossed("md-lines", "page.md", MARKDOWN_LINES, _LINE_WAYS),
        *_crossed("mdx-lines", "page.mdx", MARKDOWN_LINES, _LINE_WAYS),
        *_crossed("rst-lines", "page.rst", RST_LINES, _LINE_WAYS),
        *_wide_tables(),
        *_OWN.values(),
    ]
    return {shape.name: shape for shape in shapes}
