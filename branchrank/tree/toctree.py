"""Which document stands above which, as the toctrees say.

1. Documents are taken in source order, the entries of each in the order in which it names them.
2. An entry is a path without a suffix, or with one: relative to its document, or from the root of the
   documentation when it starts with ``/`` (the corpus, else the outermost folder above the document
   where the path exists). ``Title <path>`` names ``path``; ``*``, ``?``, ``[...]`` and ``**`` match
   documents that have no parent yet, in source order.
3. The first toctree that names a document is its parent.
4. Each pattern is compared with every document, so that only the first ``MAX_PATTERNS`` of a corpus are
   used; the rest are noted.
5. An entry that would close a cycle is cut and noted; so is one that names no document.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from branchrank.corpus.document import Document
from branchrank.corpus.reading import SUFFIXES

_EXPLICIT_TITLE = re.compile(r"[^<]*<([^<>]+)>\s*")
#: Different patterns that one corpus can use. Documentation has at most a few dozen.
MAX_PATTERNS = 1000
_NOT_A_PATH = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|self\s*$")


def toctree_parents(documents: Sequence[Document]) -> tuple[dict[str, str], list[str]]:
    """The parent's source by a document's source, children in toctree order, and notes.

    Documents that no toctree names are left out.
    """
    ordered = sorted(documents, key=lambda document: document.source)
    names = _names(ordered)
    parents: dict[str, str] = {}
    notes: list[str] = []
    patterns: dict[tuple[str, str], list[str]] = {}
    for document in ordered:
        for entry in dict.fromkeys(document.toctree):
            path = _path_of(entry)
            if not path or _NOT_A_PATH.match(path):
                continue
            asked = (posixpath.dirname(document.source), path)
            if _is_pattern(path) and asked not in patterns and len(patterns) == MAX_PATTERNS:
                notes.append(
                    f"{document.source}: the toctree entry {entry!r} is ignored; the toctrees of this corpus "
                    f"have more than {MAX_PATTERNS} patterns"
                )
                continue
            targets = patterns[asked] if asked in patterns else _resolve(document.source, path, names)
            if not targets:
                notes.append(f"{document.source}: the toctree entry {entry!r} names no document")
            for target in targets:
                if target in parents or (_is_pattern(path) and target == document.source):
                    continue
                if _is_above(target, document.source, parents):
                    notes.append(f"{document.source}: the toctree entry {entry!r} closes a cycle and is cut")
                else:
                    parents[target] = document.source
            if _is_pattern(path):
                # A match without a parent is kept for the note above, where all of them have one.
                patterns[asked] = [target for target in targets if target not in parents] or targets[:1]
    return parents, notes


def _names(documents: Sequence[Document]) -> dict[str, str]:
    """Sources by every name that an entry may use: with the suffix, and without."""
    names = {document.source: document.source for document in documents}
    for suffix in SUFFIXES:
        for document in documents:
            if document.source.lower().endswith(suffix):
                names.setdefault(document.source[: -len(suffix)], document.source)
    return names


def _path_of(entry: str) -> str:
    entry = entry.strip()
    explicit = _EXPLICIT_TITLE.fullmatch(entry)
    return explicit[1].strip() if explicit else entry


def _is_pattern(path: str) -> bool:
    return any(character in path for character in "*?[")


def _resolve(source: str, path: str, names: Mapping[str, str]) -> list[str]:
    """The documents that ``path`` names when it stands in ``source``; several only for a pattern."""
    folder = posixpath.dirname(source)
    if path.startswith("/"):
        parts = folder.split("/") if folder else []
        bases = ["/".join(parts[:count]) for count in range(len(parts) + 1)]
    else:
        bases = [folder]
    for base in bases:
        wanted = posixpath.normpath(posixpath.join(base, path.lstrip("/")))
        if wanted in names:
            return [names[wanted]]
        if _is_pattern(wanted) and (found := {names[name] for name in names if _matches(name, wanted)}):
            return sorted(found)
    return []


def _matches(name: str, pattern: str) -> bool:
    if "**" in pattern:
        return fnmatchcase(name, pattern)
    name_parts, pattern_parts = name.split("/"), pattern.split("/")
    return len(name_parts) == len(pattern_parts) and all(map(fnmatchcase, name_parts, pattern_parts))


def _is_above(source: str, below: str, parents: Mapping[str, str]) -> bool:
    """Whether ``source`` is ``below`` itself or one of the documents above it."""
    current: str | None = below
    while current is not None:
        if current == source:
            return True
        current = parents.get(current)
    return False
