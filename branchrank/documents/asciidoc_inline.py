"""Replace the inline markup of AsciiDoc with its text, and find ids, labels and cross-references.

1. A macro is replaced by its text. A macro that Asciidoctor does not know keeps its target: a reference to a
   manual page is written as ``name(1)``, and any other macro is kept as it is.
2. The id of a section title without an id is generated as in Asciidoctor, with the ``idprefix`` and the
   ``idseparator`` that the file sets. Of the attribute references in a title, only the names count.
3. A cross-reference with a text becomes a reference. Its target is an id, the title of a section, or a file.
   In a component of Antora (a folder ``modules``), a file is a resource id, relative to the pages of
   its module.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import partial
from html import unescape
from unicodedata import category

import regex

from branchrank.documents.document import Findings, LinkTarget, Reference
from branchrank.documents.markdown_text import ABSOLUTE, MAX_INLINE

_MACRO = regex.compile(
    r"<<(?P<id>[^<>,\n]{1,200})(?:,(?P<reference>[^<>]{0,500}))?>>"
    r"|\[\[(?P<anchor>[\w:.-]{1,200})(?:,[^\[\]]{0,200})?\]\]"
    r"|\[(?=[#.%])(?:#(?P<marked>[\w:-]{1,200}))?[\w.%-]{0,200}\](?=[#*_`])"
    r"|\(\(\([^()]{1,500}\)\)\)|\(\((?P<term>[^()]{1,500})\)\)"
    r"|(?<![\w:/-])(?P<macro>[a-z][\w-]{1,30}):(?!\s)(?P<target>[^\s\[\]]{0,500})\[(?P<text>[^\[\]]{0,1000})\]"
)
#: Macros that Asciidoctor replaces with their text, and those whose text is followed by attributes.
_KNOWN = re.compile(
    "asciimath|btn|footnote(?:ref)?|ftp|https?|indexterm2|irc|kbd|latexmath|mailto|menu|pass|stem"
)
_WITH_ATTRIBUTES = frozenset(("icon", "image", "link", "xref"))
#: The resource id of a page in Antora: the groups are the component, the module, the family and the path.
_RESOURCE = re.compile(r"(?:(?:([\w.-]+):)?([\w.-]*):)?(?:(\w+)\$)?([^:@$]+)")
_MODULE = re.compile(r"((?:.*/)?modules/)([^/]+)/")
#: Characters that Asciidoctor replaces with typographic ones, which are not part of an id.
_REPLACED = re.compile(r"(?i)\((?:C|R|TM)\)| -- |(?<=\w)--(?=\w)|\.{3}|[-=]>|<[-=]")
_MARKUP = re.compile(r"[`*_#+\[<&]|\(\(")
_CHARACTER = re.compile(r"&(?:\w{2,31}|#\d{1,7}|#[xX][\da-fA-F]{1,6});")
_CODE = re.compile(r"``([^`]{1,1000}+)``|`([^`]{1,1000}+)`")
_MARKS = [
    *(re.compile(rf"{each}{each}([^{each}]{{1,1000}}+){each}{each}") for each in (r"\*", "_", "#", r"\+")),
    *(
        re.compile(rf"(?<![\w{each}]){each}(?!\s)([^{each}]{{1,1000}}+)(?<!\s){each}(?![\w{each}])")
        for each in (r"\*", "_", "#", r"\+")
    ),
]


class AsciidocInline(Findings):
    """Reads the inline markup of the file ``source``.

    ``names`` contains the names of the labels.
    """

    def __init__(self, source: str) -> None:
        super().__init__()
        self.module = _MODULE.match(source)
        self.names: set[str] = set()
        self.id_parts = {"idprefix": "_", "idseparator": "_"}
        self.repeats: Counter[str] = Counter()

    def inline(self, text: str, line: int) -> str:
        """Return the readable text of a paragraph that starts at ``line``, with the same line breaks."""
        if len(text) > MAX_INLINE or not _MARKUP.search(text):
            return text
        text = _MACRO.sub(partial(self.macro, line=line), text)
        parts = _CODE.split(re.sub(r" \+$", "", text, flags=re.MULTILINE))
        for index in range(0, len(parts), 3):
            for mark in _MARKS:
                parts[index] = mark.sub(r"\1", parts[index])
            parts[index] = _CHARACTER.sub(lambda found: unescape(found[0]).replace("\n", " "), parts[index])
        return "".join(filter(None, parts))

    def macro(self, match: re.Match[str], line: int) -> str:
        """Return the text of a macro, and keep its reference or label."""
        line += match.string.count("\n", 0, match.start())
        kept = "\n" * match[0].count("\n")
        name, target, text = match["macro"], match["target"] or "", match["text"] or ""
        if anchor := match["anchor"] or match["marked"] or (name == "anchor" and target):
            self.label(anchor, line)
        if match["term"]:
            return match["term"]
        if match["id"]:
            name, target, text = "xref", match["id"], match["reference"] or ""
            target = target if "#" in target or target.endswith(".adoc") else f"#{target}"
        elif not name or name in ("anchor", "indexterm"):
            return kept
        elif name in _WITH_ATTRIBUTES:
            text = text.partition(",")[0]
        elif not _KNOWN.fullmatch(name):
            if re.fullmatch(r"[1-9][a-z]{0,2}", text):
                return f"{target}({text})"
            return match[0] if text else f"{name}:{target}"
        label = text.strip().strip('"').removesuffix("^")
        if name == "menu":
            label = " > ".join(filter(None, (target, label)))
        is_local = "://" not in target if name == "xref" else name == "link" and not ABSOLUTE.match(target)
        if is_local and label:
            title, page = " ".join(label.split()), self.page(target) if name == "xref" else target
            self.references.append(Reference(role="link", text=title, target=page, line=line))
        if not label and name != "image":
            label = target.lstrip("#") if name in ("link", "xref") else f"{name}:{target}" if target else ""
        return label + kept[label.count("\n") :]

    def page(self, target: str) -> str:
        """Return the target of a cross-reference as a relative URL. In Antora, it is a resource id."""
        path, mark, anchor = target.partition("#")
        if not mark and "." not in target:
            return f"#{target}"
        parts = _RESOURCE.fullmatch(path)
        if parts is None or parts[1] or path.startswith("."):
            return target
        root, module = self.module.groups() if self.module else ("", "")
        module = parts[2] or module
        return f"/{root}{module}/{parts[3] or 'page'}s/{parts[4]}{mark}{anchor}" if module else target

    def generated_id(self, title: str) -> str:
        """Return the id that Asciidoctor generates for a title. A repeated id gets a number."""
        prefix, separator = self.id_parts["idprefix"], self.id_parts["idseparator"][:1]
        name = prefix + "".join(
            each
            for each in _REPLACED.sub("", title).lower()
            if each in " .-_" or each.isalnum() or category(each)[0] == "M"
        )
        run = rf"[ .\-{re.escape(separator)}]+" if separator else " "
        name = re.sub(run, lambda _: separator, name).removesuffix(separator)
        name = unique = name if prefix else name.removeprefix(separator)
        while unique in self.names:
            self.repeats[name] += 1
            unique = f"{name}{separator}{self.repeats[name] + 1}"
        return unique

    def label(self, name: str, line: int, *, derived: bool = False) -> LinkTarget:
        self.labels.append(LinkTarget(name=name, line=line, derived=derived))
        self.names.add(name)
        return self.labels[-1]
