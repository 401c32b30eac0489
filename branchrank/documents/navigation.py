"""Read the order of a site's pages from the navigation file of its generator.

1. The navigation files are ``mkdocs.yml`` (its ``nav``), Docusaurus's ``sidebars.json``, ``sidebars.js`` and
   ``sidebars.ts``, docsify's ``_sidebar.md`` and mdBook's ``SUMMARY.md``. The Markdown files are documents of
   the corpus. The other files are looked up in the corpus folder and in the folder above it. A file above is
   only used if it belongs to the corpus: ``docs_dir`` in ``mkdocs.yml`` must be the corpus folder, and
   Docusaurus requires a corpus folder named ``docs``.
2. A file is read as rows, each with a depth and perhaps a page. A JavaScript file is read only if its
   sidebars are a literal. No code is executed, and YAML tags are ignored.
3. A page below another page in the navigation is added to that page's toctree. All pages get their position,
   by which the pages and folders in a folder are sorted (:mod:`branchrank.documents.tree_build`). A
   page that several rows name has the position of the first.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec
from msgspec.structs import replace

from branchrank.core.io.files import NOT_JSON, digest_bytes, digest_of, read_beneath
from branchrank.core.io.text_files import decoded
from branchrank.documents.document import ABSOLUTE, FOLDER_PAGES, Document
from branchrank.documents.reading import document_lines, suffix_of

MAX_BYTES = 2**18
_MAX_ROWS = 100_000
_MKDOCS = ("mkdocs.yml", "mkdocs.yaml")
_SIDEBARS = ("sidebars.json", "sidebars.js", "sidebars.ts")
_LISTS = ("SUMMARY.md", "_sidebar.md")
#: An item of a list, or a line that is only a link, such as a prefix chapter of mdBook.
_LIST_ITEM = re.compile(
    r"(\s*)(?:(?:[-*+]|\d+[.)])\s+|(?=\[[^\]]*\]\([^()]*\)\s*$))(?:\[[^\]]*\]\(<?([^()\s<>]*)>?[^()]*\))?"
)
_LITERAL = re.compile(r"(?:=|\bdefault\b)\s*(?=\{)")
_JS_TOKEN = re.compile(
    r"//[^\n]*|/\*.*?(?:\*/|\Z)|(\"(?:[^\"\\]|\\.)*+(?:\"|\Z)|'(?:[^'\\]|\\.)*+(?:'|\Z))|(:)", re.DOTALL
)

#: The depth of a row, and the path or id of its page. A row that is only a title has no page.
Row = tuple[int, str]


class _File(NamedTuple):
    """A navigation file that is not a document. ``below`` is the folder of its pages in the corpus."""

    name: str
    content: bytes
    below: str = ""


def with_navigation(root: Path, documents: Sequence[Document]) -> tuple[list[Document], list[str]]:
    """Return the documents with their positions and toctrees, and notes about what has no effect."""
    sources = {document.source for document in documents}
    order: dict[str, int] = {}
    below: defaultdict[str, list[str]] = defaultdict(list)
    notes: list[str] = []
    for name, folder, rows in _navigations(root, sorted(sources), notes):
        missing: list[str] = []
        path: list[tuple[int, str]] = []
        for depth, page in rows:
            while path and path[-1][0] >= depth:
                path.pop()
            source = _resolved(page, folder, sources)
            if page and not source and not ABSOLUTE.match(page):
                missing.append(page)
            if source and source not in order:
                order[source] = len(order)
                if path and path[-1][1]:
                    below[path[-1][1]].append(source)
            path.append((depth, source))
        if missing:
            notes.append(f"{name}: no document matches {len(missing)} of the entries, such as {missing[0]!r}")
    return [
        replace(
            document,
            order=order.get(document.source),
            toctree=(*document.toctree, *(f"/{child}" for child in below.get(document.source, ()))),
        )
        for document in documents
    ], notes


def navigation_digest(root: Path) -> str:
    """Return the digest of the navigation files that are not documents, or an empty string without them."""
    found = [(file.name, digest_bytes(file.content)) for file in _files(root)]
    return digest_of(found) if found else ""


def _navigations(
    root: Path, sources: Sequence[str], notes: list[str]
) -> Iterator[tuple[str, str, list[Row]]]:
    """Yield the name of each navigation file, the folder of its pages, and its rows."""
    for file in _files(root):
        try:
            rows = list(_rows_of(file))
        except (ValueError, *NOT_JSON) as error:
            notes.append(f"{file.name}: ignored, because its navigation can't be read ({_reason(error)})")
        else:
            yield file.name, file.below, rows
    for source in sources:
        if PurePosixPath(source).name in _LISTS:
            items = (_LIST_ITEM.match(line.expandtabs(4)) for line in document_lines(root, source))
            yield source, posixpath.dirname(source), [(len(each[1]), each[2] or "") for each in items if each]


def _files(root: Path) -> Iterator[_File]:
    """Yield the navigation files in the corpus folder and above it that belong to the corpus."""
    above = root.resolve().parent
    for folder, prefix in ((root, ""), (above, "../")):
        for name in (*_MKDOCS, *_SIDEBARS):
            if not os.path.lexists(f"{folder}/{name}"):
                continue
            try:
                content = read_beneath(folder, name)
            except OSError:
                continue
            pages = "docs"
            if name in _MKDOCS:
                found = re.search(rb"""^docs_dir:[ \t]*["']?([^"'#\r\n]*)""", content, re.MULTILINE)
                pages = posixpath.normpath(found[1].decode("utf-8", "replace").strip()) if found else "docs"
            if not prefix:
                yield _File(name, content, pages)
            elif pages == root.resolve().name:
                yield _File(prefix + name, content)


def _rows_of(file: _File) -> Iterator[Row]:
    if len(file.content) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES} bytes")
    text = decoded(file.content)
    if file.name.endswith(".json"):
        found = msgspec.json.decode(text)
    elif file.name.endswith((".js", ".ts")):
        found = _yaml(_literal(text))
    else:
        config = _yaml(text)
        found = config.get("nav") if isinstance(config, dict) else None
    for count, row in enumerate(_rows(found, 0)):
        if count == _MAX_ROWS:
            raise ValueError(f"it has more than {_MAX_ROWS} entries")
        yield row


def _rows(entry: Any, depth: int) -> Iterator[Row]:
    """Yield the rows of a ``nav`` or of sidebars."""
    if isinstance(entry, str):
        yield depth, entry
    elif isinstance(entry, list):
        for each in entry:
            yield from _rows(each, depth)
    elif isinstance(entry, dict) and isinstance(entry.get("type"), str):  # an item of a sidebar
        link = entry.get("link")
        page = link.get("id") if isinstance(link, dict) else entry.get("id")
        if isinstance(page, str) or "items" in entry:
            yield depth, page if isinstance(page, str) else ""
        yield from _rows(entry.get("items"), depth + 1)
    elif isinstance(entry, dict):  # titles with their pages
        for each in entry.values():
            if isinstance(each, list | dict):
                yield depth, ""
                yield from _rows(each, depth + 1)
            else:
                yield from _rows(each, depth)


def _resolved(page: str, folder: str, sources: set[str]) -> str:
    """Return the document that a path or id refers to, or an empty string."""
    path = unquote(page.partition("#")[0].partition("?")[0])
    if not page or ABSOLUTE.match(page) or not path:
        return ""
    wanted = posixpath.normpath(posixpath.join(folder, path.lstrip("/")))
    names = [wanted, *(f"{wanted}{suffix}" for suffix in (".md", ".mdx", ".rst", ".adoc", ".html", ".ipynb"))]
    names += [f"{wanted}/{name}".removeprefix("./") for name in map("{}.md".format, FOLDER_PAGES)]
    return next((name for name in names if name in sources and suffix_of(name)), "")


def _literal(text: str) -> str:
    """Return the object literal that a JavaScript file assigns or exports, as YAML."""
    start = _LITERAL.search(text)
    if start is None:
        raise ValueError("it contains no object literal")

    def as_yaml(token: re.Match[str]) -> str:
        if token[2]:
            return ": "
        return json.dumps(re.sub(r"\\(.)", r"\1", token[1][1:-1])) if token[1] else " "

    return _JS_TOKEN.sub(as_yaml, text[start.end() : text.rfind("}") + 1])


def _yaml(text: str) -> Any:
    """Parse YAML without executing its tags, and without expanding its merge keys."""
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        def flatten_mapping(self, node: object) -> None:
            """Ignore merge keys, which can multiply the content."""

    Loader.add_multi_constructor("", lambda loader, suffix, node: None)
    try:
        return yaml.load(text, Loader=Loader)  # noqa: S506  # a subclass of SafeLoader
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def _reason(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
