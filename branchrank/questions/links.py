"""Resolves the cross-references between the documents in a corpus, and the addresses of its site.

1. A label at a section's heading refers to the section, and a label at a page's title refers to the page. A
   label that is not at a heading or title is called an inner label. A reference (``ref``) to an inner label
   has no target, because the end of the labeled passage is unknown.
2. A document path (``doc``) or relative URL (``link``) identifies a page, with or without a suffix such as
   ``.rst`` or ``.html``.
3. Paths are relative to the folder of the referring document. A path that starts with ``/`` or, as in DocFX,
   ``~/`` is relative to the corpus or to a folder that contains the referring document.
4. A URL that starts with ``/`` may have one extra leading path segment. A URL may omit ``index`` and the
   number at the start of a file or folder name: the URL ``guides`` matches the folder ``02-guides``.
5. If no page matches otherwise, a relative URL is relative to the page's own path, as on sites whose URLs end
   with ``/``, and case, and spaces and hyphens, are not distinguished, as on sites built with Hugo.
6. A path in AsciiDoc can also be relative to a folder above the page's folder, as in Antora, where paths are
   relative to the pages of a module.
7. The ``#anchor`` of a URL is a label, an explicit id or the slug of a heading on the page. In Markdown,
   ``#anchor`` alone can also be a label or explicit id of one other page, as in MyST. ``#title`` alone can be
   a heading's title, which reStructuredText and AsciiDoc refer to.
8. The address of a page on the site, from outside, may have any leading path segments before the name of a
   folder in the corpus. Its anchor may also be an id as Sphinx makes it from a label, or a heading's text. An
   anchor inside a section refers to the section.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from branchrank.core.records import GoldItem, Question, Span
from branchrank.documents.document import FOLDER_PAGES, Document, Reference, Section, slug
from branchrank.documents.reading import suffix_of

_ORDER = re.compile(r"^\d+[-_.](?=\D)")
_NO_PAGE, _NO_LABEL, _FILE, _VARIABLE, _COMPONENT = UNRESOLVED = (
    "unresolved: no such page",
    "unresolved: no such label",
    "unresolved: not a document",
    "unresolved: variable",
    "unresolved: other component",
)
_OTHER_SUFFIX = re.compile(r"[^/]\.[A-Za-z][A-Za-z0-9]{0,4}$")
_SITE_SUFFIXES = (".html", ".htm")


class Target(NamedTuple):
    """Section number ``section`` on the page ``source``, or the whole page if ``section`` is 0."""

    source: str
    section: int


class UnresolvedLink(LookupError):
    """A cross-reference whose target is not in the corpus. Its message is one of :data:`UNRESOLVED`."""


class Links:
    """Resolves the cross-references in a corpus."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._documents = {document.source: document for document in documents}
        self._pages: dict[str, str] = {}
        #: Maps each label to its targets by page. Slugs of Markdown headings are in ``_derived``.
        self._labels: defaultdict[str, dict[str, Target | None]] = defaultdict(dict)
        self._derived: dict[str, Target | None] = {}
        self._anchors: dict[tuple[str, str], Target | None] = {}
        #: The first label on a page for each id that Sphinx makes from a label.
        self._ids: dict[tuple[str, str], str] = {}
        #: The pages that are exact copies of an earlier page, and for each page with copies, the copies.
        self.copy_of: dict[str, str] = {}
        self.copies: defaultdict[str, list[str]] = defaultdict(list)
        ordered = sorted(self._documents.values(), key=lambda document: document.source)
        for names in (_path_name, _site_name, _caseless_name):
            for document in ordered:
                self._pages.setdefault(names(document.source), document.source)
        self._folders = {_caseless_name(each).split("/")[0] for each in self._documents if "/" in each}
        first: dict[str, str] = {}
        for document in ordered:
            self._add_labels(document)
            if (original := first.setdefault(document.digest, document.source)) != document.source:
                self.copy_of[document.source] = original
                self.copies[original].append(document.source)

    def _add_labels(self, document: Document) -> None:
        names: dict[str, Target | None] = {}
        for number, section in enumerate(document.sections):
            for name in section.labels:
                names.setdefault(_label(name), Target(document.source, number))
        for label in document.labels:
            names.setdefault(_label(label.name), None)
        for number, section in enumerate(document.sections):
            names.setdefault(slug(section.title), Target(document.source, number))
        for name, target in names.items():
            self._anchors[document.source, name] = target
            self._ids.setdefault((document.source, _id(name)), name)
        for label in document.labels:
            name = _label(label.name)
            if label.derived:
                self._derived.setdefault(name, names[name])
            else:
                self._labels[name][document.source] = names[name]

    def target(self, source: str, reference: Reference) -> Target | None:
        """Return the page or section that a reference in the document ``source`` refers to.

        Returns ``None`` if the reference refers to a label that is not at a heading. Raises
        :class:`UnresolvedLink` if the target is not in the corpus.
        """
        try:
            return self._target(source, reference)
        except KeyError:
            raise UnresolvedLink(_VARIABLE if "{" in reference.target else _NO_LABEL) from None

    def _target(self, source: str, reference: Reference) -> Target | None:
        if reference.role == "ref":
            name = _label(reference.target)
            return next(iter(self._labels[name].values())) if name in self._labels else self._derived[name]
        url = urlsplit(reference.target)
        if url.scheme or ("@" in url.path and suffix_of(source) == ".adoc"):
            raise UnresolvedLink(_COMPONENT)
        page = self._page(source, unquote(url.path)) if url.path else source
        if not url.fragment:
            return Target(page, 0)
        name = _label(unquote(url.fragment))
        labeled = self._labels.get(name, {})
        if url.path or (page, name) in self._anchors:
            return self._anchors[page, name]
        if len(labeled) == 1 and suffix_of(page) in (".md", ".ipynb"):
            return next(iter(labeled.values()))
        return self._anchors[page, slug(name)]

    def at_address(self, path: str, anchor: str = "") -> tuple[str, Target]:
        """Return the prefix of a path on the site, and the page or section that the rest refers to.

        Raises :class:`UnresolvedLink` if the corpus has no such page or anchor.
        """
        parts = [part for part in unquote(path).replace("\\", "/").split("/") if part not in ("", ".")]
        for start in range(max(1, len(parts))):
            rest = "/".join(parts[start:])
            try:
                page = self._page("", rest) if not start or _site_name(rest) else ""
            except UnresolvedLink as error:
                if (
                    start + 1 >= len(parts)
                    or _caseless_name(f"{parts[start]}/x").split("/")[0] in self._folders
                ):
                    raise
                reason = error
            else:
                if page:
                    return "/".join(parts[:start]), self._at_anchor(page, unquote(anchor))
        raise reason

    def _at_anchor(self, page: str, anchor: str) -> Target:
        """Return the section of a page in which an anchor is."""
        if not anchor:
            return Target(page, 0)
        tried = (_label(anchor), slug(anchor), self._ids.get((page, _id(anchor)), ""))
        name = next((each for each in tried if (page, each) in self._anchors), "")
        if not name:
            raise UnresolvedLink(_NO_LABEL)
        document = self._documents[page]
        lines = (label.line for label in document.labels if _label(label.name) == name)
        return self._anchors[page, name] or Target(page, section_at(document, next(lines)))

    def section(self, target: Target) -> Section:
        """Return the target's section. If the target is a page, return the first section on the page."""
        return self._documents[target.source].sections[target.section]

    def span(self, target: Target) -> Span:
        """Return the lines of a target section. Include subsections if the section has only a heading."""
        section = self.section(target)
        if target.section and all(block.kind == "heading" for block in section.blocks):
            return Span(source=target.source, line_start=section.line_start, line_end=section.line_end)
        return own_span(target.source, section)

    def question(self, text: str, targets: Sequence[Target], **fields: Any) -> Question:
        """Make a question without an id. If any target is a page, the gold consists of whole pages."""
        pages = any(target.section == 0 for target in targets)
        gold = dict.fromkeys(
            GoldItem(source_file=target.source) if pages else GoldItem.of(self.span(target))
            for target in targets
        )
        return Question(
            id="",
            question=text,
            gold=tuple(gold),
            section_title=self.section(targets[0]).title,
            gold_level="file" if pages else "span",
            source_aliases=tuple(self.copies.get(targets[0].source, ())),
            **fields,
        )

    def _page(self, source: str, path: str) -> str:
        folder = posixpath.dirname(source)
        path = path[1:] if path.startswith("~/") else path
        places: list[str] = []
        if not path.startswith("/"):
            places += [posixpath.join(folder, path), posixpath.join(_path_name(source), path)]
        if path.startswith("/") or suffix_of(source) == ".adoc":
            bare = path.strip("/")
            above = folder.split("/") if folder and bare else []
            bases = ["/".join(above[:count]) for count in range(len(above) + 1)]
            places += [posixpath.join(base, bare) for base in bases]
        if path.startswith("/") and "/" in bare:
            places.append(bare.partition("/")[2])
        for place in map(_normal, places):
            for name in (_path_name(place), _site_name(place), _caseless_name(place)):
                if name in self._pages:
                    return self._pages[name]
        if "{" in path:
            raise UnresolvedLink(_VARIABLE)
        is_page = suffix_of(path) or path.lower().endswith(_SITE_SUFFIXES)
        raise UnresolvedLink(_FILE if not is_page and _OTHER_SUFFIX.search(path) else _NO_PAGE)


def section_at(document: Document, line: int) -> int:
    """Return the number of the section whose own span contains the line."""
    return max(
        (number for number, section in enumerate(document.sections) if section.line_start <= line), default=0
    )


def own_span(source: str, section: Section) -> Span:
    """Return the lines of a section before its first subsection."""
    return Span(source=source, line_start=section.line_start, line_end=section.own_line_end)


def _label(name: str) -> str:
    return " ".join(unicodedata.normalize("NFC", name.casefold()).split())


def _id(name: str) -> str:
    """Return a label as Sphinx writes it as an id."""
    return re.sub(r"[\W_]+", "-", _label(name)).strip("-")


def _normal(path: str) -> str:
    return "" if path in ("", ".") else posixpath.normpath(path)


def _path_name(path: str) -> str:
    """Return a page's path without its suffix."""
    suffix = suffix_of(path) or next(filter(path.lower().endswith, _SITE_SUFFIXES), "")
    return unicodedata.normalize("NFC", path[: len(path) - len(suffix)])


def _site_name(path: str) -> str:
    """Return a path as used in URLs, without a suffix, numeric prefixes or the name of a folder page."""
    parts = [_ORDER.sub("", part) for part in _path_name(path).split("/")]
    return "/".join(parts[:-1] if parts[-1] in FOLDER_PAGES else parts)


def _caseless_name(path: str) -> str:
    return _site_name(path).casefold().replace(" ", "-")
